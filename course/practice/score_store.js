// What the browser has kept, as a score; and the file that carries it elsewhere. Nothing here touches the page.
const FORMAT = "llm-inference-measured/score", VERSION = 1;
const STATES = ["open", "wrong", "unit", "unread", "part", "right"];

function keyOf(chapter, question) { return `quiz/1/${chapter.stem}/${question[0]}/${question[1]}`; }
// One question: {state: right | part | wrong | open, points: 0 to 1, first: right at the first try}.
function standing(entry, points) {
  if (!entry || !["right", "part", "wrong", "unit"].includes(entry.state)) return { state: "open", points: 0, first: false };
  if (entry.state === "right") return { state: "right", points: 1, first: entry.tries === 1 };
  const ticked = entry.answer && Array.isArray(entry.answer.ticked) ? entry.answer.ticked.length : 0;
  if (entry.state === "part") return { state: "part", points: points ? Math.min(1, ticked / points) : 0, first: false };
  return { state: "wrong", points: 0, first: false };
}
function collect() {
  return DATA.chapters.map((chapter) => {
    const row = { chapter, right: 0, part: 0, wrong: 0, open: 0, points: 0, first: 0, reread: [] };
    for (const question of chapter.questions) {
      const now = standing(read(keyOf(chapter, question)), question[2]);
      row[now.state] += 1;
      row.points += now.points;
      row.first += now.first ? 1 : 0;
      if (now.state === "wrong" || now.state === "part") row.reread.push(question);
    }
    return { ...row, total: chapter.questions.length };
  });
}
function exported() {
  const entries = {};
  try {
    for (const key of Object.keys(storage).filter((name) => name.startsWith(SPACE)).sort())
      try { entries[key.slice(SPACE.length)] = JSON.parse(storage.getItem(key)); } catch { /* damaged: nothing to carry */ }
  } catch { /* no storage */ }
  return { format: FORMAT, version: VERSION, saved: new Date().toISOString(), entries };
}
const isObject = (value) => Boolean(value) && typeof value === "object" && !Array.isArray(value);
const isCount = (value) => Number.isInteger(value) && value >= 0;
const numbers = (value) => Array.isArray(value) && value.every(isCount);
const GOOD = [
  [/^quiz\/1\/[a-z0-9_]+\/[a-z0-9-]+\/[0-9a-f]{12}$/, (v) => isObject(v) && STATES.includes(v.state) && isCount(v.tries) && isObject(v.answer) && typeof v.answer.text === "string" && numbers(v.answer.ticked)],
  [/^drills\/1\/[a-z]+$/, (v) => isObject(v) && isCount(v.tried) && isCount(v.right) && v.right <= v.tried],
  [/^exam\/1\/results$/, (v) => Array.isArray(v) && v.every((e) => isObject(e) && isCount(e.seed) && isCount(e.asked) && typeof e.points === "number" && typeof e.when === "string" && isObject(e.chapters))],
  [/^exam\/1\/open$/, (v) => isObject(v) && isCount(v.seed) && isCount(v.size) && isObject(v.answers)],
];
// The entries of a file's text; throws an Error that says what is wrong, before anything is changed.
function parsed(text) {
  let file;
  try { file = JSON.parse(text); } catch { throw new Error("this is not JSON, or the file is cut off"); }
  if (!isObject(file) || file.format !== FORMAT) throw new Error("this JSON is not a score of this book (its “format” is another)");
  if (file.version !== VERSION) throw new Error(`its version is ${JSON.stringify(file.version)}; this page reads version ${VERSION}`);
  if (!isObject(file.entries)) throw new Error("it has no “entries”");
  for (const [key, value] of Object.entries(file.entries)) {
    const rule = GOOD.find(([pattern]) => pattern.test(key));
    if (!rule) throw new Error(`“${key.slice(0, 80)}” is not an entry of a score`);
    if (!rule[1](value)) throw new Error(`the entry “${key.slice(0, 80)}” is damaged`);
  }
  return Object.entries(file.entries);
}
// Of two entries the better one, and of equal ones the one that is here.
function better(key, here, there) {
  if (!here) return there;
  if (key.startsWith("quiz/")) {
    const [a, b] = [here, there].map((entry) => STATES.indexOf(entry.state));
    const [n, m] = [here, there].map((entry) => (entry.answer && Array.isArray(entry.answer.ticked) ? entry.answer.ticked.length : 0));
    return b > a || (b === a && there.state === "part" && m > n) ? there : here;
  }
  if (key.startsWith("drills/")) return there.tried > here.tried ? there : here;
  if (key === "exam/1/results") {
    const list = Array.isArray(here) ? here : [];
    const name = (entry) => `${entry.when}/${entry.seed}/${entry.asked}`;
    const all = [...list, ...there.filter((entry) => !list.some((old) => name(old) === name(entry)))];
    return all.sort((a, b) => (String(a.when) < String(b.when) ? -1 : 1)).slice(-50);
  }
  return here;
}
// Import a file's text: {added, improved, kept, old}. Throws an Error with the reason, and then everything is as it was.
function imported(text) {
  const entries = parsed(text);
  const current = new Set(DATA.chapters.flatMap((chapter) => chapter.questions.map((question) => keyOf(chapter, question))));
  const told = { added: 0, improved: 0, kept: 0, old: 0 }, before = [];
  for (const [key, there] of entries) {
    if (key.startsWith("quiz/") && !current.has(key)) { told.old += 1; continue; }
    const here = read(key), chosen = better(key, here, there);
    const same = here && JSON.stringify(chosen) === JSON.stringify(here);
    told[!here ? "added" : same ? "kept" : "improved"] += 1;
    if (same) continue;
    before.push([key, here]);
    if (write(key, chosen)) continue;
    for (const [name, value] of before) value ? write(name, value) : storage && storage.removeItem(SPACE + name);
    throw new Error("the browser would not keep it (no storage, or it is full)");
  }
  return told;
}
