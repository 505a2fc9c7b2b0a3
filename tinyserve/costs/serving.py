"""Plans: what fits on the cards, the batch for a latency target, where the time goes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..configs import ModelConfig
from ..hardware import Accelerator
from .checks import require_count, require_fraction, require_positive
from .memory import kv_cache_bytes, weight_bytes
from .roofline import decode_time, prefill_time

UTILIZATION = 0.92
"""Share of a card's memory a server takes: vLLM 0.33's default of gpu_memory_utilization."""
ACTIVATION_BYTES = 1.5e9
"""Assumed bytes a card keeps for activations and CUDA graphs."""


@dataclass(frozen=True)
class MemoryPlan:
    """Memory over all cards of one model instance, in bytes.

    usable = cards * (utilization * memory_bytes - activations); kv_pool is what the
    weights leave of it, and is below 0 when they do not fit.
    """

    total: float
    usable: float
    weights: float
    kv_pool: float
    bytes_per_token: float

    @property
    def fits(self) -> bool:
        """True when the weights leave room for at least one token."""
        return self.tokens > 0

    @property
    def tokens(self) -> int:
        """Whole tokens the KV pool holds; 0 when the weights do not fit."""
        return max(0, math.floor(self.kv_pool / self.bytes_per_token))

    @property
    def weights_share(self) -> float:
        """Weights as a share of all memory."""
        return self.weights / self.total

    @property
    def kv_share(self) -> float:
        """KV pool as a share of all memory; 0 when the weights do not fit."""
        return max(0.0, self.kv_pool) / self.total

    def sequences(self, context: int) -> int:
        """Return the whole sequences of this many tokens that fit at once."""
        return self.tokens // require_count("context", context, minimum=1)


def memory_plan(
    model: ModelConfig,
    card: Accelerator,
    cards: int = 1,
    utilization: float = UTILIZATION,
    activations: float = ACTIVATION_BYTES,
    dtype: str = "bf16",
    kv_dtype: str = "bf16",
    weights: float | None = None,
    pipeline_parallel: int = 1,
    context_parallel: int = 1,
) -> MemoryPlan:
    """Plan the memory of one instance over the cards: tensor parallelism, in pipeline_parallel stages.

    Weights are divided evenly. K and V are divided by heads within a stage: with
    more cards there than n_kv_heads, each token is stored several times, unless
    context_parallel divides its copies' tokens among them. weights overrides the
    weights' bytes (for a quantized model). Raises ValueError for cards below 1,
    utilization outside (0, 1], activations below 0 or cards that do not make
    equal stages.
    """
    count = require_count("cards", cards, minimum=1)
    stages = require_count("pipeline_parallel", pipeline_parallel, minimum=1)
    if count % stages:
        raise ValueError(f"cards={count} is not a multiple of pipeline_parallel={stages}")
    if activations < 0:
        raise ValueError(f"activations={activations!r} is below 0")
    total = count * card.memory_bytes
    usable = require_fraction("utilization", utilization) * total - count * activations
    resident = weight_bytes(model, dtype) if weights is None else require_positive("weights", weights)
    parts = model.n_kv_heads * require_count("context_parallel", context_parallel, minimum=1)
    copies = max(1.0, count / stages / parts)
    per_token = kv_cache_bytes(model, 1, kv_dtype) * copies
    return MemoryPlan(total, usable, resident, usable - resident, per_token)


def min_cards(weights: float, card: Accelerator, utilization: float = UTILIZATION) -> int:
    """Return how many cards hold these bytes of weights within their usable share, nothing else counted."""
    usable = require_fraction("utilization", utilization) * card.memory_bytes
    return math.ceil(require_positive("weights", weights) / usable)


def largest_batch(
    model: ModelConfig,
    context: int,
    tpot: float,
    card: Accelerator,
    cards: int = 1,
    mbu: float = 0.6,
    mfu: float = 0.5,
    memory: bool = True,
    **options: Any,
) -> int:
    """Return the largest batch whose decode step at this context takes at most tpot seconds.

    With memory=True, also no larger than what the KV pool of memory_plan holds. 0
    when even one sequence is too slow or does not fit. options: dtype, kv_dtype,
    weights. Raises ValueError for tpot not above 0.
    """
    require_positive("tpot", tpot)

    def fast_enough(batch: int) -> bool:
        return decode_time(model, batch, context, card, cards, mbu=mbu, mfu=mfu, **options) <= tpot

    high = 1
    while fast_enough(high) and high < 2**20:
        high *= 2
    low = high // 2  # the step time grows with the batch: bisect between a batch that holds and one that does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fast_enough(middle) else (low, middle)
    return min(low, memory_plan(model, card, cards, **options).sequences(context)) if memory else low


@dataclass(frozen=True)
class RequestTimes:
    """Seconds of one request: ttft for the prompt, decode for all later tokens."""

    ttft: float
    decode: float

    @property
    def prefill_share(self) -> float:
        """Share of the time that goes into the prompt (0 to 1)."""
        return self.ttft / (self.ttft + self.decode)


def request_times(
    model: ModelConfig,
    prompt: int,
    output: int,
    card: Accelerator,
    cards: int = 1,
    batch: int = 1,
    mfu: float = 0.5,
    mbu: float = 0.6,
) -> RequestTimes:
    """Return the GPU time of one request, prompt and output in tokens.

    The prompt yields the first token; output - 1 decode steps follow, at contexts
    prompt + 1 to prompt + output - 1, each shared by batch requests of the same
    shape. batch=1 is a lone request's own latency. Raises ValueError for a count
    below 1.
    """
    require_count("output", output, minimum=1)
    require_count("batch", batch, minimum=1)
    first = prefill_time(model, prompt, card, cards, mfu=mfu, mbu=mbu)
    steps = range(prompt + 1, prompt + output)
    decode = sum(decode_time(model, batch, context, card, cards, mfu=mfu, mbu=mbu) for context in steps)
    return RequestTimes(first, decode / batch)
