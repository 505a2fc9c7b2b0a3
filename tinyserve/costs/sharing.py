"""What windows keep, and what reading a latent cache (MLA) costs."""

from __future__ import annotations

from ..configs import LatentKVConfig, WindowKVConfig
from .checks import as_int, require_count
from .memory import dtype_bytes, kv_cache_bytes


def window_kv_cache_bytes(model: WindowKVConfig, tokens: int, dtype: str = "bf16") -> int | float:
    """Return the bytes of K and V of one sequence in a model some of whose layers have a window.

    2*K*d_h*b*(full layers * tokens + windowed layers * min(tokens, window)). Raises
    ValueError for a negative count or an unknown dtype.
    """
    kept = require_count("tokens", tokens)
    positions = model.n_full_layers * kept + (model.n_layers - model.n_full_layers) * min(kept, model.window)
    return as_int(2 * model.n_kv_heads * model.head_dim * positions * dtype_bytes(dtype))


def latent_attention_flops_per_context_token(model: LatentKVConfig, absorbed: bool = True) -> int:
    """Count the FLOPs one decode token spends on one token of its context under MLA, over all layers.

    absorbed: scores over d_c + d_R numbers and a sum over d_c, for every head.
    Otherwise K and V of every head are formed anew from the latent (4*d_c*d_h), then
    scored over d_h + d_R and summed over d_h. What the new token costs once is left
    out. Source: DeepSeek-AI 2024, arXiv 2405.04434, section 2.1.
    """
    latent, rope, head = model.latent_dim, model.rope_dim, model.head_dim
    if absorbed:
        per_head = 2 * (latent + rope) + 2 * latent
    else:
        per_head = 4 * latent * head + 2 * (head + rope) + 2 * head
    return model.n_layers * model.n_heads * per_head


def latent_attention_intensity(model: LatentKVConfig, kv_dtype: str = "bf16") -> float:
    """Return the FLOPs per byte of MLA's decode attention in the absorbed form, whatever batch and context."""
    return latent_attention_flops_per_context_token(model) / kv_cache_bytes(model, 1, kv_dtype)
