"""Generating with a cache and without one: counts against a loop over steps, and K and V over cards against the formula."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyserve import costs
from tinyserve.configs import DEEPSEEK_V2, LLAMA_2_7B, LLAMA_3_70B, LLAMA_3_8B

M = LLAMA_3_70B


def test_tokens_through_the_model_by_hand():
    assert costs.generation_tokens(5, 3, cached=False) == 5 + 6 + 7
    assert costs.generation_tokens(5, 3) == 5 + 1 + 1
    assert costs.generation_tokens(5, 1) == costs.generation_tokens(5, 1, cached=False) == 5


@given(st.integers(1, 400), st.integers(1, 60))
def test_a_cache_runs_each_token_once(prompt, output):
    cached, anew = costs.generation_tokens(prompt, output), costs.generation_tokens(prompt, output, cached=False)
    assert cached == prompt + output - 1
    assert anew == output * prompt + output * (output - 1) // 2
    assert (anew == cached) is (output == 1)


def test_flops_of_an_answer():
    assert costs.generation_flops(M, 100, 3) == (
        costs.forward_flops(M, 100) + costs.decode_flops(M, 1, 101) + costs.decode_flops(M, 1, 102))
    assert costs.generation_flops(M, 100, 3, cached=False) == sum(costs.forward_flops(M, n) for n in (100, 101, 102))
    # The pairs of the causal triangle are made once with a cache, the head works the same number of times either way.
    saved = costs.generation_flops(M, 100, 3, cached=False) - costs.generation_flops(M, 100, 3)
    again = costs.generation_tokens(100, 3, cached=False) - costs.generation_tokens(100, 3)
    pairs = costs.attention_flops(M, 100) + costs.attention_flops(M, 101)
    assert saved == again * costs.linear_flops_per_token(M, head=False) + pairs


def test_bytes_a_cache_writes():
    token = costs.kv_cache_bytes(M, 1)
    assert costs.cache_write_bytes(M, [4, 1, 1]) == 6 * token
    assert costs.cache_write_bytes(M, [4, 1, 1], growing=True) == (4 + 5 + 6) * token
    assert costs.cache_write_bytes(M, [4, 1, 1], "fp8") == 3 * token
    assert costs.cache_write_bytes(DEEPSEEK_V2, [2]) == costs.kv_cache_bytes(DEEPSEEK_V2, 2)
    assert costs.cache_write_bytes(M, []) == 0


@pytest.mark.parametrize(
    ("split", "parts"),
    [((1, 1, 1), 1), ((8, 1, 1), 8), ((16, 1, 1), 8), ((64, 1, 1), 8), ((8, 2, 1), 16), ((1, 8, 1), 8), ((8, 1, 2), 16), ((4, 2, 4), 32)],
)
def test_kv_over_cards(split, parts):
    tp, pp, cp = split
    tokens = 131_072
    found = costs.kv_cache_bytes_per_card(M, tokens, tp, pp, context_parallel=cp)
    assert found == costs.kv_cache_bytes(M, tokens) / parts


def test_the_fullest_card_counts():
    layer = costs.kv_cache_bytes(M, 10) // M.n_layers
    assert costs.kv_cache_bytes_per_card(M, 10, pipeline_parallel=3) == 27 * layer  # 80 layers: 27 + 27 + 26
    assert costs.kv_cache_bytes_per_card(M, 10, context_parallel=4) == costs.kv_cache_bytes(M, 3)
    assert costs.kv_cache_bytes_per_card(LLAMA_2_7B, 7, 32) * 32 == costs.kv_cache_bytes(LLAMA_2_7B, 7)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: costs.kv_cache_bytes_per_card(M, 1, 3), "tensor_parallel=3 neither divides n_kv_heads=8"),
        (lambda: costs.kv_cache_bytes_per_card(M, 1, 12), "tensor_parallel=12 neither"),
        (lambda: costs.kv_cache_bytes_per_card(M, 1, 1, 81), "pipeline_parallel=81 is above n_layers=80"),
        (lambda: costs.kv_cache_bytes_per_card(M, 1, context_parallel=0), "context_parallel=0"),
        (lambda: costs.generation_tokens(0, 1), "prompt=0"),
        (lambda: costs.generation_tokens(1, 0), "output=0"),
        (lambda: costs.generation_flops(LLAMA_3_8B, 1, 1.5), "output=1.5"),
        (lambda: costs.cache_write_bytes(M, [1, 0]), "append=0"),
        (lambda: costs.cache_write_bytes(M, [1], "x"), "dtype='x'"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
