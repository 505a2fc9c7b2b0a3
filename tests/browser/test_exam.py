"""The exam in a browser: what a number draws, grading at the end, points for each chapter, what is kept, keyboard, narrow and dark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

import drive
from course.practice import exam_html
from course.practice.assemble import bare_page
from course.practice.chapters import chapters
from course.quiz.schema import Question

MEASURE = (Path(__file__).parent / "pages.js").read_text(encoding="utf-8")
PAPER = "([seed, size]) => document.querySelector('form.exam').paper(seed, size)"
BANK: list[Question] = [question for chapter in chapters() for question in chapter.questions]
BY_ID = {f"q-{question.stem}-{question.id}": question for question in BANK}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("exam") / "exam.html"
    path.write_text(bare_page("Exam", exam_html(links=False)), encoding="utf-8")
    return path.as_uri()


def _start(page: Page, seed: int, size: int) -> list[Question]:
    page.locator("#exam-size").select_option(str(size))
    page.locator("#exam-seed").fill(str(seed))
    page.locator(".exam-start").click()
    return [BY_ID[name] for name in page.locator(".exam-paper fieldset").evaluate_all("all => all.map(box => box.id)")]


def _fill(page: Page, question: Question, answer: drive.Answer) -> None:
    chosen, text = answer
    place = drive.box(page, question)
    if question.kind in ("numeric", "free"):
        place.locator("input[type=text], textarea").fill(text)
    else:
        for index in chosen:
            place.locator(".quiz-option").nth(index).click()


def _title(page: Page) -> str:
    return page.locator(".exam-result h2").inner_text()


@pytest.mark.parametrize("size", [10, 20, 40, 60])
def test_a_number_draws_chapters_and_kinds_in_turn(watch, address: str, size: int) -> None:
    page = watch().page(address)
    papers = [page.evaluate(PAPER, [seed, size]) for seed in range(40)]
    assert papers == [page.evaluate(PAPER, [seed, size]) for seed in range(40)]
    assert len({tuple(paper) for paper in papers}) == 40
    for paper in papers:
        asked = [BANK[index] for index in paper]
        assert len(set(paper)) == size
        stems, kinds = Counter(q.stem for q in asked), Counter(q.kind for q in asked)
        assert len(stems) == min(size, len(chapters())) and max(stems.values()) - min(stems.values()) <= 1
        assert kinds["numeric"] >= 0.2 * size and kinds["single"] >= 0.2 * size and len(kinds) >= (4 if size >= 20 else 3), kinds
    drawn = Counter(index for paper in papers for index in paper)
    assert len(drawn) > min(len(BANK), 40 * size) * 0.6, "some questions are hardly ever drawn"


def test_all_right_then_points_by_chapter_and_nothing_before_the_end(watch, address: str) -> None:
    seen = watch()
    page = seen.page(address)
    asked = _start(page, 12, 20)
    assert len(asked) == 20 and page.locator(".quiz-check:visible").count() == 0
    assert page.locator(".exam-paper details:visible").count() == 0
    for question in asked:
        _fill(page, question, drive.right_answer(question))
    assert page.locator(".exam-progress").inner_text() == "20 of 20 answered."
    assert page.locator(".exam-paper [data-state]").count() == 0
    page.locator(".exam-finish").click()
    free = [question for question in asked if question.kind == "free"]
    assert free and _title(page).startswith(f"Exam 12: {20 - len(free)} of 20 points")
    for question in free:
        for tick in drive.box(page, question).locator(".quiz-rubric input").all():
            tick.check()
    assert _title(page) == "Exam 12: 20 of 20 points, 100 %"
    rows = page.locator(".exam-result tbody tr").all_inner_texts()
    stems = Counter(question.stem for question in asked)
    assert [row.split("\t")[1] for row in rows] == [f"{stems[c.stem]} of {stems[c.stem]}" for c in chapters() if c.stem in stems]
    kept = page.evaluate("JSON.parse(localStorage.getItem('llm-inference-measured/exam/1/results'))")
    assert [(entry["seed"], entry["asked"], entry["points"]) for entry in kept] == [(12, 20, 20)]
    assert not seen.errors, seen.errors


def test_wrong_and_missing_answers_have_verdict_feedback_and_answer(watch, address: str) -> None:
    page = watch().page(address)
    asked = _start(page, 5, 40)
    given = {}
    for number, question in enumerate(asked):
        wrong = drive.wrong_answers(question)
        if question.kind != "free" and number % 3 and wrong:
            given[question.id] = wrong[0]
            _fill(page, question, wrong[0])
    page.locator(".exam-finish").click()
    for question in asked:
        if question.kind == "free":
            assert "No answer" in drive.result(page, question)
            continue
        assert drive.state(page, question) == "wrong"
        assert drive.result(page, question).startswith("Not right.")
        if question.id not in given:
            assert "No answer." in drive.result(page, question)
        elif question.kind == "single":
            place = drive.box(page, question)
            shown = place.locator(f'[data-feedback="{given[question.id][0][0]}"] .quiz-why').text_content()
            assert "".join(shown.split()) in "".join(place.locator(".quiz-result").text_content().split())
        drive.box(page, question).locator("summary").first.click()
        assert drive.box(page, question).locator("details[open] p, details[open] li").first.is_visible()
    assert _title(page) == "Exam 5: 0 of 40 points, 0 %"


def test_an_open_exam_survives_a_reload_and_a_finished_one_is_closed(watch, address: str) -> None:
    page = watch().page(address)
    asked = _start(page, 77, 10)
    for question in asked[:4]:
        _fill(page, question, drive.right_answer(question))
    page.reload()
    assert page.locator(".exam-progress").inner_text() == "4 of 10 answered."
    assert "goes on where you left it" in page.locator(".exam-say").inner_text()
    page.locator(".exam-finish").click()
    page.reload()
    assert page.locator(".exam-paper fieldset").count() == 0
    assert len(page.evaluate("JSON.parse(localStorage.getItem('llm-inference-measured/exam/1/results'))")) == 1


@pytest.mark.parametrize("stored", ["{", "7", '{"seed": 1}', '{"seed": 3, "size": 10, "answers": 5}', '{"seed": 3, "size": 11, "answers": {}}'])
def test_damaged_storage_does_no_harm(watch, address: str, stored: str) -> None:
    seen = watch()
    page = seen.page(address)
    page.evaluate("text => { for (const name of ['open', 'results']) localStorage.setItem('llm-inference-measured/exam/1/' + name, text); }", stored)
    page.reload()
    _start(page, 3, 10)
    page.locator(".exam-finish").click()
    assert _title(page).startswith("Exam 3: 0 of 10")
    assert not seen.errors, seen.errors


def test_a_number_that_is_none_and_no_storage(watch, address: str) -> None:
    seen = watch()
    seen.context.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('refused'); }})")
    page = seen.page(address)
    page.locator("#exam-seed").fill("seven")
    page.locator(".exam-start").click()
    assert "“seven” is not a number of an exam" in page.locator(".exam-say").inner_text()
    assert "cannot keep your exam" in page.locator(".exam .quiz-note").inner_text()
    _start(page, 7, 10)
    page.locator(".exam-finish").click()
    assert _title(page).startswith("Exam 7: ") and not seen.errors, seen.errors


def test_by_keyboard_alone(watch, address: str) -> None:
    page = watch().page(address)
    page.locator("#exam-size").select_option("10")
    page.locator("#exam-seed").fill("21")
    page.keyboard.press("Enter")
    asked = [BY_ID[name] for name in page.locator(".exam-paper fieldset").evaluate_all("all => all.map(box => box.id)")]
    reached: set[str] = set()
    for _ in range(120):
        where = page.evaluate("(() => { const n = document.activeElement; return [n.closest('fieldset') ? n.closest('fieldset').id : n.className, n.type]; })()")
        if where[0] == "exam-finish":
            break
        reached.add(where[0])
        page.keyboard.press("Space" if where[1] in ("radio", "checkbox") else "5")
        page.keyboard.press("Tab")
    assert reached == {f"q-{q.stem}-{q.id}" for q in asked}
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.className").endswith("exam-result")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_narrow_and_clean(watch, address: str, scheme: str) -> None:
    page = watch(color_scheme=scheme, viewport={"width": 360, "height": 740}).page(address)
    page.evaluate(MEASURE)
    for seed in (1, 2):
        asked = _start(page, seed, 40)
        for number, question in enumerate(asked):
            wrong = drive.wrong_answers(question)
            _fill(page, question, wrong[0] if wrong and number % 2 else drive.right_answer(question)) if question.kind != "free" else None
        page.locator(".exam-finish").click()
        page.evaluate("document.querySelectorAll('.exam-paper details').forEach(more => { more.open = true; })")
        assert page.evaluate("measure.overflow()") is None
        found = page.evaluate("measure.faint('form.exam', 4.5)")
        assert found["measured"] > 400 and not found["faults"], found
        faults = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        assert not [fault for fault in faults if fault["impact"] in ("serious", "critical")], faults
