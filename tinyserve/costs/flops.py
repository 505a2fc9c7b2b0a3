"""How many FLOPs (operations; a multiply-add is two) a forward pass takes.

Counted: matrix products. Norms, softmax, activations, RoPE and additions are
left out, as in every published count; they are below 1 % of the total.
"""

from __future__ import annotations

from ..configs import ModelConfig
from .checks import require_count
from .parameters import attention_matrix_params, ffn_matrix_params

LOGITS = ("last", "all")


def layer_linear_flops_per_token(model: ModelConfig) -> dict[str, int]:
    """Count the FLOPs of one layer's matrices for one token: 2 per weight; keys attention, ffn."""
    return {"attention": 2 * attention_matrix_params(model), "ffn": 2 * ffn_matrix_params(model)}


def head_flops(model: ModelConfig) -> int:
    """Count the FLOPs of the logits of one position: 2*d*V, tied or not."""
    return 2 * model.d_model * model.vocab_size


def linear_flops_per_token(model: ModelConfig, head: bool = True) -> int:
    """Count the FLOPs of all weight matrices for one new token (the embedding is looked up: 0)."""
    layers = model.n_layers * sum(layer_linear_flops_per_token(model).values())
    return layers + (head_flops(model) if head else 0)


def attention_flops_per_context_token(model: ModelConfig) -> int:
    """Count the FLOPs one new token spends on one token of its context, over all layers.

    4*L*H*d_h: QK^T and the weighted sum of V take 2*d_h each, for every query
    head. K's number of heads does not enter: GQA saves bytes, not FLOPs.
    """
    return 4 * model.n_layers * model.q_width


def attention_pairs(new_tokens: int, cached: int = 0, causal: bool = True) -> int:
    """Count the pairs (query, key) of a step: n queries, the last n of cached + n keys.

    Causal: n*cached + n*(n+1)/2. Full square: n*(cached + n). Raises ValueError
    for a negative or fractional count.
    """
    n = require_count("new_tokens", new_tokens)
    past = require_count("cached", cached)
    return n * past + (n * (n + 1) // 2 if causal else n * n)


def attention_flops(model: ModelConfig, new_tokens: int, cached: int = 0, causal: bool = True) -> int:
    """Count the FLOPs of QK^T and of the weighted sum of V for one sequence, over all layers.

    causal=True counts the pairs the mask keeps, which is what a kernel that skips
    masked tiles computes; causal=False the full square, which a plain matrix
    product computes. Raises ValueError for a negative or fractional count.
    """
    return attention_flops_per_context_token(model) * attention_pairs(new_tokens, cached, causal)


def forward_flops(
    model: ModelConfig, new_tokens: int, cached: int = 0, logits: str = "last", causal: bool = True
) -> int:
    """Count the FLOPs of one forward pass of one sequence.

    new_tokens run through the model, cached ones are read from the cache; the
    head works on the last position or on all. A decode step at context t is
    new_tokens=1, cached=t-1. Raises ValueError for new_tokens below 1, cached
    below 0 or another word for logits.
    """
    require_count("new_tokens", new_tokens, minimum=1)
    if logits not in LOGITS:
        raise ValueError(f"logits={logits!r} is not one of {', '.join(LOGITS)}")
    linear = new_tokens * linear_flops_per_token(model, head=False)
    head = head_flops(model) * (new_tokens if logits == "all" else 1)
    return linear + attention_flops(model, new_tokens, cached, causal) + head


def flops_by_component(
    model: ModelConfig, new_tokens: int, cached: int = 0, logits: str = "last", causal: bool = True
) -> dict[str, int]:
    """Split forward_flops into projections, scores (QK^T and the sum of V), ffn and head."""
    total = forward_flops(model, new_tokens, cached, logits, causal)
    layer = layer_linear_flops_per_token(model)
    parts = {
        "projections": new_tokens * model.n_layers * layer["attention"],
        "scores": attention_flops(model, new_tokens, cached, causal),
        "ffn": new_tokens * model.n_layers * layer["ffn"],
    }
    return parts | {"head": total - sum(parts.values())}


def attention_share(model: ModelConfig, new_tokens: int, causal: bool = True) -> float:
    """Return the share (0 to 1) of a prompt's FLOPs that goes into scores and the sum of V."""
    return attention_flops(model, new_tokens, causal=causal) / forward_flops(model, new_tokens, causal=causal)


def attention_crossover(model: ModelConfig, against: str = "ffn", causal: bool = True) -> float:
    """Return the prompt length, in tokens, at which attention's FLOPs reach the FFN's, or all matrices'.

    against is "ffn" or "linear" (all matrices of the layers; the head works once
    and is left out). The causal half is taken as n*n/2; its diagonal moves the
    result by one token. Raises ValueError for another word.
    """
    layer = layer_linear_flops_per_token(model)
    if against not in ("ffn", "linear"):
        raise ValueError(f"against={against!r} is not one of ffn, linear")
    linear = layer["ffn"] if against == "ffn" else sum(layer.values())
    per_context_token = attention_flops_per_context_token(model) / (2 if causal else 1)
    return model.n_layers * linear / per_context_token
