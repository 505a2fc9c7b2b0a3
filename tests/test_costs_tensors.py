"""The cost model against tensors: numel, nbytes and counted FLOPs of a meta-device model."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from meta_model import build, empty_cache
from tinyserve import costs
from tinyserve.attention import causal_mask
from tinyserve.configs import GPT_3_175B, LLAMA_3_70B, MODELS, OPT_13B, QWEN2_5_7B, ModelConfig

TINY = ModelConfig("tiny", 2, 48, 6, 2, 8, 80, 101)


def count_flops(config, new_tokens, cached=0, logits="last", batch=1):
    model = build(config)
    caches = empty_cache(config, cached, batch) if cached else None
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(batch, new_tokens, dtype=torch.long, device="meta"), caches, logits)
    return counter.get_total_flops()


@pytest.mark.parametrize("config", MODELS.values(), ids=list(MODELS))
def test_parameters_are_the_tensors_numel(config):
    model = build(config)
    assert costs.params(config) == sum(p.numel() for p in model.parameters())
    assert costs.layer_params(config) == sum(p.numel() for p in model.blocks[0].parameters())
    assert costs.weight_bytes(config) == sum(p.nbytes for p in model.parameters())
    table = model.embedding.weight.numel()
    unread = (0 if config.tied_embedding else table) + (model.positions.weight.numel() if model.positions else 0)
    assert costs.streamed_params(config) == costs.params(config) - unread


@pytest.mark.parametrize("config", MODELS.values(), ids=list(MODELS))
def test_components_are_the_tensors_numel(config):
    model, sums = build(config), dict.fromkeys(costs.params_by_component(config), 0)
    for name, tensor in model.named_parameters():
        part = name.split(".")[0] if not name.startswith("blocks") else name.split(".")[2]
        if part.startswith("norm"):
            key = "norms"
        elif name.startswith("blocks") and name.endswith("bias"):
            key = "biases"
        else:
            key = {"q": "attention", "k": "attention", "v": "attention", "o": "attention",
                   "gate": "ffn", "up": "ffn", "down": "ffn"}.get(part, part)
        sums[key] += tensor.numel()
    assert costs.params_by_component(config) == sums


@pytest.mark.parametrize("config", [TINY, replace(TINY, ffn="relu", norm="layernorm", bias="all", tied_embedding=True)])
@pytest.mark.parametrize(("new", "cached"), [(1, 0), (1, 6), (5, 0), (4, 9)])
@pytest.mark.parametrize("logits", ["last", "all"])
def test_flops_are_the_counted_ones(config, new, cached, logits):
    counted = count_flops(config, new, cached, logits)
    assert costs.forward_flops(config, new, cached, logits, causal=False) == counted
    assert sum(costs.flops_by_component(config, new, cached, logits, causal=False).values()) == counted


def test_the_decode_step_of_70b():
    counted = count_flops(LLAMA_3_70B, 1, 4095)
    assert counted == 149_740_847_104
    assert costs.forward_flops(LLAMA_3_70B, 1, 4095) == counted
    assert costs.decode_flops(LLAMA_3_70B, 1, 4096) == counted


def test_a_batch_counts_as_so_many_sequences():
    assert count_flops(TINY, 1, 6, batch=3) == costs.decode_flops(TINY, 3, 7)


def test_a_plain_product_counts_the_full_square_not_the_causal_half():
    square = count_flops(LLAMA_3_70B, 512)
    assert square == costs.forward_flops(LLAMA_3_70B, 512, causal=False)
    kept = int(causal_mask(512, 512).sum())
    saved = costs.attention_flops_per_context_token(LLAMA_3_70B) * (512 * 512 - kept)
    assert costs.forward_flops(LLAMA_3_70B, 512) == square - saved


@pytest.mark.parametrize(("new", "cached"), [(1, 0), (1, 7), (5, 0), (4, 9)])
def test_causal_pairs_are_the_ones_in_the_mask(new, cached):
    assert costs.attention_pairs(new, cached) == int(causal_mask(new, new + cached).sum())
    assert costs.attention_pairs(new, cached, causal=False) == causal_mask(new, new + cached).numel()


@pytest.mark.parametrize("config", [LLAMA_3_70B, QWEN2_5_7B, OPT_13B, GPT_3_175B], ids=lambda c: c.name)
@pytest.mark.parametrize(("dtype", "name"), [(torch.bfloat16, "bf16"), (torch.float32, "fp32"), (torch.float8_e4m3fn, "fp8")])
def test_the_cache_is_the_tensors_nbytes(config, dtype, name):
    cache = empty_cache(config, 300, dtype=dtype)
    assert costs.kv_cache_bytes(config, 300, name) == sum(t.nbytes for pair in cache for t in pair)


def test_a_step_adds_one_token_to_the_cache():
    model = build(TINY)
    _, after = model(torch.zeros(1, 1, dtype=torch.long, device="meta"), empty_cache(TINY, 6))
    assert sum(t.nbytes for pair in after for t in pair) == costs.kv_cache_bytes(TINY, 7)


@pytest.mark.parametrize("config", MODELS.values(), ids=list(MODELS))
def test_the_data_flow_adds_up(config):
    rows = costs.data_flow(config)
    assert sum(row.params * row.repeats for row in rows) == costs.params(config)
    assert sum(row.flops * row.repeats for row in rows) == costs.linear_flops_per_token(config)
    assert sum(row.flops_per_context * row.repeats for row in rows) == costs.attention_flops_per_context_token(config)


def test_the_data_flow_shapes_are_the_tensors():
    model = build(TINY)
    shapes = {}
    for name, module in model.named_modules():
        module.register_forward_hook(lambda m, i, o, name=name: shapes.setdefault(name, o))
    model(torch.zeros(2, 3, dtype=torch.long, device="meta"))
    rows = {row.name: row.shape for row in costs.data_flow(TINY, "2", "3")}
    for row, module in [("embedding", "embedding"), ("W_q", "blocks.0.q"), ("W_k", "blocks.0.k"), ("W_v", "blocks.0.v"),
                        ("join heads, W_o, add residual", "blocks.0.o"), ("W_gate", "blocks.0.gate"),
                        ("W_up", "blocks.0.up"), ("W_down, add residual", "blocks.0.down"), ("head", "head")]:
        assert rows[row] == str(list(shapes[module].shape))
