"""What the drills draw from, exported from `configs`, `hardware` and `costs`: no number of a model or a card is typed in a script."""

from __future__ import annotations

from tinyserve import configs, costs, hardware
from tinyserve.configs import ModelConfig
from tinyserve.hardware import Accelerator

MODELS: tuple[ModelConfig, ...] = (
    configs.LLAMA_2_7B, configs.LLAMA_3_8B, configs.QWEN2_5_7B, configs.OPT_13B, configs.LLAMA_1_65B, configs.LLAMA_3_70B,
    configs.GPT_3_175B,
)
CARDS: tuple[Accelerator, ...] = (
    hardware.A100_40, hardware.A100_80_SXM, hardware.H100_PCIE, hardware.H100_SXM, hardware.H200, hardware.B200, hardware.L4,
)
MOES = configs.MOE_MODELS


def _model(model: ModelConfig) -> dict[str, object]:
    layer = costs.layer_linear_flops_per_token(model)
    return {
        "name": model.name, "layers": model.n_layers, "heads": model.n_heads, "kvHeads": model.n_kv_heads, "headDim": model.head_dim,
        "params": costs.params(model), "streamed": costs.streamed_params(model), "kvNumbers": model.kv_elements_per_token,
        "linear": costs.linear_flops_per_token(model, head=False), "head": costs.head_flops(model),
        "layerLinear": sum(layer.values()), "layerFfn": layer["ffn"], "perContext": costs.attention_flops_per_context_token(model),
    }


def _card(card: Accelerator) -> dict[str, object]:
    return {"name": card.name, "peak": card.peak("bf16"), "bandwidth": card.bandwidth, "named": card.named_gb, "memory": card.memory_bytes}


def data() -> dict[str, object]:
    """Models, cards, mixtures of experts, bytes of each dtype, and the shares of the memory plan, as JSON-ready values.

    Bytes, FLOPs and counts in base units; peaks are dense bf16, FLOP/s.
    """
    return {
        "models": [_model(model) for model in MODELS],
        "cards": [_card(card) for card in CARDS],
        "moes": [{"name": moe.name, "experts": moe.n_experts, "topK": moe.top_k} for moe in MOES],
        "bytes": dict(costs.DTYPE_BYTES),
        "utilization": costs.UTILIZATION, "activations": costs.ACTIVATION_BYTES, "gb": costs.GB, "gib": costs.GIB,
    }
