"""The glossary: its entries, read from appendices/glossary.md, and the links from each term's first use in a chapter.

An entry is one line, `- **term**, alias, alias (中文): what it means. [chapter]`. On the site every entry gets an anchor, and in each chapter the first use of a
term in running text becomes a link to it. That happens at build time, so notebooks stay as they are, and new ones are linked like old ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

PAGE = "appendices/glossary"
_ENTRY = re.compile(r"^- \*\*(?P<term>[^*]+)\*\*(?P<aliases>(?:, [^,(]+)*) \((?P<chinese>[^)]+)\): (?P<text>.+?)(?: \[(?P<chapter>\d+)\])?$")
_CHINESE = re.compile(r"[一-鿿]")
# A term inside these is code, a heading, a formula or a link already.
_NOT_TEXT = (nodes.literal, nodes.literal_block, nodes.title, nodes.reference, nodes.math, nodes.math_block, nodes.raw, nodes.caption, nodes.comment, nodes.system_message)


@dataclass(frozen=True)
class Entry:
    term: str
    aliases: tuple[str, ...]
    chinese: str
    text: str
    chapter: int | None

    @property
    def anchor(self) -> str:
        return "term-" + re.sub(r"[^a-z0-9]+", "-", self.term.lower()).strip("-")

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The term or an alias as a word of its own; abbreviations in their own case, other words in any; a space may be a hyphen or a line break, and a plural s is allowed."""
        spelled = []
        for word in (self.term, *self.aliases):
            letters = r"[\s\-]".join(re.escape(part).replace("'", "['’]") for part in word.split())
            spelled.append(letters + "s?" if any(c.isupper() for c in word[1:]) else f"(?i:{letters})s?")
        return re.compile(rf"(?<![\w\-])(?:{'|'.join(sorted(spelled, key=len, reverse=True))})(?![\w\-])")

    @cached_property
    def stems(self) -> tuple[str, ...]:
        """The beginnings of its names in small letters: a text without any of them need not be searched."""
        return tuple(re.split(r"[\s'\-]", word)[0].lower() for word in (self.term, *self.aliases))

    def first_in(self, text: str, start: int = 0) -> re.Match[str] | None:
        """Where the term is used first in the text, from `start` on."""
        lowered = text.lower()
        return self.pattern.search(text, start) if any(stem in lowered for stem in self.stems) else None


def parse(markdown: str) -> list[Entry]:
    """The entries of the page, in order. Raises ValueError for a list line that is no entry, a term without Chinese, or a name that two entries share."""
    entries: list[Entry] = []
    taken: dict[str, str] = {}
    for line in markdown.split("\n"):
        if not line.startswith("- "):
            continue
        found = _ENTRY.match(line)
        if not found or not _CHINESE.search(found["chinese"]):
            raise ValueError(f"glossary: {line!r} is not `- **term**, alias (中文): text. [chapter]`")
        aliases = tuple(alias.strip() for alias in found["aliases"].split(",") if alias.strip())
        entry = Entry(found["term"], aliases, found["chinese"], found["text"], int(found["chapter"]) if found["chapter"] else None)
        for name in (entry.term, *aliases):
            key = name.lower().replace("-", " ")
            if taken.setdefault(key, entry.term) != entry.term:
                raise ValueError(f"glossary: {entry.term} and {taken[key]} share the name {name}")
        entries.append(entry)
    return entries


@lru_cache(maxsize=4)
def entries(root: Path) -> tuple[Entry, ...]:
    """The entries of the book below `root`."""
    return tuple(parse((root / f"{PAGE}.md").read_text(encoding="utf-8")))


def with_anchors(markdown: str) -> str:
    """The page with an anchor in front of every entry."""
    anchors = {f"- **{entry.term}**": entry.anchor for entry in parse(markdown)}
    return re.sub(r"^- \*\*[^*]+\*\*", lambda m: f'- <span id="{anchors[m[0]]}"></span>{m[0][2:]}', markdown, flags=re.MULTILINE)


def _texts(document: nodes.Node) -> Iterator[nodes.Text]:
    for text in document.findall(nodes.Text):
        node = text.parent
        while node is not None and not isinstance(node, _NOT_TEXT):
            node = node.parent
        if node is None:
            yield text


def link(document: nodes.document, listed: tuple[Entry, ...], page_uri: str) -> list[str]:
    """Link the first use of each term in the document's running text; of two terms that overlap, the longer one. Returns the terms linked, in order."""
    missing = list(listed)
    linked = []
    for text in list(_texts(document)):
        words, start, parts = text.astext(), 0, []
        while True:
            found = [(match.start(), -len(match[0]), entry.term, match, entry) for entry in missing if (match := entry.first_in(words, start))]
            if not found:
                break
            _, _, _, match, entry = min(found)
            parts += [nodes.Text(words[start : match.start()])] if match.start() > start else []
            title = f"{entry.chinese}: {entry.text}"
            parts.append(nodes.reference("", match[0], internal=True, refuri=f"{page_uri}#{entry.anchor}", classes=["term"], reftitle=title))
            start = match.end()
            missing.remove(entry)
            linked.append(entry.term)
        if parts:
            text.parent.replace(text, parts + ([nodes.Text(words[start:])] if start < len(words) else []))
    return linked


def _link_chapter(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format == "html" and docname.startswith("chapters/") and PAGE in app.env.found_docs:
        link(doctree, entries(Path(app.srcdir)), app.builder.get_relative_uri(docname, PAGE))


def _anchors(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == PAGE:
        source[0] = with_anchors(source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the two steps; _config.yml names this module as an extension."""
    app.connect("source-read", _anchors)
    app.connect("doctree-resolved", _link_chapter, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
