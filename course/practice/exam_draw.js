// Which questions an exam has: chapters take turns, and so do the kinds, as far as a chapter has them.
const TURNS = ["single", "numeric", "single", "numeric", "multiple", "numeric", "single", "free"];
function paper(seed, size) {
  const draw = random(seed);
  const stems = shuffle(draw, DATA.chapters.map((chapter) => chapter.stem));
  const turns = shuffle(draw, TURNS);
  const left = new Map(stems.map((stem) => [stem, shuffle(draw, DATA.bank.map((_, i) => i).filter((i) => DATA.bank[i][0] === stem))]));
  const chosen = [];
  for (let turn = 0; chosen.length < size && [...left.values()].some((list) => list.length); turn += 1) {
    const list = left.get(stems[turn % stems.length]);
    if (!list.length) continue;
    const wanted = turns[chosen.length % turns.length];
    const at = Math.max(0, list.findIndex((i) => DATA.bank[i][1] === wanted));
    chosen.push(...list.splice(at, 1));
  }
  return shuffle(draw, chosen);
}
