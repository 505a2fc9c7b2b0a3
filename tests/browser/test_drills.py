"""Drills in a browser: the arithmetic of 1,000 of them, every slip by name, mouse and keyboard, storage, narrow and dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from course.practice import drills
from course.practice.assemble import bare_page
from course.practice.drill_data import CARDS, MODELS
from course.practice.drill_twin import KINDS, answer
from course.quiz.units import value_text
from tinyserve import costs

MEASURE = (Path(__file__).parent / "pages.js").read_text(encoding="utf-8")
DRAW = "([kind, seeds]) => seeds.map(seed => document.querySelector('form.drills').drill(seed, kind))"
_MODELS = {model.name: model for model in MODELS}
_CARDS = {card.name: card for card in CARDS}
GIB_IN_GB = costs.GIB / costs.GB


def _group(case: dict) -> int:
    return _MODELS[case["model"]].queries_per_kv_head


def _full_square(case: dict, key: float) -> float:
    flops = costs.forward_flops(_MODELS[case["model"]], case["tokens"], causal=False)
    return flops / (case["cards"] * _CARDS[case["card"]].peak() * case["mfu"])


# What each kind must be able to name, as words of its feedback, and the wrong answer that the words are for (None: not computed here).
NAMED: dict[str, dict[str, Callable[[dict, float], float] | None]] = {
    "kv": {
        "K without V, or one": lambda c, key: key / 2, "query heads. Only": lambda c, key: key * _group(c), "counted bits": lambda c, key: key * 8,
        "GiB, but you wrote GB": lambda c, key: key / GIB_IN_GB, "GB, but you wrote GiB": lambda c, key: key * GIB_IN_GB,
    },
    "weights": {"counted bits": lambda c, key: key * 8, "GiB, but you wrote GB": lambda c, key: key / GIB_IN_GB},
    "fits": {"K without V": None, "query heads": None, "GiB for GB": None, "forgot the weights": None},
    "decode": {"K without V": None, "query heads": None, "bits for bytes": lambda c, key: key * 8, "weights once per sequence": None},
    "ttft": {"full square": _full_square, "left attention's scores": None, "one card": lambda c, key: key * c["cards"]},
    "crossover": {
        "counted the full square": lambda c, key: key / 2, "took the causal half": lambda c, key: key * 2,
        "with all matrices": lambda c, key: costs.attention_crossover(_MODELS[c["model"]], "linear", c["causal"]), "FFN alone": None,
    },
    "experts": {"one token uses": None, "all choices as different": None, "counts choices": None},
    "speculation": {
        "after a rejection": lambda c, key: 1 + c["alpha"] * c["gamma"], "adds in every pass": lambda c, key: key - 1,
        "exponent": lambda c, key: costs.speculative_tokens(c["alpha"], c["gamma"] - 1),
    },
    "price": {"one card": lambda c, key: key / c["cards"], "one token a step": lambda c, key: key * c["batch"], "price of an hour": lambda c, key: key * 3600},
}

@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("drills") / "drills.html"
    path.write_text(bare_page("Drills", drills()._repr_html_()), encoding="utf-8")
    return path.as_uri()


def _go_to(page: Page, kind: str, seed: int) -> dict:
    page.locator("#drill-kind").select_option(kind)
    page.locator("#drill-seed").fill(str(seed))
    page.locator("#drill-seed").press("Enter")
    return page.evaluate(DRAW, [kind, [seed]])[0]


def _result(page: Page) -> str:
    return page.locator(".drills .quiz-result").inner_text()


def test_the_script_computes_what_the_cost_model_computes(watch, address: str) -> None:
    page = watch().page(address)
    checked = 0
    for kind in KINDS:
        for row in page.evaluate(DRAW, [kind, list(range(112))]):
            assert row["kind"] == kind
            assert row["key"] == pytest.approx(answer(kind, row["c"]), rel=1e-12), (kind, row["c"])
            checked += 1
    assert checked >= 1000


def test_every_kind_is_drawn_and_a_number_draws_the_same_drill(watch, address: str) -> None:
    page = watch().page(address)
    first, second = (page.evaluate(DRAW, ["", list(range(300))]) for _ in range(2))
    assert first == second
    assert {row["kind"] for row in first} == set(KINDS)
    assert len({row["prompt"] for row in first}) > 200
    held = {row["key"] > 0 for row in page.evaluate(DRAW, ["fits", list(range(60))])}
    assert held == {True, False}, "some must fit, and some must not"


@pytest.mark.parametrize("kind", KINDS)
def test_right_answers_and_every_slip(watch, address: str, kind: str) -> None:
    seen = watch()
    page = seen.page(address)
    unseen = set(NAMED[kind])
    for row in page.evaluate(DRAW, [kind, list(range(200))]):
        texts = [text for _, text in row["slips"]]
        for words, wrong in NAMED[kind].items():
            for value in (value for value, text in row["slips"] if words in text):
                unseen.discard(words)
                assert wrong is None or value == pytest.approx(wrong(row["c"], row["key"]), rel=1e-9), (words, row)
        values = [row["key"], *row["grading"]["traps"]]
        graded = page.evaluate("([api, q, typed]) => typed.map(text => window[api].gradeNumber(q, text))",
                               [page.evaluate("Object.keys(window).find(key => key.startsWith('quizCell'))"), row["grading"],
                                [value_text(value, row["grading"]["unit"]) for value in values]])
        assert [g["state"] for g in graded] == ["right"] + ["wrong"] * len(texts), row
        assert [g["feedback"] for g in graded[1:]] == [[n] for n in range(len(texts))], row
    assert not unseen, f"no drill of 200 can name: {unseen}"
    assert not seen.errors, seen.errors


def test_by_mouse_wrong_then_right_with_the_working(watch, address: str) -> None:
    page = watch().page(address)
    row = _go_to(page, "kv", 7)
    value, text = row["slips"][0]
    page.locator("#drill-field").fill(value_text(value, "GB"))
    assert page.locator("#drill-read").inner_text().startswith("read as ")
    page.locator(".drill-check").click()
    assert _result(page).startswith("Not right.") and text in _result(page)
    assert page.locator(".drill-working").is_hidden()
    page.locator("#drill-field").fill(value_text(row["key"], "GB"))
    page.locator(".drill-check").click()
    assert _result(page).startswith("Right.")
    assert page.locator(".drill-working li").all_inner_texts() == row["working"]
    assert page.locator(".drill-tally").inner_text() == "0 of 1 drills right at the first try."
    page.locator(".drill-next").click()
    assert page.locator("#drill-seed").input_value() == "8" and page.locator(".drill-working").is_hidden()
    page.reload()
    assert page.locator(".drill-tally").inner_text() == "0 of 1 drills right at the first try."


def test_looking_at_the_working_first_counts_as_tried(watch, address: str) -> None:
    page = watch().page(address)
    _go_to(page, "experts", 3)
    page.locator(".drill-show").click()
    assert page.locator(".drill-show").get_attribute("aria-expanded") == "true"
    assert page.locator(".drill-tally").inner_text() == "0 of 1 drills right at the first try."


@pytest.mark.parametrize("typed", ["", "lots", "1.2.3", "5 tok/s", "8 Gbit"])
def test_rubbish_is_told_and_counts_for_nothing(watch, address: str, typed: str) -> None:
    seen = watch()
    page = seen.page(address)
    _go_to(page, "kv", 7)
    page.locator("#drill-field").fill(typed)
    page.locator(".drill-check").click()
    assert "Expected a number of bytes" in _result(page)
    assert page.locator(".drill-tally").inner_text() == "0 of 0 drills right at the first try."
    page.locator("#drill-seed").fill("seven")
    page.locator("#drill-seed").press("Enter")
    assert "write up to six digits" in _result(page)
    assert not seen.errors, seen.errors


def test_by_keyboard_alone(watch, address: str) -> None:
    page = watch().page(address)
    row = _go_to(page, "weights", 11)
    assert page.evaluate("document.activeElement.id") == "drill-field"
    page.keyboard.type(value_text(row["key"], "GB"))
    page.keyboard.press("Enter")
    assert _result(page).startswith("Right.")
    reached = []
    page.locator("#drill-kind").focus()
    for _ in range(6):
        reached.append(page.evaluate("[document.activeElement.id || document.activeElement.className, getComputedStyle(document.activeElement).outlineStyle !== 'none']"))
        page.keyboard.press("Tab")
    assert [name for name, _ in reached] == ["drill-kind", "drill-seed", "drill-next", "drill-field", "drill-check", "drill-show quiz-reset"]
    assert all(shown for _, shown in reached[1:]), reached


def test_without_storage_and_without_script(watch, address: str) -> None:
    seen = watch()
    seen.context.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('refused'); }})")
    page = seen.page(address)
    row = _go_to(page, "kv", 7)
    page.locator("#drill-field").fill(value_text(row["key"], "GB"))
    page.locator(".drill-check").click()
    assert _result(page).startswith("Right.")
    assert "cannot keep your tally" in page.locator(".drills .quiz-note").inner_text()
    assert not seen.errors, seen.errors
    page = watch(java_script_enabled=False).page(address)
    assert "no" in page.locator("noscript").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_narrow_and_clean(watch, address: str, scheme: str) -> None:
    page = watch(color_scheme=scheme, viewport={"width": 360, "height": 740}).page(address)
    page.evaluate(MEASURE)
    for number, kind in enumerate(KINDS):
        row = _go_to(page, kind, number)
        page.locator("#drill-field").fill(value_text(row["key"] * 3 + 1, row["grading"]["unit"]))
        page.locator(".drill-check").click()
        page.locator(".drill-show").click()
        assert page.evaluate("measure.overflow()") is None, kind
        found = page.evaluate("measure.faint('form.drills', 4.5)")
        assert found["measured"] > 8 and not found["faults"], (kind, found)
    faults = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert not [fault for fault in faults if fault["impact"] in ("serious", "critical")], faults
