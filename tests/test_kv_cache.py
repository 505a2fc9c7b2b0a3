"""Both caches: the logits of no cache, whatever the chunks; and counters that tell the two apart."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.test_model import TINY, VARIANTS, double, ids_of
from tinyserve import costs
from tinyserve.attention import naive_attention
from tinyserve.kv_cache import ContiguousCache, GrowingCache, Uncached
from tinyserve.model import build

MODELS = [double(config) for config in VARIANTS]


def caches(config, batch, tokens):
    return [ContiguousCache(config, batch, tokens, dtype=torch.float64), GrowingCache(config)]


@given(st.integers(0, len(MODELS) - 1), st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_any_chunking_gives_the_logits_of_no_cache(which, chunks, batch, seed):
    model, total = MODELS[which], sum(chunks)
    ids = ids_of(batch, total, seed)
    whole = model(ids, logits="all")
    for cache in caches(model.config, batch, total):
        parts, done = [], 0
        for n in chunks:
            assert cache.length == done
            parts.append(model(ids[:, done : done + n], cache=cache, logits="all"))
            done += n
        torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-9, atol=1e-9)
        assert cache.length == total and cache.tokens_appended == batch * total


def test_the_counters_tell_the_two_apart():
    model, ids = MODELS[0], ids_of(2, 9)
    fixed, growing = caches(TINY, 2, 12)
    for cache in (fixed, growing):
        for i in range(9):
            model(ids[:, i : i + 1], cache=cache)
    token = 2 * 2 * costs.kv_cache_bytes(TINY, 1, "fp32")  # two sequences of float64
    assert fixed.bytes_copied == 9 * token and fixed.nbytes == 12 * token
    assert growing.bytes_copied == sum(range(1, 10)) * token and growing.nbytes == 9 * token


def test_truncate_goes_back():
    model, ids = MODELS[0], ids_of(1, 8)
    cache = ContiguousCache(TINY, 1, 8, dtype=torch.float64)
    model(ids[:, :6], cache=cache)
    cache.truncate(3)
    torch.testing.assert_close(model(ids[:, 3:8], cache=cache, logits="all"), model(ids, logits="all")[:, 3:], rtol=1e-9, atol=1e-9)


def test_another_attention_can_be_put_in():
    model, ids, calls = MODELS[0], ids_of(1, 5), []

    def naive(q, k, v):
        calls.append(q.shape[2])
        return naive_attention(q, k, v, causal=True)

    torch.testing.assert_close(model(ids, cache=Uncached(naive)), model(ids), rtol=1e-9, atol=1e-9)
    model(ids, cache=ContiguousCache(TINY, 1, 5, dtype=torch.float64, attention=naive))
    assert calls == [5] * 6


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: m(ids_of(1, 3), cache=ContiguousCache(TINY, 1, 2)), "0 tokens held and 3 new ones exceed max_tokens=2"),
        (lambda m: m(ids_of(2, 1), cache=ContiguousCache(TINY, 1, 2)), r"k has shape \[2, 2, 1, 8\]; this cache takes \[1, 2, 1, 8\]"),
        (lambda m: m(ids_of(1, 1), cache=ContiguousCache(replace(TINY, n_kv_heads=3), 1, 2)), r"takes \[1, 3, 1, 8\]"),
        (lambda m: ContiguousCache(TINY, 0, 4), "batch=0 is below 1"),
        (lambda m: ContiguousCache(TINY, 1, 0), "max_tokens=0 is below 1"),
        (lambda m: ContiguousCache(TINY, 1, 4).truncate(1), "length=1 is not between 0 and the 0 tokens held"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call(build(TINY))


def test_a_refused_step_changes_nothing():
    model, cache = build(TINY), ContiguousCache(TINY, 1, 4)
    model(ids_of(1, 3), cache=cache)
    before = (cache.k.clone(), cache.length, cache.tokens_appended, cache.bytes_copied, model.tokens, model.steps)
    with pytest.raises(ValueError, match="exceed"):
        model(ids_of(1, 2), cache=cache)
    assert torch.equal(cache.k, before[0])
    assert (cache.length, cache.tokens_appended, cache.bytes_copied, model.tokens, model.steps) == before[1:]


def test_a_compiled_step_is_compiled_once():
    """Counters that change at every step must not be guarded: each value would mean another compilation."""
    model, cache = build(TINY), ContiguousCache(TINY, 1, 4)
    compiled = torch.compile(model.compute, backend="eager", dynamic=False)
    ids, positions = ids_of(1, 1), torch.tensor([0])
    with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(3):
            torch.testing.assert_close(compiled(ids, positions, cache), model(ids))
    assert cache.bytes_copied == 0


def test_bytes_are_counted_where_they_are_written():
    """A cache that skips a layer's K and V has written less."""
    class Forgetful(ContiguousCache):
        def attend(self, layer, q, k, v):
            return super().attend(layer, q, k, v) if layer else self.attention(q, k, v)

    model, ids = build(TINY), ids_of(1, 5)
    whole, part = ContiguousCache(TINY, 1, 5), Forgetful(TINY, 1, 5)
    for cache in (whole, part):
        model(ids, cache=cache)
    assert whole.bytes_copied == costs.kv_cache_bytes(TINY, 5, "fp32") and part.bytes_copied * 3 == whole.bytes_copied * 2
