"""How the form behaves apart from its questions: storage, changed questions, hosts' themes, print, two copies."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import drive
from conftest import bare_page
from course.quiz.render import form_html
from course.quiz.schema import Question

MEASURE = (Path(__file__).parent / "pages.js").read_text(encoding="utf-8")


def test_a_changed_question_forgets_and_the_others_keep(watch, tmp_path: Path, demo_questions: list[Question]) -> None:
    questions = [question for question in demo_questions if question.section == "check"]
    path = tmp_path / "demo.html"
    path.write_text(bare_page("Demo", form_html("demo", "check", questions)), encoding="utf-8")
    page = watch().page(path.as_uri())
    for question in questions:
        drive.by_mouse(page, question, drive.right_answer(question))
    changed = [dataclasses.replace(questions[0], digest="0" * 12), *questions[1:]]
    path.write_text(bare_page("Demo", form_html("demo", "check", changed)), encoding="utf-8")
    page.reload()
    assert [drive.state(page, question) for question in changed] == [""] + ["right"] * 5
    kept = page.evaluate("Object.entries(localStorage).map(([key, value]) => [key, Object.keys(JSON.parse(value))])")
    assert len(kept) == 5
    assert all(key.startswith("llm-inference-measured/quiz/1/demo/") for key, _ in kept)
    assert all(names == ["answer", "state", "tries"] for _, names in kept)


@pytest.mark.parametrize("stored", ["{", "null", "7", '{"answer": 3}', '{"answer": {"text": 5, "ticked": "no"}}'])
def test_damaged_storage_does_no_harm(watch, demo: str, demo_questions: list[Question], stored: str) -> None:
    seen = watch()
    page = seen.page(demo)
    page.evaluate("([keys, text]) => keys.forEach(key => localStorage.setItem(key, text))",
                  [[f"llm-inference-measured/quiz/1/demo/{q.id}/{q.digest}" for q in demo_questions], stored])
    page.reload()
    for question in demo_questions:
        drive.by_mouse(page, question, drive.right_answer(question))
        assert drive.state(page, question) == "right"
    assert not seen.errors, seen.errors


def test_without_storage_the_form_works_and_says_so(watch, demo: str, demo_questions: list[Question]) -> None:
    seen = watch()
    seen.context.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('refused'); }})")
    page = seen.page(demo)
    assert "cannot keep your answers" in page.locator(".quiz-note").first.inner_text()
    drive.by_mouse(page, demo_questions[0], drive.right_answer(demo_questions[0]))
    assert drive.state(page, demo_questions[0]) == "right"
    page.locator(".quiz-reset").first.click()
    assert drive.state(page, demo_questions[0]) == ""
    assert not seen.errors, seen.errors


def test_with_storage_nothing_is_said(watch, demo: str) -> None:
    assert watch().page(demo).locator(".quiz-note:visible").count() == 0


def test_nothing_chosen_asks_for_a_choice(watch, demo: str, demo_questions: list[Question]) -> None:
    page = watch().page(demo)
    for question, says in zip(demo_questions[:2], ("Choose an option first.", "Tick at least one option first."), strict=True):
        drive.by_mouse(page, question, ((), ""))
        assert drive.result(page, question) == says
    assert page.locator(".quiz-score").first.inner_text() == "0 of 6 right, 6 open."


def test_rubbish_in_one_field_loses_nothing_elsewhere(watch, demo: str, demo_questions: list[Question]) -> None:
    page = watch().page(demo)
    drive.by_mouse(page, demo_questions[0], drive.right_answer(demo_questions[0]))
    drive.by_mouse(page, demo_questions[2], ((), "rubbish"))
    assert drive.state(page, demo_questions[0]) == "right"
    assert drive.box(page, demo_questions[2]).locator("input").input_value() == "rubbish"
    page.reload()
    assert drive.state(page, demo_questions[0]) == "right"
    assert drive.box(page, demo_questions[2]).locator("input").input_value() == "rubbish"


def test_results_are_announced(watch, demo: str, demo_questions: list[Question]) -> None:
    page = watch().page(demo)
    live = drive.box(page, demo_questions[0]).locator(".quiz-result")
    assert (live.get_attribute("role"), live.get_attribute("aria-live")) == ("status", "polite")
    before = live.evaluate_handle("node => node")
    drive.by_mouse(page, demo_questions[0], drive.right_answer(demo_questions[0]))
    assert before.evaluate("node => node.isConnected && node.textContent.startsWith('Right.')")


@pytest.mark.parametrize(
    ("host", "scheme", "dark"),
    [
        ("", "light", False), ("", "dark", True),
        ("document.documentElement.dataset.theme = 'dark'", "light", True),
        ("document.documentElement.dataset.theme = 'light'", "dark", False),
        ("document.body.dataset.jpThemeLight = 'false'", "light", True),
        ("document.body.dataset.jpThemeLight = 'true'", "dark", False),
        ("document.documentElement.setAttribute('theme', 'dark')", "light", True),
    ],
)
def test_form_follows_its_host_and_stays_readable(watch, demo: str, demo_questions: list[Question], host: str, scheme: str, dark: bool) -> None:
    page = watch(color_scheme=scheme).page(demo)
    page.evaluate(f"() => {{ {host}; }}")
    page.evaluate(MEASURE)
    ground = page.locator("form.quiz").first.evaluate("node => getComputedStyle(node).backgroundColor")
    assert ground == ("rgb(22, 27, 34)" if dark else "rgb(255, 255, 255)")
    page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    for answers in (drive.right_answer, lambda q: (drive.wrong_answers(q) or [((), "rubbish")])[0]):
        for question in demo_questions:
            drive.by_mouse(page, question, answers(question))
        found = page.evaluate("measure.faint('form.quiz', 4.5)")
        assert found["measured"] > 60 and not found["faults"], found


def test_narrow_screen_does_not_scroll(watch, demo: str, demo_questions: list[Question]) -> None:
    page = watch(viewport={"width": 360, "height": 740}).page(demo)
    page.evaluate(MEASURE)
    page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    for question in demo_questions:
        drive.by_mouse(page, question, drive.right_answer(question))
    assert page.evaluate("measure.overflow()") is None


def test_print_shows_questions_dark_on_white_and_no_buttons(watch, demo: str, demo_questions: list[Question]) -> None:
    page = watch(color_scheme="dark").page(demo)
    page.evaluate("() => { document.documentElement.dataset.theme = 'dark'; }")
    page.evaluate(MEASURE)
    for question, answer in zip(demo_questions[:3], (drive.right_answer, drive.right_answer, lambda q: ((), "1 B")), strict=True):
        drive.by_mouse(page, question, answer(question))
    page.emulate_media(media="print")
    assert page.locator("form.quiz button:visible").count() == 0
    assert page.locator("form.quiz .quiz-option:visible").count() == 8
    assert page.locator("form.quiz").first.evaluate("node => getComputedStyle(node).backgroundColor") == "rgb(255, 255, 255)"
    found = page.evaluate("measure.faint('form.quiz', 4.5)")
    assert found["measured"] > 30 and not found["faults"], found


def test_a_cell_run_again_starts_its_new_form(watch, demo: str, demo_questions: list[Question]) -> None:
    """Jupyter replaces the output: a new copy of form and script, while the old script is already there."""
    page = watch().page(demo)
    page.evaluate("""() => { const form = document.querySelector("form.quiz"), host = form.parentElement;
      const html = window.original = form.outerHTML.replace(/ data-ready="true"/, "");
      form.remove(); host.insertAdjacentHTML("beforeend", html);
      const old = host.lastElementChild.querySelector("script"), fresh = document.createElement("script");
      fresh.textContent = old.textContent; old.replaceWith(fresh); }""")
    drive.by_mouse(page, demo_questions[0], drive.right_answer(demo_questions[0]))
    assert drive.state(page, demo_questions[0]) == "right"


def test_a_form_that_is_still_being_parsed_is_left_alone(watch, demo: str) -> None:
    """A parser may pause within a form, and another form's timer may fire just then."""
    seen = watch()
    page = seen.page(demo)
    ready = page.evaluate("""() => { const form = document.querySelector("form.quiz"), part = form.cloneNode(false);
      delete part.dataset.ready; part.append(form.querySelector(".quiz-question").cloneNode(true)); document.body.append(part);
      window[Object.keys(window).find((name) => name.startsWith("quizCell"))].start(); return "ready" in part.dataset; }""")
    assert not ready and not seen.errors
