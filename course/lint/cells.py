"""Rules about a notebook's source and metadata: code, tags, reasons, alt text, the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from course import notebooks
from course.lint import code
from course.lint.page import Page, course, has_png
from course.lint.registry import Fault, rule

LARGEST_FILE = 500_000  # bytes
LARGEST_EXEMPT = {"chapter": 4, "lab": 8, "solution": 8, "other": 4}
TAGS_WITH_REASON = ("nbval-ignore-output", "nbval-skip", "raises-exception")
SHORTEST_REASON = 10  # characters
SHORTEST_ALT = 20


@rule("syntax")
def syntax(page: Page) -> Iterator[Fault]:
    """Every code cell is Python."""
    for n, _ in page.code:
        if page.tree(n) is None:
            yield n, "cannot be parsed"


@rule("empty-cell")
def empty_cell(page: Page) -> Iterator[Fault]:
    """No cell is empty: nbval would count it as checked."""
    for n, cell in enumerate(page.notebook.cells, start=1):
        if not cell.source.strip():
            yield n, "is empty; delete it"


@rule("semicolon")
def semicolon(page: Page) -> Iterator[Fault]:
    """No line ends in a semicolon: nbval ignores it, so that the value shows. Write `_ = ax.plot(...)`."""
    for n, cell in page.code:
        if cell.source.startswith("%%"):
            continue  # another language: the HTML of a lab's quiz, where semicolons belong; the rule `magic` says which may stand
        for line in code.trailing_semicolons(cell.source):
            yield n, f"line {line} ends in a semicolon; write `_ = …`"


@rule("magic")
def magic(page: Page) -> Iterator[Fault]:
    """No magics or shell lines, because nbval passes unknown ones: only %%html in a lab's quiz cell, and %pip in a cell tagged nbval-skip."""
    for n, cell in page.code:
        tree = page.tree(n)
        for name in sorted(set(code.magics(tree))) if tree else []:
            quiz = name == "%%html" and page.kind in ("lab", "solution") and course(cell).get("quiz")
            install = name == "%pip" and notebooks.SKIP_TAG in notebooks.tags(cell)
            if not quiz and not install:
                yield n, f"uses {name}; allowed: %%html in a lab's quiz cell, %pip in a cell tagged nbval-skip"


@rule("tag")
def tag(page: Page) -> Iterator[Fault]:
    """nbval is steered by the three tags that need a reason, spelled right, and never by comments in the code."""
    for n, cell in page.code:
        for name in notebooks.tags(cell):
            if name.startswith("nbval") and name not in TAGS_WITH_REASON:
                yield n, f"tag {name} is unknown; allowed: {', '.join(TAGS_WITH_REASON)}"
        for line in cell.source.split("\n"):
            words = line.strip().lstrip("#").strip()
            if line.strip().startswith("#") and words.isupper() and words.startswith(("NBVAL_", "PYTEST_VALIDATE_")):
                yield n, f"comment {words} hides the cell from the count; use a tag"


def _is_reason(text: object) -> bool:
    return isinstance(text, str) and len(text.strip()) >= SHORTEST_REASON


@rule("reason")
def reason(page: Page) -> Iterator[Fault]:
    """Beside every exemption stands why: metadata.reason for a tag, the text of course.exact for exact digits."""
    for n, cell in page.code:
        for name in TAGS_WITH_REASON:
            if name in notebooks.tags(cell) and not _is_reason(cell.metadata.get("reason")):
                yield n, f'tag {name} needs metadata {{"reason": "…"}} of {SHORTEST_REASON} characters or more'
        if "exact" in course(cell) and not _is_reason(course(cell)["exact"]):
            yield n, f"course.exact must say in {SHORTEST_REASON} characters or more why the digits are exact"


@rule("exempt-count")
def exempt_count(page: Page) -> Iterator[Fault]:
    """At most 4 cells of a chapter and 8 of a lab are exempt from comparison."""
    exempt = [n for n, cell in page.code if {"nbval-ignore-output", "nbval-skip"} & set(notebooks.tags(cell))]
    most = LARGEST_EXEMPT[page.kind]
    if len(exempt) > most:
        yield exempt[most], f"{len(exempt)} cells are exempt from comparison; at most {most} in a {page.kind}"


@rule("alt-text")
def alt_text(page: Page) -> Iterator[Fault]:
    """A cell with a figure describes it in metadata mystnb.image.alt; no other cell does."""
    for n, cell in page.code:
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt")
        if has_png(cell) and not (isinstance(alt, str) and len(alt.strip()) >= SHORTEST_ALT):
            yield n, f'shows a figure and needs metadata {{"mystnb": {{"image": {{"alt": "…"}}}}}} of {SHORTEST_ALT} characters or more'
        # In a lab the figure waits behind `after(task)`; its alt text is the solution's, where the rule sees the figure.
        if not has_png(cell) and alt is not None and page.kind != "lab":
            yield n, "has alt text, but no figure"


@rule("one-figure")
def one_figure(page: Page) -> Iterator[Fault]:
    """A cell stores one figure at most, because its alt text describes one."""
    for n, cell in page.code:
        count = sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))
        if count > 1:
            yield n, f"stores {count} figures; give each a cell and an alt text of its own"


@rule("size")
def size(page: Page) -> Iterator[Fault]:
    """The file is under 500 kB."""
    if page.size >= LARGEST_FILE:
        yield 0, f"{page.size:,} bytes; under {LARGEST_FILE:,}"


@rule("metadata")
def metadata(page: Page) -> Iterator[Fault]:
    """The file names the kernel python3 and no version, time or machine; course.serial, where it stands, is true or false."""
    data = page.raw.get("metadata", {})
    if data.get("language_info") != {"name": "python"}:
        yield 0, 'metadata.language_info must be {"name": "python"}; run course.rerun'
    if data.get("kernelspec", {}).get("name") != "python3":
        yield 0, "metadata.kernelspec.name must be python3"
    if "widgets" in data:
        yield 0, "metadata.widgets must not be there"
    if not isinstance(data.get("course", {}), dict) or not isinstance(data.get("course", {}).get("serial", False), bool):
        yield 0, 'metadata.course must be {"serial": true} or {"serial": false}, or absent'
    for n, cell in enumerate(page.raw.get("cells", []), start=1):
        for key in sorted({"execution", "ExecuteTime"} & set(cell.get("metadata", {}))):
            yield n, f"metadata.{key} holds times; run course.rerun"


@rule("cell-id")
def cell_id(page: Page) -> Iterator[Fault]:
    """Every cell has an id of its own, so that a rerun changes none."""
    ids = [cell.get("id") for cell in page.raw.get("cells", [])]
    counts = Counter(ids)
    for n, value in enumerate(ids, start=1):
        if not value:
            yield n, "has no id; run course.rerun"
        elif counts[value] > 1:
            yield n, f"shares the id {value} with another cell"
