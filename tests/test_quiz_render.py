"""The form's HTML: escaped, balanced, complete in itself and the same bytes every time."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import html5lib
import pytest
from bs4 import BeautifulSoup

import course.quiz as quiz_package
from course.quiz import lab_html, quiz
from course.quiz.inline import plain_length, to_html
from course.quiz.render import form_html, question_html
from course.quiz.schema import load

DATA = Path(__file__).parent / "data"


@pytest.fixture(autouse=True)
def _demo_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiz_package, "QUIZZES", DATA)


@pytest.fixture
def form() -> BeautifulSoup:
    return BeautifulSoup(quiz("demo", "check")._repr_html_(), "html.parser")


def test_repr_is_one_stable_line() -> None:
    assert repr(quiz("demo", "check")) == "Quiz demo, check: 6 questions"
    assert repr(quiz("demo", "lab")) == "Quiz demo, lab: 1 question"


def test_unknown_section_and_file_are_named() -> None:
    with pytest.raises(ValueError, match="section='chek' has no question in demo.yml; sections there: check, lab"):
        quiz("demo", "chek")
    with pytest.raises(FileNotFoundError, match="nowhere.yml"):
        quiz("nowhere", "check")


def test_same_bytes_in_every_process() -> None:
    code = (
        "import hashlib; from pathlib import Path; from course.quiz.schema import load; from course.quiz.render import form_html, question_html;"
        f"print(hashlib.sha256(form_html('demo', 'check', load(Path({str(DATA / 'demo.yml')!r}))).encode()).hexdigest())"
    )
    digests = {
        subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, check=True,
                       capture_output=True, text=True).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1


def test_lab_form_stands_alone() -> None:
    assert lab_html("demo") == quiz("demo", "lab")._repr_html_()
    assert not re.search(r"(?:src|href)=|@import|url\(|fetch\(|XMLHttp|import\(", lab_html("demo"))


def test_html_is_balanced() -> None:
    html5lib.HTMLParser(strict=True).parseFragment(re.sub("<math.*?</math>", "", quiz("demo", "check")._repr_html_(), flags=re.S)
                                                   .replace("<style>", "<script>").replace("</style>", "</script>"))


def test_ids_are_unique_and_every_field_has_a_label(form: BeautifulSoup) -> None:
    ids = [node["id"] for node in form.find_all(id=True)]
    assert len(ids) == len(set(ids))
    for field in form.find_all(["input", "textarea"]):
        assert field.find_parent("label") or form.find("label", attrs={"for": field["id"]})


def test_text_is_escaped(form: BeautifulSoup) -> None:
    legend = form.find("legend")
    assert legend.find("b") is None
    assert "& <b>nothing</b> else" in legend.get_text()


def test_answers_stand_in_details_without_script(form: BeautifulSoup) -> None:
    answers = form.find_all("details")
    assert len(answers) == 6 and all(answer.find("summary") for answer in answers)
    assert "687.2 GB (687,194,767,360 B)" in answers[2].get_text()
    assert answers[0].get_text().count("Wrong:") == 3 and answers[0].get_text().count("Right:") == 1
    assert all(button.has_attr("hidden") for button in form.find_all("button", class_="quiz-check"))
    assert form.find("noscript")


def test_grading_data_points_at_the_right_options(form: BeautifulSoup) -> None:
    for box, question in zip(form.find_all("fieldset"), load(DATA / "demo.yml"), strict=False):
        grading = json.loads(box["data-grading"])
        if question.options:
            assert [n for n, option in enumerate(question.options) if option.right] == grading["right"]
        if question.kind == "numeric":
            assert grading["key"] == question.key


def test_a_follow_up_is_asked_after_the_model_answer_and_answered_behind_its_own_click() -> None:
    free = load(DATA / "demo.yml")[5]
    assert "interviewer" not in question_html(free, 1)
    asked = BeautifulSoup(question_html(dataclasses.replace(free, follow_up="And in `int8`?", follow_up_answer="Half."), 1), "html.parser")
    answer, after = asked.find_all("details")
    assert answer.get_text().rstrip().endswith("The interviewer goes on: And in int8?") and "Half." not in answer.get_text()
    assert "Half." in after.get_text() and not after.has_attr("open")


def test_script_has_no_template_left_and_cannot_end_early() -> None:
    body = quiz("demo", "check")._repr_html_()
    script = body.split("<script>")[1].split("</script>")[0]
    assert body.count("</script>") == 1 and "__" not in script
    assert "//" not in re.sub(r'"[^"\n]*"', "", script)


def test_form_grows_with_its_questions_only() -> None:
    questions = load(DATA / "demo.yml")
    assert len(form_html("demo", "check", questions[:1]).encode()) < 30_000


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a < b & c > \"d\"", "a &lt; b &amp; c &gt; &quot;d&quot;"),
        ("`x < y`", "<code>x &lt; y</code>"),
        ("`a * b * c`", "<code>a * b * c</code>"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("an *idea `k`* here", "an <em>idea <code>k</code></em> here"),
        (r"costs \$5 and \`", "costs $5 and `"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("two\n  lines", "two lines"),
    ],
)
def test_inline_text(text: str, html: str) -> None:
    assert to_html(text) == html


def test_math_becomes_mathml() -> None:
    assert to_html("the $d_k$").startswith("the <math") and "<msub>" in to_html("$d_k$")
    assert "<script" not in to_html("$<script>$")


def test_plain_length_ignores_markup() -> None:
    assert plain_length("`ab` *c*") == 4
