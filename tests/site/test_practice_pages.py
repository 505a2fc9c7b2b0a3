"""Exam and score on the built site: filled in, and every address that their scripts know exists, sections too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import html_checks as checks
import pytest
from bs4 import BeautifulSoup

from course.quiz.schema import QUIZZES, load

SITE = Path(__file__).resolve().parents[2] / "_build" / "html"
BANK = [question for path in sorted(QUIZZES.glob("*.yml")) for question in load(path)]


@pytest.fixture(scope="module")
def pages() -> dict[str, BeautifulSoup]:
    found = {name: SITE / "appendices" / f"{name}.html" for name in ("exam", "score")}
    if not all(path.exists() for path in found.values()):
        pytest.fail("the site is not built: run `make book` first", pytrace=False)
    return {name: checks.soup(path) for name, path in found.items()}


def _data(tree: BeautifulSoup) -> dict:
    code = next(text for script in tree.select("form.practice script") if "const DATA" in (text := script.string or ""))
    return json.loads(re.search(r"^const DATA = (.*);$", code, re.MULTILINE)[1].replace("<\\/", "</"))


@pytest.mark.parametrize("name", ["exam", "score"])
def test_the_page_is_filled_and_says_what_happens_without_a_script(pages: dict[str, BeautifulSoup], name: str) -> None:
    assert "{{" not in pages[name].select_one("main article").get_text()
    assert pages[name].select_one(f"form.{name} noscript")


def test_the_exam_has_every_question_and_their_kinds(pages: dict[str, BeautifulSoup]) -> None:
    data = _data(pages["exam"])
    assert data["bank"] == [[question.stem, question.kind] for question in BANK]
    assert [box["data-digest"] for box in pages["exam"].select("template fieldset")] == [question.digest for question in BANK]


def test_the_score_knows_the_questions_as_the_pages_store_them(pages: dict[str, BeautifulSoup]) -> None:
    told = [(chapter["stem"], row[0], row[1], row[2]) for chapter in _data(pages["score"])["chapters"] for row in chapter["questions"]]
    assert told == [(q.stem, q.id, q.digest, len(q.rubric)) for q in BANK]


@pytest.mark.parametrize("name", ["exam", "score"])
def test_every_address_leads_to_a_page_and_its_section(pages: dict[str, BeautifulSoup], name: str) -> None:
    chapters = _data(pages[name])["chapters"]
    addresses = [chapter["url"] for chapter in chapters] + [row[4] for chapter in chapters for row in chapter.get("questions", [])]
    assert all(addresses), "a chapter or a section to reread has no address"
    ids: dict[str, set[str]] = {}
    lost = []
    for address in set(addresses):
        page, _, anchor = address.partition("#")
        path = (SITE / "appendices" / page).resolve()
        if not path.is_file():
            lost.append(address)
            continue
        known = ids.setdefault(page, set(re.findall(r'\bid="([^"]+)"', path.read_text(encoding="utf-8"))))
        if anchor and anchor not in known:
            lost.append(address)
    assert not lost, lost


def test_most_questions_name_a_section(pages: dict[str, BeautifulSoup]) -> None:
    rows = [row for chapter in _data(pages["score"])["chapters"] for row in chapter["questions"]]
    assert sum("#" in row[4] for row in rows) > 0.75 * len(rows)
