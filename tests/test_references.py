"""references.bib: whole, sorted, every paper that the book cites, and none that it does not."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest

from course import notebooks
from course.lint.text import PAPER_HOSTS, links

ROOT = Path(__file__).resolve().parents[1]
_ENTRY = re.compile(r"^@(?P<kind>\w+)\{(?P<key>[^,\s]+),\n(?P<body>.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(\w+)\s*=\s*\{(.*)\},?\s*$", re.MULTILINE)
_ARXIV_ID = re.compile(r"(?<![\d.])(?:arXiv[: ])?(\d{4}\.\d{5})(?:v\d+)?(?![\d.])")


def entries() -> dict[str, dict[str, str]]:
    text = (ROOT / "references.bib").read_text(encoding="utf-8")
    found = {m["key"]: dict(_FIELD.findall(m["body"])) for m in _ENTRY.finditer(text)}
    assert len(found) == text.count("\n@"), "an entry is written twice or cannot be read"
    return found


def cited() -> dict[str, str]:
    """address -> a page that links to it: notebooks, appendices, the start page, quizzes."""
    found: dict[str, str] = {}
    for path in notebooks.find():
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "markdown":
                found.update(dict.fromkeys(links(cell.source), path.name))
    for path in [*sorted((ROOT / "appendices").glob("*.md")), ROOT / "intro.md", ROOT / "README.md"]:
        found.update(dict.fromkeys(links(path.read_text(encoding="utf-8")), path.name))
    for path in sorted((ROOT / "quizzes").glob("*.yml")):
        found.update(dict.fromkeys(re.findall(r"https://[^\s)\"'>\]]+", path.read_text(encoding="utf-8")), path.name))
    return found


def code() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for folder in ("tinyserve", "course", "benchmarks", "training") for path in sorted((ROOT / folder).rglob("*.py")))


BIB, CITED, CODE = entries(), cited(), code()
URLS = {entry.get("url", ""): key for key, entry in BIB.items()}


@pytest.mark.parametrize("key", BIB)
def test_an_entry_is_whole(key: str) -> None:
    entry = BIB[key]
    assert {"author", "title", "year", "url"} <= set(entry), f"{key}: fields {sorted(entry)}"
    assert re.fullmatch(r"(19|20)\d\d", entry["year"]) and entry["url"].startswith("https://")
    if "arxiv.org" in entry["url"]:
        assert re.fullmatch(r"https://arxiv\.org/abs/\d{4}\.\d{4,5}(v\d+)?", entry["url"]), entry["url"]
        month = int(entry["url"].split("/")[-1][2:4])
        assert 1 <= month <= 12 and f"arXiv:{entry['url'].split('/')[-1]}" in entry.get("journal", "arXiv:" + entry["url"].split("/")[-1]), key


def test_entries_are_sorted_and_no_address_stands_twice() -> None:
    assert list(BIB) == sorted(BIB) and len(URLS) == len(BIB)


def test_every_paper_that_a_page_links_to_has_its_entry() -> None:
    papers = {address: page for address, page in CITED.items() if urlsplit(address).netloc.lower() in PAPER_HOSTS}
    assert {address: page for address, page in papers.items() if address not in URLS} == {}


def test_every_paper_that_the_code_names_has_its_entry() -> None:
    known = {address.split("/")[-1] for address in URLS}
    assert sorted(set(_ARXIV_ID.findall(CODE)) - known) == []


def test_every_entry_is_cited() -> None:
    named = set(_ARXIV_ID.findall(CODE))
    unused = [key for address, key in URLS.items() if address not in CITED and address.split("/")[-1] not in named and address not in CODE]
    assert unused == []
