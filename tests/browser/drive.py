"""Answer quiz questions as a reader does: by mouse, or with nothing but the keyboard."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

from course.quiz.schema import Question
from course.quiz.units import value_text

Answer = tuple[tuple[int, ...], str]  # options to choose, text to type


def right_answer(question: Question) -> Answer:
    """The answer that must be graded right. For a number: as the page itself prints it."""
    if question.kind == "numeric":
        return (), value_text(question.key, question.unit)
    if question.kind == "free":
        return tuple(range(len(question.rubric))), "An answer in my own words."
    return tuple(n for n, option in enumerate(question.options) if option.right), ""


def wrong_answers(question: Question) -> list[Answer]:
    """Every wrong option, every trap, and for a number also one that is far off."""
    if question.kind == "numeric":
        typed = [value_text(value, question.unit) for value, _ in question.traps]
        return [((), text) for text in [*typed, value_text(question.key * 37.3 + 1, question.unit)]]
    if question.kind == "free":
        return [((0,), "Half an answer.")] if len(question.rubric) > 1 else []
    return [((n,), "") for n, option in enumerate(question.options) if not option.right]


def box(page: Page, question: Question) -> Locator:
    return page.locator(f'[id="q-{question.stem}-{question.id}"]')


def by_mouse(page: Page, question: Question, answer: Answer) -> None:
    """Fill in `answer` with clicks and press the question's button."""
    chosen, text = answer
    place = box(page, question)
    ticks = place.locator(".quiz-option input")
    if question.kind in ("numeric", "free"):
        place.locator("input[type=text], textarea").fill(text)
    if question.kind == "free":
        place.locator(".quiz-check").click()
    for index in range(ticks.count()):
        if question.kind == "single" and index in chosen:
            place.locator(".quiz-option").nth(index).click()
        elif question.kind != "single" and ticks.nth(index).is_checked() != (index in chosen):
            place.locator(".quiz-option").nth(index).click()
    place.locator(".quiz-check").click()


_WHERE = """() => { const node = document.activeElement, box = node.closest(".quiz-question");
  return [box ? box.id : "", node.type || node.tagName.toLowerCase(), node.value || "", !!node.checked,
          node.matches(":focus-visible") && getComputedStyle(node).outlineStyle !== "none"]; }"""


def _tab_to(page: Page, name: str, kinds: tuple[str, ...], key: str = "Tab") -> list:
    for _ in range(200):
        where = page.evaluate(_WHERE)
        if where[0] == name and where[1] in kinds:
            assert where[4], f"{name}: the focus on {where[1]} cannot be seen"
            return where
        page.keyboard.press(key)
    raise AssertionError(f"{key} does not reach {kinds} in {name}")


def _ticks(page: Page, name: str, chosen: tuple[int, ...], count: int) -> None:
    for index in range(count):
        for _ in range(count + 2):
            where = _tab_to(page, name, ("checkbox",))
            if where[2] == str(index):
                break
            page.keyboard.press("Tab")
        if where[3] != (index in chosen):
            page.keyboard.press("Space")


def by_keyboard(page: Page, question: Question, answer: Answer) -> None:
    """Fill in `answer` and grade it with Tab, arrows, Space, Enter and letters; the focus must be seen on the way."""
    chosen, text = answer
    name = f"q-{question.stem}-{question.id}"
    if page.evaluate(_WHERE)[0] == name:  # again from the top of the question
        box(page, question).locator("legend").evaluate("node => { node.tabIndex = -1; node.focus(); }")
        page.keyboard.press("Tab")
    if question.kind == "single":
        where = _tab_to(page, name, ("radio",))
        count = len(question.options)
        page.keyboard.press("Space")
        for _ in range((chosen[0] - int(where[2])) % count):
            page.keyboard.press("ArrowDown")
    elif question.kind == "multiple":
        _ticks(page, name, chosen, len(question.options))
    else:
        _tab_to(page, name, ("text", "textarea"))
        page.keyboard.press("Control+A")
        page.keyboard.type(text)
        if question.kind == "free":
            _tab_to(page, name, ("button",))
            page.keyboard.press("Enter")
            _tab_to(page, name, ("checkbox",), "Shift+Tab")
            box(page, question).locator(".quiz-rubric input").first.focus()
            _ticks(page, name, chosen, len(question.rubric))
    _tab_to(page, name, ("button",))
    page.keyboard.press("Enter")


def state(page: Page, question: Question) -> str:
    """"right", "wrong", "part", "unit", "unread", or "" where nothing is graded."""
    return box(page, question).get_attribute("data-state") or ""


def result(page: Page, question: Question) -> str:
    """What the live region says."""
    return box(page, question).locator(".quiz-result").inner_text()
