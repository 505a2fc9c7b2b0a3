"""predict.py: predictions come from single operations alone and before each measurement. Never a timing."""

import json
import statistics
from dataclasses import replace

import pytest
import torch

from benchmarks import cases, predict, residue, roofs
from benchmarks.cases import Case
from course import results
from tinyserve import costs
from tinyserve.hardware import Accelerator
from tinyserve.model import build

MODEL = cases.sized_model(256, 1e6, "fp32")


def made_up(model, case, seconds=0.001):
    """Roofs with invented rates, as if measured for this case."""
    card = Accelerator("made up", {"fp32": 1e11}, 2e10, 1, 1, "none", 0, "", "")
    found = roofs.Roofs(card, 1e10, "fp32")
    rows = case.batch if case.phase == "decode" else case.context
    found.linear = {(rows, shape): seconds for shape in costs.matrix_shapes(model)}
    found.linear[case.batch, costs.head_shape(model)] = seconds
    new = 1 if case.phase == "decode" else case.context
    found.attention = {roofs.attention_key(model, case.batch, new, case.context): seconds}
    return found


@pytest.mark.parametrize("width", [256, 1024, 2048])
def test_a_model_is_as_deep_as_needed(width):
    least = 3.2e8
    model = cases.sized_model(width, least, "fp32")
    streamed = costs.weight_bytes(model, "fp32", resident=False)
    assert model.d_model == width and streamed >= least
    if model.n_layers > 1:
        assert costs.weight_bytes(replace(model, n_layers=model.n_layers - 1), "fp32", resident=False) < least


def test_decode_is_predicted_three_ways_from_the_roofs():
    case = Case("decode", 4, 100)
    found = cases.predict(made_up(MODEL, case), MODEL, case)
    assert tuple(found) == cases.DECODE_METHODS
    moved = costs.decode_bytes(MODEL, 4, 100, "fp32", "fp32")
    assert found["read roof"] == pytest.approx(max(moved / 2e10, costs.decode_flops(MODEL, 4, 100) / 1e11))
    assert found["best GEMV"] == pytest.approx(moved / 1e10)
    # Every single operation takes 1 ms here: as many ms as matrices, and one attention a layer.
    count = sum(costs.matrix_shapes(MODEL).values()) + MODEL.n_layers
    assert found["own shapes"] == pytest.approx(count * 0.001)


def test_prefill_is_predicted_two_ways_from_the_roofs():
    case = Case("prefill", 1, 64)
    found = cases.predict(made_up(MODEL, case), MODEL, case)
    assert tuple(found) == cases.PREFILL_METHODS
    assert found["roofline"] == pytest.approx(costs.prefill_time(
        MODEL, 64, made_up(MODEL, case).card, dtype="fp32", kv_dtype="fp32"))
    assert found["own shapes"] == pytest.approx((sum(costs.matrix_shapes(MODEL).values()) + MODEL.n_layers) * 0.001)


def test_what_was_not_probed_cannot_be_predicted():
    with pytest.raises(KeyError):
        cases.predict(made_up(MODEL, Case("decode", 1, 8)), MODEL, Case("decode", 2, 8))


def test_one_probe_serves_equal_cases():
    prober = roofs.Prober("cpu", "fp32", 2**25, 0.001)
    found = roofs.Roofs(made_up(MODEL, Case("decode", 1, 8)).card, 1e10, "fp32")
    cases.prepare(prober, found, MODEL, Case("decode", 2, 8))
    assert set(found.linear) == {(2, shape) for shape in costs.matrix_shapes(MODEL)}
    before = dict(found.linear)
    cases.prepare(prober, found, MODEL, Case("decode", 2, 16))
    assert found.linear == before and len(found.attention) == 2
    with pytest.raises(ValueError, match="does not fit twice"):
        prober.add_linear(found, 1, (4096, 2048))


@pytest.fixture(scope="module")
def quick():
    return predict.run("cpu", quick=True)


def test_each_prediction_comes_before_its_measurement(quick):
    for row in quick["cases"]:
        assert all(p < m for p, m in zip(row["order"]["predicted"], row["order"]["measured"], strict=True))
        assert set(row["predicted"]) == set(row["errors"])
        assert row["measured"] == pytest.approx(statistics.median(row["seconds"]))
        for name, error in row["errors"].items():
            each = [guess[name] / taken - 1 for guess, taken in zip(row["predictions"], row["seconds"], strict=True)]
            assert error == pytest.approx(statistics.median(each)) and row["spread"][name] >= 1


def test_the_record_is_complete(quick):
    run_plan = predict.plan("cpu", True, 2**25)
    assert [(r["phase"], r["batch"], r["context"]) for r in quick["cases"]] == [(c.phase, c.batch, c.context) for c in run_plan.cases]
    rounds = {"decode": run_plan.rounds, "prefill": run_plan.prefill_rounds}
    assert all(len(row["seconds"]) == rounds[row["phase"]] for row in quick["cases"])
    assert set(quick["median_errors"]) == {"decode", "prefill"}
    assert all(times for times in quick["roofs"]["repetitions"].values())
    json.dumps(quick, allow_nan=False)
    text = predict.table(quick)
    assert all(name in text for name in (*cases.DECODE_METHODS, *cases.PREFILL_METHODS, "median of the absolute errors"))


def test_the_model_ran_what_the_cases_say(quick):
    run_plan = predict.plan("cpu", True, 2**25)
    decode = sum(c.batch * 2 * run_plan.rounds for c in run_plan.cases if c.phase == "decode")
    prefill = sum(c.context * 2 * run_plan.prefill_rounds for c in run_plan.cases if c.phase == "prefill")
    assert [r["tokens"] for r in quick["cases"]] == [decode, decode, decode + prefill]


def test_full_plan_outgrows_the_cache():
    run_plan = predict.plan("cpu", False, 2**25)
    assert run_plan.least_bytes >= predict.TIMES_CACHE * 2**25
    assert {c.phase for c in run_plan.cases} == {"decode", "prefill"} and len(run_plan.widths) > 1
    assert len({c.batch for c in run_plan.cases}) > 2


def test_operations_are_counted():
    x = torch.ones(3, 4)
    assert residue.count_operations(lambda: (x.t() + 1).relu()) == {"launches": 2, "views": 1}
    counts = [
        residue.count_operations(cases.step(build(residue.empty_model(m)), Case("decode", 1, 2), "cpu", torch.float32))
        for m in (MODEL, replace(MODEL, n_layers=MODEL.n_layers + 1))
    ]
    own = residue.count_operations(cases.step(build(MODEL), Case("decode", 1, 2), "cpu", torch.float32))
    assert counts[0] == own and counts[1]["launches"] > own["launches"]


def test_cache_size_is_read(tmp_path):
    assert [roofs.parse_size(text) for text in ("32768K", "32M\n", "1G", "77")] == [2**25, 2**25, 2**30, 77]
    with pytest.raises(ValueError, match="'big'"):
        roofs.parse_size("big")
    for index, size in enumerate(("32K", "1024K", "16M")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n", encoding="utf-8")
    assert roofs.last_level_cache("cpu", tmp_path) == 2**24


@pytest.mark.parametrize(
    "call",
    [lambda: Case("other", 1, 1), lambda: Case("prefill", 2, 8), lambda: Case("decode", 0, 8), lambda: cases.sized_model(100, 1, "fp32")],
)
def test_bad_cases_are_refused(call):
    with pytest.raises(ValueError):
        call()


def test_main_writes_only_where_asked(tmp_path, monkeypatch, capsys, quick):
    monkeypatch.setattr(predict, "run", lambda device, only_quick: quick)
    written = []
    monkeypatch.setattr(results, "write", lambda name, *rest: written.append(name) or results.ROOT / "x")
    assert predict.main(["--quick"]) == 0 and not written
    assert predict.main(["--quick", "--out", "try_out"]) == 0 and predict.main([]) == 0
    assert written == ["try_out", "predict_cpu"]
    assert all((results.ROOT / file).is_file() for file in predict.CODE)
    assert "median of the absolute errors" in capsys.readouterr().out
