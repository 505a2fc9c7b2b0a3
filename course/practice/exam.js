// The exam's form: start, answer, finish; results stay in the browser.
const OPEN = "exam/1/open", RESULTS = "exam/1/results";
const LABELS = Object.fromEntries(DATA.chapters.map((chapter) => [chapter.stem, chapter]));

function main(box) {
  const part = (selector) => box.querySelector(selector);
  const [size, seedField, sheet, result, foot, progress, say] = ["#exam-size", "#exam-seed", ".exam-paper", ".exam-result", ".exam-foot", ".exam-progress", ".exam-say"].map(part);
  const bank = [...part("template").content.querySelectorAll("fieldset")];
  let items = [], seed = Math.floor(Math.random() * 1e6), finished = false, noted = null;

  const inputs = (item) => [...item.node.querySelectorAll("input, textarea")];
  const ticks = (item) => inputs(item).filter((input) => /radio|checkbox/.test(input.type));
  const field = (item) => inputs(item).find((input) => !/radio|checkbox/.test(input.type));
  const ticked = (item) => ticks(item).filter((input) => input.checked).map((input) => Number(input.value));
  const answer = (item) => ({ text: field(item) ? field(item).value : "", ticked: ticked(item) });
  const answered = (item) => { const now = answer(item); return Boolean(now.text.trim() || now.ticked.length); };

  function keep() {
    if (finished) return;
    write(OPEN, { seed, size: items.length, answers: Object.fromEntries(items.filter(answered).map((item) => [item.name, answer(item)])) });
    progress.textContent = `${items.filter(answered).length} of ${items.length} answered.`;
  }
  function start(answers) {
    finished = false;
    noted = null;
    items = paper(seed, Number(size.value)).map((index, place) => {
      const made = bank[index].cloneNode(true);
      made.querySelector(".quiz-number").textContent = `${place + 1}.`;
      made.querySelectorAll("summary .quiz-unseen").forEach((text) => { text.textContent = text.textContent.replace(/\d+$/, place + 1); });
      made.querySelectorAll("details").forEach((more) => { more.hidden = true; });
      return { node: made, name: made.id, stem: DATA.bank[index][0], kind: DATA.bank[index][1], grading: JSON.parse(made.dataset.grading) };
    });
    sheet.replaceChildren(...items.map((item) => item.node));
    result.hidden = true;
    result.replaceChildren();
    foot.hidden = false;
    seedField.value = String(seed);
    for (const item of items) {
      const saved = answers && answers[item.name];
      if (!saved) continue;
      if (field(item)) field(item).value = String(saved.text || "");
      const set = Array.isArray(saved.ticked) ? saved.ticked : [];
      ticks(item).forEach((input) => { input.checked = set.includes(Number(input.value)); });
    }
    keep();
  }
  // Points from 0 to 1, and what to say.
  function grade(item) {
    const { text, ticked: set } = answer(item);
    if (item.kind === "free") return { points: set.length / item.grading.points, state: "part", say: text.trim() ? `${set.length} of ${item.grading.points} points, graded by you.` : "No answer. The rubric can still be read." };
    if (!answered(item)) return { points: 0, state: "wrong", say: "No answer.", feedback: [] };
    const got = item.kind === "numeric" ? QUIZ.gradeNumber(item.grading, text) : QUIZ.gradeChoice(item.grading, set, item.kind === "single");
    return { ...got, points: got.state === "right" ? 1 : 0, state: got.state === "right" ? "right" : "wrong" };
  }
  function mark(item) {
    const got = grade(item);
    item.points = got.points;
    item.node.dataset.state = got.state;
    const place = item.node.querySelector(".quiz-result");
    const verdict = { right: "Right.", wrong: "Not right.", part: "" }[got.state];
    const shown = got.shown ? got.shown[0].toUpperCase() + got.shown.slice(1) + ". " : "";
    place.replaceChildren(node("p", { class: "quiz-verdict" }, ...(verdict ? [node("b", {}, verdict), " "] : []), shown + got.say));
    for (const index of got.feedback || []) {
      const why = item.node.querySelector(`[data-feedback="${index}"] .quiz-why`);
      if (why) place.append(node("p", { class: "quiz-feedback" }, ...[...why.childNodes].map((child) => child.cloneNode(true))));
    }
    if (item.grading.right) for (const input of ticks(item)) if (input.checked) input.closest("label").dataset.mark = item.grading.right.includes(Number(input.value)) ? "right" : "wrong";
  }
  function summary() {
    const table = {};
    for (const item of items) {
      const row = (table[item.stem] ||= [0, 0]);
      row[0] += item.points;
      row[1] += 1;
    }
    const points = items.reduce((sum, item) => sum + item.points, 0);
    const short = (value) => String(Math.round(value * 100) / 100);
    const rows = DATA.chapters.filter(({ stem }) => table[stem]).map(({ stem, label, url }) => node("tr", {},
      node("td", {}, url ? node("a", { href: url }, label) : label),
      node("td", { class: "practice-number" }, `${short(table[stem][0])} of ${table[stem][1]}`)));
    const free = items.some((item) => item.kind === "free") ? " Free answers count what you tick in their rubrics below: do that now." : "";
    result.replaceChildren(
      node("h2", {}, `Exam ${seed}: ${short(points)} of ${items.length} points, ${Math.round((100 * points) / items.length)} %`),
      node("p", {}, `Below, each question has its verdict and its answer.${free}`),
      node("table", {}, node("thead", {}, node("tr", {}, node("th", { scope: "col" }, "Chapter"), node("th", { scope: "col", class: "practice-number" }, "Points"))), node("tbody", {}, ...rows)));
    const known = read(RESULTS), list = Array.isArray(known) ? known : [];
    const entry = { seed, asked: items.length, points: Math.round(points * 100) / 100, when: noted || new Date().toISOString().slice(0, 16), chapters: table };
    if (noted && list.length) list.pop();
    noted = entry.when;
    write(RESULTS, [...list, entry].slice(-50));
  }
  function finish() {
    finished = true;
    items.forEach((item) => {
      item.node.querySelectorAll("details").forEach((more) => { more.hidden = false; });
      const rubric = item.node.querySelector(".quiz-rubric");
      if (rubric) rubric.hidden = false;
      if (item.kind !== "free") inputs(item).forEach((input) => { input.disabled = true; });
      mark(item);
    });
    summary();
    try { storage.removeItem(SPACE + OPEN); } catch { /* nothing was kept */ }
    foot.hidden = true;
    result.hidden = false;
    result.focus();
  }
  function begin() {
    if (!/^\d{1,6}$/.test(seedField.value.trim())) { say.textContent = `“${seedField.value}” is not a number of an exam: write up to six digits.`; return; }
    say.textContent = "";
    seed = Number(seedField.value);
    start(null);
    const first = items[0].node.querySelector("input, textarea");
    first.focus();
  }
  box.addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches("input")) return;
    event.preventDefault();
    if (event.target === seedField) begin();
  });
  part(".exam-start").addEventListener("click", begin);
  part(".exam-finish").addEventListener("click", finish);
  sheet.addEventListener("input", () => {
    if (finished) { items.filter((item) => item.kind === "free").forEach(mark); summary(); } else keep();
  });
  if (!storage) {
    const note = part(".quiz-note");
    note.textContent = "This page cannot keep your exam: it is lost when the page is closed.";
    note.hidden = false;
  }
  seedField.value = String(seed);
  const open = read(OPEN);
  if (open && Number.isInteger(open.seed) && [...size.options].some((option) => Number(option.value) === open.size)) {
    seed = open.seed;
    size.value = String(open.size);
    start(open.answers);
    say.textContent = "Your exam goes on where you left it.";
  }
  box.paper = paper;
}
