"""Drills, exam and score before a browser sees them: the data, the Python twin, the HTML, the links, the command."""

from __future__ import annotations

import re
from pathlib import Path

import html5lib
import pytest
from bs4 import BeautifulSoup

from course.practice import __main__ as command
from course.practice import drills, exam_html, score_html
from course.practice.chapters import chapters, headings, reread_url
from course.practice.drill_data import CARDS, MODELS, MOES, data
from course.practice.drill_twin import KINDS, answer
from course.quiz.schema import QUIZZES, load
from tinyserve import configs, costs, hardware

FORMS = {"drills": lambda: drills()._repr_html_(), "exam": exam_html, "score": score_html}
LLAMA = {"model": "Llama-3-70B", "batch": 64, "tokens": 32768, "kv": "bf16", "dtype": "bf16", "card": "H100 SXM", "cards": 8}


def test_the_twin_gives_the_numbers_of_the_book() -> None:
    assert answer("kv", LLAMA) == 687_194_767_360
    assert answer("weights", LLAMA | {"dtype": "int4"}) == costs.params(configs.LLAMA_3_70B) / 2
    assert answer("fits", LLAMA) == 44
    assert answer("decode", LLAMA) == costs.decode_time(configs.LLAMA_3_70B, 64, 32768, hardware.H100_SXM, 8)
    assert answer("ttft", LLAMA | {"tokens": 4096, "mfu": 0.5}) == costs.prefill_time(configs.LLAMA_3_70B, 4096, hardware.H100_SXM, 8, mfu=0.5)
    assert answer("crossover", LLAMA | {"against": "ffn", "causal": True}) == 86_016
    assert answer("experts", {"moe": "Mixtral-8x7B", "batch": 8}) == pytest.approx(7.199, abs=1e-3)
    assert answer("speculation", {"alpha": 0.8, "gamma": 5}) == pytest.approx(3.689, abs=1e-3)
    per_second = 64 / answer("decode", LLAMA)
    assert answer("price", LLAMA | {"price": 2.5}) == pytest.approx(20 / 3600 / per_second * 1e6)
    assert len(KINDS) == 9
    with pytest.raises(ValueError, match="kind='kvs' is not one of kv"):
        answer("kvs", LLAMA)


def test_the_data_is_what_the_modules_have() -> None:
    told = data()
    assert [model["name"] for model in told["models"]] == [model.name for model in MODELS]
    for row, model in zip(told["models"], MODELS, strict=True):
        assert (row["params"], row["kvNumbers"]) == (costs.params(model), costs.kv_cache_bytes(model, 1) / 2)
    for row, card in zip(told["cards"], CARDS, strict=True):
        assert (row["peak"], row["bandwidth"], row["memory"]) == (card.peak("bf16"), card.bandwidth, card.memory_bytes)
    assert [row["experts"] for row in told["moes"]] == [moe.n_experts for moe in MOES]
    assert told["bytes"] == costs.DTYPE_BYTES


@pytest.mark.parametrize("name", FORMS)
def test_a_form_stands_alone_and_is_balanced(name: str) -> None:
    markup = FORMS[name]()
    assert markup == FORMS[name]()
    bare = re.sub("<math.*?</math>", "", markup, flags=re.S)
    bare = re.sub(r"<(style|script)>.*?</\1>", "", bare, flags=re.S)
    html5lib.HTMLParser(strict=True).parseFragment(bare)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttp|import\(|https?://(?!www\.w3\.org)", markup)
    assert markup.count("<script>") == markup.count("</script>") == 2 and "__" not in markup.split("<script>")[2]
    assert "```" not in markup, "it would end the block that puts it on its page"


def test_every_field_has_a_label() -> None:
    for name, make in FORMS.items():
        tree = BeautifulSoup(make(), "html.parser")
        for field in tree.find_all(["input", "textarea", "select"]):
            assert field.find_parent("label") or tree.find("label", attrs={"for": field["id"]}), (name, field)


def test_the_exam_carries_every_question_once() -> None:
    tree = BeautifulSoup(exam_html(), "html.parser")
    ids = [box["id"] for box in tree.select("template fieldset")]
    assert sorted(ids) == sorted(f"q-{q.stem}-{q.id}" for path in QUIZZES.glob("*.yml") for q in load(path))
    assert '"url":"../chapters/' in exam_html() and '"url":"../chapters/' not in exam_html(links=False)


def test_what_a_question_says_to_reread_is_a_section(root: Path = QUIZZES.parent) -> None:
    known = chapters(root)
    missing = [
        f"{question.stem}/{question.id}: {question.reread!r}"
        for chapter in known if chapter.url for question in chapter.questions
        if question.reread and "#" not in reread_url(question, known)
    ]
    assert not missing, missing


def test_headings_in_fences_are_none(tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text('{"cells": [{"cell_type": "markdown", "source": ["# One\\n", "```\\n", "# no\\n", "```\\n", "## Two `x`"]}, {"cell_type": "code", "source": "# no"}]}')
    assert headings(path) == ["One", "Two `x`"]


def test_the_command_writes_a_page_or_says_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "drills.html"
    assert command.main(["drills", "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert command.main(["drills", "--out", str(tmp_path / "no" / "where.html")]) == 1
    assert "where.html" in capsys.readouterr().err
