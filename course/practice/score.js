// The score's form.
function main(box) {
  const part = (selector) => box.querySelector(selector);
  const [total, drawn, table, more, reread, say] = [".score-total", ".score-figure", ".score-rows", ".score-more", ".score-reread", ".score-say"].map(part);
  const linked = (url, text) => (url ? node("a", { href: url }, text) : node("span", {}, text));
  const short = (value) => String(Math.round(value * 100) / 100);
  let rows = [];

  function draw() { drawn.replaceChildren(figure(rows, drawn.clientWidth || 600)); }
  function others() {
    const drills = DATA.drills.map((kind) => read("drills/1/" + kind) || {});
    const sum = (name) => drills.reduce((all, item) => all + (Number(item[name]) || 0), 0);
    const kept = read("exam/1/results"), exams = Array.isArray(kept) ? kept : [];
    const last = exams.slice(-3).reverse().map((exam) => `no. ${exam.seed}: ${short(Number(exam.points) || 0)} of ${exam.asked}`).join("; ");
    return `Drills: ${sum("right")} of ${sum("tried")} right at the first try. Exams: ${exams.length ? `${exams.length} taken; the last: ${last}` : "none taken"}.`;
  }
  // Weakest chapters first: by points lost among the answered.
  function list() {
    const weak = rows.filter((row) => row.reread.length).sort((a, b) => b.reread.length - a.reread.length || b.wrong - a.wrong);
    if (!weak.length) return [node("p", {}, rows.some((row) => row.open < row.total) ? "Nothing: what you have answered is right." : "Nothing yet: answer some questions first.")];
    return weak.map((row) => {
      const sections = new Map();
      for (const [, , , text, url] of row.reread) sections.set(text || "the questions themselves", url || row.chapter.url);
      return node("div", {}, node("h3", {}, linked(row.chapter.url, row.chapter.label)),
        node("ul", { class: "practice-reread" }, ...[...sections].map(([text, url]) => node("li", {}, linked(url, text)))));
    });
  }
  function update() {
    rows = collect();
    const sum = (name) => rows.reduce((all, row) => all + row[name], 0), asked = sum("total"), done = asked - sum("open");
    total.textContent = done
      ? `${short(sum("points"))} of ${asked} points, ${Math.round((100 * sum("points")) / asked)} %. ${done} answered: ${sum("right")} right, of these ${sum("first")} at the first try; ${sum("part")} in part, ${sum("wrong")} wrong.`
      : `Nothing answered yet of ${asked} questions in ${rows.length} chapters.`;
    draw();
    const cell = (text) => node("td", { class: "practice-number" }, String(text));
    table.replaceChildren(...rows.map((row) => node("tr", {}, node("td", {}, linked(row.chapter.url, row.chapter.label)), cell(row.right), cell(row.part), cell(row.wrong), cell(row.open),
      cell(row.open === row.total ? "–" : `${Math.round((100 * row.points) / row.total)} %`))));
    more.textContent = others();
    reread.replaceChildren(...list());
  }
  function told(state, strong, text) {
    say.closest(".quiz-question").dataset.state = state;
    say.replaceChildren(node("p", { class: "quiz-verdict" }, node("b", {}, strong), " " + text));
  }
  part(".score-export").addEventListener("click", () => {
    const file = exported();
    const link = node("a", { href: URL.createObjectURL(new Blob([JSON.stringify(file, null, 1)], { type: "application/json" })), download: "score.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    told("right", "Exported.", `${Object.keys(file.entries).length} entries are in score.json.`);
  });
  part(".score-print").addEventListener("click", () => window.print());
  part("#score-file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    try {
      const { added, improved, kept, old } = imported(await file.text());
      told("right", "Imported.", `${added} entries added, ${improved} improved, ${kept} kept as they were here.${old ? ` ${old} belong to questions that have changed since, and were left out.` : ""}`);
    } catch (error) {
      told("wrong", "Not imported.", `${file.name}: ${error.message}. Nothing was changed.`);
    }
    event.target.value = "";
    update();
  });
  if (!storage) {
    const note = part(".quiz-note");
    note.textContent = "This browser keeps nothing for this page (private mode, or storage is switched off), so there is no score to show.";
    note.hidden = false;
  }
  box.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("storage", update);
  window.addEventListener("resize", draw);
  window.addEventListener("beforeprint", draw);
  update();
}
