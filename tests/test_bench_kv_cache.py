"""kv_cache.py: predictions come before each measurement, counters equal the cost model. Never a timing."""

import json

import pytest

from benchmarks import kv_cache
from course import results
from tinyserve import configs, costs
from tinyserve.kv_cache import ContiguousCache, GrowingCache
from tinyserve.model import build

RUN_PLAN = kv_cache.plan("cpu", quick=True)


@pytest.fixture(scope="module")
def quick():
    return kv_cache.run("cpu", quick=True)


def test_every_context_is_measured_both_ways(quick):
    assert [(row["context"], row["way"]) for row in quick["steps"]] == [(t, way) for t in RUN_PLAN.contexts for way in ("cache", "no cache")]
    for row in quick["steps"]:
        assert len(row["seconds"]) == len(row["predictions"]) == RUN_PLAN.rounds
        assert row["measured"] == pytest.approx(sum(row["seconds"]) / 2)  # two rounds: the median is the mean
        for name, error in row["errors"].items():
            ratios = [p[name] / s for p, s in zip(row["predictions"], row["seconds"], strict=True)]
            assert error == pytest.approx(sum(ratios) / 2 - 1)
    json.dumps(quick, allow_nan=False)


def test_each_prediction_comes_before_its_measurement(quick):
    for row in quick["steps"]:
        assert all(p < m for p, m in zip(row["order"]["predicted"], row["order"]["measured"], strict=True))
        assert all(m < p for m, p in zip(row["order"]["measured"], row["order"]["predicted"][1:]))


def test_the_counters_prove_which_was_on(quick):
    for row in quick["steps"]:
        assert row["tokens"] == (1 if row["way"] == "cache" else row["context"])
    runs = {row["cache"]: row for row in quick["answer"]["runs"]}
    assert runs["no cache"]["tokens"] == 5 + 6 + 7 and "bytes_copied" not in runs["no cache"]
    for name, written in (("growing", 5 + 6 + 7), ("preallocated", 7)):
        assert runs[name]["tokens"] == runs[name]["tokens_appended"] == 7
        assert runs[name]["bytes_copied"] == costs.kv_cache_bytes(configs.COURSE_DRAFT, written, "fp32")
        assert len(runs[name]["seconds"]) == 3


def test_all_ways_give_one_answer():
    model = build(configs.COURSE_DRAFT, std=0.2)
    answers = [kv_cache.answer(model, 7, 6, cache) for cache in (None, GrowingCache(model.config), ContiguousCache(model.config, 1, 13))]
    assert answers[0] == answers[1] == answers[2] and len(answers[0]) == 6


def test_a_cache_that_is_not_used_stops_the_run(monkeypatch):
    real = kv_cache.answer
    monkeypatch.setattr(kv_cache, "answer", lambda decoder, prompt, output, cache: real(decoder, prompt, output, None))
    with pytest.raises(RuntimeError, match="growing: 18 tokens ran"):
        kv_cache.answer_rows(configs.COURSE_DRAFT, "cpu", "fp32", RUN_PLAN)


def test_the_full_plan_reaches_the_models_window():
    full = kv_cache.plan("cpu", quick=False)
    assert full.contexts[-1] == configs.COURSE_MODEL.max_context and full.prompt + full.output <= configs.COURSE_MODEL.max_context


def test_main_writes_only_where_asked(monkeypatch, capsys, quick):
    monkeypatch.setattr(kv_cache, "run", lambda device, only_quick: quick)
    written = []
    monkeypatch.setattr(results, "write", lambda name, *rest: written.append(name) or results.ROOT / "x")
    assert kv_cache.main(["--quick"]) == 0 and not written
    assert kv_cache.main(["--quick", "--out", "try_out"]) == 0 and kv_cache.main([]) == 0
    assert written == ["try_out", "kv_cache_cpu"]
    assert all((results.ROOT / file).is_file() for file in kv_cache.CODE)
    assert "preallocated" in capsys.readouterr().out
