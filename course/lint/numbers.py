"""The reverse check: a number in prose that states a fact has the cell that prints it beside it, or a citation.

A *fact* is a number with a unit (bytes, time, FLOPs, a rate, per cent, times), a decimal, or a whole number of 1,000 or more. Plain small counts
and the numbers of chapters, figures, tables and years are none. A fact is *supported* where

- an output, or the code, of a cell in the same section (`## …`) holds the number: after rounding to the digits that the prose shows, and after
  the prefix (k, M, G, T as powers of 1,000 or 1,024) or the per cent sign is taken off. The sections that sum up (`spine.LAST`) look at the whole chapter;
- the paragraph, or the one beside a table, has a link to a source on the web;
- the paragraph names another chapter, or the title of another section, and the cells there print the number;
- it stands in quotation marks, or in a sentence that says what the course's documents say: then it is the claim under test, not one of the book's;
- `numbers.yml` beside this file excuses it and says why. An excuse for a number that the cell does not state is a fault too.

What it cannot see: a wrong number that some other cell of the section prints by chance, and numbers written as words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import yaml

from course import notebooks
from course.lint.page import Page, output_texts, prose
from course.lint.registry import CHAPTER, Fault, rule
from course.lint.spine import LAST

EXCUSES = Path(__file__).with_name("numbers.yml")
SHORTEST_REASON = 10  # characters
FROM = 1_000  # a whole number without a unit is a fact from here on

_UNIT = r"(?:[kKMGTPµmnu]?i?B(?:/s|ps)?|[kMGTP]?FLOPs?(?:/[sB])?|[kMGT]?bit/s|GHz|MHz|[mµun]?s|min|h|%|K|k|M|G|T|tok/s|W|kWh|USD|nats|bits|times|×|x|-fold)"
_NUMBER = re.compile(rf"(?<![\w.,/^_{{-])(?P<value>\d[\d,]*(?:\.\d+)?)(?:e(?P<power>[+-]?\d+))?(?P<gap>[  ]?)(?P<unit>{_UNIT})?(?![\w{{^])(?!\.\d)")
_LABELS = (
    r"chapters?|labs?|tables?|figures?|figs?\.|sections?|§|appendix|equation|eq\.|theorem|proposition|questions?|issue|request|CACM|"
    r"versions?|vllm|pytorch|transformers|llama|pcie|cuda|python"
)
_LABEL = re.compile(rf"(?:{_LABELS})\s*(?:[A-Z]\.)?(?:\d+(?:,? (?:and|or|to) |, ))*$", re.IGNORECASE)
_CHAPTERS = re.compile(r"chapters?\s+((?:\d+(?:, | and | or )?)+)", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“][^\"“”]{1,200}[\"”]")
_DOCUMENTS = re.compile(r"\bdocuments?\b(?:['’]s?)?", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.?!:])\s+(?=[A-Z*\"“(])")
_COMPARED = re.compile(r"^[^.]{0,20}\b(?:more|less|fewer|higher|lower|longer|shorter|larger|smaller|faster|slower|apart)\b")
_FORMAT_BITS = (1, 2, 3, 4, 6, 8, 16, 32, 64)
_SOURCE = re.compile(r"https://")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")
_PREFIX = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


@dataclass(frozen=True)
class Number:
    """A number as the prose writes it. `step` is the value of one unit in its last digit."""

    text: str
    value: float
    step: float
    unit: str
    paragraph: str
    compared: bool  # "7 % more": the cell may print 1.07

    @property
    def is_fact(self) -> bool:
        if self.unit == "bits" and self.value in _FORMAT_BITS:
            return False  # a format, not a finding
        return bool(self.unit) or "." in self.text or self.value >= FROM


def plain(text: str) -> str:
    """The prose with formulas' thin spaces, thousands marks and per cent signs made plain, links reduced to their words, and bold marks off."""
    text = _LINK.sub(r"\1", text)
    for old, new in (("{,}", ","), (r"\,", " "), (r"\%", "%"), (r"\times", "×"), (r"\text{", " "), ("**", ""), ("−", "-"), ("*", "")):
        text = text.replace(old, new)
    return text


def numbers(paragraph: str) -> Iterator[Number]:
    """The numbers of a paragraph, in order; those that only name a chapter, a figure or a year, and those of claims under test, are left out."""
    text = plain(paragraph)
    if "|" not in text:  # a table's cells are no sentences
        text = " ".join(sentence for sentence in _SENTENCE.split(_QUOTED.sub("", text)) if not _DOCUMENTS.search(sentence))
    for found in _NUMBER.finditer(text):
        digits, unit = found["value"].rstrip(","), found["unit"] or ""
        if _LABEL.search(text[: found.start()]) or re.fullmatch(r"(?:19|20)\d\d", digits) and not unit:
            continue
        if unit == "B" and not found["gap"]:
            continue  # 70B: the name of a model
        if unit == "s" and not found["gap"]:
            continue  # the 1980s
        power = int(found["power"] or 0)
        value = float(digits.replace(",", "")) * 10.0**power
        decimals = len(digits.partition(".")[2])
        yield Number(digits + (found["power"] and f"e{power}" or ""), value, 10.0 ** (power - decimals), unit, paragraph, bool(_COMPARED.search(text[found.end() :])))


def _scales(unit: str) -> list[float]:
    """By what a printed number may be larger than the number in the prose: 139.0 GB may be printed as 139,000,000,000 or as 139.0."""
    if unit == "%":
        return [1.0, 0.01]
    prefix = unit[0] if len(unit) > 1 and unit[0] in _PREFIX and unit != "min" else unit if unit in ("k", "K", "M", "G", "T") else ""
    steps = range(_PREFIX[prefix] + 1)
    scales = [base**step for base in (1000.0, 1024.0) for step in steps]
    return scales + ([0.001, 1e-6] if unit in ("ms", "µs", "us") else [])


_PRINTED = re.compile(r"(?<![\w.])\d[\d_,]*(?:\.\d+)?(?:[eE][+-]?\d+)?")
Printed = frozenset[tuple[float, float]]  # (value, half of one unit in its last digit)


def printed(text: str) -> Printed:
    """Every number in an output or in code, with the reach of its rounding (nothing for one of fewer than three digits)."""
    found = set()
    for match in _PRINTED.findall(text):
        digits = match.replace(",", "").replace("_", "")
        mantissa, _, power = digits.lower().partition("e")
        decimals = len(mantissa.partition(".")[2])
        significant = len(mantissa.replace(".", "").lstrip("0"))
        found.add((float(digits), 10.0 ** (int(power or 0) - decimals) / 2 if significant >= 3 else 0.0))
    return frozenset(found)


def is_supported(number: Number, values: Printed) -> bool:
    """Whether a printed number, scaled by the unit's prefix, and the prose's number are roundings of one number."""
    reach = number.step / 2
    if "." not in number.text and number.value >= 100:  # 1,400 may be rounded to hundreds, 86,000 to thousands
        whole = number.text.replace(",", "")
        reach = max(reach, min(10.0 ** (len(whole) - len(whole.rstrip("0"))), number.value / 20) / 2)
    for value, half in values:
        for scale in _scales(number.unit):
            if abs(value / scale - number.value) <= max(reach, half / scale) * 1.000001:
                return True
        if number.unit == "%" and number.compared and half and 0 < value < 3 and abs(abs(value - 1) * 100 - number.value) <= max(reach, half * 100) * 1.000001:
            return True
    return False


def paragraphs(markdown: str) -> Iterator[tuple[str, str, str]]:
    """(heading of level 2 that the paragraph follows in this cell, paragraph, its surroundings), list items apart; a table's surroundings are the blocks beside it as well."""
    blocks = [block for block in re.split(r"\n\s*\n", prose(markdown)) if block.strip()]
    heading = ""
    for index, block in enumerate(blocks):
        for line in block.split("\n"):
            if line.startswith("## "):
                heading = line[3:].strip()
        block = "\n".join(line for line in block.split("\n") if not line.startswith("#"))
        beside = blocks[max(index - 1, 0) : index + 2] if block.lstrip().startswith("|") else []
        for item in re.split(r"\n(?=\s*(?:[-*+]|\d+\.)\s)", block):
            item = re.sub(r"^\s*\d+\.\s", "", item)
            yield heading, item, "\n".join([item, *beside])


def _values(cells: list) -> Printed:
    found: set[tuple[float, float]] = set()
    for cell in cells:
        if cell.cell_type == "code":
            found |= printed(cell.source)
            for text in output_texts(cell):
                found |= printed(text)
    return frozenset(found)


class Support:
    """What the cells of a chapter print, by section."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.titles = [h.text for h in page.headings if h.level == 2]
        self.by_title = {title: _values([cell for _, cell in page.section(title)]) for title in self.titles}
        self.all = _values(list(page.notebook.cells))

    def before(self, position: int) -> str:
        """The section that is open where the cell begins."""
        return next((h.text for h in reversed(self.page.headings) if h.level == 2 and h.cell < position), "")

    def of(self, title: str, paragraph: str) -> Printed:
        """What supports a paragraph: its section (the whole chapter for a section that sums up), and the sections and chapters that it names."""
        values = self.all if not title or title in LAST else self.by_title[title]
        words = " ".join(paragraph.split())
        for other in self.titles:
            if f"*{other}*" in words or f"*{other.split(':')[0].split('?')[0]}" in words:
                values |= self.by_title[other]
        for match in _CHAPTERS.findall(paragraph):
            for n in re.findall(r"\d+", match):
                values |= _chapter_values(self.page.path.resolve().parent, int(n))
        return values


@lru_cache(maxsize=64)
def _chapter_values(folder: Path, number: int) -> Printed:
    """Everything that another chapter of the folder prints; nothing where there is no such chapter."""
    files = sorted(folder.glob(f"{number:02d}_*.ipynb"))
    return _values(list(Page.load(files[0]).notebook.cells)) if files else frozenset()


def unsupported(page: Page) -> Iterator[tuple[int, Number]]:
    """(cell, number) of every fact that nothing supports, excuses not looked at."""
    support = Support(page)
    for position, cell in page.markdown:
        open_title = support.before(position)
        for heading, paragraph, surroundings in paragraphs(cell.source):
            if _SOURCE.search(surroundings):
                continue
            values = support.of(heading or open_title, surroundings)
            for number in numbers(paragraph):
                if number.is_fact and not is_supported(number, values):
                    yield position, number


@lru_cache(maxsize=8)
def excuses(file: Path) -> dict[str, list[dict[str, str]]]:
    """numbers.yml: stem -> [{cell, number, reason}]. Raises ValueError for an entry without a reason."""
    listed = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    for stem, entries in listed.items():
        for entry in entries:
            if set(entry) != {"cell", "number", "reason"} or len(str(entry["reason"])) < SHORTEST_REASON:
                raise ValueError(f"{file.name}: {stem}: {entry} must have cell, number and a reason of {SHORTEST_REASON} characters or more")
    return listed


@rule("number", CHAPTER)
def number(page: Page) -> Iterator[Fault]:
    """A number in prose that states a fact stands beside the cell that prints it, or carries a citation, or is excused in numbers.yml with a reason."""
    listed = excuses(EXCUSES).get(page.path.stem, []) if notebooks.kind(page.path) == "chapter" else []
    excused = {(entry["cell"], str(entry["number"])) for entry in listed}
    for position, found in unsupported(page):
        if (page.notebook.cells[position - 1].id, found.text) not in excused:
            said = f"{found.text} {found.unit}".strip()
            yield position, f"states {said}: no cell of the section prints it and no source is linked; print it, cite it, or excuse it in {EXCUSES.name}"
    stated = {(cell.id, n.text) for _, cell in page.markdown for _, paragraph, _ in paragraphs(cell.source) for n in numbers(paragraph)}
    for cell, text in sorted(excused - stated):
        yield 0, f"{EXCUSES.name} excuses {text} in cell {cell}, which does not state it; delete the line"
