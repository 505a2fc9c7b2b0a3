// Reads, prints and grades answers; touches no page. quiz.js encloses this file, which uses its table FAMILIES.
// A line comment must have its line to itself: the renderer drops such lines.

// Reading a number with its unit

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
function clean(text) {
  return text
    .replace(/[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+/g, (run) => "^" + [...run].map((c) => (c === "⁻" ? "-" : SUPERSCRIPTS.indexOf(c))).join(""))
    .normalize("NFKC").replace(/[\u2212\u2013]/g, "-").replace(/[\u2018\u2019]/g, "'").replace(/\s+/g, " ").trim()
    .replace(/^(?:[=~≈]|about |approx\.? |ca\.? )\s*/i, "").replace(/\.$/, "")
    .replace(/^([-+]?)10 ?\^ ?(?=[-+]?\d)/, "$11e");
}

// One comma is the decimal mark, unless groups of exactly three digits follow: then commas are thousands marks.
function readNumber(text) {
  const spaced = text.replace(/[ _']/g, "_");
  const [whole, ...rest] = spaced.split(".");
  const groups = /^[1-9]\d{0,2}(?:(?:,\d{3})+|(?:_\d{3})+)$/;
  if (rest.length > 1) return { error: "it has more than one decimal point" };
  if (rest.length && /[,_]/.test(rest[0])) return { error: "it mixes points and commas" };
  if (groups.test(whole)) {
    const value = Number(spaced.replace(/[,_]/g, ""));
    const decimal = /^\d+,\d{3}$/.test(spaced) ? Number(spaced.replace(",", ".")) : null;
    return { value, decimal };
  }
  if (/^\d*$/.test(whole)) return { value: Number(spaced) };
  const [left, right, more] = whole.split(",");
  if (!rest.length && more === undefined && /^\d+$/.test(right || "") && (/^\d*$/.test(left) || groups.test(left)))
    return { value: Number(left.replace(/_/g, "") + "." + right) };
  return { error: "thousands need groups of exactly three digits" };
}

function lookup(family, name) {
  const { units, aliases } = FAMILIES[family];
  const known = (unit) => (Object.hasOwn(units, unit) ? unit : Object.hasOwn(aliases, unit) ? aliases[unit] : null);
  if (name === "") return null;
  const lower = name.toLowerCase();
  return known(name) || [...Object.keys(units), ...Object.keys(aliases)].filter((u) => u.toLowerCase() === lower).map(known)[0] || null;
}

// {value, number, unit} in base units; or {error}, with `other` where the unit measures something else.
function parse(text, question) {
  const family = FAMILIES[question.family];
  const expected = `Expected ${family.what}, such as ${family.example}.`;
  const source = clean(text).replace(/^([-+]?)\$ ?(.*)$/, "$1$2 $");
  if (!source) return { error: `Nothing to check yet. ${expected}` };
  const match = source.match(/^([-+]?) ?(\d[\d ,._']*\d|\d|[.,]\d+)(?:(e[-+]?\d+)(?![\d.,])| ?[x×*·⋅] ?10 ?\^ ?([-+]?\d+))?[ -]?(.*)$/i);
  if (!match) return { error: `“${text.trim()}” is not a number. ${expected}` };
  const [, sign, digits, short, long, tail] = match;
  const read = readNumber(digits);
  if (read.error) return { error: `“${digits}” cannot be read: ${read.error}. ${expected}` };
  const power = Number((short || "e0").slice(1)) + Number(long || 0);
  const scale = (value) => Number((sign === "-" ? "-" : "") + value + "e" + (power || 0));
  const number = power ? scale(read.value) : (sign === "-" ? -1 : 1) * read.value;
  if (!Number.isFinite(number)) return { error: `“${text.trim()}” is too large to read. ${expected}` };
  const name = tail.trim().replace(/ ?\/ ?/g, "/").replace(/ per (s|sec|second)$/i, "/s").replace(/\/(sec|second)$/i, "/s");
  const bits = /^(?:[KMGTP]i?)?b(?:\/s)?$/.test(name) || /bits?(?:\/s)?$|bps$/i.test(name);
  if (bits && /^B/.test(question.family)) return { error: `“${name}” means bits; 8 bits are one byte (B). ${expected}`, bits: true };
  const unit = name ? lookup(question.family, name) : question.unit;
  if (unit === null) {
    const other = Object.keys(FAMILIES).find((key) => key !== question.family && lookup(key, name));
    if (other !== undefined) return { error: `“${name}” gives ${FAMILIES[other].what}. ${expected}`, other };
    return { error: `The unit “${name}” is not known here. ${expected}` };
  }
  const decimal = read.decimal ? scale(read.decimal) * family.units[unit] : null;
  return { value: number * family.units[unit], number, unit, bare: !name, decimal };
}

// Printing a value: the same rules as units.py

function numberText(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
  const rounded = Number(value.toPrecision(4));
  if (Math.abs(rounded) >= 1e-4 && Math.abs(rounded) < 1e15) return rounded.toLocaleString("en-US", { maximumFractionDigits: 9 });
  return rounded.toExponential(3).replace(/\.?0*e\+?/, "e");
}
function valueText(value, unit, family) {
  const { units, shown } = FAMILIES[family];
  const binary = /^.i/.test(unit);
  const names = binary ? [family, ...Object.keys(units).filter((name) => /^.i/.test(name))] : shown;
  let chosen = names[0];
  for (const name of names) if (Math.abs(Number((value / units[name]).toPrecision(4))) >= 1) chosen = name;
  const scaled = value / units[chosen];
  const text = numberText(names.length === 1 || chosen === family ? scaled : Number(scaled.toPrecision(4)));
  if (chosen === "$") return "$" + text;
  return text + (chosen === "x" ? "×" : chosen && " " + chosen);
}
function readAs(read, q) {
  const plain = valueText(read.value, q.unit, q.family);
  const typed = numberText(read.number) + (read.unit && " " + read.unit);
  const stated = read.bare && q.unit && q.unit !== "x" && q.unit !== "$" ? ` (no unit given, so ${q.unit})` : "";
  return "read as " + (/^.iB/.test(read.unit) && typed !== plain ? `${typed} = ${valueText(read.value, q.family, q.family)}` : plain) + stated;
}

// Grading: every function returns {state, say, feedback}; feedback lists the items of the answer to show

function accepts(value, q) {
  const near = Math.abs(value - q.key) <= Math.max(q.tolerance, 1e-9) * Math.abs(q.key);
  return near || valueText(value, q.unit, q.family) === valueText(q.key, q.unit, q.family);
}
function gradeNumber(q, text) {
  const read = parse(text, q);
  if (read.error) return { state: read.other !== undefined || read.bits ? "unit" : "unread", say: read.error, feedback: [] };
  const shown = readAs(read, q);
  const wrong = (say, feedback = []) => ({ state: "wrong", say, feedback, shown });
  if (accepts(read.value, q)) return { state: "right", say: "", feedback: [], shown };
  const trap = q.traps.findIndex((value) => accepts(read.value, { ...q, key: value }));
  if (trap >= 0) return wrong("", [trap]);
  if (read.decimal !== null && accepts(read.decimal, q))
    return wrong("The comma was read as a thousands mark. Write the decimal number with a point.");
  const units = FAMILIES[q.family].units;
  const meant = Object.keys(units).find((name) => name !== read.unit && accepts(read.number * units[name], q));
  if (meant !== undefined && read.bare) return wrong(`The number fits ${meant || "another scale"}, but a bare number is read in ${q.unit || "units of one"}. Write the unit.`);
  if (meant !== undefined) return wrong(`The number fits ${meant || "no unit at all"}, but you wrote ${read.unit || "none"}. The unit is wrong.`);
  if (q.family === "%" && accepts(read.value * 100, q)) return wrong("That is the fraction; the question asks for a percentage.");
  for (let n = -12; n <= 12; n += 1)
    if (n && accepts(read.value * 10 ** n, q)) return wrong("The digits are right, the power of ten is not.");
  if (accepts(-read.value, q)) return wrong("The sign is wrong.");
  return wrong(Math.abs(read.value) < Math.abs(q.key) ? "Too small." : "Too large.");
}
function gradeChoice(q, chosen, single) {
  if (!chosen.length) return { state: "unread", say: single ? "Choose an option first." : "Tick at least one option first.", feedback: [] };
  const missed = q.right.filter((index) => !chosen.includes(index)).length;
  const extra = chosen.filter((index) => !q.right.includes(index));
  if (!missed && !extra.length) return { state: "right", say: "", feedback: chosen };
  const still = missed && !single ? `${missed} right ${missed === 1 ? "option is" : "options are"} not ticked.` : "";
  return { state: "wrong", say: still, feedback: extra };
}
function gradeFree(q, text, ticked) {
  if (!text.trim()) return { state: "unread", say: "Write your answer first; then the rubric opens.", feedback: [] };
  const say = `${ticked.length} of ${q.points} points.`;
  return { state: ticked.length === q.points ? "right" : "part", say, feedback: [] };
}
