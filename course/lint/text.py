"""Rules about Markdown cells: plain Markdown, links, citations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from course.lint.page import Page, prose
from course.lint.registry import Fault, rule

_COLON_FENCE = re.compile(r"^\s*:{3,}", re.MULTILINE)
_BRACE_FENCE = re.compile(r"^\s*(?:```+|~~~+)\s*\{", re.MULTILINE)
_ROLE = re.compile(r"(?<!`)\{[a-zA-Z][\w:.+-]*\}`[^`\n]+`")
_TARGET = re.compile(r"^\([\w-]+\)=\s*$", re.MULTILINE)
_FENCED = re.compile(r"^\s*(```+|~~~+).*?^\s*\1", re.MULTILINE | re.DOTALL)
_INLINE_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*)?\)")
_NAMED_LINK = re.compile(r"^\s*\[[^\]^]+\]:\s*<?(\S+?)>?\s*(?:[\"'(].*)?$", re.MULTILINE)
_HTML_LINK = re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src)\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_BARE_LINK = re.compile(r"https?://[^\s)>\]\"'`]+")
_HTML_IMAGE = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
_BIB_URL = re.compile(r"^\s*url\s*=\s*[{\"]\s*([^}\"]+?)\s*[}\"]", re.MULTILINE | re.IGNORECASE)
PAPER_HOSTS = ("arxiv.org", "www.arxiv.org", "doi.org", "dx.doi.org")


def links(markdown: str) -> list[str]:
    """Every link and picture address in the Markdown, code left out, in order and without repeats."""
    text = prose(markdown)
    found = [match[3] for match in _INLINE_LINK.finditer(text)] + _NAMED_LINK.findall(text) + _HTML_LINK.findall(text)
    found += [address.rstrip(".,;:") for address in _BARE_LINK.findall(_INLINE_LINK.sub(r"\2", text))]
    return list(dict.fromkeys(found))


@lru_cache(maxsize=8)
def bibliography(file: Path) -> frozenset[str]:
    """The `url` fields of a BibTeX file; none where the file is missing."""
    return frozenset(_BIB_URL.findall(file.read_text(encoding="utf-8"))) if file.exists() else frozenset()


@rule("myst")
def myst(page: Page) -> Iterator[Fault]:
    """No MyST in Markdown cells: `:::`, ```{name}, {role}`text`, (target)= show as raw text in Jupyter and Colab."""
    for n, cell in page.markdown:
        unfenced = _FENCED.sub("", cell.source)
        for found in (_BRACE_FENCE.search(cell.source), _COLON_FENCE.search(unfenced), _ROLE.search(unfenced), _TARGET.search(unfenced)):
            if found:
                yield n, f"MyST markup {found[0].strip()!r}; use Markdown, math or <details>"


@rule("citation")
def citation(page: Page) -> Iterator[Fault]:
    """Every link to a paper (arxiv.org, doi.org) is the url of an entry in references.bib."""
    known = bibliography(page.root / "references.bib")
    for n, cell in page.markdown:
        for address in links(cell.source):
            if urlsplit(address).netloc.lower() in PAPER_HOSTS and address not in known:
                yield n, f"{address} is not the url of an entry in references.bib"


@rule("link")
def link(page: Page) -> Iterator[Fault]:
    """Relative links lead to files that exist; no link starts at the root of a disk or host, and none is plain http."""
    for n, cell in page.markdown:
        for address in links(cell.source):
            parts = urlsplit(address)
            if parts.scheme == "http":
                yield n, f"{address}: use https"
            elif parts.scheme in ("https", "mailto") or address.startswith("#"):
                continue
            elif parts.scheme or address.startswith("/"):
                yield n, f"{address}: use https or a relative link"
            elif not (page.path.resolve().parent / unquote(parts.path)).exists():
                yield n, f"{address}: no such file"


@rule("image-alt")
def image_alt(page: Page) -> Iterator[Fault]:
    """A picture in a Markdown cell has alt text."""
    for n, cell in page.markdown:
        text = prose(cell.source)
        for match in _INLINE_LINK.finditer(text):
            if match[1] and not match[2].strip():
                yield n, f"picture {match[3]} has no alt text"
        for image in _HTML_IMAGE.findall(text):
            if not re.search(r"\balt\s*=\s*[\"'][^\"']+", image):
                yield n, "an <img> has no alt text"


@rule("details")
def details(page: Page) -> Iterator[Fault]:
    """<details> is closed in its own cell, starts with a <summary>, and has blank lines around its Markdown, without which it shows as raw text."""
    for n, cell in page.markdown:
        text = prose(cell.source)
        if len(re.findall(r"<details\b", text)) != len(re.findall(r"</details>", text)):
            yield n, "<details> and </details> do not pair"
        if len(re.findall(r"<details\b", text)) != len(re.findall(r"<details\b[^>]*>\s*<summary>.+?</summary>", text, re.DOTALL)):
            yield n, "<details> needs a <summary> first"
        lines = [line.strip() for line in text.split("\n")] + [""]
        for above, below in zip(lines, lines[1:]):
            if (above.endswith("</summary>") and below) or (below == "</details>" and above):
                yield n, "leave a blank line after </summary> and before </details>"
                break
