"""Time as the roofline sees it: the longer of computing and moving bytes.

A step of a model is a list of pieces of work (new_tokens, cached), one for each
sequence: a decode step at context t is (1, t - 1), a whole prompt (n, 0), a
chunk (512, 1024). t counts the new token, whose K and V are read like the rest.

These are lower bounds. mfu and mbu (above 0, at most 1) say which part of the
peak rates a real machine reaches. Model: Williams et al. 2009, CACM 52(4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..configs import ModelConfig
from ..hardware import Accelerator
from .checks import require_count, require_fraction, require_positive
from .flops import attention_flops_per_context_token, forward_flops, linear_flops_per_token
from .memory import kv_cache_bytes, weight_bytes

Work = Iterable[tuple[int, int]]


def ridge(card: Accelerator, dtype: str = "bf16") -> float:
    """Return the intensity, in FLOP per byte, at which the card's two roofs meet."""
    return card.peak(dtype) / card.bandwidth


def attainable_flops(card: Accelerator, intensity: float, dtype: str = "bf16") -> float:
    """Return the FLOP/s the roofline allows at this intensity (FLOP per byte)."""
    return min(card.peak(dtype), card.bandwidth * require_positive("intensity", intensity))


def roofline_time(
    flops: float,
    moved: float,
    card: Accelerator,
    cards: int = 1,
    dtype: str = "bf16",
    mfu: float = 1.0,
    mbu: float = 1.0,
) -> float:
    """Return the seconds for flops operations and moved bytes, spread evenly over the cards.

    max(flops / (N*F*mfu), moved / (N*BW*mbu)); communication is left out. Raises
    ValueError for cards below 1, a negative amount, or mfu or mbu outside (0, 1].
    """
    count = require_count("cards", cards, minimum=1)
    if flops < 0 or moved < 0:
        raise ValueError(f"flops={flops!r} and moved={moved!r} must not be below 0")
    compute = flops / (count * card.peak(dtype) * require_fraction("mfu", mfu))
    memory = moved / (count * card.bandwidth * require_fraction("mbu", mbu))
    return max(compute, memory)


def _checked(work: Work) -> list[tuple[int, int]]:
    """Return the work as a list; raise ValueError when it is empty or a piece is malformed."""
    pieces = list(work)
    if not pieces:
        raise ValueError("work=[] has no sequence")
    for new, cached in pieces:
        require_count("new_tokens", new, minimum=1)
        require_count("cached", cached)
    return pieces


def step_flops(model: ModelConfig, work: Work) -> int:
    """Count the FLOPs of one step; every sequence gets the logits of its last position."""
    return sum(forward_flops(model, new, cached) for new, cached in _checked(work))


def _streamed(model: ModelConfig, dtype: str, weights: float | None) -> float:
    """Return the weights' bytes of one step, or the caller's own figure."""
    return weight_bytes(model, dtype, resident=False) if weights is None else require_positive("weights", weights)


def step_bytes(
    model: ModelConfig, work: Work, dtype: str = "bf16", kv_dtype: str = "bf16", weights: float | None = None
) -> float:
    """Return the bytes one step moves: streamed weights once, K and V of every token in reach once.

    weights overrides the weights' bytes (for a quantized model). Activations and
    logits are left out. Raises ValueError for malformed work.
    """
    read = sum(kv_cache_bytes(model, new + cached, kv_dtype) for new, cached in _checked(work))
    return _streamed(model, dtype, weights) + read


def step_time(
    model: ModelConfig,
    work: Work,
    card: Accelerator,
    cards: int = 1,
    dtype: str = "bf16",
    kv_dtype: str = "bf16",
    mfu: float = 1.0,
    mbu: float = 1.0,
    weights: float | None = None,
) -> float:
    """Return the roofline time of one step, in seconds; prefill, decode or mixed."""
    pieces = _checked(work)
    moved = step_bytes(model, pieces, dtype, kv_dtype, weights)
    return roofline_time(step_flops(model, pieces), moved, card, cards, dtype, mfu, mbu)


def decode_flops(model: ModelConfig, batch: int, context: int) -> int:
    """Count the FLOPs of a decode step: B * (linear + t * attention per context token).

    Every sequence is at this context, the new token counted. Raises ValueError
    for a batch or context below 1.
    """
    require_count("batch", batch, minimum=1)
    require_count("context", context, minimum=1)
    return batch * forward_flops(model, 1, context - 1)


def decode_bytes(
    model: ModelConfig,
    batch: int,
    context: int,
    dtype: str = "bf16",
    kv_dtype: str = "bf16",
    weights: float | None = None,
) -> float:
    """Return the bytes of a decode step: streamed weights + B * t * KV bytes per token."""
    require_count("batch", batch, minimum=1)
    require_count("context", context, minimum=1)
    return _streamed(model, dtype, weights) + batch * kv_cache_bytes(model, context, kv_dtype)


def decode_time(
    model: ModelConfig,
    batch: int,
    context: int,
    card: Accelerator,
    cards: int = 1,
    dtype: str = "bf16",
    kv_dtype: str = "bf16",
    mfu: float = 1.0,
    mbu: float = 1.0,
    weights: float | None = None,
) -> float:
    """Return the roofline time, in seconds, of a decode step of batch sequences at this context."""
    moved = decode_bytes(model, batch, context, dtype, kv_dtype, weights)
    return roofline_time(decode_flops(model, batch, context), moved, card, cards, dtype, mfu, mbu)


def prefill_time(
    model: ModelConfig, new_tokens: int, card: Accelerator, cards: int = 1, cached: int = 0, **options: Any
) -> float:
    """Return the roofline time, in seconds, of one prompt or of a chunk after cached tokens.

    options are step_time's: dtype, kv_dtype, mfu, mbu, weights. A short prompt is
    memory-bound: below the ridge the weights take longer than the arithmetic.
    """
    return step_time(model, [(new_tokens, cached)], card, cards, **options)


def decode_intensity(
    model: ModelConfig, batch: int, context: int, dtype: str = "bf16", kv_dtype: str = "bf16"
) -> float:
    """Return the FLOPs per byte of a decode step."""
    return decode_flops(model, batch, context) / decode_bytes(model, batch, context, dtype, kv_dtype)


def decode_intensity_limit(model: ModelConfig, context: int, kv_dtype: str = "bf16") -> float:
    """Return what decode_intensity tends to as the batch grows: only K and V are left to read."""
    return decode_flops(model, 1, context) / kv_cache_bytes(model, context, kv_dtype)


def attention_intensity(model: ModelConfig, kv_dtype: str = "bf16") -> float:
    """Return the FLOPs per byte of decode attention: 2*H/(K*b), whatever batch and context."""
    return attention_flops_per_context_token(model) / kv_cache_bytes(model, 1, kv_dtype)


def compute_bound_context_limit(
    model: ModelConfig, card: Accelerator, dtype: str = "bf16", kv_dtype: str = "bf16"
) -> float:
    """Return the context, in tokens, above which decode stays memory-bound at every batch.

    Solves (linear + a*t) / (t*kv) = ridge for t; infinite where attention's own
    intensity reaches the ridge.
    """
    spare = ridge(card, dtype) * kv_cache_bytes(model, 1, kv_dtype) - attention_flops_per_context_token(model)
    return linear_flops_per_token(model) / spare if spare > 0 else math.inf


def kv_equals_weights_batch(
    model: ModelConfig, context: int, dtype: str = "bf16", kv_dtype: str = "bf16", resident: bool = False
) -> float:
    """Return the batch at which KV bytes equal the weights' bytes, streamed or resident."""
    require_count("context", context, minimum=1)
    return weight_bytes(model, dtype, resident) / kv_cache_bytes(model, context, kv_dtype)


def model_flops_utilization(
    flops: float, seconds: float, card: Accelerator, cards: int = 1, dtype: str = "bf16"
) -> float:
    """Return MFU: FLOPs the model needs, over what the cards could do in the measured seconds (0 to 1)."""
    require_count("cards", cards, minimum=1)
    return flops / (require_positive("seconds", seconds) * cards * card.peak(dtype))


def model_bandwidth_utilization(moved: float, seconds: float, card: Accelerator, cards: int = 1) -> float:
    """Return MBU: bytes the step must move, over what the cards could read in the measured seconds (0 to 1)."""
    require_count("cards", cards, minimum=1)
    return moved / (require_positive("seconds", seconds) * cards * card.bandwidth)
