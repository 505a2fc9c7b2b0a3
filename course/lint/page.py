"""A notebook as the rules see it: its cells with their positions, their code as a tree, the text of their outputs, its sections."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from course import notebooks

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
_FENCE = re.compile(r"^\s*(```+|~~~+)")


def prose(markdown: str) -> str:
    """The Markdown with its code (fenced blocks and spans) blanked, line for line."""
    lines, fence = [], ""
    for line in markdown.split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1][:3]
            line = ""
        elif fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
            line = ""
        lines.append(re.sub(r"(`+)(.+?)\1", "", line))
    return "\n".join(lines)


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    cell: int  # position in the notebook, from 1


@dataclass
class Page:
    """One notebook. `kind` is chapter, lab, solution or other; `root` is the folder that holds references.bib and quizzes/."""

    path: Path
    kind: str
    root: Path
    notebook: NotebookNode
    raw: dict[str, Any]  # as it stands in the file: nbformat repairs what it reads
    size: int  # bytes
    _trees: dict[int, ast.Module | None] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Page:
        """Raises FileNotFoundError, or ValueError for a file that is not a notebook in format 4."""
        text = path.read_text(encoding="utf-8")
        try:
            raw = json.loads(text)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what nbformat warns of and repairs (ids), rules report from `raw`
                notebook = nbformat.reads(text, as_version=4)
        except (ValueError, AttributeError, KeyError, nbformat.reader.NotJSONError) as error:
            raise ValueError(f"{path} is not a notebook: {error}") from error
        full = path.resolve()
        return cls(path, notebooks.kind(path), full.parent.parent, notebook, raw, len(text.encode("utf-8")))

    @cached_property
    def code(self) -> list[tuple[int, NotebookNode]]:
        return [(n, cell) for n, cell in enumerate(self.notebook.cells, start=1) if cell.cell_type == "code"]

    @cached_property
    def markdown(self) -> list[tuple[int, NotebookNode]]:
        return [(n, cell) for n, cell in enumerate(self.notebook.cells, start=1) if cell.cell_type == "markdown"]

    def tree(self, position: int) -> ast.Module | None:
        """The cell's code with its magics turned into calls, or None where it is not Python."""
        if position not in self._trees:
            try:
                self._trees[position] = ast.parse(python(self.notebook.cells[position - 1].source))
            except SyntaxError:
                self._trees[position] = None
        return self._trees[position]

    @cached_property
    def headings(self) -> list[Heading]:
        found = []
        for position, cell in self.markdown:
            fenced = False
            for line in cell.source.split("\n"):
                if _FENCE.match(line):
                    fenced = not fenced
                match = _HEADING.match(line)
                if match and not fenced:
                    found.append(Heading(len(match[1]), match[2], position))
        return found

    def section(self, title: str) -> list[tuple[int, NotebookNode]]:
        """The cells of the section `## title`, its heading's cell included, up to the next heading of level 2 that is in a later cell."""
        starts = [h for h in self.headings if h.level <= 2]
        for index, heading in enumerate(starts):
            if heading.level == 2 and heading.text == title:
                later = [h.cell for h in starts[index + 1 :] if h.cell > heading.cell]
                end = later[0] if later else len(self.notebook.cells) + 1
                return [(n, self.notebook.cells[n - 1]) for n in range(heading.cell, end)]
        return []

    def section_text(self, title: str) -> str:
        """The Markdown of the section `## title`, without the heading."""
        text = "\n\n".join(cell.source for _, cell in self.section(title) if cell.cell_type == "markdown")
        body = re.split(rf"^##\s+{re.escape(title)}\s*$", text, maxsplit=1, flags=re.MULTILINE)
        return re.split(r"^#{1,2}\s", body[1], maxsplit=1, flags=re.MULTILINE)[0] if len(body) == 2 else ""


def python(source: str) -> str:
    """The cell's source as IPython would run it: `%pip x` becomes `get_ipython().run_line_magic('pip', 'x')`."""
    return TransformerManager().transform_cell(source)


def course(cell: NotebookNode) -> dict[str, Any]:
    """What the cell's metadata say under "course"."""
    settings = cell.metadata.get("course", {})
    return dict(settings) if isinstance(settings, dict) else {}


def output_texts(cell: NotebookNode, html: bool = True) -> Iterator[str]:
    """The readable text of each output: streams, text/plain, Markdown, errors, and HTML without its tags, styles and scripts."""
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            yield output.text
        elif output.output_type == "error":
            yield _ANSI.sub("", "\n".join([output.ename, output.evalue, *output.get("traceback", [])]))
        for mime, data in output.get("data", {}).items():
            if mime in ("text/plain", "text/markdown", "text/latex"):
                yield data
            elif mime == "text/html" and html:
                yield re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(style|script)\b.*?</\1>", " ", data))


def has_png(cell: NotebookNode) -> bool:
    return any("image/png" in output.get("data", {}) for output in cell.get("outputs", []))
