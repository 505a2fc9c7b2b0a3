"""Nothing of the source documents is missing: each statement's place in the book holds what the map says, and the errata keep their promises."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import coverage_map as cover
import pytest
from coverage_map import Row
from mdit_py_plugins.anchors.index import slugify

from course.lint import numbers
from course.lint.page import Page, output_texts

ROOT = Path(__file__).resolve().parents[1]
ERRORS = 25
_LINK = re.compile(r"\[(?P<words>[^\]]+)\]\(\.\./(?P<file>chapters/[\w.]+)#(?P<slug>[^)]+)\)")


def test_every_row_finds_what_it_names() -> None:
    assert list(cover.faults(cover.rows())) == []


def test_every_item_leads_to_its_owner_and_few_are_dropped() -> None:
    assert list(cover.gaps(cover.rows(), cover.owners())) == []
    assert len(cover.ITEMS) == 199 and set(cover.owners()) == set(cover.ITEMS)


def test_rows_are_sorted_and_stand_once() -> None:
    listed = cover.rows()
    assert [row.item for row in listed] == sorted((row.item for row in listed), key=cover.ITEMS.index)
    assert [row for row, count in Counter(listed).items() if count > 1] == []


def test_what_is_wrong_or_misleading_stands_in_the_errata() -> None:
    named = {item for entry in cover.errata().values() for item in entry.items}
    assert {item for item, verdict in cover.verdicts().items() if verdict in ("W", "ML")} - named == set()
    assert named <= set(cover.ITEMS)


def test_the_errata_are_numbered_and_whole() -> None:
    text = (ROOT / "appendices" / "errata.md").read_text(encoding="utf-8")
    entries = cover.errata()
    assert list(entries) == [f"E{n}" for n in range(1, len(entries) + 1)] and len(entries) == text.count("\n- **")
    for entry in entries.values():
        assert re.search(r"\*Says:\* .+ \*True:\* .+ \*Shown:\* .+\.", entry.text, re.DOTALL), entry.id
    assert len(re.findall(r"^- \*\*E", text.split("## Misleading")[0], re.MULTILINE)) == ERRORS


def shown(entry: cover.Erratum) -> list[tuple[Page, str]]:
    """(chapter, section) of every link of the entry. Fails where there is no such section."""
    found = []
    for link in _LINK.finditer(entry.text):
        page = Page.load(ROOT / link["file"])
        titles = {slugify(h.text): h.text for h in page.headings if h.level == 2}
        assert link["slug"] in titles, f"{entry.id}: {link['file']} has no section #{link['slug']}"
        number, title = re.fullmatch(r"chapter (\d+), \*(.+)\*", link["words"]).groups()
        assert link["file"].startswith(f"chapters/{int(number):02d}_") and title == titles[link["slug"]], f"{entry.id}: {link['words']} does not name what it links to"
        found.append((page, title))
    assert found, f"{entry.id} shows nothing"
    return found


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.id) for entry in cover.errata().values()])
def test_an_erratum_shows_its_numbers_where_it_says(entry: cover.Erratum) -> None:
    values: numbers.Printed = frozenset()
    for page, title in shown(entry):
        for _, cell in page.section(title):
            texts = [cell.source, *output_texts(cell)] if cell.cell_type == "code" else [numbers.plain(cell.source)]
            values = values.union(*(numbers.printed(text) for text in texts))
    true = entry.text.split("*True:*")[1].split("*Shown:*")[0]
    assert [n.text for n in numbers.numbers(true) if n.is_fact and not numbers.is_supported(n, values)] == []


# The map notices what it is there to notice.
ROW = next(row for row in cover.rows() if row.item == "S2-59" and row.kind == "printed")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"find": "343,597,383,680 B = 343.6 GB = 320 GiB"}, "is not there"),
        ({"section": "How many bytes?"}, "is not there"),
        ({"section": "No such section"}, "there is no such place"),
        ({"target": "99_nothing"}, "there is no such place"),
        ({"kind": "says"}, "is not there"),
        ({"kind": "nonsense"}, "no such kind"),
        ({"find": ""}, "say what must be found"),
        ({"kind": "dropped", "find": "no"}, "give the reason"),
        ({"kind": "errata", "target": "errata", "section": "E2", "find": "687.2"}, "there is no such place"),
        ({"kind": "errata", "target": "errata", "section": "E1", "find": "343.9"}, "is not there"),
        ({"kind": "quiz", "section": "interview-bytes", "find": "343.6 GB"}, "is not there"),
        ({"kind": "quiz", "section": "no-such-question"}, "there is no such place"),
        ({"kind": "page", "target": "no_such_page"}, "there is no such place"),
    ],
)
def test_a_wrong_row_is_a_fault(change: dict[str, str], said: str) -> None:
    assert list(cover.faults([ROW])) == []
    (fault,) = cover.faults([replace(ROW, **change)])
    assert said in fault


def test_a_gap_is_a_fault() -> None:
    listed, owned = cover.rows(), cover.owners()
    assert "S2-59: no row" in list(cover.gaps([row for row in listed if row.item != "S2-59"], owned))
    assert "S2-81: no such item" in list(cover.gaps([*listed, replace(ROW, item="S2-81")], owned))
    assert "S2-59: no row leads to its owner 07_gqa" in list(cover.gaps(listed, {**owned, "S2-59": "07_gqa"}))
    eleven = [Row(item, "dropped", "", "", "a reason that is long enough") for item in cover.ITEMS[:11]]
    assert any("11 items dropped, at most 10" in gap for gap in cover.gaps([*[row for row in listed if row.kind != "dropped"], *eleven], owned))
