"""benchmarks.engine: all arms give one set of tokens, counts are right, ratios and targets say what they should. Never a timing."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from benchmarks import engine, engine_arms, engine_judge, engine_profile
from benchmarks import engine_workloads as work
from benchmarks.engine_arms import Arms, Served
from benchmarks.engine_workloads import ALONE, BARE, ENGINE, ENGINE_OFF, STATIC, VLLM, Case
from course import results
from tinyserve import costs

MINI = "random-mini"
EQUAL = Case("equal", MINI, (ALONE, STATIC, BARE, ENGINE), 6, 3, 5, 4)
MIXED = Case("mixed", MINI, (STATIC, ENGINE), 6, 3, 8, 4, mixed=True)
ARRIVING = replace(MIXED, name="arriving", load=0.7, after="mixed")
SHARED = Case("shared", MINI, (ENGINE_OFF, ENGINE), 4, 4, 20, 1, shared=272)


@pytest.fixture(scope="module")
def arms(tmp_path_factory):
    return Arms.of(work.folder_of(MINI, tmp_path_factory.mktemp("checkpoints")), None)


@pytest.mark.parametrize("kind", ["equal", "uniform", "exponential"])
def test_lengths_are_quantiles_of_their_mean(kind):
    found = work.lengths(32, 64, kind)
    assert len(found) == 64 and found == sorted(found) and found[0] >= 1
    assert sum(found) / 64 == pytest.approx(32, rel=0.02)
    assert {"equal": 32, "uniform": 48, "exponential": 155}[kind] == found[-1]  # 155 = 32 ln 128
    with pytest.raises(ValueError, match="kind='normal'"):
        work.lengths(32, 4, "normal")


def test_rounds_differ_in_prompts_and_order_alone():
    one, again, other = (work.draw(MIXED, number) for number in (0, 0, 1))
    assert one == again and one.prompts != other.prompts and one.max_tokens != other.max_tokens
    assert sorted(one.max_tokens) == sorted(other.max_tokens)
    assert sorted(map(len, one.prompts)) == sorted(map(len, other.prompts))
    assert not {tuple(p) for p in one.prompts} & {tuple(p) for p in other.prompts}
    cut = one.cut()
    assert len(cut.prompts) == 3 and max(cut.max_tokens) <= 4


def test_shared_prompts_begin_alike_and_with_another_prefix_each_round():
    first, second = (work.draw(SHARED, number).prompts for number in (0, 1))
    assert len({tuple(p[:272]) for p in first}) == 1 and len({tuple(p) for p in first}) == 4
    assert first[0][:272] != second[0][:272]


def test_arrivals_come_at_the_rate():
    many = replace(ARRIVING, requests=4000)
    arrivals = work.draw(many, 0, rate=20.0).arrivals
    assert arrivals[0] == 0 and arrivals == sorted(arrivals)
    assert 4000 / arrivals[-1] == pytest.approx(20, rel=0.1)
    for case, rate in ((ARRIVING, None), (MIXED, 3.0)):
        with pytest.raises(ValueError, match="both or neither"):
            work.draw(case, 0, rate)


@pytest.mark.parametrize(("change", "says"), [({"mixed": True}, "bare loop"), ({"requests": 7}, "bare loop"), ({"load": 0.5}, "belong together"), ({"after": "x"}, "belong together")])
def test_a_case_that_cannot_be_is_refused(change, says):
    with pytest.raises(ValueError, match=says):
        replace(EQUAL, **change)


def test_every_arm_gives_the_same_tokens_and_runs_the_tokens_it_should(arms):
    workload = work.draw(EQUAL, 0)
    found = engine_judge.one_round(arms, EQUAL.arms, workload)
    assert all(served.outputs == found[ALONE].outputs for served in found.values())
    assert {served.model_tokens for served in found.values()} == {6 * (5 + 4 - 1)}
    assert all(len(s.done) == 6 and s.done == sorted(s.done) and s.done[-1] <= s.seconds for s in found.values())


def test_a_static_batch_runs_to_its_longest(arms):
    workload = work.draw(MIXED, 0)
    found = engine_judge.one_round(arms, (ALONE, *MIXED.arms), workload)
    assert found[STATIC].outputs == found[ENGINE].outputs == found[ALONE].outputs
    halves = [(workload.prompts[i : i + 3], workload.max_tokens[i : i + 3]) for i in (0, 3)]
    assert found[STATIC].model_tokens == sum(3 * (max(map(len, p)) + max(m) - 1) for p, m in halves)
    assert found[ENGINE].model_tokens == sum(len(p) + m - 1 for p, m in zip(workload.prompts, workload.max_tokens, strict=True))
    assert found[STATIC].model_tokens > found[ENGINE].model_tokens


@pytest.mark.parametrize("arm", [STATIC, ENGINE])
def test_nothing_is_served_before_it_arrives(arms, arm):
    workload = replace(work.draw(MIXED, 0), arrivals=[0.0, 0.0, 0.05, 0.4, 0.4, 0.9])
    served = arms.serve(arm, workload)
    assert served.outputs == arms.serve(ALONE, replace(workload, arrivals=None)).outputs
    assert all(end > at for end, at in zip(served.done, workload.arrivals, strict=True))
    assert all(end > at for end, at in zip(served.first, workload.arrivals)) and served.seconds > 0.9


def test_prefix_caching_is_on_in_one_arm_and_off_in_the_other(arms):
    workload = work.draw(SHARED, 0)
    off, on = (arms.serve(name, workload) for name in (ENGINE_OFF, ENGINE))
    assert off.outputs == on.outputs and not any(off.cached)
    assert on.cached[0] == 0 and all(on.cached[1:]) and on.model_tokens == off.model_tokens - sum(on.cached)
    guess = engine_judge.gains(SHARED, workload, {ENGINE_OFF: off, ENGINE: on})
    assert guess["tokens"] == off.model_tokens / on.model_tokens > 2
    model, n = work.MODELS[MINI], 272 + 20
    flops = sum(costs.forward_flops(model, n - c, c) for c in on.cached)
    assert guess["attention"] == 4 * costs.forward_flops(model, n) / flops
    with pytest.raises(RuntimeError, match="saved a factor"):
        engine_judge.prediction({"tokens": 3.5}, 0, {ENGINE_OFF: off, ENGINE: on}, 1)


def test_a_request_that_does_not_run_to_its_length_stops_the_run(arms):
    with pytest.raises(RuntimeError, match="asked for"):
        cheat = SimpleNamespace(serve=lambda name, workload: Served([[1]] * 6, 1.0, [1.0] * 6))
        engine_judge.one_round(cheat, (ENGINE,), work.draw(EQUAL, 0))
    workload, small = work.draw(EQUAL, 0), replace(work.draw(EQUAL, 0), max_tokens=[1] * 6)
    served = engine_arms.new_engine(arms.decoder, workload)
    request = served.add(workload.prompts[0], max_tokens=3)
    served.step()
    served.abort(request)
    with pytest.raises(RuntimeError, match="abort"):
        engine_arms._served(served, [request], 0.0, 1.0)
    assert arms.serve(ENGINE, small).outputs  # the decoder itself is untouched


def test_ratios_are_formed_within_a_round():
    workloads = [work.draw(MIXED, i) for i in range(3)]
    rounds = [
        {STATIC: Served([], s * slow, [s * slow] * 6), ENGINE: Served([], s, [s] * 6)} for s, slow in ((1, 2), (5, 3), (0.1, 2.5))
    ]
    assert engine_judge.ratios(MIXED, workloads, rounds)[STATIC]["rounds"] == pytest.approx([2, 3, 2.5])
    assert engine_judge.ratios(MIXED, workloads, rounds)[STATIC]["median"] == pytest.approx(2.5)
    late = [replace(w, arrivals=[0.05] * 6) for w in workloads]
    assert engine_judge.ratios(ARRIVING, late, rounds)[STATIC]["rounds"][0] == pytest.approx(1.95 / 0.95)
    assert [engine_judge.rotated("abc", i) for i in range(4)] == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"]]


def test_agreement_counts_whole_outputs():
    one = Served([[1, 2], [3, 4], [5, 6]], 1.0, [])
    assert engine_judge.agreeing(one, replace(one, outputs=[[1, 2], [3, 5], [5, 6]])) == 2


def test_targets_are_met_missed_or_absent():
    case = Case("c", "course-model", (STATIC, BARE, ENGINE, VLLM), 32, 16, 4, 4)
    row = {"ratios": {STATIC: {"median": 1.05}, BARE: {"median": 0.89}}}
    found = {(t["what"], t["arm"]): t["met"] for t in engine_judge.targets([(case, row)])}
    assert found == {
        ("equal lengths, batch 16, against generate", STATIC): True, ("against a bare loop of the same decoder", BARE): False,
        ("against vLLM: aim", VLLM): None, ("against vLLM: least at batch 16", VLLM): None,
    }
    for error, met in ((-0.149, True), (-0.16, False), (0.149, True), (0.16, False)):
        (target,) = engine_judge.targets([(SHARED, {"ratios": {}, "gain": {"errors": {"tokens": error}}})])
        assert target["met"] is met


def test_every_target_of_the_full_plan_is_asked_of_some_case():
    cases = [(case, {"ratios": {}} | ({"gain": {"errors": {"tokens": 0.0}}} if case.shared else {})) for case in engine.plan(quick=False).cases]
    asked = {target["what"] for target in engine_judge.targets(cases)}
    assert asked == {what for what, *_ in engine_judge.TARGETS} | {"gain of prefix caching against tokens"}


def test_the_full_plan_is_what_was_asked_for():
    run_plan = engine.plan(quick=False)
    assert run_plan.rounds >= 5
    params = {case.model: costs.params(work.MODELS[case.model]) for case in run_plan.cases}
    assert 4.5e6 < params["random-5M"] < 5.5e6 and 50e6 < params["random-57M"] < 100e6 and "course-model" in params
    (tiny,) = [case for case in run_plan.cases if case.model == "random-5M"]
    assert (tiny.requests, tiny.output, tiny.running) == (16, 48, 8)
    for case in run_plan.cases:
        assert work.draw(case, 0, None if case.load is None else 1.0).longest <= work.MAX_CONTEXT
        assert case.running in (1, 8, 16) and (case.requests == 64 or case.running == 1 or case.shared or case.model == "random-5M")
    assert work.STD >= 0.05


def test_clocks_count_only_a_functions_own_time(monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(engine_profile.time, "perf_counter", lambda: next(ticks))
    clocks = engine_profile.Clocks()
    inner = clocks.wrap("inner", lambda: None)
    outer = clocks.wrap("outer", lambda: (inner(), inner()))
    outer()
    assert clocks.seconds == {"inner": 2, "outer": 3}  # 6 readings: 5 ticks in all


def test_a_profiled_step_is_told_apart_and_everything_is_put_back(arms):
    before = [getattr(*engine_profile._find(name)) for names in engine_profile.PARTS.values() for name in names]
    row = engine_profile.profile_decode(arms.decoder, running=2, prompt=5, steps=2)
    after = [getattr(*engine_profile._find(name)) for names in engine_profile.PARTS.values() for name in names]
    assert before == after and "index_select" not in vars(torch.Tensor)
    assert set(row["shares"]) == {*engine_profile.PARTS, "rest"} and sum(row["shares"].values()) == pytest.approx(1)
    assert all(share > 0 for share in row["shares"].values()) and len(row["seconds"]) == len(row["parts"]) == 2


def test_a_run_makes_a_whole_record(tmp_path, monkeypatch, capsys):
    cases = (MIXED, replace(ARRIVING, arms=(STATIC, ENGINE, VLLM)), SHARED)
    monkeypatch.setattr(engine, "plan", lambda quick: engine.Plan(cases, 2, (MINI,), 1))
    monkeypatch.setattr(engine, "folder_of", lambda name, root: work.folder_of(name, tmp_path))
    data = engine.run(quick=True, python=None)
    assert [row["case"] for row in data["cases"]] == ["mixed", "arriving", "shared"] and data["vllm"] == "absent"
    mixed, arriving, shared = data["cases"]
    for row in data["cases"]:
        for arm in row["arms"].values():
            assert len(arm["seconds"]) == len(arm["latency"]) == 2 and arm["agree"] == [row["requests"]] * 2
        assert row["orders"][0] == row["orders"][1][::-1] and VLLM not in row["arms"]
    fastest = sorted(mixed["arms"][ENGINE]["seconds"])
    assert arriving["rate"] == pytest.approx(0.7 * 6 * 2 / sum(fastest))  # two rounds: the median is the mean
    order = list(itertools.chain(*zip(shared["gain"]["order"]["predicted"], shared["gain"]["order"]["measured"], strict=True)))
    assert order == sorted(set(order)) and len(order) == 4
    json.dumps(data, allow_nan=False)
    assert "engine, prefix caching off" in capsys.readouterr().out and "vLLM: absent" in engine.table(data)


def test_main_writes_only_where_asked(monkeypatch, capsys):
    asked, written = [], []
    monkeypatch.setattr(engine, "run", lambda quick, python: asked.append((quick, python)) or {})
    monkeypatch.setattr(engine, "table", lambda data: "table")
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    monkeypatch.setattr(results, "write", lambda name, data, line, code: written.append((name, line)) or results.ROOT / "x")
    assert engine.main(["--quick"]) == 0 and not written
    assert engine.main(["--quick", "--out", "try_out"]) == 0 and engine.main(["--vllm", "/some/python"]) == 0
    assert written == [("try_out", "python -m benchmarks.engine --quick"), ("engine_cpu", "python -m benchmarks.engine --vllm PYTHON")]
    assert asked[-1] == (False, "/some/python")
    assert all((results.ROOT / file).is_file() for file in engine.CODE)
