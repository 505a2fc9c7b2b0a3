"""Bad input gets a ValueError with the value and the rule; mixed steps and edges; no torch on import."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyserve import costs, hardware
from tinyserve.configs import LLAMA_3_8B as M

CARD = hardware.A100_80_SXM
BAD = [
    (lambda: costs.kv_cache_bytes(M, -1), "tokens=-1 is not a whole number of at least 0"),
    (lambda: costs.kv_cache_bytes(M, 1.5), "tokens=1.5"),
    (lambda: costs.kv_cache_bytes(M, True), "tokens=True"),
    (lambda: costs.kv_cache_bytes(M, 1, "fp7"), "dtype='fp7' is not one of fp32"),
    (lambda: costs.kv_cache_bytes(M, 1, window=0), "window=0"),
    (lambda: costs.kv_cache_bytes(M, 1, block=0), "block=0"),
    (lambda: costs.kv_cache_bytes_per_card(M, 1, 0), "tensor_parallel=0"),
    (lambda: costs.kv_cache_bytes_per_card(M, 1, 1, 0), "pipeline_parallel=0"),
    (lambda: costs.weight_bytes(M, "fp99"), "dtype='fp99'"),
    (lambda: costs.quantized_weight_bytes(M, bits=0), "bits=0"),
    (lambda: costs.quantized_weight_bytes(M, group=0), "group=0"),
    (lambda: costs.quantized_weight_bytes(M, group_bytes=-1), "group_bytes=-1 is below 0"),
    (lambda: costs.forward_flops(M, 0), "new_tokens=0 is not a whole number of at least 1"),
    (lambda: costs.forward_flops(M, 1, -1), "cached=-1"),
    (lambda: costs.forward_flops(M, 1, logits="some"), "logits='some' is not one of last, all"),
    (lambda: costs.attention_flops(M, -2), "new_tokens=-2"),
    (lambda: costs.attention_crossover(M, "head"), "against='head' is not one of ffn, linear"),
    (lambda: costs.ridge(CARD, "fp8"), "A100-80 SXM has no 'fp8' unit"),
    (lambda: costs.attainable_flops(CARD, 0), "intensity=0"),
    (lambda: costs.roofline_time(1, 1, CARD, cards=0), "cards=0"),
    (lambda: costs.roofline_time(-1, 1, CARD), "flops=-1"),
    (lambda: costs.roofline_time(1, 1, CARD, mfu=0), "mfu=0"),
    (lambda: costs.roofline_time(1, 1, CARD, mbu=1.5), "mbu=1.5 is above 1"),
    (lambda: costs.step_flops(M, []), "no sequence"),
    (lambda: costs.step_flops(M, [(0, 4)]), "new_tokens=0"),
    (lambda: costs.step_bytes(M, [(1, -4)]), "cached=-4"),
    (lambda: costs.step_bytes(M, [(1, 0)], weights=-5), "weights=-5"),
    (lambda: costs.decode_time(M, 0, 10, CARD), "batch=0"),
    (lambda: costs.decode_time(M, 1, 0, CARD), "context=0"),
    (lambda: costs.decode_bytes(M, 1, 0), "context=0"),
    (lambda: costs.prefill_time(M, 0, CARD), "new_tokens=0"),
    (lambda: costs.kv_equals_weights_batch(M, 0), "context=0"),
    (lambda: costs.model_flops_utilization(1, 0, CARD), "seconds=0"),
    (lambda: costs.model_bandwidth_utilization(1, 1, CARD, cards=0), "cards=0"),
    (lambda: costs.memory_plan(M, CARD, 0), "cards=0"),
    (lambda: costs.memory_plan(M, CARD, utilization=1.2), "utilization=1.2 is above 1"),
    (lambda: costs.memory_plan(M, CARD, activations=-1), "activations=-1 is below 0"),
    (lambda: costs.memory_plan(M, CARD).sequences(0), "context=0"),
    (lambda: costs.min_cards(0, CARD), "weights=0"),
    (lambda: costs.largest_batch(M, 10, float("nan"), CARD), "tpot=nan"),
    (lambda: costs.request_times(M, 10, 0, CARD), "output=0"),
    (lambda: costs.request_times(M, 10, 1, CARD, batch=0), "batch=0"),
    (lambda: costs.EncoderDecoderCosts(0, 8, 1, 1), "layers=0"),
    (lambda: costs.EncoderDecoderCosts(1, 8, 1, 1, "x"), "dtype='x'"),
    (lambda: costs.EncoderDecoderCosts(1, 8, 1, 1).follow_up_linear_flops(0), "tokens=0"),
]


@pytest.mark.parametrize(("call", "words"), BAD, ids=[words for _, words in BAD])
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_mixed_step_is_decode_and_chunk_with_the_weights_read_once():
    decode, chunk = [(1, 99)] * 3, [(64, 32)]
    flops = costs.step_flops(M, decode + chunk)
    assert flops == costs.decode_flops(M, 3, 100) + costs.forward_flops(M, 64, 32)
    moved = costs.step_bytes(M, decode + chunk)
    assert moved == costs.weight_bytes(M, resident=False) + costs.kv_cache_bytes(M, 3 * 100 + 96)
    assert costs.step_time(M, decode + chunk, CARD) == costs.roofline_time(flops, moved, CARD)
    assert costs.step_time(M, decode, CARD) == costs.decode_time(M, 3, 100, CARD)


def test_one_output_token_needs_no_decode_step():
    assert costs.request_times(M, 100, 1, CARD).prefill_share == 1


def test_context_limit_is_infinite_where_attention_itself_reaches_the_ridge():
    slow = hardware.Accelerator("slow", {"bf16": 4.0}, 1.0, 1, 1, "none", 0, "made up", "2026")
    assert costs.compute_bound_context_limit(M, slow) == float("inf")


@given(st.integers(1, 3000), st.integers(0, 3000))
def test_chunks_add_up_to_the_prompt(new, cached):
    whole = costs.attention_flops(M, cached + new)
    assert whole == costs.attention_flops(M, cached) + costs.attention_flops(M, new, cached)


def test_numpy_integers_are_counts():
    numpy = pytest.importorskip("numpy")
    assert costs.kv_cache_bytes(M, numpy.int64(7)) == costs.kv_cache_bytes(M, 7)


def test_no_torch_and_no_numpy():
    code = (
        "import sys\n"
        "for name in ('torch', 'numpy'): sys.modules[name] = None\n"
        "from tinyserve import configs, costs, hardware\n"
        "assert costs.params(configs.LLAMA_3_70B) == 70553706496\n"
        "assert not hasattr(costs, 'torch')\n"
        "try: hardware.measure()\n"
        "except ImportError: print('no torch')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "no torch", done.stderr
