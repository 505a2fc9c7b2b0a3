"""Attention over blocks, against the plain formula on each request's own K and V."""

from __future__ import annotations

import random

import pytest
import torch

from tinyserve.attention import naive_attention, paged_attention
from tinyserve.configs import ModelConfig
from tinyserve.kv_cache import PagedCache

HEADS, KV_HEADS, D_H, SIZE = 6, 2, 8, 4
CONFIG = ModelConfig("paged", 2, HEADS * D_H, HEADS, KV_HEADS, D_H, 64, 50)


def _tables(lengths: list[int], luck: random.Random) -> list[list[int]]:
    """Blocks for the lengths, in no order, and one more for each request."""
    wanted = [-(-n // SIZE) + 1 for n in lengths]
    blocks = luck.sample(range(sum(wanted) + 3), sum(wanted))
    return [[blocks.pop() for _ in range(n)] for n in wanted]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("steps", [
    [[1], [1], [1]],  # one token after the other
    [[3, 4, 9], [1, 1, 1], [1, 1, 1], [1, 1, 1]],  # prompts at once, then a decode step each
    [[4, 4, 8], [1, 4, 4], [1, 1, 4], [1, 1, 1]],  # decodes beside chunks, lengths on the bounds of blocks
    [[7, 7], [5, 5], [2, 2]],  # several requests with the same n above 1
])
def test_each_step_gives_what_naive_attention_gives(steps, dtype):
    luck, generator = random.Random(repr(steps)), torch.Generator().manual_seed(1)
    total = [sum(counts) for counts in zip(*steps, strict=True)]
    tables = _tables(total, luck)
    cache = PagedCache(CONFIG, 40, SIZE, dtype=dtype)
    cache.kv.fill_(torch.nan)  # what others have left: it must not be seen
    held = [[torch.zeros(1, KV_HEADS, 0, D_H, dtype=dtype)] * 2 for _ in total]
    starts = [0] * len(total)
    for counts in steps:
        batch = cache.batch(tables, starts, counts)
        q, k, v = (torch.randn(1, heads, sum(counts), D_H, generator=generator, dtype=dtype) for heads in (HEADS, KV_HEADS, KV_HEADS))
        found = batch.attend(1, q, k, v).split(counts, dim=2)
        parts = zip(q.split(counts, dim=2), k.split(counts, dim=2), v.split(counts, dim=2), strict=True)
        for i, (q_own, k_own, v_own) in enumerate(parts):
            held[i] = [torch.cat(pair, dim=2) for pair in zip(held[i], (k_own, v_own), strict=True)]
            bound = {"atol": 0.03, "rtol": 0.03} if dtype == torch.bfloat16 else {}
            torch.testing.assert_close(found[i], naive_attention(q_own, *held[i], causal=True), **bound)
        assert batch.positions.tolist() == [p for start, n in zip(starts, counts, strict=True) for p in range(start, start + n)]
        starts = [start + n for start, n in zip(starts, counts, strict=True)]
    assert cache.kv[0].isnan().any(), "only blocks in use may be cleared"


def test_the_scale_and_the_mask_are_the_ones_given():
    generator = torch.Generator().manual_seed(2)
    kv = torch.randn(2, KV_HEADS, 5, SIZE * D_H, generator=generator, dtype=torch.float64)
    q = torch.randn(HEADS, 1, D_H, generator=generator, dtype=torch.float64)
    blocks, unseen = torch.tensor([3, 0]), torch.zeros(KV_HEADS, 1, 2 * SIZE, dtype=torch.float64)
    unseen[:, :, 5:] = -torch.inf
    k, v = (kv[i].view(1, KV_HEADS, 5, SIZE, D_H)[:, :, [3, 0]].flatten(2, 3)[:, :, :5] for i in range(2))
    wanted = naive_attention(q[None], k, v)[0].transpose(0, 1)  # [1, H, d_h]
    found = paged_attention(q, kv.flatten(0, 1), blocks, unseen)
    assert found.shape == (1, HEADS, D_H)
    torch.testing.assert_close(found, wanted)
    assert not torch.allclose(found, naive_attention(q[None], k, v, scale=1.0)[0].transpose(0, 1))


def test_what_the_counters_say_of_a_step():
    cache = PagedCache(CONFIG, 8, SIZE)
    batch = cache.batch([[5, 1], [2]], [6, 0], [1, 3])
    q, k, v = (torch.zeros(1, heads, 4, D_H) for heads in (HEADS, KV_HEADS, KV_HEADS))
    batch.attend(0, q, k, v)
    batch.advance(4)
    block_bytes = 2 * KV_HEADS * SIZE * D_H * 4
    assert (cache.bytes_copied, cache.bytes_gathered, cache.tokens_appended) == (4 * 2 * KV_HEADS * D_H * 4, 3 * block_bytes, 4)
    assert batch.last == [0, 3]


@pytest.mark.parametrize(("arguments", "says"), [
    (([[0]], [4], [1]), "1 blocks of 4 have no room for 1 tokens after 4"),
    (([[0]], [0], [0]), "have no room for 0 tokens"),
    (([[0], [1]], [0, 0], [2, 1]), r"counts=\[2, 1\] decrease"),
])
def test_bad_batches_are_named(arguments, says):
    with pytest.raises(ValueError, match=says):
        PagedCache(CONFIG, 8, SIZE).batch(*arguments)
