"""The built chapters: the first use of each term of the glossary, and only that, is a link to its entry."""

from __future__ import annotations

from pathlib import Path

import html_checks as checks
import pytest
from bs4 import BeautifulSoup, NavigableString, Tag

from course import glossary

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
CHAPTERS = sorted((SITE / "chapters").glob("*.html"))
SKIPPED = {"a", "code", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "script", "style", "summary", "caption", "button"}


@pytest.fixture(autouse=True, scope="module")
def _built() -> None:
    if not CHAPTERS:
        pytest.fail("_build/html holds no chapter: run `make book` first", pytrace=False)


def is_running_text(node: NavigableString, article: Tag) -> bool:
    for parent in node.parents:
        if parent is article:
            return True
        if parent.name in SKIPPED or {"math", "cell_output", "cell_input", "colab", "report"} & set(parent.get("class", [])):
            return False
    return False


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in CHAPTERS])
def test_each_term_is_linked_at_its_first_use(page: Path) -> None:
    article = checks.soup(page).find("article")
    missing = {entry.anchor: entry for entry in glossary.entries(ROOT)}
    seen = []
    for node in article.descendants:
        if isinstance(node, Tag) and node.name == "a" and "term" in node.get("class", []):
            address, _, anchor = node["href"].partition("#")
            assert address == "../appendices/glossary.html" and anchor in missing, f"{node['href']} is linked twice, or has no entry"
            assert missing.pop(anchor).pattern.fullmatch(node.get_text())
            assert not node.find_parent(list(SKIPPED)), node
            seen.append(anchor)
        elif type(node) is NavigableString and is_running_text(node, article):
            unlinked = [anchor for anchor, entry in missing.items() if entry.first_in(str(node))]
            assert unlinked == [], f"{str(node)[:200]!r} comes before any link to {unlinked}"
    assert len(seen) >= 10


def test_no_page_but_chapters_links_terms() -> None:
    others = [page for folder in ("labs", "appendices", "solutions") for page in (SITE / folder).glob("*.html")] + [SITE / "intro.html"]
    assert others and not [page.name for page in others if checks.soup(page).select("a.term")]


def test_every_entry_has_an_anchor() -> None:
    found = {span["id"] for span in checks.soup(SITE / "appendices" / "glossary.html").select("span[id^=term-]")}
    assert found == {entry.anchor for entry in glossary.entries(ROOT)}
