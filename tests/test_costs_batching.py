"""The gain of continuous batching: against enumeration, closed forms and simulated batches."""

import itertools
import math
import random
import statistics

import pytest

from tinyserve import costs


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_longest_is_that_of_all_draws(batch):
    lengths = [5, 1, 2, 2, 9]
    every = [max(draw) for draw in itertools.product(lengths, repeat=batch)]
    assert costs.expected_longest(lengths, batch) == pytest.approx(statistics.mean(every), rel=1e-12)
    assert costs.batching_gain(lengths, batch) == pytest.approx(statistics.mean(every) / statistics.mean(lengths), rel=1e-12)


def test_gain_of_32():
    assert costs.uniform_batching_gain(32) == pytest.approx(1.94, abs=0.005)
    assert costs.exponential_batching_gain(32) == pytest.approx(4.06, abs=0.005)
    for batch in (1, 32):
        assert costs.batching_gain([128] * 7, batch) == pytest.approx(1, rel=1e-12)
    assert costs.uniform_batching_gain(1) == costs.exponential_batching_gain(1) == 1


@pytest.mark.parametrize("batch", [1, 4, 32])
def test_closed_forms_are_limits_of_the_lists(batch):
    n = 200_000
    assert costs.batching_gain([i + 0.5 for i in range(n)], batch) == pytest.approx(costs.uniform_batching_gain(batch), rel=1e-4)
    quantiles = [-math.log(1 - (i + 0.5) / n) for i in range(n)]
    assert costs.batching_gain(quantiles, batch) == pytest.approx(costs.exponential_batching_gain(batch), rel=1e-3)


def test_gain_is_that_of_simulated_batches():
    stream, lengths, batch = random.Random(3), [1, 3, 3, 40, 8], 6
    drawn = stream.choices(lengths, k=60_000)
    static = sum(max(drawn[i : i + batch]) for i in range(0, len(drawn), batch))
    assert static / (sum(drawn) / batch) == pytest.approx(costs.batching_gain(lengths, batch), rel=0.01)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: costs.batching_gain([], 2), "at least one"),
        (lambda: costs.batching_gain([3, 0], 2), "above 0"),
        (lambda: costs.expected_longest([3], 0), "batch=0"),
        (lambda: costs.uniform_batching_gain(0), "batch=0"),
        (lambda: costs.exponential_batching_gain(1.5), "batch=1.5"),
    ],
)
def test_bad_input(call, said):
    with pytest.raises(ValueError, match=said):
        call()
