"""The decoder against a plain reference, itself with and without K and V, and the cost model."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tinyserve import costs
from tinyserve.attention import grouped_attention, naive_attention
from tinyserve.configs import LLAMA_3_8B, LLAMA_3_70B, OPT_13B, QWEN2_5_7B, ModelConfig
from tinyserve.kv_cache import ContiguousCache
from tinyserve.model import build
from tinyserve.rope import apply_rope, rope_table

TINY = ModelConfig("tiny", 3, 48, 6, 2, 8, 80, 101)
VARIANTS = [TINY, replace(TINY, tied_embedding=True), replace(TINY, bias="qkv", n_kv_heads=6, rope_theta=500.0)]


def ids_of(batch, tokens, seed=1):
    return torch.randint(0, TINY.vocab_size, (batch, tokens), generator=torch.Generator().manual_seed(seed))


def double(config, seed=3):
    """A model with large weights, and norms and biases that are not 1 and 0: every term shows."""
    model = build(config, dtype=torch.float64, std=0.4, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.3)
    return model


def rotate(x, positions, theta):
    """RoPE by complex numbers; x [b, heads, n, d_h]."""
    half = x.shape[-1] // 2
    angle = positions[:, None].float() * theta ** (-torch.arange(half) / half)
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle).to(torch.complex128)
    return torch.cat((turned.real, turned.imag), -1)


def reference(model, ids):
    """All logits by another path: einsum per head, repeated K and V, complex RoPE, norms written out."""
    c, w = model.config, dict(model.named_parameters())
    b, n = ids.shape

    def norm(x, weight):
        return x / (x.pow(2).mean(-1, keepdim=True) + c.norm_eps).sqrt() * weight

    x, positions = w["embedding.weight"][ids], torch.arange(n)
    for i in range(c.n_layers):
        p = {k.removeprefix(f"blocks.{i}."): v for k, v in w.items() if k.startswith(f"blocks.{i}.")}
        h = norm(x, p["norm1.weight"])
        q, k, v = (
            torch.einsum("bnd,wd->bnw", h, p[f"{m}.weight"]) + p.get(f"{m}.bias", torch.zeros(())) for m in "qkv"
        )
        q, k, v = (y.view(b, n, -1, c.head_dim).transpose(1, 2) for y in (q, k, v))
        a = naive_attention(rotate(q, positions, c.rope_theta), rotate(k, positions, c.rope_theta), v, causal=True)
        x = x + a.transpose(1, 2).reshape(b, n, -1) @ p["o.weight"].T
        h = norm(x, p["norm2.weight"])
        gate = h @ p["gate.weight"].T
        x = x + (gate * torch.sigmoid(gate) * (h @ p["up.weight"].T)) @ p["down.weight"].T
    return norm(x, w["norm.weight"]) @ w["embedding.weight" if c.tied_embedding else "head.weight"].T


@pytest.mark.parametrize("config", VARIANTS)
def test_logits_equal_a_reference(config):
    model, ids = double(config), ids_of(2, 7)
    every = model(ids, logits="all")
    torch.testing.assert_close(every, reference(model, ids), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model(ids), every[:, -1:])


def test_no_output_depends_on_a_later_token():
    model, ids = double(TINY), ids_of(1, 8)
    changed = ids.clone()
    changed[0, 5] = (ids[0, 5] + 1) % TINY.vocab_size
    before, after = model(ids, logits="all"), model(changed, logits="all")
    assert torch.equal(before[:, :5], after[:, :5])
    assert (before[:, 5:] - after[:, 5:]).abs().amax(-1).min() > 1e-6


def test_positions_are_relative_and_used():
    model, ids = double(TINY), ids_of(1, 6)
    shifted = model(ids, torch.arange(100, 106))
    torch.testing.assert_close(shifted, model(ids), rtol=1e-3, atol=1e-3)
    assert not torch.allclose(model(ids, torch.arange(0, 12, 2)), model(ids), atol=1e-3)


@pytest.mark.parametrize(("n", "t"), [(1, 9), (5, 5), (3, 8)])
def test_grouped_attention_is_the_naive_one(n, t):
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 6, n, 8, generator=generator)
    k, v = torch.randn(2, 2, 2, t, 8, generator=generator)
    torch.testing.assert_close(grouped_attention(q, k, v), naive_attention(q, k, v, causal=True))


def test_rope_keeps_lengths_and_turns_pairs_of_halves():
    x = torch.randn(1, 2, 5, 8, dtype=torch.float64)
    turned = apply_rope(x, rope_table(torch.arange(5), 8, 10_000.0))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(turned, rotate(x, torch.arange(5), 10_000.0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("config", [*VARIANTS, LLAMA_3_8B, LLAMA_3_70B, QWEN2_5_7B])
def test_parameters_are_the_cost_models(config):
    assert sum(p.numel() for p in build(config, "meta").parameters()) == costs.params(config)


@pytest.mark.parametrize("config", [*VARIANTS, LLAMA_3_70B])
@pytest.mark.parametrize(("new", "cached"), [(1, 0), (1, 4095), (6, 0), (4, 9)])
@pytest.mark.parametrize("logits", ["last", "all"])
def test_counted_flops_are_the_cost_models(config, new, cached, logits):
    model = build(config, "meta")
    cache = ContiguousCache(config, 2, cached + new, "meta")
    cache.length = cached
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(2, new, dtype=torch.long, device="meta"), cache=cache, logits=logits)
    assert counter.get_total_flops() == 2 * costs.forward_flops(config, new, cached, logits, causal=False)


def test_counters_and_seed():
    model = build(TINY)
    model(ids_of(2, 5))
    model(ids_of(3, 1))
    assert (model.tokens, model.steps) == (13, 2)
    weights = [build(TINY, seed=s, std=0.1).blocks[0].q.weight for s in (0, 0, 1)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert abs(weights[0].std().item() - 0.1) < 0.01


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: m(torch.zeros(3, dtype=torch.long)), r"\[3\], not \[batch, tokens\]"),
        (lambda m: m(ids_of(1, 2), logits="some"), "'some' is not one of"),
        (lambda m: m(ids_of(1, 2), torch.arange(3)), r"\[3\], not \[2\]"),
        (lambda m: build(TINY, std=0), "std=0 is not above 0"),
        (lambda m: build(OPT_13B, "meta"), "ffn='relu'"),
        (lambda m: build(replace(TINY, rope_theta=None)), "rope_theta=None"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call(build(TINY))
