"""What a numeric field makes of an answer: read, graded and announced in a real browser, from a table of inputs."""

from __future__ import annotations

import random

import pytest

import drive
from course.quiz import units
from course.quiz.schema import Question, accepts

_API = "Object.keys(window).find(name => name.startsWith('quizCell'))"

# Input, state, part of what the field says. Key 687,194,767,360 B (stated unit B, 0.5 %), 640 GiB.
BYTES = [
    ("687,194,767,360", "right", "Read as 687.2 GB (no unit given, so B)"),
    ("687194767360", "right", "Read as 687.2 GB"),
    ("687.2 GB", "right", "Read as 687.2 GB"),
    ("687.2GB", "right", "Read as 687.2 GB"),
    ("687,2 GB", "right", "Read as 687.2 GB"),
    ("687.2 gb", "right", "Read as 687.2 GB"),
    ("687 200 000 000 B", "right", "Read as 687.2 GB"),
    ("687\u2009194\u2009767\u2009360 B", "right", "Read as 687.2 GB"),
    ("687\u00a0194\u00a0767\u00a0360", "right", "Read as 687.2 GB"),
    ("687_194_767_360 bytes", "right", "Read as 687.2 GB"),
    ("687'194'767'360", "right", "Read as 687.2 GB"),
    ("640 GiB", "right", "Read as 640 GiB = 687.2 GB"),
    ("640 gib", "right", "Read as 640 GiB = 687.2 GB"),
    ("0.625 TiB", "right", "Read as 0.625 TiB = 687.2 GB"),
    ("0,625 TiB", "right", "Read as 0.625 TiB"),
    (".625TiB", "right", "Read as 0.625 TiB"),
    ("0.6872 TB", "right", "Read as 687.2 GB"),
    ("6.872e11", "right", "Read as 687.2 GB"),
    ("6.872E11 B", "right", "Read as 687.2 GB"),
    ("6,872e+11", "wrong", "The comma was read as a thousands mark"),
    ("6.872 × 10^11 B", "right", "Read as 687.2 GB"),
    ("6.872·10¹¹ B", "right", "Read as 687.2 GB"),
    ("6.872x10^11", "right", "Read as 687.2 GB"),
    ("≈ 687 GB", "right", "Read as 687 GB"),
    ("about 687 GB.", "right", "Read as 687 GB"),
    ("687,200 MB", "right", "Read as 687.2 GB"),
    ("687.2 GiB", "wrong", "The number fits GB, but you wrote GiB"),
    ("640 GB", "wrong", "The number fits GiB, but you wrote GB"),
    ("640", "wrong", "The number fits GiB, but a bare number is read in B"),
    ("687.2", "wrong", "The number fits GB, but a bare number is read in B"),
    ("343.6 GB", "wrong", "Half: K or V was left out."),
    ("320 GiB", "wrong", "Half: K or V was left out."),
    ("5.498 TB", "wrong", "every query head"),
    ("687,2e8", "wrong", "power of ten"),
    ("68.72 GB", "wrong", "The digits are right, the power of ten is not"),
    ("-687.2 GB", "wrong", "The sign is wrong"),
    ("\u2212687.2 GB", "wrong", "The sign is wrong"),
    ("500 GB", "wrong", "Too small"),
    ("900 GB", "wrong", "Too large"),
    ("0", "wrong", "Read as 0 B"),
    ("687.2 Gb", "unit", "“Gb” means bits; 8 bits are one byte"),
    ("687.2 Gbit", "unit", "means bits"),
    ("5.5 Tbps", "unit", "means bits"),
    ("70 ms", "unit", "“ms” gives a time. Expected a number of bytes"),
    ("35 %", "unit", "gives a percentage"),
    ("687 GFLOP", "unit", "gives a number of FLOP"),
    ("687 GB/s", "unit", "gives a number of bytes per second"),
    ("687 parsecs", "unread", "The unit “parsecs” is not known here. Expected a number of bytes, such as 1.5 GB"),
    ("", "unread", "Nothing to check yet"),
    ("   ", "unread", "Nothing to check yet"),
    ("lots", "unread", "“lots” is not a number. Expected a number of bytes"),
    ("GB", "unread", "is not a number"),
    ("6,87,194", "unread", "thousands need groups of exactly three digits"),
    ("687,194,76", "unread", "thousands need groups of exactly three digits"),
    ("12 34 B", "unread", "thousands need groups of exactly three digits"),
    ("1.2.3", "unread", "more than one decimal point"),
    ("687.194.767.360", "unread", "more than one decimal point"),
    ("687.194,7", "unread", "mixes points and commas"),
    ("1e999", "unread", "too large to read"),
    ("2*327680", "unread", "is not known here"),
    ("<img src=x>", "unread", "is not a number"),
    ("NaN", "unread", "is not a number"),
    ("Infinity", "unread", "is not a number"),
]
# Key 70 ms, stated unit ms, 1 %.
TIME = [
    ("70", "right", "Read as 70 ms (no unit given, so ms)"), ("70 ms", "right", "Read as 70 ms"),
    ("0.07 s", "right", "Read as 70 ms"), ("70,000 us", "right", "Read as 70 ms"), ("70000 µs", "right", "Read as 70 ms"),
    ("7e7 ns", "right", "Read as 70 ms"), ("70 MS", "right", "Read as 70 ms"), ("0.07 seconds", "right", "Read as 70 ms"),
    ("0.07", "wrong", "The number fits s, but a bare number is read in ms"), ("70 s", "wrong", "The number fits ms, but you wrote s"),
    ("7 ms", "wrong", "power of ten"), ("70 GB", "unit", "gives a number of bytes"), ("70 m", "unit", "gives a plain number"),
]
# Key 2925, exact.
COUNT = [
    ("2,925", "right", "Read as 2,925"), ("2925", "right", "Read as 2,925"), ("2 925", "right", "Read as 2,925"),
    ("2.925k", "right", "Read as 2,925"), ("2925.0", "right", "Read as 2,925"), ("2,925e0", "right", "Read as 2,925"),
    ("2.925", "wrong", "The number fits k"), ("2924", "wrong", "Too small"), ("2926", "wrong", "Too large"),
    ("2,925 GB", "unit", "gives a number of bytes"), ("2925 tokens", "unit", "gives a number of tokens"),
]
# Key 35 %, 1 %.
SHARE = [
    ("35", "right", "Read as 35 % (no unit given, so %)"), ("35%", "right", "Read as 35 %"), ("35,0 %", "right", "35 %"),
    ("35 percent", "right", "Read as 35 %"), ("0.35", "wrong", "That is the fraction"), ("3.5 %", "wrong", "power of ten"),
    ("0.35x", "unit", "gives a factor"),
]
TABLE = [("cache-bytes", *row) for row in BYTES] + [("step-time", *row) for row in TIME] + \
        [("tokens-left", *row) for row in COUNT] + [("share", *row) for row in SHARE]


def test_every_input_is_read_graded_and_said(watch, demo: str, demo_questions: list[Question]) -> None:
    page = watch().page(demo)
    questions = {question.id: question for question in demo_questions}
    faults = []
    for name, typed, state, says in TABLE:
        drive.by_mouse(page, questions[name], ((), typed))
        got = drive.state(page, questions[name]), drive.result(page, questions[name])
        if got[0] != state or says not in got[1]:
            faults.append(f"{name}: {typed!r}: {got} instead of {(state, says)}")
        assert drive.box(page, questions[name]).locator("input").input_value() == typed, "the answer was lost"
    assert not faults, "\n".join(faults)
    assert len(TABLE) >= 40


def test_the_field_says_how_it_reads_before_it_grades(watch, demo: str, demo_questions: list[Question]) -> None:
    page = watch().page(demo)
    place = drive.box(page, demo_questions[2])
    place.locator("input").type("687.2 GB")
    assert place.locator(".quiz-read").inner_text() == "read as 687.2 GB"
    assert drive.state(page, demo_questions[2]) == "" and drive.result(page, demo_questions[2]) == ""
    place.locator("input").fill("rubbish")
    assert place.locator(".quiz-read").inner_text() == ""


def test_decimal_comma_that_reads_as_thousands_is_explained(watch, demo: str) -> None:
    grade = f"q => window[{_API}].gradeNumber(q, '2,925')"
    key = {"key": 2.925, "unit": "", "family": "", "tolerance": 0, "traps": []}
    assert "thousands mark" in watch().page(demo).evaluate(grade, key)["say"]


@pytest.mark.parametrize("unit", ["B", "GiB", "s", "ms", "FLOP", "FLOP/s", "B/s", "FLOP/B", "", "%", "x", "$", "tok/s"])
def test_python_and_the_page_print_and_grade_alike(watch, demo: str, unit: str) -> None:
    rng = random.Random(7)
    values = [rng.choice([1, -1]) * 10 ** rng.uniform(-9, 17) for _ in range(200)]
    values += [float(int(v)) for v in values] + [0.0, 999.95, 999_950.0, 1234.5, 0.5, 99_995.0, 1e15]
    family = units.family_of(unit)
    page = watch().page(demo)
    printed = page.evaluate(f"([v, u, f]) => v.map(x => window[{_API}].valueText(x, u, f))", [values, unit, family])
    assert printed == [units.value_text(value, unit) for value in values]
    asked = [[{"key": v, "unit": unit, "family": family, "tolerance": t, "traps": []}, units.value_text(v * f, unit)]
             for v in values[:100] for t in (0, 0.01) for f in (1, 1.004, 1.02) if abs(v) > 1e-3]
    graded = page.evaluate(f"rows => rows.map(([q, text]) => [window[{_API}].parse(text, q), window[{_API}].gradeNumber(q, text).state])", asked)
    for (q, text), (read, state) in zip(asked, graded, strict=True):
        assert "value" in read, (text, read)
        assert (state == "right") == accepts(read["value"], q["key"], unit, q["tolerance"]), (q, text, read)
