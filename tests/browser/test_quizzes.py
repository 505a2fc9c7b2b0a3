"""Every question of every quiz, on the page that shows it: right and wrong, by mouse and by keyboard, kept and reset."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

import drive
from conftest import bare_page
from course.quiz.render import form_html
from course.quiz.schema import QUIZZES, Question, load


def _forms() -> list[tuple[str, str]]:
    """(stem, section) of every form there is, in the order of the files."""
    found = {(path.stem, q.section): None for path in sorted(QUIZZES.glob("*.yml")) for q in load(path)}
    return list(found)


def _questions(stem: str, section: str) -> list[Question]:
    return [question for question in load(QUIZZES / f"{stem}.yml") if question.section == section]


@pytest.fixture
def address(request: pytest.FixtureRequest, site: str, site_files: dict[str, Path], tmp_path: Path) -> str:
    """URL of the page that shows the form `request.param`.

    A lab's questions end the lab; where the built lab shows no outputs, they are tested on a page of their own.
    """
    stem, section = request.param
    mark = f'id="quiz-{stem}-{section}"'
    pages = [name for name, path in site_files.items() if mark in path.read_text(encoding="utf-8")]
    wanted = f"labs/{stem}.html" if section == "lab" else f"chapters/{stem}.html"
    if wanted in pages or section != "lab":
        assert wanted in pages, f"{wanted} does not show the questions of section {section}: {pages or 'no page does'}"
        return site + wanted
    path = tmp_path / "lab.html"
    path.write_text(bare_page("Lab", form_html(stem, section, _questions(stem, section))), encoding="utf-8")
    return path.as_uri()


every_form = pytest.mark.parametrize("address", _forms(), indirect=True, ids="-".join)


def _asked(page: Page, form: tuple[str, str]) -> list[Question]:
    questions = _questions(*form)
    shown = page.locator(f'[id="quiz-{form[0]}-{form[1]}"] .quiz-question').evaluate_all("all => all.map(b => [b.dataset.id, b.dataset.digest])")
    assert shown == [[q.id, q.digest] for q in questions], "the page shows other questions than the file: execute the notebook again"
    return questions


def _score(page: Page, form: tuple[str, str]) -> str:
    return page.locator(f'[id="quiz-{form[0]}-{form[1]}"] .quiz-score').inner_text()


def _answer_all(page: Page, form: tuple[str, str], answer) -> None:
    """Each question wrong in every way it knows, then right; all verdicts and feedback are the expected ones."""
    for question in _asked(page, form):
        for wrong in drive.wrong_answers(question):
            answer(page, question, wrong)
            assert drive.state(page, question) == ("part" if question.kind == "free" else "wrong"), (question.id, wrong)
            said = drive.result(page, question)
            assert said.startswith("Graded by you" if question.kind == "free" else "Not right."), (question.id, said)
            if question.kind in ("single", "multiple"):
                shown = drive.box(page, question).locator(f'[data-feedback="{wrong[0][0]}"] .quiz-why').text_content()
                assert re.sub(r"\s", "", shown) in re.sub(r"\s", "", drive.box(page, question).locator(".quiz-result").text_content())
        answer(page, question, drive.right_answer(question))
        assert drive.state(page, question) == "right", (question.id, drive.result(page, question))
    total = len(_questions(*form))
    assert _score(page, form) == f"{total} of {total} right."


@every_form
def test_by_mouse_then_reload_then_reset(watch, address: str, request: pytest.FixtureRequest) -> None:
    form = request.node.callspec.params["address"]
    seen = watch(viewport={"width": 1200, "height": 900})
    page = seen.page(address)
    _answer_all(page, form, drive.by_mouse)
    said = [drive.result(page, question) for question in _questions(*form)]
    page.reload()
    assert [drive.result(page, question) for question in _questions(*form)] == said, "a reload forgets"
    page.locator(f'[id="quiz-{form[0]}-{form[1]}"] .quiz-reset').click()
    total = len(said)
    for _ in range(2):  # once more after a reload: reset also clears what is stored
        assert _score(page, form) == f"0 of {total} right, {total} open."
        assert page.evaluate("Object.keys(localStorage).filter(key => key.includes('/quiz/'))") == []
        page.reload()
    assert not seen.errors, seen.errors


@every_form
def test_by_keyboard_alone(watch, address: str, request: pytest.FixtureRequest) -> None:
    form = request.node.callspec.params["address"]
    seen = watch(viewport={"width": 1200, "height": 900})
    page = seen.page(address)
    page.locator(f'[id="quiz-{form[0]}-{form[1]}"] input, [id="quiz-{form[0]}-{form[1]}"] textarea').first.focus()
    _answer_all(page, form, drive.by_keyboard)
    assert not seen.errors, seen.errors


@every_form
def test_answers_open_without_javascript(watch, address: str, request: pytest.FixtureRequest) -> None:
    form = request.node.callspec.params["address"]
    page = watch(java_script_enabled=False).page(address)
    place = page.locator(f'[id="quiz-{form[0]}-{form[1]}"]')
    assert place.locator("button:visible").count() == 0
    assert place.locator("noscript").first.is_visible()
    for answer in place.locator("details").all():
        answer.locator("summary").click()
        assert answer.locator("p, ul").first.is_visible()
