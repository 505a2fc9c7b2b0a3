"""The laws of latencies against requests with known times."""

from __future__ import annotations

import pytest

from tinyserve import costs
from tinyserve.request import Request

TIMES = [0.40, 0.44, 0.48, 0.92, 0.96]


def test_parts_add_up_to_the_end():
    tpot = costs.time_per_output_token(TIMES)
    assert tpot == pytest.approx(0.14)
    assert costs.end_to_end(TIMES[0], tpot, len(TIMES)) == pytest.approx(TIMES[-1])
    assert costs.end_to_end(0.4, 99.0, 1) == 0.4


def test_a_request_s_own_times_are_those_of_the_laws():
    request = Request([1], max_tokens=5)
    request.arrival, request.token_times, request.finished = 0.0, TIMES, TIMES[-1]
    assert request.tpot == pytest.approx(costs.time_per_output_token(TIMES))
    assert request.e2e == pytest.approx(costs.end_to_end(request.ttft, request.tpot, len(TIMES)))


def test_littles_law_both_ways():
    assert costs.in_system(10, 8) == 80
    assert costs.largest_rate(costs.in_system(10, 8), 8) == 10


def test_the_tail_of_many_tries():
    assert costs.meets_tail(99, 1) == pytest.approx(0.01)
    assert costs.meets_tail(99, 10) == pytest.approx(0.0956, abs=5e-5)
    assert costs.meets_tail(100, 10) == 0


@pytest.mark.parametrize(("call", "said"), [
    (lambda: costs.time_per_output_token([1.0]), "tokens=1 is not a whole number of at least 2"),
    (lambda: costs.time_per_output_token([1.0, 0.5]), "go back"),
    (lambda: costs.end_to_end(0, 1, 2), "ttft=0 is not"),
    (lambda: costs.in_system(-1, 2), "rate=-1 is not"),
    (lambda: costs.largest_rate(1, 0), "seconds=0 is not"),
    (lambda: costs.meets_tail(0, 3), "percent / 100=0.0 is not"),
])
def test_bad_input_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()
