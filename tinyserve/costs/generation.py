"""What it takes to generate a whole answer, with a KV cache and without one.

A prompt of p tokens and an answer of m: with a cache every token but the last of
the answer runs through the model once; without one, every new token runs all
tokens before it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..configs import LatentKVConfig, ModelConfig
from .checks import require_count
from .flops import forward_flops
from .memory import kv_cache_bytes


def _steps(prompt: int, output: int, cached: bool) -> list[tuple[int, int]]:
    """Return (new tokens, cached tokens) of every pass that yields one token of the answer."""
    require_count("prompt", prompt, minimum=1)
    require_count("output", output, minimum=1)
    if cached:
        return [(prompt, 0)] + [(1, prompt + i) for i in range(output - 1)]
    return [(prompt + i, 0) for i in range(output)]


def generation_tokens(prompt: int, output: int, cached: bool = True) -> int:
    """Count the tokens that run through the model for an answer of output tokens.

    With a cache prompt + output - 1, without one the sum of prompt + i for i below
    output. Raises ValueError for a count below 1.
    """
    return sum(new for new, _ in _steps(prompt, output, cached))


def generation_flops(model: ModelConfig, prompt: int, output: int, cached: bool = True) -> int:
    """Count the FLOPs of an answer of output tokens; each pass gives the logits of one position. Raises as above."""
    return sum(forward_flops(model, new, held) for new, held in _steps(prompt, output, cached))


def cache_write_bytes(
    model: ModelConfig | LatentKVConfig, appends: Iterable[int], dtype: str = "bf16", growing: bool = False
) -> int | float:
    """Return the bytes of K and V that one sequence's cache writes while it takes up these numbers of tokens.

    Preallocated, each append writes its own tokens. growing: each append allocates
    anew and writes the old tokens as well, which is quadratic in their number.
    Raises ValueError for an append below 1 or an unknown dtype.
    """
    written = held = 0
    for n in appends:
        held += require_count("append", n, minimum=1)
        written += held if growing else n
    return kv_cache_bytes(model, written, dtype)
