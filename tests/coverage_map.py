"""The map from each statement of the two source documents to the place of this book that treats it, and what must be found there.

tests/data/owners.csv says which page owns an item (S0-01 … S0-119 the first document, S2-01 … S2-80 the second, by their order); tests/data/coverage.csv has one row
or more for each item: item, kind, target, section, find.

    printed   an output of a cell in the chapter's section holds the text
    says      the Markdown of the chapter's section holds it
    quiz      the question `section` of quizzes/`target`.yml has it: in the right options, in the key's value, or in the model answer and rubric
    errata    the entry `section` of appendices/errata.md (E1, E2, …) names the item and holds the text
    page      the page (path without ending) holds it
    dropped   treated nowhere; `find` is the reason
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from course.lint.page import Page, output_texts
from course.quiz import schema, units

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
ITEMS = [f"S0-{n:02d}" for n in range(1, 120)] + [f"S2-{n:02d}" for n in range(1, 81)]
KINDS = ("printed", "says", "quiz", "errata", "page", "dropped")
MOST_DROPPED = 10
SHORTEST_FIND = 4  # characters
_ERRATUM = re.compile(r"^- \*\*(?P<id>E\d+)\. (?P<title>[^*]+)\*\* \((?P<items>[^)]+)\)(?P<text>.*?)(?=^- \*\*E\d+\.|^#|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Row:
    item: str
    kind: str
    target: str
    section: str
    find: str


def rows(file: Path = DATA / "coverage.csv") -> list[Row]:
    with file.open(encoding="utf-8", newline="") as lines:
        return [Row(**row) for row in csv.DictReader(lines)]


def owners(file: Path = DATA / "owners.csv") -> dict[str, str]:
    with file.open(encoding="utf-8", newline="") as lines:
        return {row["item"]: row["owner"] for row in csv.DictReader(lines)}


def verdicts(file: Path = DATA / "owners.csv") -> dict[str, str]:
    """T true, TC true with conditions, ML misleading, W wrong, INC incomplete, NC cannot be checked, BLANK announced and missing."""
    with file.open(encoding="utf-8", newline="") as lines:
        return {row["item"]: row["verdict"] for row in csv.DictReader(lines)}


def squeezed(text: str) -> str:
    """Columns of a table move: every run of white space counts as one blank."""
    return " ".join(text.split())


@lru_cache(maxsize=32)
def _page(path: Path) -> Page:
    return Page.load(path)


@dataclass(frozen=True)
class Erratum:
    id: str
    title: str
    items: tuple[str, ...]
    text: str


@lru_cache(maxsize=4)
def errata(file: Path = ROOT / "appendices" / "errata.md") -> dict[str, Erratum]:
    found = _ERRATUM.finditer(file.read_text(encoding="utf-8"))
    return {m["id"]: Erratum(m["id"], m["title"], tuple(re.split(r",\s*", m["items"])), m["text"]) for m in found}


def _question_text(question: schema.Question) -> str:
    parts = [option.text for option in question.options if option.right]
    if question.kind == "numeric":
        parts.append(units.value_text(question.key, question.unit))
    return " ".join([*parts, question.answer or "", *question.rubric])


def place(row: Row, root: Path = ROOT) -> str | None:
    """The text in which the row must find what it names; None where there is no such place."""
    if row.kind in ("printed", "says"):
        path = root / "chapters" / f"{row.target}.ipynb"
        cells = _page(path).section(row.section) if path.exists() else []
        if row.kind == "says":
            return "\n".join(cell.source for _, cell in cells if cell.cell_type == "markdown") or None
        return "\n".join(text for _, cell in cells if cell.cell_type == "code" for text in output_texts(cell)) or None
    if row.kind == "quiz":
        path = root / "quizzes" / f"{row.target}.yml"
        questions = {q.id: q for q in schema.load(path)} if path.exists() else {}
        return _question_text(questions[row.section]) if row.section in questions else None
    if row.kind == "errata":
        entry = errata(root / "appendices" / "errata.md").get(row.section)
        return entry.title + entry.text if entry and row.item in entry.items else None
    if row.kind == "page":
        path = root / f"{row.target}.md"
        return path.read_text(encoding="utf-8") if path.exists() else None
    return None


def faults(listed: list[Row], root: Path = ROOT) -> Iterator[str]:
    """What is wrong with single rows."""
    for row in listed:
        name = f"{row.item} ({row.kind} {row.target} {row.section})"
        if row.kind not in KINDS:
            yield f"{name}: no such kind"
        elif row.kind == "dropped":
            if len(row.find) < 20:
                yield f"{name}: give the reason"
        elif len(row.find) < SHORTEST_FIND:
            yield f"{name}: say what must be found there"
        elif (text := place(row, root)) is None:
            yield f"{name}: there is no such place"
        elif squeezed(row.find) not in squeezed(text):
            yield f"{name}: {row.find!r} is not there"


def gaps(listed: list[Row], owned: dict[str, str]) -> Iterator[str]:
    """Items that are missing, unknown, or not treated by the page that owns them."""
    by_item: dict[str, list[Row]] = {}
    for row in listed:
        by_item.setdefault(row.item, []).append(row)
    yield from (f"{item}: no row" for item in ITEMS if item not in by_item)
    yield from (f"{item}: no such item" for item in by_item if item not in ITEMS)
    for item, found in by_item.items():
        targets = {row.target for row in found} | {row.kind for row in found if row.kind in ("errata", "dropped")}
        owner = owned.get(item, "")
        if not targets & {owner, f"appendices/{owner}", "dropped"}:
            yield f"{item}: no row leads to its owner {owner}"
    dropped = sorted({row.item for row in listed if row.kind == "dropped"})
    if len(dropped) > MOST_DROPPED:
        yield f"{len(dropped)} items dropped, at most {MOST_DROPPED}: {', '.join(dropped)}"
