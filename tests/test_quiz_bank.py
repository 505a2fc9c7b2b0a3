"""The questions of all chapters together: enough of them, of every kind, no fact twice in the same way."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from course.quiz import alike
from course.quiz.schema import QUIZZES, Question, load

BANK = [question for path in sorted(QUIZZES.glob("*.yml")) for question in load(path)]


def test_enough_questions_of_each_kind() -> None:
    kinds = Counter(question.kind for question in BANK)
    assert len(BANK) >= 160 and kinds["numeric"] >= 50, kinds
    assert min(kinds.values()) >= 15, kinds


def test_no_fact_is_tested_twice_in_the_same_way() -> None:
    alike.check_alike(BANK)


def _numeric(name: str, prompt: str, key: float) -> Question:
    return Question("01_demo", name, "check", "numeric", prompt, key=key, unit="B")


REST = [Question("01_demo", f"rest-{n}", "check", "free", f"What of topic{n} and matter{n}?", rubric=("x",), answer="y") for n in range(12)]
KV = _numeric("kv", "How many bytes of keys and values does a token of Llama take in bf16?", 131072.0)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (_numeric("again", "How many bytes do the keys and values of one token take in bf16, for Llama?", 131072.0), "one value"),
        (_numeric("near", "How many bytes of keys and values does a token of Llama take in fp8?", 65536.0), "likeness 0."),
    ],
)
def test_two_wordings_of_one_question_are_refused(other: Question, why: str) -> None:
    with pytest.raises(ValueError, match=rf"alike \({why}[0-9.]*\): 01_demo/{other.id} and 01_demo/kv|alike \({why}[0-9.]*\): 01_demo/kv and 01_demo/{other.id}"):
        alike.check_alike([KV, other, *REST], {})
    alike.check_alike([KV, other, *REST], {frozenset(("01_demo/kv", f"01_demo/{other.id}")): "on purpose"})


def test_other_facts_and_other_kinds_pass() -> None:
    other = _numeric("weights", "How large are the matrices of its feed-forward blocks?", 131072.0)
    asked = dataclasses.replace(KV, id="asked", kind="free", rubric=("x",), answer="y")
    alike.check_alike([KV, other, asked, *REST], {})


def test_a_reviewed_pair_whose_question_is_gone_has_to_be_struck() -> None:
    with pytest.raises(ValueError, match="reviewed, but gone: 01_demo/kv and 01_demo/old"):
        alike.check_alike([KV, *REST], {frozenset(("01_demo/kv", "01_demo/old")): "on purpose"})
