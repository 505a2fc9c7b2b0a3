"""What blocks waste, what sharing them saves, and when K and V from elsewhere come sooner than computed ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..configs import ModelConfig
from ..hardware import Accelerator
from .checks import require_count, require_positive
from .memory import kv_cache_bytes
from .roofline import prefill_time


def block_waste(tokens: int, block_size: int) -> int:
    """Return the slots that stay empty in the last block of a request: (-tokens) mod block_size."""
    return -require_count("tokens", tokens) % require_count("block_size", block_size, minimum=1)


def mean_block_waste(block_size: int) -> float:
    """Return the mean of block_waste over lengths whose rest is evenly spread: (block_size - 1) / 2 slots a request."""
    return (require_count("block_size", block_size, minimum=1) - 1) / 2


def useful_share(lengths: Iterable[int], block_size: int) -> float:
    """Return the share of all allocated slots that hold a token. Raises ValueError for no tokens at all."""
    lengths = list(lengths)
    tokens = sum(lengths)
    require_count("tokens", tokens, minimum=1)
    return tokens / (tokens + sum(block_waste(n, block_size) for n in lengths))


def shared_samples_saving(prompt: int, answer: int, samples: int, block_size: int) -> float:
    """Return the share of blocks saved when samples of one prompt share its full blocks, and each has its own others.

    Of prompt + answer tokens each, at their end. Kwon et al. 2023, arXiv 2309.06180, section 4.4.
    Raises ValueError for an answer below 1: until each sample has written a token of its own, all blocks are shared.
    """
    require_count("samples", samples, minimum=1)
    require_count("answer", answer, minimum=1)
    whole = -(-require_count("tokens", prompt + answer, minimum=1) // require_count("block_size", block_size, minimum=1))
    return (samples - 1) * (require_count("prompt", prompt) // block_size) / (samples * whole)


def read_back_time(model: ModelConfig, tokens: int, rate: float, hop: float = 0.0, kv_dtype: str = "bf16") -> float:
    """Return the seconds in which K and V of so many tokens come over a link of rate bytes/s (of all cards together)."""
    return hop + kv_cache_bytes(model, tokens, kv_dtype) / require_positive("rate", rate)


def break_even_rate(model: ModelConfig, tokens: int, card: Accelerator, cards: int = 1, kv_dtype: str = "bf16", **options: Any) -> float:
    """Return the bytes/s at which reading K and V of a prompt takes as long as computing them.

    kv bytes / prefill_time; a faster tier is worth asking. options are step_time's (mfu, mbu, dtype).
    """
    require_count("tokens", tokens, minimum=1)
    return kv_cache_bytes(model, tokens, kv_dtype) / prefill_time(model, tokens, card, cards, kv_dtype=kv_dtype, **options)
