"""Stretched RoPE: equal to transformers' frequencies, and to the plain decoder where nothing is stretched."""

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from tinyserve import configs, rope_scaling
from tinyserve.model import build
from tinyserve.rope import apply_rope, frequencies, rope_table

SHAPES = [(64, 10_000.0, 1024), (128, 500_000.0, 8192), (128, 10_000.0, 4096), (32, 1_000_000.0, 2048)]
TINY = configs.ModelConfig("tiny", 2, 32, 4, 2, 8, 64, 50, tied_embedding=True, max_context=64)


def theirs(kind, head_dim, theta, window, factor, seq_len=None):
    """transformers' frequencies and attention factor for a head of this size."""
    config = LlamaConfig(
        hidden_size=4 * head_dim, num_attention_heads=4, head_dim=head_dim, max_position_embeddings=window,
        rope_parameters={"rope_type": kind, "rope_theta": theta, "factor": factor, "original_max_position_embeddings": window},
    )
    return ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len)


@pytest.mark.parametrize("factor", [1.0, 2.0, 4.0, 10.5])
@pytest.mark.parametrize(("head_dim", "theta", "window"), SHAPES)
def test_frequencies_are_transformers(head_dim, theta, window, factor):
    linear, _ = theirs("linear", head_dim, theta, window, factor)
    torch.testing.assert_close(rope_scaling.linear_frequencies(head_dim, theta, factor), linear, rtol=1e-6, atol=0)
    # Their dynamic form takes the base from the length; at factor 1 and a length of factor * window it is ours.
    dynamic, _ = theirs("dynamic", head_dim, theta, window, 1.0, seq_len=int(factor * window))
    torch.testing.assert_close(rope_scaling.ntk_frequencies(head_dim, theta, factor), dynamic, rtol=1e-5, atol=0)
    yarn, attention = theirs("yarn", head_dim, theta, window, factor)
    torch.testing.assert_close(rope_scaling.yarn_frequencies(head_dim, theta, factor, window), yarn, rtol=1e-6, atol=0)
    assert rope_scaling.yarn_attention(factor) == pytest.approx(attention)


def test_what_each_method_slows():
    plain = frequencies(64, 10_000.0)
    for method in ("linear", "ntk", "yarn"):
        slowed = plain / rope_scaling.stretch(method, 64, 10_000.0, 4.0, 1024).turn
        assert slowed.max() == pytest.approx(4, rel=1e-4) and slowed.min() >= 1 - 1e-6
        assert slowed[-1] == pytest.approx(4, rel=1e-4)  # the slowest pair, in all three
        assert slowed[0] == pytest.approx(4 if method == "linear" else 1, rel=1e-4)
        assert (slowed.diff() >= -1e-4).all()
    yarn = plain / rope_scaling.yarn_frequencies(64, 10_000.0, 4.0, 1024)
    turns = 1024 * plain / (2 * math.pi)
    assert (yarn[turns > 40] < 1.01).all() and (yarn[turns < 0.9] > 3.99).all()  # 40, 0.9: the bounds are rounded to whole pairs


def test_the_slowest_pair_stays_in_the_angles_of_training():
    window, factor = 1024, 4.0
    reached = (window - 1) * frequencies(64, 10_000.0)[-1]
    for method in ("linear", "ntk", "yarn"):
        how = rope_scaling.stretch(method, 64, 10_000.0, factor, window)
        assert (factor * window - factor) * how.turn[-1] <= reached * (1 + 1e-4)


def test_scores_depend_on_distance_alone_and_grow_by_the_square():
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 64)
    how = rope_scaling.stretch("yarn", 64, 10_000.0, 4.0, 1024)

    def score(i, j):
        left, right = (apply_rope(x, how.table(torch.tensor([p]))) for x, p in ((q, i), (k, j)))
        return (left * right).sum().item()

    assert score(1500, 1400) == pytest.approx(score(3100, 3000), rel=1e-3)
    assert score(7, 7) == pytest.approx((q * k).sum().item() * (0.1 * math.log(4) + 1) ** 2, rel=1e-5)


def test_factor_one_is_the_plain_decoder():
    decoder = build(TINY, std=0.2)
    ids = torch.arange(40)[None] % 50
    for method in rope_scaling.METHODS:
        how = rope_scaling.stretch(method, 8, 10_000.0, 1.0, 64)
        torch.testing.assert_close(rope_scaling.stretched_logits(decoder, ids, how), decoder(ids, logits="all"), rtol=1e-4, atol=1e-4)
    cos, sin = rope_scaling.stretch("none", 8, 10_000.0, 4.0, 64).table(torch.arange(9))
    assert all(torch.equal(a, b) for a, b in zip((cos, sin), rope_table(torch.arange(9), 8, 10_000.0)))


def test_linear_is_positions_divided():
    decoder = build(TINY, std=0.2)
    ids = torch.arange(40)[None] % 50
    how = rope_scaling.stretch("linear", 8, 10_000.0, 4.0, 64)
    divided = decoder(ids, positions=torch.arange(40) / 4, logits="all")
    torch.testing.assert_close(rope_scaling.stretched_logits(decoder, ids, how), divided, rtol=1e-4, atol=1e-4)
    plain = decoder(ids, logits="all")
    assert not torch.allclose(divided, plain, atol=1e-2)


def test_bits_are_cross_entropy():
    decoder = build(TINY, std=0.2)
    ids = torch.arange(20) % 50
    bits = rope_scaling.token_bits(decoder, ids, rope_scaling.stretch("none", 8, 10_000.0, 1.0, 64))
    wanted = -decoder(ids[None, :-1], logits="all")[0].log_softmax(-1)[torch.arange(19), ids[1:]] / math.log(2)
    torch.testing.assert_close(bits, wanted)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: rope_scaling.stretch("longrope", 64, 1e4, 2.0, 1024), "method='longrope' is not one of none, linear, ntk, yarn"),
        (lambda: rope_scaling.linear_frequencies(63, 1e4, 2.0), "head_dim=63 is not an even number"),
        (lambda: rope_scaling.ntk_theta(2, 1e4, 2.0), "head_dim=2 is not an even number of at least 4"),
        (lambda: rope_scaling.ntk_theta(64, 1.0, 2.0), "theta=1.0 is not above 1"),
        (lambda: rope_scaling.stretch("none", 64, 1e4, 0.5, 1024), "factor=0.5 is not a finite number of at least 1"),
        (lambda: rope_scaling.yarn_attention(math.inf), "factor=inf is not a finite number"),
        (lambda: rope_scaling.yarn_frequencies(64, 1e4, 2.0, 0), "window=0 is below 1"),
        (lambda: rope_scaling.yarn_frequencies(64, 1e4, 2.0, 1024, fast=1.0), "fast=1.0 is not above slow=1.0"),
        (lambda: rope_scaling.stretched_logits(build(TINY), torch.arange(4), rope_scaling.stretch("none", 8, 1e4, 1.0, 64)), r"ids has shape \[4\]"),
        (lambda: rope_scaling.token_bits(build(TINY), torch.tensor([1]), rope_scaling.stretch("none", 8, 1e4, 1.0, 64)), r"ids has shape \[1\]"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()
