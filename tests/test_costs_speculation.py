"""Speculative decoding's formulas against simulation, the paper's figures, and each other."""

import random

import pytest

from tinyserve import configs, costs, hardware


@pytest.mark.parametrize(("alpha", "gamma", "tokens"), [(0.8, 1, 1.80), (0.8, 3, 2.95), (0.8, 5, 3.69), (0.8, 10, 4.57), (0, 7, 1), (1, 7, 8), (0.5, 0, 1)])
def test_tokens_of_a_pass(alpha, gamma, tokens):
    assert costs.speculative_tokens(alpha, gamma) == pytest.approx(tokens, abs=0.005)
    if alpha < 1:
        assert costs.speculative_tokens(alpha, gamma) == pytest.approx((1 - alpha ** (gamma + 1)) / (1 - alpha), rel=1e-12)


def test_tokens_are_those_of_coin_tosses():
    stream = random.Random(5)
    for alpha, gamma in ((0.8, 5), (0.4, 3)):
        total, rounds = 0, 20000
        for _ in range(rounds):
            tossed = [stream.random() < alpha for _ in range(gamma)]
            total += 1 + (tossed.index(False) if False in tossed else gamma)
        assert total / rounds == pytest.approx(costs.speculative_tokens(alpha, gamma), rel=0.015)


def test_speedup():
    assert costs.speculative_speedup(0.75, 7, 0.02) == pytest.approx(3.16, abs=0.005)  # the paper's Table 2 measures 3.4
    assert costs.speculative_speedup(0.82, 7, 0.11) == pytest.approx(2.50, abs=0.005)  # and 1.7
    assert costs.speculative_speedup(0.3, 0, 5.0) == 1
    assert costs.speculative_speedup(0.8, 5, 0) == costs.speculative_tokens(0.8, 5)
    assert costs.speculative_speedup(0.8, 5, 0.1, verify=6) == pytest.approx(costs.speculative_tokens(0.8, 5) / 6.5)


def test_it_gains_exactly_where_alpha_exceeds_c():
    """Corollary 3.9: if alpha > c some gamma gains, and the gain is at least (1 + alpha) / (1 + c); else none does."""
    for c in (0.05, 0.3, 0.7):
        above, below = c + 0.01, c - 0.01
        assert costs.best_gamma(above, c) >= 1
        assert costs.speculative_speedup(above, costs.best_gamma(above, c), c) >= (1 + above) / (1 + c)
        assert costs.best_gamma(below, c) == costs.best_gamma(c, c) == 0


def test_best_gamma():
    for alpha, c in ((0.8, 0.05), (0.6, 0.02), (0.9, 0.2)):
        best = costs.best_gamma(alpha, c)
        speed = [costs.speculative_speedup(alpha, gamma, c) for gamma in range(33)]
        assert speed[best] == max(speed) > max(speed[best - 1], speed[best + 1])
    assert costs.best_gamma(0.99, 0, most=9) == costs.best_gamma(1, 0.5, most=9) == 9
    assert costs.best_gamma(0.8, 0.05, most=2) == 2


def test_operations_grow_with_every_rejection():
    assert costs.speculative_operations(1, 5, 0) == 1
    assert costs.speculative_operations(0, 5, 0.1) == pytest.approx(6.5)
    alpha, gamma, c_hat = 0.7, 4, 0.05
    assert costs.speculative_operations(alpha, gamma, c_hat) == pytest.approx((1 - alpha) * (gamma * c_hat + gamma + 1) / (1 - alpha ** (gamma + 1)))


@pytest.mark.parametrize("alpha", [0.0, 0.123, 0.8, 1.0])
def test_acceptance_from_tokens_is_the_inverse(alpha):
    assert costs.acceptance_from_tokens(costs.speculative_tokens(alpha, 4), 4) == pytest.approx(alpha, abs=1e-9)


ON_FOUR = (hardware.A100_80_SXM, 4)


def test_verifying_nothing_is_a_decode_step():
    for batch, context in ((1, 1), (7, 300), (256, 2048)):
        assert costs.verify_time(configs.LLAMA_3_70B, batch, context, 0, *ON_FOUR) == costs.decode_time(configs.LLAMA_3_70B, batch, context, *ON_FOUR)


def test_verifying_costs_the_bytes_first_and_the_flops_later():
    model, (card, cards) = configs.LLAMA_3_70B, ON_FOUR
    few = costs.verify_time(model, 1, 1024, 4, *ON_FOUR)
    assert few * card.bandwidth * cards == pytest.approx(costs.weight_bytes(model, resident=False) + costs.kv_cache_bytes(model, 1028), rel=1e-12)
    many = costs.verify_time(model, 512, 512, 4, *ON_FOUR)
    flops = 5 * costs.linear_flops_per_token(model) + costs.attention_flops(model, 5, 511)
    assert many * card.peak("bf16") * cards == pytest.approx(512 * flops, rel=1e-12)
    assert costs.verify_time(model, 512, 512, 4, *ON_FOUR, mfu=0.5) == pytest.approx(2 * many)


BAD = [
    (costs.verify_time, (configs.LLAMA_3_8B, 1, 10, -1, hardware.H100_SXM), r"gamma=-1"),
    (costs.verify_time, (configs.LLAMA_3_8B, 0, 10, 1, hardware.H100_SXM), r"batch=0"),
    (costs.verify_time, (configs.LLAMA_3_8B, 1, 0, 1, hardware.H100_SXM), r"context=0"),
    (costs.speculative_tokens, (1.2, 3), r"alpha=1.2 is not a number from 0 to 1"),
    (costs.speculative_tokens, (True, 3), r"alpha=True"),
    (costs.speculative_tokens, (0.5, -1), r"gamma=-1 is not a whole number"),
    (costs.speculative_tokens, (float("nan"), 3), r"alpha=nan"),
    (costs.speculative_speedup, (0.5, 2, -0.1), r"c=-0.1 is not a finite number"),
    (costs.speculative_speedup, (0.5, 2, 0.1, 0.5), r"verify=0.5 is below 1"),
    (costs.best_gamma, (0.5, 0.1, 2.5), r"most=2.5 is not a whole number"),
    (costs.speculative_operations, (0.5, 2, float("inf")), r"c_hat=inf"),
    (costs.acceptance_from_tokens, (0.5, 3), r"tokens=0.5 is not a number from 1 to gamma \+ 1 = 4"),
    (costs.acceptance_from_tokens, (2.0, 0), r"gamma=0"),
]


@pytest.mark.parametrize(("function", "arguments", "message"), BAD)
def test_refusals(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)
