"""The chapters as exam and score show them: number, title, address, and where each heading lies."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from docutils.nodes import make_id

from course.quiz.schema import QUIZZES, ROOT, Question, load

_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
_ELSEWHERE = re.compile(r"Chapter (\d+), (.+)")


@dataclass(frozen=True)
class Chapter:
    """One chapter that has a quiz. `url` is relative to a page in appendices/, "" where the chapter's notebook is missing."""

    stem: str
    title: str
    url: str
    anchors: dict[str, str] = field(default_factory=dict)  # heading -> anchor on the page
    questions: tuple[Question, ...] = ()

    @property
    def label(self) -> str:
        """Number and title: "6. The KV cache"."""
        return self.title if re.match(r"\d+\. ", self.title) else f"{int(self.stem[:2])}. {self.title}"


def headings(path: Path) -> list[str]:
    """Texts of all headings of a notebook, in order; fenced code is no heading. Raises FileNotFoundError."""
    found = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        fenced = False
        for line in "".join(cell["source"]).split("\n") if cell["cell_type"] == "markdown" else []:
            fenced ^= line.lstrip().startswith(("```", "~~~"))
            if not fenced and (match := _HEADING.match(line)):
                found.append(match[2])
    return found


def _plain(text: str) -> str:
    return re.sub(r"[`*$\\]", "", text)


@cache
def chapters(root: Path = ROOT) -> tuple[Chapter, ...]:
    """Every chapter of quizzes/, in order, with its questions."""
    found = []
    for file in sorted((root / QUIZZES.name).glob("*.yml")):
        notebook = root / "chapters" / f"{file.stem}.ipynb"
        texts = headings(notebook) if notebook.is_file() else [file.stem[3:].replace("_", " ").capitalize()]
        anchors = {_plain(text): make_id(_plain(text)) for text in texts[1:]}
        url = f"../chapters/{file.stem}.html" if notebook.is_file() else ""
        found.append(Chapter(file.stem, _plain(texts[0]), url, anchors, tuple(load(file))))
    return tuple(found)


def reread_url(question: Question, known: tuple[Chapter, ...]) -> str:
    """Where to reread what the question asks: the section it names, in its own chapter or in "Chapter N, …"; else the chapter."""
    elsewhere = _ELSEWHERE.fullmatch(question.reread)
    number, text = (elsewhere[1], elsewhere[2]) if elsewhere else (question.stem[:2], question.reread)
    chapter = next((c for c in known if int(c.stem[:2]) == int(number)), None)
    if chapter is None or not chapter.url:
        return ""
    anchor = chapter.anchors.get(_plain(text), "")
    return chapter.url + (f"#{anchor}" if anchor else "")
