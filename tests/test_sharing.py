"""Windows, latent attention and shared heads, against tensors: masks, caches, both forms, conversion, bytes and FLOPs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tinyserve import attention, configs, conversion, costs, latent, model, window
from tinyserve.kv_cache import ContiguousCache, Uncached
from tinyserve.rope import apply_rope, rope_table

TINY = configs.ModelConfig("tiny", 3, 48, 6, 2, 8, 80, 101)
IDS = torch.randint(101, (2, 40), generator=torch.Generator().manual_seed(1))


def _decoder(config: configs.ModelConfig = TINY, seed: int = 0) -> model.Decoder:
    return model.build(config, dtype=torch.float64, std=0.2, seed=seed)


class Masked(Uncached):
    """The reference: all tokens at once, each layer with the mask of its window."""

    def __init__(self, windows) -> None:
        super().__init__()
        self.windows = windows

    def attend(self, layer, q, k, v):
        n = q.shape[2]
        return attention.naive_attention(q, k, v, mask=window.window_mask(n, n, self.windows[layer]))


@pytest.mark.parametrize(("n", "m", "size"), [(6, 6, 3), (2, 6, 3), (1, 9, 4), (5, 5, 1), (4, 7, 99), (4, 7, None)])
def test_window_mask_counts_itself_and_those_before(n, m, size):
    allowed = window.window_mask(n, m, size)
    for i in range(n):
        here = m - n + i
        assert allowed[i].nonzero().flatten().tolist() == [j for j in range(here + 1) if size is None or here - j < size]


@pytest.mark.parametrize("windows", [(4, 4, 4), (4, None, 4), (1, 7, 100), (None, None, None)])
@pytest.mark.parametrize("chunks", [(40,), (1,) * 40, (9, 1, 1, 17, 1, 11), (3, 3, 1, 1, 32), (39, 1)])
def test_a_bounded_cache_gives_the_masked_logits(windows, chunks):
    decoder = _decoder()
    want = decoder(IDS, cache=Masked(windows), logits="all")
    cache, found, start = window.WindowCache(TINY, 2, 40, windows, dtype=torch.float64), [], 0
    for n in chunks:
        found.append(decoder(IDS[:, start : start + n], cache=cache, logits="all"))
        start += n
    torch.testing.assert_close(torch.cat(found, 1), want, rtol=0, atol=1e-10)
    assert cache.length == 40 and cache.tokens_appended == 80


def test_windows_change_the_logits_and_full_ones_do_not():
    decoder = _decoder()
    full = decoder(IDS, logits="all")
    assert torch.allclose(decoder(IDS, cache=Masked((None, 40, 99)), logits="all"), full, atol=1e-12)
    narrow = decoder(IDS, cache=Masked((4, 4, 4)), logits="all")
    assert torch.allclose(narrow[:, :4], full[:, :4], atol=1e-12) and not torch.allclose(narrow[:, 4:], full[:, 4:], atol=1e-3)


@pytest.mark.parametrize("tokens", [1, 3, 4, 39, 40])
def test_bytes_of_a_hybrid_are_the_tensors(tokens):
    shape = configs.WindowKVConfig("hybrid", 3, 1, TINY.n_kv_heads, TINY.head_dim, 4, TINY.n_heads)
    cache = window.WindowCache(TINY, 1, tokens, (4, None, 4))
    assert cache.nbytes == costs.window_kv_cache_bytes(shape, tokens, "fp32")
    _decoder(TINY).float()(IDS[:1, :tokens], cache=cache)
    assert cache.bytes_copied == cache.nbytes


@pytest.mark.parametrize(("call", "message"), [
    (lambda: window.window_mask(2, 3, 0), "window=0 is below 1"),
    (lambda: window.window_mask(4, 3, 2), "n_query=4"),
    (lambda: window.WindowCache(TINY, 1, 8, (4, 4)), "2 windows for n_layers=3"),
    (lambda: window.WindowCache(TINY, 0, 8, (4, 4, 4)), "batch=0"),
    (lambda: window.WindowCache(TINY, 1, 8, (4, 0, 4)), "window=0"),
    (lambda: _decoder()(IDS, cache=window.WindowCache(TINY, 2, 39, (4, 4, 4), dtype=torch.float64)), "exceed max_tokens=39"),
    (lambda: _decoder()(IDS, cache=window.WindowCache(TINY, 1, 40, (4, 4, 4), dtype=torch.float64)), "this cache takes"),
    (lambda: costs.window_kv_cache_bytes(configs.GEMMA_3_27B, -1), "tokens=-1"),
    (lambda: replace(configs.GEMMA_3_27B, n_full_layers=63), "n_full_layers=63"),
    (lambda: replace(configs.GEMMA_3_27B, window=0), "window=0"),
    (lambda: latent.LatentAttention(32, 4, 8, 16, 3), "rope_dim=3 is odd"),
    (lambda: latent.LatentAttention(32, 0, 8, 16, 4), "n_heads=0"),
    (lambda: conversion.with_kv_heads(TINY, 4), "n_heads=6 is not a multiple of n_kv_heads=4"),
    (lambda: conversion.pool_heads(torch.zeros(8, 3), 3, 1), "not a multiple of heads=3"),
    (lambda: conversion.pool_heads(torch.zeros(8, 3), 4, 3), "heads=4 is not a multiple of groups=3"),
    (lambda: conversion.pool_heads(torch.zeros(8, 3), 4, 2, "max"), "how='max'"),
    (lambda: conversion.repeat_heads(torch.zeros(8, 3), 4, 0), "times=0"),
    (lambda: conversion.convert(_decoder(replace(TINY, n_kv_heads=3)), 2), "neither divides 3"),
])
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_hybrid_table():
    assert costs.window_kv_cache_bytes(configs.GEMMA_3_27B, 131_072) == 8_192 * (10 * 131_072 + 52 * 1_024)
    assert costs.window_kv_cache_bytes(configs.MISTRAL_7B, 10**6) == costs.window_kv_cache_bytes(configs.MISTRAL_7B, 4096)
    assert costs.window_kv_cache_bytes(configs.MISTRAL_7B, 1) == costs.kv_cache_bytes(configs.LLAMA_3_8B, 1)


def _latent(**sizes) -> tuple[latent.LatentAttention, torch.Tensor]:
    torch.manual_seed(3)
    layer = latent.LatentAttention(**{"d_model": 48, "n_heads": 6, "head_dim": 8, "latent_dim": 12, "rope_dim": 4} | sizes)
    torch.nn.init.normal_(layer.norm.weight)
    return layer.double().requires_grad_(False), torch.randn(2, 20, 48, dtype=torch.float64)


@pytest.mark.parametrize("chunks", [(20,), (1,) * 20, (7, 1, 12)])
@pytest.mark.parametrize("form", ["expanded", "absorbed"])
def test_latent_forms_agree_for_every_chunking(chunks, form):
    layer, x = _latent()
    memory = layer.remember(x, torch.arange(20))
    want = layer.expanded(x, torch.arange(20), memory)
    cache, found, start = latent.LatentCache(layer, 2, 20, torch.float64), [], 0
    for n in chunks:
        part, positions = x[:, start : start + n], torch.arange(start, start + n)
        held = cache.append(layer.remember(part, positions))
        found.append(getattr(layer, form)(part, positions, held))
        start += n
    torch.testing.assert_close(torch.cat(found, 1), want, rtol=0, atol=1e-12)


def test_latent_is_multi_head_attention_on_joined_parts():
    """Content and rotary part side by side are ordinary heads of d_h + d_R numbers, with the usual scale."""
    layer, x = _latent()
    table = rope_table(torch.arange(20), 4, 10_000.0)
    heads = lambda t: t.unflatten(-1, (6, -1)).transpose(1, 2)  # noqa: E731
    c = layer.norm(layer.down(x))
    shared = apply_rope(layer.k_rope(x)[:, None], table).expand(-1, 6, -1, -1)
    q = torch.cat((heads(layer.q(x)), apply_rope(heads(layer.q_rope(x)), table)), -1)
    k = torch.cat((heads(layer.up_k(c)), shared), -1)
    want = layer.o(attention.naive_attention(q, k, heads(layer.up_v(c)), causal=True).transpose(1, 2).flatten(2))
    found = layer.expanded(x, torch.arange(20), layer.remember(x, torch.arange(20)))
    torch.testing.assert_close(found, want, rtol=0, atol=1e-12)


def test_latent_positions_are_relative_and_matter():
    layer, x = _latent()
    def out(start):
        positions = torch.arange(start, start + 20)
        return layer.absorbed(x, positions, layer.remember(x, positions))
    assert torch.allclose(out(0), out(500), atol=1e-6)  # RoPE's table is float32
    swapped = x[:, [1, 0, *range(2, 20)]]
    assert not torch.allclose(layer.absorbed(swapped, torch.arange(20), layer.remember(swapped, torch.arange(20)))[:, -1], out(0)[:, -1], atol=1e-4)


def test_latent_bytes_and_flops_are_the_formula():
    layer, x = _latent()
    shape = configs.LatentKVConfig("one layer", 1, 12, 4, 6, 8)
    assert latent.LatentCache(layer, 2, 20, torch.bfloat16).nbytes == 2 * costs.kv_cache_bytes(shape, 20)
    for form, absorbed in (("absorbed", True), ("expanded", False)):
        counted = []
        for t in (10, 20):
            memory = layer.remember(x[:1, :t], torch.arange(t))
            with FlopCounterMode(display=False) as counter:
                getattr(layer, form)(x[:1, t - 1 : t], torch.tensor([t - 1]), memory)
            counted.append(counter.get_total_flops())
        assert counted[1] - counted[0] == 10 * costs.latent_attention_flops_per_context_token(shape, absorbed)


def test_latent_refuses_another_memory():
    layer, x = _latent()
    for memory in (torch.zeros(2, 19, 16), torch.zeros(2, 20, 15), torch.zeros(1, 20, 16), torch.zeros(20, 16)):
        with pytest.raises(ValueError, match="memory has shape"):
            layer.absorbed(x, torch.arange(20), memory.double())
    with pytest.raises(ValueError, match="tokens of"):
        latent.LatentCache(layer, 2, 19).append(layer.remember(x, torch.arange(20)))
    with pytest.raises(ValueError, match="max_tokens=0"):
        latent.LatentCache(layer, 2, 0)


def test_deepseek_intensity():
    assert costs.latent_attention_flops_per_context_token(configs.DEEPSEEK_V2) == 60 * 128 * (2 * 576 + 2 * 512)
    assert costs.latent_attention_intensity(configs.DEEPSEEK_V2) == pytest.approx(128 * (2 * 576 + 2 * 512) / (2 * 576))
    assert costs.latent_attention_intensity(configs.DEEPSEEK_V2, "fp8") == pytest.approx(2 * 241.7778, rel=1e-5)


@pytest.mark.parametrize("heads", [6, 2])
@pytest.mark.parametrize("bias", ["none", "qkv"])
def test_more_heads_leave_every_logit(heads, bias):
    decoder = _decoder(replace(TINY, bias=bias))
    for name, parameter in decoder.named_parameters():
        if name.endswith("bias"):
            parameter.normal_(generator=torch.Generator().manual_seed(len(name)))
    wide = conversion.convert(decoder, heads)
    torch.testing.assert_close(wide(IDS, logits="all"), decoder(IDS, logits="all"), rtol=0, atol=1e-10)
    back = conversion.convert(wide, 2)
    torch.testing.assert_close(back(IDS, logits="all"), decoder(IDS, logits="all"), rtol=0, atol=1e-10)
    cache = ContiguousCache(wide.config, 1, 10)
    assert cache.nbytes == costs.kv_cache_bytes(wide.config, 10, "fp32") == heads / 2 * costs.kv_cache_bytes(TINY, 10, "fp32")


def test_pooling_takes_neighbours():
    weight = torch.arange(8.0).repeat_interleave(3)[:, None] * torch.ones(5)  # head h is filled with h; 3 rows a head
    assert conversion.pool_heads(weight, 8, 4)[::3, 0].tolist() == [0.5, 2.5, 4.5, 6.5]
    assert conversion.pool_heads(weight, 8, 4, "first")[::3, 0].tolist() == [0, 2, 4, 6]
    assert conversion.pool_heads(weight, 8, 1)[::3, 0].tolist() == [3.5]
    assert conversion.repeat_heads(weight, 8, 2)[::3, 0].tolist() == [h for h in range(8) for _ in range(2)]


def test_conversion_touches_k_and_v_alone():
    decoder = _decoder(replace(TINY, n_kv_heads=6))
    small = conversion.convert(decoder, 3)
    for name, weight in small.state_dict().items():
        before = decoder.state_dict()[name]
        assert torch.equal(weight, before) != name.endswith((".k.weight", ".v.weight")), name
    assert small.config.n_kv_heads == 3 and decoder.config.n_kv_heads == 6
