"""Tiled attention against the naive one, and its counter against the cost model."""

import pytest
import torch

from tinyserve import configs, costs
from tinyserve.attention import TileCounter, naive_attention, tiled_attention


def qkv(n, m, heads=4, kv_heads=2, dh=8, spread=3.0):
    torch.manual_seed(n * 100 + m)
    sizes = ((heads, n), (kv_heads, m), (kv_heads, m))
    return tuple(spread * torch.randn(2, h, s, dh, dtype=torch.float64) for h, s in sizes)


def gap(a, b):
    return (a - b).abs().max().item()


SHAPES = [(1, 1), (7, 7), (1, 9), (5, 13), (13, 13), (9, 4)]


# A causal query needs a key, so more queries than keys stand in the full square only.
@pytest.mark.parametrize(("n", "m", "causal"), [(n, m, causal) for n, m in SHAPES for causal in (False, True) if n <= m or not causal])
def test_equals_naive_for_every_block_size(n, m, causal):
    q, k, v = qkv(n, m)
    want = naive_attention(q, k, v, causal=causal)
    for block_q in range(1, n + 2):
        for block_k in range(1, m + 2):
            got = tiled_attention(q, k, v, block_q, block_k, causal)
            assert gap(got, want) < 1e-12, (block_q, block_k)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_heads_and_scale(kv_heads):
    q, k, v = qkv(6, 10, kv_heads=kv_heads)
    want = naive_attention(q, k, v, causal=True, scale=0.3)
    assert gap(tiled_attention(q, k, v, 4, 3, True, scale=0.3), want) < 1e-12


def test_large_scores_do_not_overflow():
    q, k, v = qkv(8, 8, spread=100.0)
    got = tiled_attention(q, k, v, 3, 3, True)
    assert got.isfinite().all() and gap(got, naive_attention(q, k, v, causal=True)) < 1e-10


@pytest.mark.parametrize(("n", "m", "block_q", "block_k"), [(16, 16, 4, 4), (13, 17, 4, 3), (5, 9, 8, 2), (1, 9, 4, 4)])
@pytest.mark.parametrize("causal", [False, True])
def test_counter_equals_the_cost_model(n, m, block_q, block_k, causal):
    q, k, v = qkv(n, m)
    counter = TileCounter()
    _ = tiled_attention(q, k, v, block_q, block_k, causal, counter)
    lanes = 2 * 4
    computed, skipped = costs.tile_counts(n, m, block_q, block_k, causal)
    assert (counter.computed, counter.skipped) == (lanes * computed, lanes * skipped)
    assert counter.written == q.numel()
    if not causal:
        assert counter.skipped == 0
        assert counter.moved == lanes * costs.tiled_attention_elements(n, m, 8, block_q)
        assert counter.rescaled == lanes * n * 8 * -(-m // block_k)


def test_causal_reads_only_the_tiles_it_computes():
    q, k, v = qkv(16, 16)
    counter = TileCounter()
    _ = tiled_attention(q, k, v, 4, 4, True, counter)
    assert counter.read == q.numel() + counter.computed * 2 * 4 * 8
    assert (counter.computed, counter.skipped) == (8 * 10, 8 * 6)


def test_skipped_keys_are_never_touched():
    q, k, v = qkv(8, 8)
    v[:, :, 4:] = torch.nan  # 0 times NaN is NaN, so a computed tile would show
    assert tiled_attention(q, k, v, 4, 4, True)[:, :, :4].isfinite().all()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"block_q": 0}, "block_q=0 is below 1"),
        ({"block_k": -1}, "block_k=-1 is below 1"),
        ({"n": 4, "m": 3, "causal": True}, "n=4 queries and m=3 keys"),
        ({"n": 2, "m": 0}, "m=0 keys"),
    ],
)
def test_refuses(change, rule):
    options = {"n": 3, "m": 3} | change
    q, k, v = qkv(options.pop("n"), options.pop("m"))
    with pytest.raises(ValueError, match=rule):
        tiled_attention(q, k, v, **options)


def test_costs_of_traffic_against_tensors():
    n, m, d = 6, 9, 8
    q, k, s = torch.zeros(n, d), torch.zeros(m, d), torch.zeros(n, m)
    moved = 2 * q.numel() + 2 * k.numel() + 4 * s.numel()
    assert costs.naive_attention_elements(n, m, d) == moved
    big = configs.LLAMA_3_70B
    scores = torch.empty(big.n_heads, 32_768, 32_768, dtype=torch.bfloat16, device="meta")
    assert costs.score_matrix_bytes(big, 32_768) == scores.nbytes
    assert costs.score_matrix_bytes(big, 1, cached=9) == torch.empty(big.n_heads, 1, 10).nbytes // 2


def test_sram_and_patterns_against_tensors():
    bq, bk, d = 3, 5, 8
    parts = [torch.zeros(bq, d)] * 2 + [torch.zeros(bk, d)] * 2 + [torch.zeros(bq, bk)] + [torch.zeros(bq)] * 2
    assert costs.sram_elements(bq, bk, d) == sum(p.numel() for p in parts)
    for n, w in [(10, 3), (3, 10), (7, 7), (0, 4)]:
        band = torch.ones(n, n).tril() - torch.ones(n, n).tril(-w)
        assert costs.window_pairs(n, w) == int(band.sum())
    model = configs.LLAMA_3_8B
    per_head = 2 * 2 * torch.zeros(model.head_dim, model.head_dim).numel()
    assert costs.linear_attention_flops(model, 3) == 3 * model.n_layers * model.n_heads * per_head


@pytest.mark.parametrize("call", [
    lambda: costs.tile_counts(4, 3, 1, 1),
    lambda: costs.tiled_attention_elements(4, 4, 8, 0),
    lambda: costs.naive_attention_elements(0, 4, 8),
    lambda: costs.sram_elements(1, 0, 8),
    lambda: costs.window_pairs(4, 0),
    lambda: costs.score_matrix_bytes(configs.LLAMA_3_8B, -1),
    lambda: costs.linear_attention_flops(configs.LLAMA_3_8B, -1),
])
def test_costs_refuse(call):
    with pytest.raises(ValueError):
        call()
