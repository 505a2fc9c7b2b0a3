"""Every page of the built site in a browser: no error, nothing from outside, narrow screens, dark mode, axe, file://."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

import drive
from course.quiz.schema import QUIZZES, load

MEASURE = (Path(__file__).parent / "pages.js").read_text(encoding="utf-8")
# Chapters that have a quiz: they have everything that a page can have.
CHAPTERS = sorted(path.stem for path in QUIZZES.glob("*.yml"))


def _settle(page: Page) -> None:
    """Wait until math is set and details are open, so that nothing hides."""
    page.evaluate("async () => { if (window.MathJax && MathJax.startup) await MathJax.startup.promise; await document.fonts.ready; }")
    page.evaluate("document.querySelectorAll('main details').forEach(node => { node.open = true; })")
    page.evaluate(MEASURE)


def _outside(requests: list[str], site: str) -> list[str]:
    return [url for url in requests if urlsplit(url).scheme not in ("data", "blob") and not url.startswith(site)]


def test_every_page_is_quiet_local_and_fits_a_telephone(watch, site: str, site_files: dict[str, Path]) -> None:
    seen = watch(viewport={"width": 360, "height": 740})
    faults = []
    for name in site_files:
        page = seen.page(site + name)
        _settle(page)
        if wide := page.evaluate("measure.overflow()"):
            faults.append(f"{name}: {wide}")
        page.close()
    assert len(site_files) >= 4
    assert not faults, "\n".join(faults)
    assert not seen.errors, "\n".join(seen.errors)
    assert len(seen.requests) > len(site_files) and not _outside(seen.requests, site)


@pytest.mark.parametrize("stem", CHAPTERS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chapter_is_readable(watch, site: str, stem: str, scheme: str) -> None:
    page = watch(color_scheme=scheme, viewport={"width": 1400, "height": 900}).page(f"{site}chapters/{stem}.html")
    _settle(page)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    asked = [question for question in load(QUIZZES / f"{stem}.yml") if question.section != "lab"]
    for number, question in enumerate(asked):
        wrong = drive.wrong_answers(question)
        drive.by_mouse(page, question, wrong[0] if wrong and number % 2 else drive.right_answer(question))
    found = page.evaluate("measure.faint('form.quiz', 4.5)")
    assert found["measured"] > 10 * len(asked) and not found["faults"], found
    text = page.evaluate("measure.faint('main article', 4.5)")
    assert text["measured"] > 200 and not text["faults"], text
    figures = page.evaluate("measure.darkFigures('main .cell_output img')")
    assert not figures["faults"], figures


@pytest.mark.parametrize("stem", CHAPTERS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(watch, site: str, stem: str, scheme: str) -> None:
    page = watch(color_scheme=scheme, viewport={"width": 1400, "height": 900}).page(f"{site}chapters/{stem}.html")
    _settle(page)
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    serious = [f"{fault['id']}: {fault['help']}: {[node['target'] for node in fault['nodes'][:4]]}"
               for fault in found if fault["impact"] in ("serious", "critical")]
    assert not serious, "\n".join(serious)


@pytest.mark.parametrize("stem", CHAPTERS)
def test_chapter_works_as_a_file(watch, site_files: dict[str, Path], stem: str) -> None:
    seen = watch()
    page = seen.page(site_files[f"chapters/{stem}.html"].as_uri())
    _settle(page)
    question = next(question for question in load(QUIZZES / f"{stem}.yml") if question.section != "lab")
    drive.by_mouse(page, question, drive.right_answer(question))
    assert drive.state(page, question) == "right"
    page.reload()
    assert drive.state(page, question) == "right"
    assert not seen.errors, "\n".join(seen.errors)
    assert {urlsplit(url).scheme for url in seen.requests} <= {"file", "data", "blob"}
