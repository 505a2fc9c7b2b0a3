"""Rules about the spine of a chapter: title and table, the sections and their order, what each must hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import yaml

from course.lint import code, text
from course.lint.page import Page, prose
from course.lint.registry import CHAPTER, LAB, Fault, rule

TABLE = "| minutes | needs | after it you can |"
FIRST = "Predict first"
LAST = ("When it does not help", "Takeaways", "Three misconceptions", "Check yourself", "Lab and sources")
LONGEST_READ = 75  # minutes
FEWEST_QUESTIONS = 5
GRADED = ("single", "multiple", "numeric")


@rule("title", CHAPTER | LAB)
def title(page: Page) -> Iterator[Fault]:
    """There is one `# Title`: the first line of the first cell."""
    titles = [h for h in page.headings if h.level == 1]
    if len(titles) != 1 or not page.notebook.cells[0].source.lstrip().startswith("# "):
        yield titles[-1].cell if titles else 0, f"{len(titles)} headings of level 1; exactly one, the first line of the first cell"


@rule("promise", CHAPTER)
def promise(page: Page) -> Iterator[Fault]:
    """Below the title stand one sentence of promise and the table of minutes (75 at most), needs and gains."""
    lines = [line.strip() for line in page.notebook.cells[0].source.split("\n") if line.strip()] if page.notebook.cells else []
    lines = lines[next((i for i, line in enumerate(lines) if line.startswith("# ")), 0) :]
    table = [i for i, line in enumerate(lines) if re.sub(r"\s*\|\s*", " | ", line).strip() == TABLE]
    if not table:
        yield 1, f"no table with the header {TABLE}"
        return
    if table[0] < 2 or lines[1].startswith(("#", "|", "-", "<")):
        yield 1, "no sentence of promise between title and table"
    rows = [line for line in lines[table[0] + 2 :] if line.startswith("|")]
    minutes = re.match(r"\|\s*(\d+)\s*\|", rows[0]) if rows else None
    if minutes is None or not 0 < int(minutes[1]) <= LONGEST_READ:
        yield 1, f"the table's first row must start with whole minutes, at most {LONGEST_READ}"
    elif not all(field.strip() for field in rows[0].strip("|").split("|")):
        yield 1, "the table's first row has an empty field"


@rule("spine", CHAPTER)
def spine(page: Page) -> Iterator[Fault]:
    """The sections: Predict first, content, When it does not help, Takeaways, Three misconceptions, Check yourself, Lab and sources."""
    sections = [h for h in page.headings if h.level == 2]
    names = [h.text for h in sections]
    for name in (FIRST, *LAST):
        if names.count(name) != 1:
            yield 0, f"section `## {name}` stands {names.count(name)} times, not once"
    if names and names[0] != FIRST:
        yield sections[0].cell, f"the first section is `## {names[0]}`, not `## {FIRST}`"
    if tuple(names[-len(LAST) :]) != LAST:
        yield sections[-1].cell if sections else 0, f"the chapter must end with the sections {', '.join(LAST)}, in this order"
    if not set(names) - {FIRST, *LAST}:
        yield 0, "no section of content between `## Predict first` and `## When it does not help`"


@rule("heading-order")
def heading_order(page: Page) -> Iterator[Fault]:
    """Headings go down one level at a time, so that a screen reader's outline has no gaps."""
    before = 0
    for heading in page.headings:
        if heading.level > before + 1:
            yield heading.cell, f"`{heading.text}` is of level {heading.level} after one of level {before}"
        before = heading.level


def quizzes(page: Page, section: str) -> list[tuple[int, str, str]]:
    """(position, stem, quiz section) of each `quiz("stem", "section")` in the section of the page."""
    found = []
    for n, cell in page.section(section):
        tree = page.tree(n) if cell.cell_type == "code" else None
        for call in code.calls(tree.body) if tree else []:
            arguments = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if code.called(call).split(".")[-1] == "quiz" and len(arguments) == 2:
                found.append((n, arguments[0], arguments[1]))
    return found


def questions(page: Page, stem: str, section: str) -> list[dict[str, Any]]:
    """The questions of quizzes/<stem>.yml in one quiz section; none where the file is missing or not as it should be."""
    file = page.root / "quizzes" / f"{stem}.yml"
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return []
    listed = data.get("questions", []) if isinstance(data, dict) else []
    return [q for q in listed if isinstance(q, dict) and q.get("section") == section]


@rule("predict-quiz", CHAPTER)
def predict_quiz(page: Page) -> Iterator[Fault]:
    """`## Predict first` asks one or two questions of the chapter's own quiz."""
    cells = page.section(FIRST)
    count = sum(len(questions(page, stem, section)) for _, stem, section in quizzes(page, FIRST))
    if cells and not 1 <= count <= 2:
        yield cells[0][0], f"{count} questions to predict, one or two are due: quiz(\"{page.path.stem}\", \"predict\")"


@rule("check-questions", CHAPTER)
def check_questions(page: Page) -> Iterator[Fault]:
    """`## Check yourself` asks five or more questions that are graded without the reader's judgement."""
    cells = page.section("Check yourself")
    asked = [q for _, stem, section in quizzes(page, "Check yourself") for q in questions(page, stem, section)]
    graded = sum(q.get("kind") in GRADED for q in asked)
    if cells and graded < FEWEST_QUESTIONS:
        yield cells[0][0], f"{graded} graded questions; {FEWEST_QUESTIONS} or more"


@rule("quiz-stem", CHAPTER)
def quiz_stem(page: Page) -> Iterator[Fault]:
    """A chapter shows the questions of quizzes/ with its own stem, and each section of them once."""
    shown: set[str] = set()
    for heading in (h for h in page.headings if h.level <= 2):
        for n, stem, section in quizzes(page, heading.text):
            if stem != page.path.stem:
                yield n, f"shows the questions of {stem}, not of {page.path.stem}"
            if section in shown:
                yield n, f"shows section {section} a second time"
            shown.add(section)


def _points(markdown: str) -> int:
    """How many points a section makes: list items at the margin, sub-headings, or paragraphs that open in bold."""
    lines = prose(markdown).split("\n")
    return max(
        sum(bool(re.match(r"(?:[-*+]|\d+[.)])\s", line)) for line in lines),
        sum(line.startswith("### ") for line in lines),
        sum(bool(re.match(r"\*\*\S", line)) for line in lines),
    )


@rule("takeaways", CHAPTER)
def takeaways(page: Page) -> Iterator[Fault]:
    """`## Takeaways` is a list of three or more."""
    cells = page.section("Takeaways")
    if cells and _points(page.section_text("Takeaways")) < 3:
        yield cells[0][0], "fewer than three takeaways, as list items"


@rule("misconceptions", CHAPTER)
def misconceptions(page: Page) -> Iterator[Fault]:
    """`## Three misconceptions` names three, as list items, sub-headings or paragraphs that open in bold."""
    cells = page.section("Three misconceptions")
    if cells and _points(page.section_text("Three misconceptions")) != 3:
        yield cells[0][0], f"{_points(page.section_text('Three misconceptions'))} misconceptions, not three"


@rule("lab-link", CHAPTER)
def lab_link(page: Page) -> Iterator[Fault]:
    """`## Lab and sources` links to the chapter's lab, where there is one, and to at least one source."""
    cells = page.section("Lab and sources")
    if not cells:
        return
    addresses = text.links(page.section_text("Lab and sources"))
    lab = f"../labs/{page.path.name}"
    if (page.root / "labs" / page.path.name).exists() and lab not in addresses:
        yield cells[0][0], f"no link to {lab}"
    if not any(address.startswith("https://") for address in addresses):
        yield cells[0][0], "no source is linked"
