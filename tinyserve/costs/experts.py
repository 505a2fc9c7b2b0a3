"""What a mixture of experts costs: parameters in all and in use, experts a batch touches, bytes and FLOPs of a step.

Routing is taken as uniform and independent: each token picks top_k different
experts of n_experts, all equally likely. Real routing is less even and touches fewer.
"""

from __future__ import annotations

import math

from ..hardware import Accelerator
from ..moe_shapes import MoEConfig
from .checks import require_count, require_positive
from .flops import attention_pairs
from .memory import dtype_bytes, kv_cache_bytes
from .roofline import roofline_time


def expert_params(model: MoEConfig) -> int:
    """Count one expert's numbers: gate, up and down, 3 * d * d_expert."""
    return 3 * model.d_model * model.d_expert


def moe_params_by_component(model: MoEConfig) -> dict[str, int]:
    """Count all numbers a checkpoint stores, by component.

    Keys: embedding, attention (with its own norms), dense_ffn, experts (routed),
    shared, router (with the bias, where there is one), norms, head.
    """
    d, layers, moe = model.d_model, model.n_layers, model.n_moe_layers
    return {
        "embedding": model.vocab_size * d,
        "attention": layers * (model.attention.matrix_params(d) + model.attention.norm_params),
        "dense_ffn": model.n_dense_layers * 3 * d * model.d_dense,
        "experts": moe * model.n_experts * expert_params(model),
        "shared": moe * model.n_shared * expert_params(model),
        "router": moe * model.n_experts * (d + model.router_bias),
        "norms": (2 * layers + 1) * d,
        "head": model.vocab_size * d,
    }


def moe_params(model: MoEConfig) -> int:
    """Count all numbers of the model."""
    return sum(moe_params_by_component(model).values())


def active_params(model: MoEConfig, embedding: bool = True) -> int:
    """Count the numbers one token passes: all but the routed experts it does not go to.

    embedding=False leaves the looked-up table out, of which a token reads one row. Published figures differ in this.
    """
    count = moe_params_by_component(model)
    unused = count["experts"] * (model.n_experts - model.top_k) // model.n_experts
    return moe_params(model) - unused - (0 if embedding else count["embedding"])


def experts_touched(n_experts: int, top_k: int, tokens: int) -> float:
    """Return how many different experts of a layer a step of this many tokens is expected to use: E*(1 - (1 - k/E)**B).

    Raises ValueError for a count below 1 (tokens: below 0) or top_k above n_experts.
    """
    experts = require_count("n_experts", n_experts, minimum=1)
    chosen = require_count("top_k", top_k, minimum=1)
    if chosen > experts:
        raise ValueError(f"top_k={top_k} is above n_experts={n_experts}")
    return experts * (1 - (1 - chosen / experts) ** require_count("tokens", tokens))


def expert_capacity(tokens: int, n_experts: int, top_k: int, factor: float = 1.25) -> int:
    """Return the rows kept free for each expert: ceil(factor * tokens * top_k / n_experts).

    Source: GShard (2006.16668), section 2.2, and Switch Transformers (2101.03961), equation 3. Raises ValueError for a count below 1.
    """
    wanted = require_count("tokens", tokens, minimum=1) * require_count("top_k", top_k, minimum=1)
    return math.ceil(require_positive("factor", factor) * wanted / require_count("n_experts", n_experts, minimum=1))


def moe_flops_per_token(model: MoEConfig) -> int:
    """Count the FLOPs of all matrices for one new token: 2 for each active number that is in a matrix."""
    vectors = moe_params_by_component(model)["norms"] + model.n_layers * model.attention.norm_params
    vectors += model.n_moe_layers * model.n_experts * model.router_bias
    return 2 * (active_params(model, embedding=False) - vectors)


def moe_decode_flops(model: MoEConfig, batch: int, context: int) -> int:
    """Count the FLOPs of a decode step of batch sequences at this context, the new token counted."""
    require_count("batch", batch, minimum=1)
    per_context = model.n_layers * model.attention.flops_per_context_token
    scores = per_context * attention_pairs(1, require_count("context", context, minimum=1) - 1)
    return batch * (moe_flops_per_token(model) + scores)


def moe_weight_bytes_read(model: MoEConfig, tokens: int, dtype: str = "bf16") -> float:
    """Return the bytes of weights a step of this many tokens is expected to read: everything dense, and the experts touched.

    The embedding is looked up and not counted. Raises ValueError as experts_touched.
    """
    count = moe_params_by_component(model)
    dense = moe_params(model) - count["experts"] - count["embedding"]
    touched = experts_touched(model.n_experts, model.top_k, tokens) / model.n_experts
    return (dense + count["experts"] * touched) * dtype_bytes(dtype)


def moe_decode_time(
    model: MoEConfig, batch: int, context: int, card: Accelerator, cards: int = 1, dtype: str = "bf16", kv_dtype: str = "bf16"
) -> float:
    """Return the roofline time, in seconds, of a decode step: weights read once, K and V of all sequences; communication left out."""
    moved = moe_weight_bytes_read(model, batch, dtype) + batch * kv_cache_bytes(model, context, kv_dtype)
    return roofline_time(moe_decode_flops(model, batch, context), moved, card, cards, dtype)


def rows_per_expert(model: MoEConfig, batch: int) -> float:
    """Return the tokens that share one reading of an expert, on average over the experts touched: B*k / touched."""
    return batch * model.top_k / experts_touched(model.n_experts, model.top_k, batch)


def compute_bound_batch(model: MoEConfig, card: Accelerator, dtype: str = "bf16", context: int = 1) -> int:
    """Return the smallest batch whose decode step takes at least as long to compute as to read; 2**20 where none below does.

    One card or any number: both sides are divided alike. Raises ValueError for a context below 1.
    """
    def compute_bound(batch: int) -> bool:
        moved = moe_weight_bytes_read(model, batch, dtype) + batch * kv_cache_bytes(model, context, dtype)
        return moe_decode_flops(model, batch, context) / card.peak(dtype) >= moved / card.bandwidth

    low, high = 0, 1
    while high < 2**20 and not compute_bound(high):
        low, high = high, high * 2
    while high - low > 1 and high < 2**20:
        middle = (low + high) // 2
        low, high = (low, middle) if compute_bound(middle) else (middle, high)
    return high
