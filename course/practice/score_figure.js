// The figure of strong and weak chapters: one bar a chapter, drawn for the width there is.
const SVG = "http://www.w3.org/2000/svg";
function shape(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
function figure(rows, width) {
  const high = 44, w = Math.max(220, Math.round(width)), bars = w - 46;
  const picture = shape("svg", { viewBox: `0 0 ${w} ${rows.length * high}`, role: "img", "aria-label": "Bars, one a chapter: questions right, in part, wrong and not answered. The table below has the same numbers." });
  rows.forEach((row, index) => {
    const y = index * high;
    const longest = Math.floor(w / 7.4), label = row.chapter.label;
    picture.append(shape("text", { x: 0, y: y + 14, "font-size": 14 }, label.length > longest ? label.slice(0, longest - 1) + "…" : label));
    let x = 0.5;
    for (const state of ["right", "part", "wrong", "open"]) {
      const wide = row.total ? (bars * row[state]) / row.total : 0;
      if (wide > 0) picture.append(shape("rect", { class: `bar-${state}`, x, y: y + 20, width: wide, height: 14 }));
      x += wide;
    }
    picture.append(shape("text", { x: w, y: y + 32, "font-size": 14, "text-anchor": "end" }, row.total - row.open ? `${Math.round((100 * row.points) / row.total)} %` : "–"));
  });
  return picture;
}
