"""Shards equal the whole model, in one process and in several; what they send is what the cost model says."""

import os
from dataclasses import replace

import pytest
import torch

from tinyserve import configs, costs, model, moe, parallel, processes
from tinyserve.attention import grouped_attention
from tinyserve.kv_cache import ContiguousCache

SMALL = configs.ModelConfig("small", 3, 64, 8, 2, 8, 96, 256)
IDS = torch.randint(0, 256, (2, 9), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def decoder():
    return model.build(SMALL, dtype=torch.float64, std=0.2)


def _greedy(decoder, ids, new):
    cache, chosen = ContiguousCache(decoder.config, ids.shape[0], 32, dtype=torch.float64), []
    for _ in range(new):
        logits = decoder(ids, cache=cache)[:, -1]
        ids = logits.argmax(-1, keepdim=True)
        chosen.append(ids)
    return torch.cat(chosen, 1), logits


def test_columns_and_rows():
    w, x = torch.randn(12, 8, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64)
    by_columns = torch.cat([x @ parallel.columns(w, r, 4).T for r in range(4)], -1)
    by_rows = sum(x.chunk(4, -1)[r] @ parallel.rows(w, r, 4).T for r in range(4))
    assert torch.allclose(by_columns, x @ w.T) and torch.allclose(by_rows, x @ w.T)


@pytest.mark.parametrize("ranks", (1, 2, 4, 8))
def test_shards_together_equal_the_whole_model(decoder, ranks):
    group, cache = parallel.Together(ranks), ContiguousCache(SMALL, 2, 16, dtype=torch.float64)
    parts = [parallel.shard(decoder, r, ranks) for r in range(ranks)]
    caches = [ContiguousCache(p.config, 2, 16, dtype=torch.float64) for p in parts]
    for ids in (IDS, IDS[:, :1], IDS[:, 1:3]):  # a prompt, a decode step, a chunk
        before = group.traffic.sent
        assert torch.allclose(parallel.forward(parts, caches, group, ids), decoder(ids, cache=cache), rtol=0, atol=1e-10)
        sizes = costs.tensor_parallel_sent(SMALL, ids.numel(), ranks, "fp32", logits=2)
        assert group.traffic.sent - before == 2 * sum(sizes)  # float64: twice fp32
    assert (group.traffic.all_reduces, group.traffic.all_gathers) == (3 * 2 * SMALL.n_layers, 3)
    held = costs.kv_cache_bytes_per_card(SMALL, 16, ranks, dtype="fp32") * 2
    assert caches[0].nbytes == 2 * held  # two sequences


def test_matrices_are_divided_and_small_tensors_copied(decoder):
    parts = [parallel.shard(decoder, r, 2) for r in range(2)]
    count = costs.params_by_component(SMALL)
    cut = count["attention"] + count["ffn"] + count["head"]
    for part in parts:
        assert sum(p.numel() for p in part.parameters()) == cut / 2 + count["embedding"] + count["norms"]


def test_more_ranks_than_kv_heads_copy_them(decoder):
    parts = [parallel.shard(decoder, r, 4) for r in range(4)]
    assert torch.equal(parts[0].blocks[0].k.weight, parts[1].blocks[0].k.weight)
    assert not torch.equal(parts[1].blocks[0].k.weight, parts[2].blocks[0].k.weight)


@pytest.mark.parametrize(
    "change, ranks, match",
    [
        ({}, 3, "n_heads=8 is not a multiple of ranks=3"),
        ({"d_ff": 90}, 4, "d_ff=90 is not a multiple"),
        ({"n_heads": 12, "n_kv_heads": 3, "vocab_size": 256}, 2, "neither divides n_kv_heads=3"),
        ({"bias": "qkv"}, 2, "bias='qkv'"),
    ],
)
def test_what_cannot_be_cut_is_refused(change, ranks, match):
    with pytest.raises(ValueError, match=match):
        parallel.shard(model.build(replace(SMALL, **change)), 0, ranks)


def test_a_tied_head_is_cut_from_the_embedding():
    tied = model.build(replace(SMALL, tied_embedding=True), dtype=torch.float64, std=0.2)
    group, parts = parallel.Together(2), [parallel.shard(tied, r, 2) for r in range(2)]
    caches = [ContiguousCache(p.config, 2, 16, dtype=torch.float64) for p in parts]
    assert torch.allclose(parallel.forward(parts, caches, group, IDS), tied(IDS), rtol=0, atol=1e-10)


@pytest.mark.parametrize("bounds", ((0, 20), (0, 5, 20), (0, 1, 2, 19, 20)))
def test_context_parts_merge_to_whole_attention(bounds):
    q, k, v = (torch.randn(2, 3, n, 8, dtype=torch.float64) for n in (4, 20, 20))
    positions = torch.arange(16, 20)
    parts = [parallel.partial_attention(q, k[:, :, a:b], v[:, :, a:b], a, positions) for a, b in zip(bounds, bounds[1:])]
    assert torch.allclose(parallel.merge_attention(parts), grouped_attention(q, k, v), rtol=0, atol=1e-12)


def test_two_processes_decode_the_same_tokens(decoder):
    results = processes.decode(decoder, IDS, 4, 2, timeout=120)
    ids, logits = _greedy(decoder, IDS, 4)
    assert len({r.pid for r in results} | {os.getpid()}) == 3
    tokens = [IDS.numel(), 2, 2, 2]
    want = 2 * sum(sum(costs.tensor_parallel_sent(SMALL, n, 2, "fp32", logits=2)) for n in tokens)
    for r in results:
        assert torch.equal(r.ids, ids) and torch.allclose(r.logits, logits, rtol=0, atol=1e-10)
        assert r.traffic == parallel.Traffic(4 * 2 * SMALL.n_layers, 4, want)
        assert r.cache_bytes == 2 * 2 * costs.kv_cache_bytes_per_card(SMALL, 13, 2, dtype="fp32")


def test_experts_in_two_processes_equal_the_loop():
    experts, router = moe.Experts.random(8, 16, 24), torch.randn(8, 16, dtype=torch.float64)
    xs = [torch.randn(n, 16, dtype=torch.float64) for n in (5, 7)]
    routings = [moe.route(x, router, 2) for x in xs]
    found = processes.experts_apart(xs, routings, experts, timeout=120)
    for rank, (x, routing, (out, sent, computed)) in enumerate(zip(xs, routings, found)):
        assert torch.allclose(out, moe.moe_loop(x, routing, experts), rtol=0, atol=1e-12)
        assert sent == (routing.experts // 4 != rank).sum()
        assert computed == sum((r.experts // 4 == rank).sum() for r in routings)
    assert sum(c for _, _, c in found) == 2 * 12


def test_a_process_that_fails_or_hangs_ends_in_an_error(decoder):
    with pytest.raises(RuntimeError, match="process . of 2 failed"):
        processes.decode(decoder, torch.full((1, 2), 999), 1, 2, timeout=120)  # no such token: the child raises
    with pytest.raises(RuntimeError, match="did not end within 0.01 s"):
        processes.decode(decoder, IDS, 1, 2, timeout=0.01)
    with pytest.raises(ValueError, match="n_heads=8 is not a multiple of ranks=3"):
        processes.decode(decoder, IDS, 1, 3)
    with pytest.raises(ValueError, match="8 experts are not a multiple of 3"):
        processes.experts_apart([IDS] * 3, [], moe.Experts.random(8, 4, 4))
