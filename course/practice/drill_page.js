// The form with one drill at a time.
function main(box) {
  const part = (selector) => box.querySelector(selector);
  const [kinds, seedField, prompt, field, hint, reading] = ["#drill-kind", "#drill-seed", ".drill-prompt", "#drill-field", "#drill-hint", "#drill-read"].map(part);
  const [question, result, working, show, tally] = ["fieldset", ".quiz-result", ".drill-working", ".drill-show", ".drill-tally"].map(part);
  let now, counted, seed = Math.floor(Math.random() * 1e6);

  function told() {
    const all = Object.keys(DATA.kinds).map((kind) => read("drills/1/" + kind) || {});
    const sum = (name) => all.reduce((total, item) => total + (Number(item[name]) || 0), 0);
    tally.textContent = `${sum("right")} of ${sum("tried")} drills right at the first try.`;
  }
  function count(right) {
    if (counted) return;
    counted = true;
    const before = read("drills/1/" + now.kind) || {};
    write("drills/1/" + now.kind, { tried: (Number(before.tried) || 0) + 1, right: (Number(before.right) || 0) + (right ? 1 : 0) });
    told();
  }
  function clear() { result.replaceChildren(); delete question.dataset.state; }
  function open(yes) {
    working.hidden = !yes;
    show.setAttribute("aria-expanded", String(yes));
    show.textContent = yes ? "Hide the working" : "Show the working";
  }
  function ask() {
    now = drill(seed, kinds.value);
    counted = false;
    seedField.value = String(seed);
    prompt.textContent = now.prompt;
    const family = QUIZ.FAMILIES[now.grading.family], unit = now.grading.unit;
    hint.textContent = `${family.what[0].toUpperCase()}${family.what.slice(1)}, such as ${family.example}${unit ? `; a bare number is read in ${unit}` : ""}. `
      + `Within ${100 * now.grading.tolerance} % counts as right.`;
    working.replaceChildren(node("ol", {}, ...now.working.map((line) => node("li", {}, line))));
    field.value = reading.textContent = "";
    clear();
    open(false);
    box.dataset.kindOfDrill = now.kind;
  }
  function check() {
    const graded = QUIZ.gradeNumber(now.grading, field.value);
    clear();
    question.dataset.state = graded.state;
    const verdict = { right: "Right.", wrong: "Not right.", unit: "Wrong unit.", unread: "" }[graded.state];
    const shown = graded.shown ? graded.shown[0].toUpperCase() + graded.shown.slice(1) + ". " : "";
    const line = node("p", { class: "quiz-verdict" });
    if (verdict) line.append(node("b", {}, verdict), " ");
    line.append(shown + graded.say);
    result.append(line);
    for (const index of graded.feedback) result.append(node("p", { class: "quiz-feedback" }, now.slips[index][1]));
    if (graded.state === "right" || graded.state === "wrong") count(graded.state === "right");
    if (graded.state === "right") open(true);
  }
  function next(to) { seed = to; ask(); field.focus(); }
  box.addEventListener("submit", (event) => event.preventDefault());
  kinds.addEventListener("change", () => ask());
  part(".drill-next").addEventListener("click", () => next((seed + 1) % 1e6));
  part(".drill-check").addEventListener("click", check);
  show.addEventListener("click", () => { if (working.hidden) count(false); open(working.hidden); });
  field.addEventListener("input", () => {
    const got = field.value.trim() ? QUIZ.parse(field.value, now.grading) : null;
    reading.textContent = got && !got.error ? `read as ${QUIZ.valueText(got.value, now.grading.unit, now.grading.family)}` : "";
    clear();
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches("input")) return;
    event.preventDefault();
    if (event.target === field) check();
    else if (/^\d{1,6}$/.test(seedField.value.trim())) next(Number(seedField.value));
    else { result.replaceChildren(node("p", { class: "quiz-verdict" }, `“${seedField.value}” is not a number of a drill: write up to six digits.`)); }
  });
  if (!storage) {
    const note = part(".quiz-note");
    note.textContent = "This page cannot keep your tally: it is lost when the page is closed.";
    note.hidden = false;
  }
  // For the tests: what a drill asks and what it expects.
  box.drill = drill;
  ask();
  told();
}
