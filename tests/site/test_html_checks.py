"""Each check of the built HTML finds the fault that it is there for."""

from __future__ import annotations

from pathlib import Path

import html_checks as checks
import pytest
from bs4 import BeautifulSoup

GOOD = (
    '<!doctype html><html lang="en"><head><title>t</title><link rel="stylesheet" href="a.css"></head><body><h1 id="top">One</h1>'
    '<p>text <a href="#top">up</a> <a href="other.html#there">other</a> <a href="https://example.org/x">away</a></p>'
    '<img src="a.png" alt="A falling line"></body></html>'
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name in ("a.css", "a.png"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "other.html").write_text('<!doctype html><h1>Other</h1><p id="there">x</p>', encoding="utf-8")
    return tmp_path.resolve()


def complaints(site: Path, text: str) -> list[str]:
    page = site / "page.html"
    page.write_text(text, encoding="utf-8")
    tree = checks.soup(page)
    return (
        checks.broken_links(page, site, {page: tree}) + checks.headings(tree) + checks.alt_texts(tree)
        + checks.unbalanced(text) + checks.foreign_requests(tree)
    )


def test_a_good_page_passes(site: Path) -> None:
    assert complaints(site, GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("other.html#there", "missing.html", "no file"),
        ("other.html#there", "../outside.html", "no file"),
        ("other.html#there", "other.html#nowhere", "no element has that id"),
        ('href="#top"', 'href="#bottom"', "no element has that id"),
        ('href="a.css"', 'href="b.css"', "no file"),
        ('src="a.png"', 'src="b.png"', "no file"),
        ("<p>text", "<h1>Two</h1><p>text", "2 h1"),
        ('<h1 id="top">One</h1>', '<p id="top">One</p>', "0 h1"),
        ('alt="A falling line"', 'alt=""', "without alternative text"),
        (' alt="A falling line"', "", "without alternative text"),
        ("A falling line", "../_images/3f0a.png", "file name"),
        ("text <a", "text <b><a", "end-tag"),
        ("</p><img", "</p></div><img", "end-tag"),
        ("<title>", '<script src="https://cdn.example/x.js"></script><title>', "<script"),
        ("<title>", '<script src="//cdn.example/x.js"></script><title>', "<script"),
        ('href="a.css"', 'href="https://cdn.example/x.css"', "<link"),
        ("<title>", '<link rel="preconnect" href="https://fonts.example"><title>', "preconnect"),
        ('src="a.png"', 'src="https://cdn.example/a.png"', "<img"),
        ("<title>", "<style>p { background: url('https://cdn.example/a.png') }</style><title>", "style sheet"),
        ("<p>text", '<p style="background: url(//cdn.example/a.png)">text', "style sheet"),
        ("<title>", "<style>@import 'https://cdn.example/a.css';</style><title>", "style sheet"),
        ("<p>text", '<iframe src="https://video.example"></iframe><p>text', "<iframe"),
    ],
)
def test_a_planted_fault_is_found(site: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    found = complaints(site, GOOD.replace(old, new, 1))
    assert any(said in line for line in found), found


def test_an_empty_page_is_not_a_pass() -> None:
    assert checks.headings(BeautifulSoup("", "html5lib"))
