"""simulator.py: nothing of a workload that is predicted was fitted, and counters agree between engine and paper. Never a timing."""

import json

import pytest

from benchmarks import simulator
from tinyserve import costs


@pytest.fixture(scope="module")
def quick():
    return simulator.run("cpu", quick=True)


def test_every_workload_has_its_rounds(quick):
    assert [row["workload"] for row in quick["rows"]] == list(simulator.HELD_OUT)
    assert not set(simulator.FIT) & set(simulator.HELD_OUT)
    for row in quick["rows"]:
        assert len(row["rounds"]) == len(quick["clocks"]) == 2
        for metric, error in row["errors"].items():
            ratios = [r["predicted"][metric] / r["measured"][metric] for r in row["rounds"]]
            assert error == pytest.approx(sum(ratios) / 2 - 1)
    json.dumps(quick, allow_nan=False)


def test_all_at_once_runs_the_same_steps_on_paper(quick):
    row = quick["rows"][list(simulator.HELD_OUT).index("long among short, all at once")]
    for seen in row["rounds"]:
        assert seen["steps"]["predicted"] == seen["steps"]["measured"]
        assert seen["model_tokens"]["predicted"] == seen["model_tokens"]["measured"]


def test_arrivals_are_the_same_twice_and_differ_by_seed():
    workload = simulator.HELD_OUT["shared prefix at 0.8 load"]
    one, two, other = (workload.arrivals(seed, 2.0) for seed in (1, 1, 2))
    assert [(at, r.prompt, r.max_tokens) for at, r in one] == [(at, r.prompt, r.max_tokens) for at, r in two]
    assert [at for at, _ in one] != [at for at, _ in other]
    assert len({tuple(r.prompt[: workload.shared]) for _, r in one}) == 1


def test_a_clock_that_made_the_steps_is_found_again():
    true = costs.FittedClock(1e-3, 1e-4, 1e-5, 1e-7, 1e-8)
    arrivals = simulator.FIT["burst"].arrivals(0, 1.0)
    trace: list = []
    replica = simulator.Replica(true, 512, **simulator.LIMITS, trace=trace)
    simulator.simulate(arrivals, [replica])
    found = costs.fit_clock(simulator.steps_of(trace))
    assert found.token == pytest.approx(true.token, rel=1e-3) and found.fixed == pytest.approx(true.fixed, rel=1e-3)
