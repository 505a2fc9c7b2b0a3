"""The built site: links, headings, alternative texts, tags, nothing from another host, size, and what stands on which page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import html_checks as checks
import pytest
from bs4 import BeautifulSoup

from course import browser, notebooks, status
from course.serve import serving
from course.site_weight import first_view, folder_bytes
from course.sphinx import repository_slug

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
MAX_MB = 25
MAX_FIRST_VIEW_KB = 650  # of the longest chapter; a bare page of the theme, as it comes, is 1,185


def built_pages() -> list[Path]:
    return sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)


PAGES = built_pages()


def named(pages: list[Path]) -> list:
    return [pytest.param(page, id=page.relative_to(SITE).as_posix()) for page in pages]


@pytest.fixture(autouse=True, scope="module")
def _built() -> None:
    if not PAGES:
        pytest.fail("_build/html holds no page: run `make book` first", pytrace=False)


def test_every_notebook_has_its_page() -> None:
    expected = {path.relative_to(ROOT).with_suffix(".html").as_posix() for path in notebooks.find(root=ROOT)}
    assert expected <= {page.relative_to(SITE).as_posix() for page in PAGES}


@pytest.fixture(scope="module")
def parsed() -> dict[Path, BeautifulSoup]:
    return {page: checks.soup(page) for page in PAGES}


# The start page only redirects; the search page gets its heading and results from a script.
CONTENT = [page for page in PAGES if page.relative_to(SITE).as_posix() != "index.html"]


@pytest.mark.parametrize("page", named(PAGES))
def test_every_link_and_anchor_leads_somewhere(page: Path, parsed: dict[Path, BeautifulSoup]) -> None:
    assert checks.broken_links(page, SITE.resolve(), parsed) == []


@pytest.mark.parametrize("page", named(CONTENT))
def test_one_h1_and_alternative_texts(page: Path, parsed: dict[Path, BeautifulSoup]) -> None:
    assert checks.headings(parsed[page]) + checks.alt_texts(parsed[page]) == []


@pytest.mark.parametrize("page", named(CONTENT))
def test_tags_are_balanced(page: Path) -> None:
    assert checks.unbalanced(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", named(PAGES))
def test_nothing_comes_from_another_host(page: Path, parsed: dict[Path, BeautifulSoup]) -> None:
    assert checks.foreign_requests(parsed[page]) == []


def test_no_style_sheet_asks_another_host() -> None:
    sheets = list(SITE.rglob("*.css"))
    assert sheets
    assert [f"{sheet.name}: {line}" for sheet in sheets for line in checks.foreign_in_style(sheet.read_text(encoding="utf-8"))] == []


def test_size(capsys: pytest.CaptureFixture[str]) -> None:
    size = folder_bytes(SITE)
    with capsys.disabled():
        print(f"\nsite: {size / 1e6:.1f} MB in {len(PAGES)} pages")
    assert size <= MAX_MB * 1e6


def test_first_view_of_the_chapters(capsys: pytest.CaptureFixture[str]) -> None:
    if browser.find() is None:
        pytest.fail(browser.HOW, pytrace=False)
    for page in sorted((SITE / "chapters").glob("*.html")):
        view = first_view(page.relative_to(SITE).as_posix(), SITE)
        with capsys.disabled():
            print(f"\n{view.page}: {view.kilobytes:.0f} kB sent for its first view, in {len(view.sent)} requests")
        assert any("mathjax" in path for path in view.sent) and view.kilobytes <= MAX_FIRST_VIEW_KB, view


@pytest.mark.parametrize("page", named(CONTENT))
def test_one_search_field_one_icon_and_who_may_index(page: Path, parsed: dict[Path, BeautifulSoup]) -> None:
    tree, name = parsed[page], page.relative_to(SITE).as_posix()
    assert len(tree.select("form.bd-search")) == (2 if name == "search.html" else 1)  # the search page has its own in the text
    assert len(tree.select('link[rel~="icon"][href$=".svg"]')) == 1
    robots = [meta["content"] for meta in tree.find_all("meta", attrs={"name": "robots"})]
    assert ("noindex" in robots) == name.startswith("solutions/"), name


def test_colab_button_on_lab_pages_only(parsed: dict[Path, BeautifulSoup]) -> None:
    slug = repository_slug(ROOT)
    for page, tree in parsed.items():
        buttons = [a["href"] for a in tree.find_all("a", href=True) if "colab.research.google.com" in a["href"]]
        name = page.relative_to(SITE).with_suffix("").as_posix()
        expected = [f"https://colab.research.google.com/github/{slug}/blob/main/{name}.ipynb"] if slug and name.startswith("labs/") else []
        assert buttons == expected, name
        if buttons:
            assert (ROOT / f"{name}.ipynb").is_file()


def test_each_page_links_to_a_report_that_names_it(parsed: dict[Path, BeautifulSoup]) -> None:
    slug = repository_slug(ROOT)
    for page in notebooks.find(root=ROOT):
        name = page.relative_to(ROOT).with_suffix("").as_posix()
        links = parsed[SITE / f"{name}.html"].select("p.report a")
        assert [name.replace("/", "%2F") in link["href"] or name in link["href"] for link in links] == ([True] if slug else []), name


def test_solutions_are_not_in_the_search() -> None:
    index = (SITE / "searchindex.js").read_text(encoding="utf-8")
    names = json.loads(re.search(r'"?docnames"?:\s*(\[[^\]]*\])', index)[1])
    assert any(name.startswith("chapters/") for name in names)
    assert not [name for name in names if name.startswith("solutions/")]


def test_a_solution_is_linked_from_its_lab_only_and_behind_a_click(parsed: dict[Path, BeautifulSoup]) -> None:
    for page, tree in parsed.items():
        name = page.relative_to(SITE).as_posix()
        links = [a for a in tree.find_all("a", href=True) if "solutions/" in a["href"] and not name.startswith("solutions/")]
        if not name.startswith("labs/"):
            assert links == [], name
            continue
        assert links, f"{name} has no link to its solution"
        assert all(a.find_parent("details") and "open" not in a.find_parent("details").attrs for a in links), name


def test_status_page_counts_the_cells(parsed: dict[Path, BeautifulSoup]) -> None:
    text = parsed[SITE / "appendices" / "status.html"].get_text(" ", strip=True)
    cells = [status.count_cells(path, ROOT) for path in notebooks.find(root=ROOT)]
    assert f"{sum(c.total for c in cells)} code cells in {len(cells)} notebooks" in text
    assert "{{ status }}" not in text
    for exempt in [e for c in cells for e in c.exempt]:
        words = re.findall(r"\w+", exempt.reason)  # the page sets quotes and code in its own way
        assert words and " ".join(words) in " ".join(re.findall(r"\w+", text))


def test_the_server_compresses_and_counts() -> None:
    import gzip
    from urllib.request import Request, urlopen

    with serving(SITE) as served:
        with urlopen(Request(served.url + "intro.html", headers={"Accept-Encoding": "gzip"})) as answer:
            body = answer.read()
        assert gzip.decompress(body) == (SITE / "intro.html").read_bytes()
        assert served.sent == {"/intro.html": len(body)}
        with urlopen(served.url + "intro.html") as answer:
            assert answer.read() == (SITE / "intro.html").read_bytes()


@pytest.mark.parametrize(("arguments", "said"), [(["--port", "-1"], "-1"), (["--port", "x"], "x")])
def test_a_bad_port_is_one_clear_line(arguments: list[str], said: str) -> None:
    done = subprocess.run([sys.executable, "-m", "course.serve", "--no-open", *arguments], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode != 0 and said in done.stderr and "Traceback" not in done.stderr
