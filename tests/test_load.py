"""Open and closed loop on the engine, with a clock that only the test moves; and what is computed from a run."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from tinyserve import metrics
from tinyserve.configs import ModelConfig
from tinyserve.engine import Engine
from tinyserve.load import closed_loop, open_loop, poisson
from tinyserve.model import build
from tinyserve.request import Request, Status

TINY = ModelConfig("tiny", n_layers=1, d_model=16, n_heads=2, n_kv_heads=1, head_dim=8, d_ff=16, vocab_size=50, rope_theta=1e4)


class StepEngine(Engine):
    """An engine whose steps take a second of its own clock."""

    def __init__(self, **options) -> None:
        self.now = 100.0
        super().__init__(build(TINY, std=0.3), 40, 4, clock=lambda: self.now, **options)

    def step(self):
        self.now += 0.0 if self.scheduler.idle else 1.0
        return super().step()

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def ended(prompt: int, times: list[float], arrival: float = 0.0, reason: str = "length") -> Request:
    """A request that has ended, with its times given."""
    request = Request([1] * prompt, max_tokens=len(times) or 1)
    request.arrival, request.token_times, request.finished = arrival, times, times[-1] if times else arrival
    request.tokens += [0] * len(times)
    request.status, request.finish_reason = Status.FINISHED, reason
    return request


def test_poisson_arrivals():
    times = poisson(4.0, 20_000, seed=1)
    assert times[0] == 0.0 and times == sorted(times) and times == poisson(4.0, 20_000, seed=1)
    gaps = np.diff(times)
    assert gaps.mean() == pytest.approx(0.25, rel=0.03) and gaps.std() == pytest.approx(0.25, rel=0.03)
    assert poisson(math.inf, 3) == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="rate=0 is not above 0"):
        poisson(0, 3)


def test_open_loop_counts_the_wait_from_when_a_request_was_due():
    engine = StepEngine(max_num_seqs=1)
    requests = open_loop(engine, [(0.0, Request([1], max_tokens=3)), (0.5, Request([2], max_tokens=1))], engine.sleep)
    assert [r.arrival for r in requests] == [100.0, 100.5]
    assert requests[1].ttft == 3.5  # three steps of the first, then its own


def test_open_loop_sleeps_while_idle_and_ends_what_is_refused():
    engine = StepEngine()
    requests = open_loop(engine, [(7.0, Request([1], max_tokens=1)), (2.0, Request([], max_tokens=1))], engine.sleep)
    assert requests[0].finish_reason == "error" and "empty" in requests[0].error
    assert requests[1].arrival == 107.0 and requests[1].ttft == 1.0


def test_closed_loop_never_has_more_inside_than_clients():
    engine = StepEngine(trace=[])
    requests = closed_loop(engine, [Request([i], max_tokens=1 + i % 3) for i in range(7)] + [Request([99])], clients=2)
    assert all(len(step["chunks"]) <= 2 for step in engine.scheduler.trace)
    assert [r.finish_reason for r in requests] == ["length"] * 7 + ["error"]
    with pytest.raises(ValueError, match="clients=0 is below 1"):
        closed_loop(engine, [], 0)


@pytest.mark.parametrize("p", [0, 1, 37.5, 50, 99, 100])
def test_percentile_is_numpy_s(p):
    values = [random.Random(5).random() for _ in range(31)]
    assert metrics.percentile(values, p) == pytest.approx(np.percentile(values, p))
    assert metrics.percentile([3.0], p) == 3.0


def test_percentile_bad_input():
    with pytest.raises(ValueError, match="no values"):
        metrics.percentile([], 50)
    with pytest.raises(ValueError, match="p=101 is not between"):
        metrics.percentile([1.0], 101)


def test_summary_and_goodput():
    requests = [ended(3, [1.0, 2.0, 4.0]), ended(3, [3.0], arrival=1.0), ended(3, [], arrival=2.0, reason="error")]
    found = metrics.summarize(requests)
    assert (found.requests, found.failed, found.seconds, found.output_tokens) == (3, 1, 4.0, 4)
    assert found.ttft_p50 == 1.5 and found.itl_p50 == 1.5 and found.tpot_p50 == 1.5
    assert found.throughput == 1.0 and found.request_rate == 0.5
    assert metrics.goodput(requests, ttft=1.0) == 0.25  # the second waited two seconds
    assert metrics.goodput(requests, itl=1.9) == 0.25  # the first has a gap of two
    assert metrics.goodput(requests, tpot=1.5) == 0.5
    with pytest.raises(ValueError, match="none of 1 requests"):
        metrics.summarize(requests[2:])


def test_littles_law_is_an_identity_over_a_whole_run():
    engine = StepEngine(max_num_seqs=3)
    arrivals = [(at, Request([i], max_tokens=1 + i % 5)) for i, at in enumerate(poisson(1.0, 30))]
    requests = open_loop(engine, arrivals, engine.sleep)
    seconds = metrics.span(requests)
    mean = sum(r.e2e for r in requests) / 30
    assert metrics.mean_in_system(requests) == pytest.approx(30 / seconds * mean)


def test_mean_in_system_counts_from_event_to_event():
    requests = [ended(1, [4.0]), ended(1, [3.0], arrival=1.0), ended(1, [10.0], arrival=8.0), ended(1, [2.0], arrival=2.0)]
    # one inside for 1 s, two for 2 s, one for 1 s, none for 4 s, one for 2 s; the last of them ends as it comes
    assert metrics.mean_in_system(requests) == pytest.approx((1 + 4 + 1 + 0 + 2) / 10)


def test_a_run_in_which_nothing_ended_has_no_time():
    refused = Request([1])
    refused.fail("the prompt is empty")
    for function in (metrics.span, metrics.goodput, metrics.mean_in_system):
        with pytest.raises(ValueError, match="none of 1 requests has arrived and ended"):
            function([refused])
