"""The Sphinx extension's own functions."""

from __future__ import annotations

import datetime
import json
import subprocess
from pathlib import Path

import pytest

from course import hardware_table, site_assets, sphinx, status
from tinyserve import hardware


@pytest.mark.parametrize(
    ("remote", "slug"),
    [
        ("https://github.com/someone/a-book.git", "someone/a-book"),
        ("https://github.com/someone/a-book", "someone/a-book"),
        ("https://user:secret@github.com/someone/a-book.git\n", "someone/a-book"),
        ("git@github.com:someone/a-book.git", "someone/a-book"),
        ("ssh://git@github.com:22/someone/a.book.git", "someone/a.book"),
        ("https://example.org/someone/a-book.git", None),
        ("git@example.org:someone/a-book.git", None),
        ("/srv/git/a-book.git", None),
        ("https://github.com/someone", None),
        ("https://github.com.example.org/someone/a-book", None),
        ("", None),
    ],
)
def test_slug_of_remote(remote: str, slug: str | None) -> None:
    assert sphinx.slug_of_remote(remote) == slug


def test_slug_from_the_environment_wins(tmp_path: Path) -> None:
    assert sphinx.repository_slug(tmp_path, {"GITHUB_REPOSITORY": "a/b"}) == "a/b"
    with pytest.raises(ValueError, match="'no-slash' is not owner/name"):
        sphinx.repository_slug(tmp_path, {"GITHUB_REPOSITORY": "no-slash"})


def test_slug_from_git_or_none(tmp_path: Path) -> None:
    assert sphinx.repository_slug(tmp_path, {}) is None
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert sphinx.repository_slug(tmp_path, {}) is None
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", "git@github.com:a/b.git"], check=True)
    assert sphinx.repository_slug(tmp_path, {}) == "a/b"


def test_colab_url(tmp_path: Path) -> None:
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs" / "01_x.ipynb").write_text("{}", encoding="utf-8")
    assert sphinx.colab_url("a/b", "labs/01_x", tmp_path) == "https://colab.research.google.com/github/a/b/blob/main/labs/01_x.ipynb"
    assert sphinx.colab_url("a/b", "chapters/01_x", tmp_path) is None
    assert sphinx.colab_url("a/b", "solutions/01_x", tmp_path) is None
    with pytest.raises(FileNotFoundError, match="labs/02_y.ipynb"):
        sphinx.colab_url("a/b", "labs/02_y", tmp_path)


def test_report_url_names_the_page() -> None:
    assert "title=Error%20on%20labs/01_x" in sphinx.report_url("a/b", "labs/01_x")


def test_unused_scripts_go_and_others_stay() -> None:
    page = (
        '<link rel="stylesheet" href="course.css"/>\n<link rel="stylesheet" href="_static/togglebutton.css?v=1"/>\n'
        '<link rel="preload" as="script" href="scripts/bootstrap.js"/>\n<script src="scripts/fontawesome.js?digest=1"></script>\n'
        '<script src="scripts/bootstrap.js"></script>\n<script>var thebe_selector = ".x"</script>\n<script>say("fontawesome.js is a file")</script>\n'
    )
    assert site_assets.without_unused_scripts(page) == (
        '<link rel="stylesheet" href="course.css"/>\n<script src="scripts/bootstrap.js"></script>\n<script>say("fontawesome.js is a file")</script>\n'
    )


def test_the_title_for_paper_is_no_second_h1() -> None:
    page = '<div id="jb-print-docs-body" class="onlyprint">\n    <h1>Title</h1></div><article><h1>Title</h1></article>'
    assert site_assets.with_one_h1(page) == page.replace("<h1>Title</h1></div>", '<p class="print-title">Title</p></div>')


def test_icon_codes() -> None:
    style = '.fa-list:before,.fa-list-squares:before{content:"\\f03a"}.fa-sun:before{content:"\\f185"}'
    assert site_assets.icon_codes(style, {"fa-list-squares"}) == {0xF03A}
    assert site_assets.icon_codes(style, {"fa-none"}) == set()


def test_mathjax_parts_exist() -> None:
    assert all((site_assets.mathjax_folder() / part).exists() for part in site_assets._MATHJAX_PARTS)


def test_status_counts_and_lists_exempt_cells(tmp_path: Path) -> None:
    def cell(source: str, **metadata: object) -> dict:
        return {"cell_type": "code", "execution_count": 1, "id": f"c{abs(hash(source))}", "metadata": metadata, "outputs": [], "source": source}

    cells = [cell("1 + 1"), cell("timed()", tags=["nbval-ignore-output"], reason="a timing | of\nthis run"), cell(""), cell("x = 1", tags=["serial"])]
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters" / "01_x.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
    (tmp_path / "requirements-site.txt").write_text("-c constraints.txt\npkg==1.2  # why\n", encoding="utf-8")
    (tmp_path / "requirements.txt").write_text("-r requirements-site.txt\nother==3\n", encoding="utf-8")
    text = status.markdown(tmp_path, datetime.date(2026, 1, 2))
    assert "3 code cells in 1 notebook. The tests run all of them and compare the output of 2." in text
    assert "| `chapters/01_x.ipynb` | 2 | `nbval-ignore-output` | a timing \\| of this run |" in text
    assert "| pkg | 1.2 |" in text and "| other | 3 |" in text and "2026-01-02" in text


def test_hardware_table_has_a_row_and_a_source_for_every_card() -> None:
    text = hardware_table.markdown()
    for card in hardware.ACCELERATORS.values():
        assert text.count(f"| {card.name} |") == 2 and card.source in text
    assert "| A100-80 SXM | 312 | – | 2.04 | 80 | 79.2 | 85.0 | 600 | 153 |" in text
    assert "| T4 | 65 | – | 0.32 | 16 | 14.6 | 15.7 | 32 | 203 |" in text


def test_notebooks_for_download_have_no_outputs_and_all_their_source(tmp_path: Path) -> None:
    path = tmp_path / "_sources" / "labs" / "01.ipynb"
    path.parent.mkdir(parents=True)
    text = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["Text: 注意"]}
    code = {"cell_type": "code", "id": "b", "metadata": {"tags": ["x"]}, "source": ["1 + 1"], "execution_count": 3, "outputs": [{"output_type": "stream"}]}
    notebook = {"cells": [text, code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook), encoding="utf-8")
    site_assets.without_outputs(tmp_path)
    code |= {"execution_count": None, "outputs": []}
    assert json.loads(path.read_text(encoding="utf-8")) == notebook
