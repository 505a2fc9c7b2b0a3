"""Scaling laws: Chinchilla's numbers, the closed optimum against a search, serving, and the fit on runs of known truth."""

import math
import random

import pytest

from tinyserve import costs
from tinyserve.costs.scaling_laws import ScalingLaw, lowest

LAWS = [costs.CHINCHILLA, costs.CHINCHILLA_REFIT, ScalingLaw(0, 8, 30, 0.1, 0.5)]
SIZES, TOKENS = (2e8, 1e9, 4e9, 16e9), (5e9, 2e10, 1e11, 5e11)


def runs(law, noise=0.0, seed=0):
    chance = random.Random(seed)
    return [(n, d, law.loss(n, d) * math.exp(chance.gauss(0, noise))) for n in SIZES for d in TOKENS]


def test_chinchilla_and_gopher():
    law = costs.CHINCHILLA
    assert law.loss(70e9, 1.4e12) == pytest.approx(1.937, abs=5e-4)
    assert law.loss(280e9, 300e9) == pytest.approx(1.993, abs=5e-4)
    assert costs.training_flops(70e9, 1.4e12) == pytest.approx(5.88e23)
    assert law.exponents == pytest.approx((0.45, 0.55), abs=0.005)  # the paper has 0.46 and 0.54, before rounding
    assert costs.CHINCHILLA_REFIT.exponents == pytest.approx((0.513, 0.487), abs=0.001)


def test_the_terms_add_up():
    law = costs.CHINCHILLA
    assert law.loss(1e9, 1e10) == law.floor + law.size_term(1e9) + law.data_term(1e10)
    assert law.loss(1e30, 1e30) == pytest.approx(law.floor, abs=1e-5)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("flops", [1e15, 5.76e23, 1e27])
def test_the_formula_finds_the_lowest_point(law, flops):
    point, found = law.optimal(flops), law.optimal_by_search(flops)
    assert costs.training_flops(point.params, point.tokens) == pytest.approx(flops)
    assert found.params == pytest.approx(point.params, rel=1e-4)
    assert found.loss == pytest.approx(point.loss, rel=1e-9)
    for factor in (0.5, 0.9, 1.1, 2):
        assert law.loss(point.params * factor, point.tokens / factor) > point.loss


@pytest.mark.parametrize("law", LAWS)
def test_the_optimum_grows_with_the_exponents(law):
    small, large = law.optimal(1e20), law.optimal(1e22)
    assert large.params / small.params == pytest.approx(100 ** law.exponents[0])
    assert large.tokens / small.tokens == pytest.approx(100 ** law.exponents[1])
    assert sum(law.exponents) == pytest.approx(1)


@pytest.mark.parametrize("law", LAWS[:2])
def test_without_serving_the_cheapest_is_the_optimum(law):
    point = law.optimal(1e22)
    found = law.cheapest(point.loss)
    assert found.params == pytest.approx(point.params, rel=1e-4)
    assert found.tokens == pytest.approx(point.tokens, rel=1e-4)


def test_serving_makes_the_cheapest_model_smaller_and_longer_trained():
    law = costs.CHINCHILLA
    points = [law.cheapest(2.0, served) for served in (0, 1e12, 1e13)]
    assert points[0].params > points[1].params > points[2].params
    assert points[0].tokens < points[1].tokens < points[2].tokens
    for point, served in zip(points, (0, 1e12, 1e13), strict=True):
        assert law.loss(point.params, point.tokens) == pytest.approx(2.0)
        best = law.lifetime_flops(point.params, 2.0, served)
        assert best == pytest.approx(costs.training_flops(point.params, point.tokens) + 2 * point.params * served)
        for factor in (0.8, 1.25):
            assert law.lifetime_flops(point.params * factor, 2.0, served) > best


def test_a_size_too_small_never_gets_there():
    assert costs.CHINCHILLA.tokens_for(1e6, 2.0) == math.inf
    assert costs.CHINCHILLA.lifetime_flops(1e6, 2.0, 0) == math.inf


@pytest.mark.parametrize("law", LAWS[:2])
def test_the_fit_finds_the_truth_without_noise(law):
    fit = costs.fit_scaling_law(runs(law))
    assert costs.relative_error(fit, runs(law)) < 1e-5
    assert fit.floor == pytest.approx(law.floor, rel=0.01)
    assert (fit.alpha, fit.beta) == pytest.approx((law.alpha, law.beta), rel=0.02)


def test_with_noise_the_fit_is_at_least_as_near_as_the_truth():
    noisy = runs(costs.CHINCHILLA, noise=0.01, seed=3)
    fit = costs.fit_scaling_law(noisy)
    assert costs.relative_error(fit, noisy) <= costs.relative_error(costs.CHINCHILLA, noisy)


def test_a_given_floor_is_kept_and_never_fits_better():
    noisy = runs(costs.CHINCHILLA, noise=0.01)
    best = costs.relative_error(costs.fit_scaling_law(noisy), noisy)
    for floor in (0, 1.0, 1.6):
        fit = costs.fit_scaling_law(noisy, floor)
        assert fit.floor == floor
        assert costs.relative_error(fit, noisy) >= best - 1e-7


def test_with_the_true_floor_given_the_fit_finds_the_rest():
    truth = runs(costs.CHINCHILLA)
    fit = costs.fit_scaling_law(truth, floor=costs.CHINCHILLA.floor)
    assert costs.relative_error(fit, truth) < 1e-5
    assert (fit.alpha, fit.beta) == pytest.approx((0.34, 0.28), rel=0.01)


def test_no_constant_falls_below_zero():
    rising = [(n, d, 2 + 0.1 * math.log10(n) + 5 / d**0.1) for n in (1e5, 1e6, 1e7) for d in (1e6, 1e8)]
    fit = costs.fit_scaling_law(rising)  # the loss grows with the size: A = 0 is the best that is allowed
    assert fit.a == pytest.approx(0, abs=1e-6)
    assert fit.floor >= 0 and fit.b >= 0


def test_lowest():
    assert lowest(lambda x: (x - 3) ** 2, 0, 10) == pytest.approx(3, abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: costs.CHINCHILLA.loss(0, 1), "params=0"),
        (lambda: costs.CHINCHILLA.loss(1, -1), "tokens=-1"),
        (lambda: costs.training_flops(1, math.inf), "tokens=inf"),
        (lambda: costs.CHINCHILLA.optimal(0), "flops=0"),
        (lambda: costs.CHINCHILLA.optimal_by_search(-1), "flops=-1"),
        (lambda: ScalingLaw(1, 0, 1, 0.3, 0.3).optimal(1e9), "a=0"),
        (lambda: costs.CHINCHILLA.cheapest(1.69), "loss=1.69 is not above the floor"),
        (lambda: costs.CHINCHILLA.lifetime_flops(1e9, 2, -1), "served_tokens=-1"),
        (lambda: ScalingLaw(-1, 1, 1, 0.3, 0.3), "floor=-1"),
        (lambda: ScalingLaw(1, 1, 1, 0, 0.3), "alpha=0"),
        (lambda: costs.fit_scaling_law([(1, 1, 1)] * 4), "4 runs; 5 at least"),
        (lambda: costs.fit_scaling_law([(1, d, 1) for d in range(1, 7)]), "one size"),
        (lambda: costs.fit_scaling_law([(n, 1, 1) for n in range(1, 7)]), "one number of tokens"),
        (lambda: costs.fit_scaling_law(runs(costs.CHINCHILLA), floor=5.0), "floor=5.0"),
        (lambda: costs.fit_scaling_law([*runs(costs.CHINCHILLA), (1, 1, 0)]), "loss=0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_record_holds_the_runs_of_the_script():
    from course import results
    from training import scaling

    rows = results.load("train_scaling")["runs"]
    assert [(r["layers"], r["width"], r["tokens"], r["seed"], r["adam_rate"]) for r in rows] == [
        (r.layers, r.width, r.tokens, r.seed, r.adam_rate) for r in scaling.grid()
    ]
    for row, run in zip(rows, scaling.grid(), strict=True):
        assert row["params"] == costs.params(run.config)
        assert row["params"] - row["non_embedding_params"] == 2048 * run.width
        assert row["heldout_bits_per_byte"] == pytest.approx(
            row["heldout_nats_per_token"] / math.log(2) / results.load("train_scaling")["heldout_bytes_per_token"], rel=1e-4
        )
