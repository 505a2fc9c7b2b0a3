"""The clocks of costs: the roofline asked often, and prices fitted to measured steps."""

from __future__ import annotations

import random

import pytest

from tinyserve import costs
from tinyserve.configs import LLAMA_3_8B, LLAMA_3_70B
from tinyserve.hardware import A100_80_SXM, H100_SXM

MIXED = [[(1, 99)] * 5, [(512, 0)], [(1, 8000), (300, 4096), (7, 1)], [(1, 31)] * 200]


def random_work(rng: random.Random) -> list[tuple[int, int]]:
    """One to forty sequences, decodes and chunks."""
    return [(rng.choice([1, 1, 1, rng.randint(2, 200)]), rng.randint(0, 3000)) for _ in range(rng.randint(1, 40))]


@pytest.mark.parametrize("work", MIXED)
@pytest.mark.parametrize(("model", "card", "cards", "options"), [
    (LLAMA_3_8B, A100_80_SXM, 1, {}), (LLAMA_3_70B, H100_SXM, 8, {"mfu": 0.5, "mbu": 0.7, "kv_dtype": "fp8", "weights": 70e9}),
])
def test_step_clock_is_step_time_plus_overhead(work, model, card, cards, options):
    clock = costs.StepClock(model, card, cards, overhead=0.25, **options)
    assert clock(work) == pytest.approx(costs.step_time(model, work, card, cards, **options) + 0.25, rel=1e-12)


def test_work_sums_count_what_flops_and_cache_count():
    sequences, tokens, reach, pairs = costs.work_sums(MIXED[2])
    assert (sequences, tokens) == (3, 308)
    assert reach == sum(new + cached for new, cached in MIXED[2])
    assert pairs == sum(costs.attention_pairs(new, cached) for new, cached in MIXED[2])


def test_fit_finds_the_prices_that_made_the_times():
    true, rng = costs.FittedClock(2e-3, 1e-5, 3e-6, 2e-9, 5e-9), random.Random(0)
    works = [random_work(rng) for _ in range(60)]
    found = costs.fit_clock((work, true(work)) for work in works)
    for work in works:
        assert found(work) == pytest.approx(true(work), rel=1e-6)
    for name, value in vars(true).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-3)


def test_a_price_never_falls_below_zero():
    rng = random.Random(1)
    works = [random_work(rng) for _ in range(40)]
    found = costs.fit_clock((work, 1e-3 + 1e-6 * costs.work_sums(work)[1] * rng.uniform(0.5, 2)) for work in works)
    assert min(vars(found).values()) >= 0


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="steps=4 is not a whole number of at least 5"):
        costs.fit_clock([([(1, 1)], 1.0)] * 4)
    with pytest.raises(ValueError, match="took no time"):
        costs.fit_clock([([(1, 1)], 0.0)] * 5)
    with pytest.raises(ValueError, match="overhead=-1 is below 0"):
        costs.StepClock(LLAMA_3_8B, A100_80_SXM, overhead=-1)
