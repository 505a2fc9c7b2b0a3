"""The score in a browser: what quizzes leave is added up, exported, imported, refused when damaged, drawn, printed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

import drive
from course.practice import score_html
from course.practice.assemble import bare_page
from course.practice.chapters import Chapter, reread_url
from course.quiz.render import form_html
from course.quiz.schema import Question, load

MEASURE = (Path(__file__).parent / "pages.js").read_text(encoding="utf-8")
SPACE = "llm-inference-measured/"
DEMO = Path(__file__).resolve().parents[1] / "data" / "demo.yml"


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return [question for question in load(DEMO) if question.section == "check"]


@pytest.fixture
def address(tmp_path: Path, questions: list[Question]) -> str:
    """A page with one quiz of six questions and the score of it."""
    chapter = Chapter("01_demo", "1. A chapter", "../chapters/01_demo.html", {"Norms": "norms"}, tuple(_renamed(questions)))
    other = Chapter("02_other", "2. Another chapter", "", {}, tuple(_renamed(questions, "02_other")[:2]))
    path = tmp_path / "score.html"
    path.write_text(bare_page("Score", form_html("01_demo", "check", _renamed(questions)) + score_html((chapter, other))), encoding="utf-8")
    return path.as_uri()


def _renamed(questions: list[Question], stem: str = "01_demo") -> list[Question]:
    return [dataclasses.replace(question, stem=stem) for question in questions]


def _total(page: Page) -> str:
    return page.locator(".score-total").inner_text()


def _say(page: Page) -> str:
    return page.locator(".score-say").inner_text()


def _rows(page: Page) -> list[list[str]]:
    return [row.split("\t") for row in page.locator(".score-rows tr").all_inner_texts()]


def _kept(page: Page) -> dict[str, str]:
    return page.evaluate("Object.fromEntries(Object.entries(localStorage))")


def _import(page: Page, text: str) -> None:
    page.locator("#score-file").set_input_files({"name": "mine.json", "mimeType": "application/json", "buffer": text.encode()})
    page.wait_for_function("document.querySelector('.score-say').textContent !== ''")


def _answer(page: Page, questions: list[Question]) -> None:
    """Two right, two wrong (the third right at the second try), the free one in part."""
    asked = _renamed(questions)
    for question, answer in zip(asked, [drive.right_answer(asked[0]), drive.wrong_answers(asked[1])[0], drive.right_answer(asked[2]),
                                        drive.wrong_answers(asked[3])[0]], strict=False):
        if question is asked[2]:
            drive.by_mouse(page, question, drive.wrong_answers(question)[0])
        drive.by_mouse(page, question, answer)
    drive.by_mouse(page, asked[5], drive.wrong_answers(asked[5])[0])
    page.reload()


def test_answers_are_added_up_by_chapter(watch, address: str, questions: list[Question]) -> None:
    seen = watch()
    page = seen.page(address)
    assert _total(page) == "Nothing answered yet of 8 questions in 2 chapters."
    assert "Nothing yet" in page.locator(".score-reread").inner_text()
    _answer(page, questions)
    points = 2 + 1 / len(questions[5].rubric)
    assert _total(page) == (f"{points:.2f}".rstrip("0").rstrip(".") + f" of 8 points, {round(100 * points / 8)} %. "
                            "5 answered: 2 right, of these 1 at the first try; 1 in part, 2 wrong.")
    assert _rows(page) == [["1. A chapter", "2", "1", "2", "1", f"{round(100 * points / 6)} %"], ["2. Another chapter", "0", "0", "0", "2", "–"]]
    assert page.locator(".score-figure rect").evaluate_all("all => all.map(bar => bar.getAttribute('class'))") == [
        "bar-right", "bar-part", "bar-wrong", "bar-open", "bar-open"]
    widths = page.locator(".score-figure rect").evaluate_all("all => all.map(bar => Number(bar.getAttribute('width')))")
    assert widths[0] == pytest.approx(2 * widths[1]) and widths[0] == pytest.approx(widths[2]) and sum(widths[:4]) == pytest.approx(widths[4])
    assert page.locator(".score-reread h3 a").get_attribute("href") == "../chapters/01_demo.html"
    assert not seen.errors, seen.errors


def test_reread_links_lead_to_the_section(questions: list[Question]) -> None:
    known = (Chapter("01_demo", "1. A", "../chapters/01_demo.html", {"Norms": "norms"}), Chapter("06_kv", "6. B", "../chapters/06_kv.html", {"The x": "the-x"}))
    asked = dataclasses.replace(questions[0], stem="01_demo", reread="Norms")
    assert reread_url(asked, known) == "../chapters/01_demo.html#norms"
    assert reread_url(dataclasses.replace(asked, reread="Chapter 6, The `x`"), known) == "../chapters/06_kv.html#the-x"
    assert reread_url(dataclasses.replace(asked, reread="Chapter 9, The x"), known) == ""
    assert reread_url(dataclasses.replace(asked, reread=""), known) == "../chapters/01_demo.html"


def test_export_and_import_on_another_browser(watch, address: str, questions: list[Question]) -> None:
    page = watch().page(address)
    _answer(page, questions)
    page.evaluate("localStorage.setItem('llm-inference-measured/drills/1/kv', '{\"tried\":3,\"right\":2}')")
    with page.expect_download() as download:
        page.locator(".score-export").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert download.value.suggested_filename == "score.json" and _say(page).startswith("Exported. 6 entries")
    told, said = _total(page), json.loads(text)
    assert (said["format"], said["version"], len(said["entries"])) == ("llm-inference-measured/score", 1, 6)
    there = watch().page(address)
    _import(there, text)
    assert _say(there) == "Imported. 6 entries added, 0 improved, 0 kept as they were here."
    assert _total(there) == told and "2 of 3 right" in there.locator(".score-more").inner_text()
    there.reload()
    assert _total(there) == told
    _import(there, text)
    assert _say(there) == "Imported. 0 entries added, 0 improved, 6 kept as they were here."


def test_the_better_answer_stays_and_changed_questions_are_left_out(watch, address: str, questions: list[Question]) -> None:
    page = watch().page(address)
    _answer(page, questions)
    keys = [f"quiz/1/01_demo/{q.id}/{q.digest}" for q in questions]
    entry = {"answer": {"text": "x", "ticked": [0]}, "state": "wrong", "tries": 1}
    entries = {keys[0]: entry, keys[1]: entry | {"state": "right"}, keys[4]: entry, "quiz/1/01_demo/gone/0123456789ab": entry}
    _import(page, json.dumps({"format": "llm-inference-measured/score", "version": 1, "entries": entries}))
    assert _say(page) == "Imported. 1 entries added, 1 improved, 1 kept as they were here. 1 belong to questions that have changed since, and were left out."
    assert _rows(page)[0][1:5] == ["3", "1", "2", "0"]


GOOD = {"answer": {"text": "", "ticked": []}, "state": "right", "tries": 1}
BAD = {
    "no JSON": ("{", "this is not JSON, or the file is cut off"),
    "a list": ("[]", "not a score of this book"),
    "another file": ('{"format": "x", "version": 1, "entries": {}}', "not a score of this book"),
    "a later version": ('{"format": "llm-inference-measured/score", "version": 2, "entries": {}}', "its version is 2"),
    "no entries": ('{"format": "llm-inference-measured/score", "version": 1}', "it has no “entries”"),
    "a strange key": ({"theme": GOOD}, "“theme” is not an entry of a score"),
    "a key outside": ({"quiz/1/../x/0123456789ab": GOOD}, "is not an entry of a score"),
    "a state that is none": ({"quiz/1/01_demo/a/0123456789ab": GOOD | {"state": "perfect"}}, "is damaged"),
    "ticks that are text": ({"quiz/1/01_demo/a/0123456789ab": GOOD | {"answer": {"text": "", "ticked": "no"}}}, "is damaged"),
    "more right than tried": ({"drills/1/kv": {"tried": 1, "right": 2}}, "is damaged"),
    "an exam without points": ({"exam/1/results": [{"seed": 1}]}, "is damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_file_is_told_and_changes_nothing(watch, address: str, questions: list[Question], name: str) -> None:
    seen = watch()
    page = seen.page(address)
    _answer(page, questions)
    before, told = _kept(page), _total(page)
    content, rule = BAD[name]
    text = content if isinstance(content, str) else json.dumps(
        {"format": "llm-inference-measured/score", "version": 1, "entries": {f"quiz/1/01_demo/{questions[4].id}/{questions[4].digest}": GOOD} | content})
    _import(page, text)
    assert _say(page).startswith("Not imported. mine.json: ") and rule in _say(page) and _say(page).endswith("Nothing was changed.")
    assert _kept(page) == before and _total(page) == told
    assert not seen.errors, seen.errors


def test_a_full_store_takes_nothing(watch, address: str, questions: list[Question]) -> None:
    page = watch().page(address)
    _answer(page, questions)
    before = _kept(page)
    page.evaluate("""() => { const set = Storage.prototype.setItem; let left = 1;
      Storage.prototype.setItem = function (...a) { if (a[0].includes('drills') || left-- > 0) return set.apply(this, a); if (a[1].includes('"new"')) throw new Error('full'); return set.apply(this, a); }; }""")
    entries = {f"quiz/1/01_demo/{q.id}/{q.digest}": GOOD | {"answer": {"text": "new", "ticked": []}} for q in (questions[1], questions[3])}
    _import(page, json.dumps({"format": "llm-inference-measured/score", "version": 1, "entries": entries}))
    assert "would not keep it" in _say(page)
    assert _kept(page) == before


@pytest.mark.parametrize("stored", ["{", "null", "7", '{"state": "right"}', '{"state": "perfect", "tries": "many"}', '{"state": "part", "answer": 5}'])
def test_damaged_storage_does_no_harm(watch, address: str, questions: list[Question], stored: str) -> None:
    seen = watch()
    page = seen.page(address)
    names = [f"{SPACE}quiz/1/02_other/{q.id}/{q.digest}" for q in questions] + [f"{SPACE}drills/1/kv", f"{SPACE}exam/1/results"]
    page.evaluate("([names, text]) => names.forEach(name => localStorage.setItem(name, text))", [names, stored])
    page.reload()
    assert len(_rows(page)) == 2 and "Exams: none taken" in page.locator(".score-more").inner_text()
    with page.expect_download():
        page.locator(".score-export").click()
    assert not seen.errors, seen.errors


def test_without_storage_it_says_so(watch, address: str) -> None:
    seen = watch()
    seen.context.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('refused'); }})")
    page = seen.page(address)
    assert "keeps nothing for this page" in page.locator(".score .quiz-note").inner_text()
    _import(page, json.dumps({"format": "llm-inference-measured/score", "version": 1, "entries": {"drills/1/kv": {"tried": 1, "right": 1}}}))
    assert "would not keep it" in _say(page)
    assert not seen.errors, seen.errors


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_readable_at_every_width_and_clean(watch, address: str, questions: list[Question], scheme: str, width: int) -> None:
    page = watch(color_scheme=scheme, viewport={"width": width, "height": 740}).page(address)
    _answer(page, questions)
    page.evaluate(MEASURE)
    assert page.evaluate("measure.overflow()") is None
    assert page.locator(".score-figure svg").bounding_box()["width"] <= width
    found = page.evaluate("measure.faint('form.score', 4.5)")
    assert found["measured"] > 30 and not found["faults"], found
    faults = Axe().run(page, context="form.score", options={"resultTypes": ["violations"]}).response["violations"]
    assert not [fault for fault in faults if fault["impact"] in ("serious", "critical")], faults
    page.emulate_media(media="print")
    assert page.locator(".score-export").is_hidden() and page.locator(".score-figure svg").is_visible()
    if scheme == "dark":
        assert page.locator("form.score").evaluate("node => getComputedStyle(node).backgroundColor") == "rgb(255, 255, 255)"


def test_by_keyboard_alone(watch, address: str) -> None:
    page = watch().page(address)
    page.locator(".score .practice-scroll").focus()
    reached = []
    for _ in range(6):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.className || document.activeElement.tagName"))
    assert [name for name in reached if name in ("score-export", "score-print quiz-reset", "score-file")] == ["score-export", "score-print quiz-reset", "score-file"]
