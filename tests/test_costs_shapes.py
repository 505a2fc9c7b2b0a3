"""Time by shape: the matrices are the model's own, and one rate for all gives back the plain sum."""

from dataclasses import replace

import pytest
from torch import nn

from meta_model import build
from tinyserve import costs
from tinyserve.configs import LLAMA_3_8B, OPT_13B, ModelConfig

TINY = ModelConfig("tiny", 3, 48, 6, 2, 8, 80, 101)
SQUARE = replace(TINY, n_kv_heads=6, d_ff=48, vocab_size=48)


@pytest.mark.parametrize("config", [TINY, SQUARE, replace(TINY, tied_embedding=True), LLAMA_3_8B, OPT_13B])
def test_shapes_are_the_tensors(config):
    model, found = build(config), {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            shape = tuple(module.weight.shape)
            found[shape] = found.get(shape, 0) + 1
    assert costs.matrix_shapes(config) == found
    assert costs.head_shape(config) == tuple(model.head.weight.shape)
    assert sum(costs.layer_matrix_shapes(config).values()) == sum(found.values()) - 1


@pytest.mark.parametrize(("batch", "context"), [(1, 1), (4, 100)])
def test_one_rate_for_all_is_bytes_over_rate(batch, context):
    rates = dict.fromkeys(costs.matrix_shapes(TINY), 8e9)
    norms = costs.params_by_component(TINY)["norms"] * 4
    moved = costs.decode_bytes(TINY, batch, context, "fp32", "fp32") - norms
    assert costs.decode_time_by_shape(TINY, batch, context, rates, 8e9, "fp32") == pytest.approx(moved / 8e9)


def test_each_shape_has_its_own_rate():
    rates = dict.fromkeys(costs.matrix_shapes(TINY), 8e9)
    slow = rates | {(80, 48): 4e9}  # gate and up of three layers
    more = costs.decode_time_by_shape(TINY, 1, 9, slow, 8e9) - costs.decode_time_by_shape(TINY, 1, 9, rates, 8e9)
    assert more == pytest.approx(6 * 80 * 48 * 2 / 8e9)
    late = costs.decode_time_by_shape(TINY, 2, 9, rates, 4e9) - costs.decode_time_by_shape(TINY, 2, 9, rates, 8e9)
    assert late == pytest.approx(2 * costs.kv_cache_bytes(TINY, 9) / 8e9)


def test_prefill_at_one_rate_is_flops_over_rate():
    rates = dict.fromkeys(costs.layer_matrix_shapes(TINY), 1e11)
    flops = costs.forward_flops(TINY, 20) - costs.head_flops(TINY)
    assert costs.prefill_time_by_shape(TINY, 20, rates, 1e11, 0.5) == pytest.approx(flops / 1e11 + 0.5)
    slow = costs.prefill_time_by_shape(TINY, 20, rates, 5e10, 0.5)
    assert slow - 0.5 == pytest.approx((flops + costs.attention_flops(TINY, 20)) / 1e11)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda r: costs.decode_time_by_shape(TINY, 1, 1, {}, 1.0), "has no shape"),
        (lambda r: costs.decode_time_by_shape(TINY, 0, 1, r, 1.0), "batch=0"),
        (lambda r: costs.decode_time_by_shape(TINY, 1, 0, r, 1.0), "context=0"),
        (lambda r: costs.decode_time_by_shape(TINY, 1, 1, r, 0), "kv_rate=0"),
        (lambda r: costs.decode_time_by_shape(TINY, 1, 1, r | {(80, 48): -1.0}, 1.0), r"rates\[\(80, 48\)\]=-1.0"),
        (lambda r: costs.decode_time_by_shape(TINY, 1, 1, r, 1.0, "fp12"), "fp12"),
        (lambda r: costs.prefill_time_by_shape(TINY, 0, r, 1.0, 1.0), "new_tokens=0"),
        (lambda r: costs.prefill_time_by_shape(TINY, 1, r, 0, 1.0), "attention_rate=0"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call(dict.fromkeys(costs.matrix_shapes(TINY), 1.0))
