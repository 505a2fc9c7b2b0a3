"""A packed decoder computes what the decoder does; the one it was made from is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tinyserve.configs import ModelConfig
from tinyserve.engine import Engine
from tinyserve.kv_cache import ContiguousCache
from tinyserve.model import build
from tinyserve.packed import PackedLinear, packed

TINY = ModelConfig("tiny", n_layers=2, d_model=48, n_heads=4, n_kv_heads=2, head_dim=12, d_ff=80, vocab_size=70, rope_theta=1e4)


@pytest.mark.parametrize("config", [TINY, replace(TINY, tied_embedding=True), replace(TINY, bias="qkv")])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_logits_are_the_same(config, dtype, close):
    model = build(config, std=0.2, dtype=dtype)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.normal_()
    fast, ids = packed(model), torch.arange(21).reshape(3, 7)
    plain = model(ids, logits="all")
    assert (fast(ids, logits="all") - plain).abs().max() <= close * plain.abs().max()
    cache = ContiguousCache(config, 3, 9, dtype=dtype)
    step = fast(ids[:, :4], cache=cache), fast(ids[:, 4:], cache=cache)
    assert (step[1][:, -1] - plain[:, -1]).abs().max() <= close * plain.abs().max()


def test_every_matrix_is_packed_and_the_original_stays(tmp_path):
    model = build(replace(TINY, tied_embedding=True), std=0.2)
    before = {name: parameter.clone() for name, parameter in model.state_dict().items()}
    fast = packed(model)
    assert not any(isinstance(m, torch.nn.Linear) for m in fast.modules())
    assert sum(isinstance(m, PackedLinear) for m in fast.modules()) == 4 * TINY.n_layers + 1
    assert fast.embedding.weight is model.embedding.weight
    assert model.head is None and sum(isinstance(m, torch.nn.Linear) for m in model.modules()) == 7 * TINY.n_layers
    assert all(torch.equal(before[name], parameter) for name, parameter in model.state_dict().items())
    fast(torch.tensor([[1]]))
    assert (fast.tokens, model.tokens) == (1, 0)


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (6, 6)])
def test_every_number_of_rows_is_multiplied(rows, bias, shape):
    weight, b = torch.randn(shape), torch.randn(shape[0]) if bias else None
    x = torch.randn(1, rows, shape[1])
    assert torch.allclose(PackedLinear(weight, b)(x), torch.nn.functional.linear(x, weight, b), atol=1e-5)


def test_one_row_is_multiplied_by_the_wide_layout_and_more_rows_by_blocks():
    layer = PackedLinear(torch.randn(8, 4))
    assert layer.row.shape == (4, 8) and layer.row.is_contiguous()
    narrow = PackedLinear(torch.randn(4, 8))
    assert narrow.row.t().is_contiguous()
    layer.row.zero_()
    assert not layer(torch.ones(1, 1, 4)).any() and layer(torch.ones(1, 2, 4)).any()


def test_the_engine_gives_the_same_tokens():
    model = build(TINY, std=0.3)
    prompts = [[i, 2 * i, 3] for i in range(9)]
    plain, fast = (Engine(m, 60, 4).generate(prompts, max_tokens=8) for m in (model, packed(model)))
    assert [r.output for r in plain] == [r.output for r in fast]


def test_what_cannot_be_packed_is_refused():
    with pytest.raises(ValueError, match="torch.float64 cannot be packed"):
        packed(build(TINY, dtype=torch.float64))
    with pytest.raises(ValueError, match="on meta"):
        packed(build(TINY, device="meta"))
