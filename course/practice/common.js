// What drills, exam and score share. A line comment must have its line to itself: the renderer drops such lines.
const QUIZ = (typeof window === "undefined" ? globalThis : window)["quizCell__VERSION__"];
const DATA = __DATA__;
const SPACE = "llm-inference-measured/";

const storage = (() => {
  try { const s = window.localStorage; s.setItem(SPACE + "probe", "1"); s.removeItem(SPACE + "probe"); return s; } catch { return null; }
})();
function read(name) {
  try { const value = JSON.parse(storage.getItem(SPACE + name)); return value && typeof value === "object" ? value : null; } catch { return null; }
}
function write(name, value) {
  try { storage.setItem(SPACE + name, JSON.stringify(value)); return true; } catch { return false; }
}
function node(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
// mulberry32: the same numbers from the same seed in every browser.
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
function pick(draw, list) { return list[Math.floor(draw() * list.length)]; }
function shuffle(draw, list) {
  const out = [...list];
  for (let i = out.length - 1; i > 0; i -= 1) { const j = Math.floor(draw() * (i + 1)); [out[i], out[j]] = [out[j], out[i]]; }
  return out;
}
