"""rounds.py: the order is that of the events, a drifting machine moves no error, a disturbed run says so."""

import itertools

import pytest

from benchmarks import kv_cache, predict, rounds
from benchmarks.rounds import Round


class FakeProber:
    device = "cpu"

    def __init__(self, events):
        self.events = events

    def roofs(self, gemm_sizes, gemv_shapes):
        self.events.append("probe")
        return "roofs"


def test_a_round_probes_then_predicts_then_measures():
    events, clock = [], itertools.count(7)

    def predict_all(roofs):
        events.append(f"predict from {roofs} at {next(clock)}")
        return [{"own shapes": 2.0}]

    found = rounds.one_round(FakeProber(events), (1,), ((1, 1),), predict_all, [lambda: events.append(f"step at {next(clock)}")], clock)
    # The clock ticks at the events themselves: each prediction has happened when its tick is taken, and no step has.
    assert events == ["probe", "predict from roofs at 7", "step at 9", "step at 10"]  # the first call of a step is not timed
    assert found.order == {"predicted": 8, "measured": 11} and len(found.seconds) == 1


def made_up(guesses, seconds):
    return [Round(None, [{"own shapes": g}], [s], {"predicted": 2 * i, "measured": 2 * i + 1}) for i, (g, s) in enumerate(zip(guesses, seconds))]


def test_a_machine_that_drifts_moves_no_error():
    """Rounds at full, half and a tenth of the speed: predicted and measured seconds grow alike."""
    found = rounds.judged(made_up((1.1, 2.2, 11.0), (1.0, 2.0, 10.0)), 0)
    assert found["errors"]["own shapes"] == pytest.approx(0.1) and found["spread"]["own shapes"] == pytest.approx(1)
    assert found["measured"] == 2 and found["order"] == {"predicted": [0, 2, 4], "measured": [1, 3, 5]}


def test_one_disturbed_step_is_not_a_disturbed_run_but_many_are():
    def steps(disturbed):
        return [{"spread": {"own shapes": 3.0 if i < disturbed else 1.1}} for i in range(12)]

    assert rounds.unsteady(steps(1)) == pytest.approx(1.1)
    assert rounds.unsteady(steps(4)) > rounds.QUIET


@pytest.mark.parametrize("benchmark", [predict, kv_cache])
def test_a_disturbed_run_says_so(benchmark):
    data = benchmark.run("cpu", True)
    assert "Run it again" in benchmark.table(data | {"unsteady": 2.0})
    assert "Run it again" not in benchmark.table(data | {"unsteady": 1.1})


def test_a_single_value_has_no_spread():
    assert rounds.quartile_ratio([4.0]) == 1 and rounds.quartile_ratio([1.0, 1.0, 2.0, 2.0]) == 2
