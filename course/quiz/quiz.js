// The quiz forms of a page. Stands once in each form; the first copy of a version serves all its forms.
// grade.js takes the place of the line GRADE.
// A line comment must have its line to itself: the renderer drops such lines.
(function (root) {
const NAME = "quizCell__VERSION__";
if (root[NAME]) { root[NAME].start(); return; }
const FAMILIES = __UNITS__;
const SPACE = "llm-inference-measured/quiz/1/";

// __GRADE__

// Storage: one entry a question, its name ends in the digest of the question, so that a changed question forgets

const framed = /googleusercontent\.com$/.test(root.location ? root.location.hostname : "");
const storage = (() => {
  try { const s = root.localStorage; s.setItem(SPACE, "1"); s.removeItem(SPACE); return framed ? null : s; } catch { return null; }
})();
function entries(prefix) {
  try { return Object.keys(storage).filter((key) => key.startsWith(prefix)); } catch { return []; }
}
function load(prefix, name) {
  try {
    entries(prefix).filter((key) => key !== name).forEach((key) => storage.removeItem(key));
    const saved = JSON.parse(storage.getItem(name));
    return saved && typeof saved === "object" ? saved : null;
  } catch { return null; }
}
function save(name, value) {
  try { value ? storage.setItem(name, JSON.stringify(value)) : storage.removeItem(name); } catch { return; }
}

// The page

function element(tag, kind, text) {
  const node = document.createElement(tag);
  node.className = kind;
  node.textContent = text;
  return node;
}

function setUp(box, update) {
  const q = JSON.parse(box.dataset.grading);
  const kind = box.dataset.kind;
  const prefix = SPACE + box.closest("form").dataset.stem + "/" + box.dataset.id + "/";
  const name = prefix + box.dataset.digest;
  const inputs = [...box.querySelectorAll("input, textarea")];
  const ticks = inputs.filter((input) => input.type === "radio" || input.type === "checkbox");
  const field = inputs.find((input) => !ticks.includes(input));
  const result = box.querySelector(".quiz-result");
  const reading = box.querySelector(".quiz-read");
  const rubric = box.querySelector(".quiz-rubric");
  let tries = 0;
  const chosen = () => ticks.filter((input) => input.checked).map((input) => Number(input.value));
  const answer = () => ({ text: field ? field.value : "", ticked: chosen() });
  function grade() {
    if (kind === "numeric") return gradeNumber(q, field.value);
    return kind === "free" ? gradeFree(q, field.value, chosen()) : gradeChoice(q, chosen(), kind === "single");
  }
  function keep() {
    const now = answer();
    const empty = !now.text && !now.ticked.length;
    save(name, empty ? null : { answer: now, state: box.dataset.state || "open", tries });
    update();
  }
  function clear() {
    result.replaceChildren();
    delete box.dataset.state;
    ticks.forEach((input) => delete input.closest("label").dataset.mark);
  }
  function show(graded) {
    clear();
    box.dataset.state = graded.state;
    const verdict = { right: "Right.", wrong: "Not right.", part: "Graded by you:", unit: "Wrong unit.", unread: "" }[graded.state];
    const line = element("p", "quiz-verdict", "");
    if (verdict) line.append(element("b", "", verdict), " ");
    const shown = graded.shown ? graded.shown[0].toUpperCase() + graded.shown.slice(1) + ". " : "";
    line.append(shown + graded.say);
    result.append(line);
    for (const index of graded.feedback) {
      const source = box.querySelector(`[data-feedback="${index}"] .quiz-why`);
      const why = element("p", "quiz-feedback", "");
      why.append(...[...source.childNodes].map((node) => node.cloneNode(true)));
      result.append(why);
    }
    const more = graded.state === "right" ? ".quiz-explanation" : graded.state === "wrong" ? ".quiz-reread" : null;
    const extra = more && box.querySelector(more);
    if (extra) result.append(extra.cloneNode(true));
    if (kind === "single" || kind === "multiple")
      for (const input of ticks) if (input.checked && graded.state !== "unread")
        input.closest("label").dataset.mark = q.right.includes(Number(input.value)) ? "right" : "wrong";
  }
  function check() {
    const graded = grade();
    if (graded.state !== "unread") tries += 1;
    if (rubric && graded.state !== "unread") rubric.hidden = false;
    show(graded);
    keep();
  }
  function preview() {
    if (!reading) return;
    const read = field.value.trim() ? parse(field.value, q) : null;
    reading.textContent = read && !read.error ? readAs(read, q) : "";
  }
  box.addEventListener("input", (event) => {
    preview();
    if (rubric && rubric.contains(event.target)) show(grade());
    else if (kind !== "free") clear();
    keep();
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("input")) { event.preventDefault(); check(); }
  });
  const button = box.querySelector(".quiz-check");
  button.hidden = false;
  button.addEventListener("click", check);
  const saved = load(prefix, name);
  if (saved && saved.answer) {
    tries = Number(saved.tries) || 0;
    if (field) field.value = String(saved.answer.text || "");
    const ticked = Array.isArray(saved.answer.ticked) ? saved.answer.ticked : [];
    ticks.forEach((input) => { input.checked = ticked.includes(Number(input.value)); });
    preview();
    if (rubric && ["part", "right"].includes(saved.state)) rubric.hidden = false;
    if (saved.state !== "open") show(grade());
  }
  function reset() {
    clear();
    tries = 0;
    ticks.forEach((input) => { input.checked = false; });
    if (field) field.value = "";
    if (rubric) rubric.hidden = true;
    preview();
    entries(prefix).forEach((key) => save(key, null));
  }
  return { box, reset };
}

function startForm(form) {
  form.dataset.ready = "true";
  const score = form.querySelector(".quiz-score");
  const items = [];
  function update() {
    const count = (state) => items.filter((item) => state.includes(item.box.dataset.state)).length;
    const right = count(["right"]), partly = count(["part"]), wrong = count(["wrong", "unit"]);
    const rest = items.length - right - partly - wrong;
    const parts = [`${right} of ${items.length} right`];
    if (partly) parts.push(`${partly} in part`);
    if (wrong) parts.push(`${wrong} wrong`);
    if (rest) parts.push(`${rest} open`);
    const text = parts.join(", ") + ".";
    if (score.textContent !== text) score.textContent = text;
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  items.push(...[...form.querySelectorAll(".quiz-question")].map((box) => setUp(box, update)));
  form.querySelector(".quiz-foot").hidden = false;
  form.querySelector(".quiz-reset").addEventListener("click", () => { items.forEach((item) => item.reset()); update(); });
  if (!storage) {
    const note = form.querySelector(".quiz-note");
    note.textContent = "This page cannot keep your answers: they are lost when it is closed or loaded again.";
    note.hidden = false;
  }
  update();
}

// A form whose script is not there yet is still being parsed.
function start() {
  document.querySelectorAll('form.quiz[data-version="__VERSION__"]:not([data-ready]):has(script)').forEach(startForm);
}
root[NAME] = { start, parse, readAs, valueText, gradeNumber, gradeChoice, FAMILIES };
if (root.document) { start(); root.setTimeout(start, 0); document.addEventListener("DOMContentLoaded", start); }
})(typeof window === "undefined" ? globalThis : window);
