"""Several cards for one model: bytes that collectives send, and the step times that follow.

"Sent" is what one card puts on its link, in one direction. A collective takes its
steps times the link's hop, and its bytes at the link's rate. Every card reaches every
other at the link's full rate, as through a switch. Communication is not hidden behind
computing. Steps of the all-reduces: NVIDIA's blog on TensorRT-LLM MultiShot, 2024.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..configs import ModelConfig
from ..hardware import Accelerator, Link
from ..moe_shapes import MoEConfig
from .checks import require_count, require_fraction
from .memory import dtype_bytes, kv_cache_bytes_per_card, weight_bytes
from .roofline import decode_bytes, decode_flops

ALL_REDUCES = ("ring", "two-step", "one-step")
"""ring: to the neighbour only. two-step: everyone sums one part, then hands it to all. one-step: everyone sends all to all."""


def all_reduce_bytes(size: float, cards: int, algorithm: str = "ring") -> float:
    """Return the bytes each card sends so that all hold the sum of their size bytes.

    2*(N-1)/N of size, but (N-1) times size in one step; 0 for one card. Raises
    ValueError for cards below 1, a negative size or another algorithm.
    """
    n = require_count("cards", cards, minimum=1)
    if size < 0:
        raise ValueError(f"size={size!r} is below 0")
    if algorithm not in ALL_REDUCES:
        raise ValueError(f"algorithm={algorithm!r} is not one of {', '.join(ALL_REDUCES)}")
    return (n - 1) * size * (1 if algorithm == "one-step" else 2 / n)


def all_gather_bytes(size: float, cards: int) -> float:
    """Return the bytes each card sends so that all hold the size bytes that lie in N equal parts: (N-1)/N of size."""
    return all_reduce_bytes(size, cards) / 2


def all_reduce_time(size: float, cards: int, link: Link, algorithm: str = "best") -> float:
    """Return the seconds of one all-reduce of size bytes; "best" is the fastest of the three. 0 for one card.

    Steps: ring 2*(N-1), two-step 2, one-step 1. Raises ValueError as all_reduce_bytes.
    """
    if algorithm == "best":
        return min(all_reduce_time(size, cards, link, name) for name in ALL_REDUCES)
    sent = all_reduce_bytes(size, cards, algorithm)
    steps = {"ring": 2 * (cards - 1), "two-step": 2, "one-step": 1}[algorithm]
    return steps * link.hop + sent / link.one_way if cards > 1 else 0.0


def all_gather_time(size: float, cards: int, link: Link) -> float:
    """Return the seconds until all cards hold the size bytes that lie in N equal parts: one step. 0 for one card."""
    return link.hop + all_gather_bytes(size, cards) / link.one_way if cards > 1 else 0.0


def tensor_parallel_sent(
    model: ModelConfig, tokens: int, cards: int, dtype: str = "bf16", logits: int | None = None
) -> list[float]:
    """Return what one card sends in each collective of a step: two all-reduces a layer (ring), then a gather of the logits.

    tokens run through the model; logits of them get logits (default: all). The
    embedding is held whole on every card, the head is cut by columns.
    """
    size = require_count("tokens", tokens, minimum=1) * dtype_bytes(dtype)
    rows = require_count("logits", tokens if logits is None else logits, minimum=1) * dtype_bytes(dtype)
    layers = [all_reduce_bytes(size * model.d_model, cards)] * (2 * model.n_layers)
    return layers + [all_gather_bytes(rows * model.vocab_size, cards)]


def tensor_parallel_time(
    model: ModelConfig, tokens: int, cards: int, link: Link, dtype: str = "bf16", logits: int | None = None,
    algorithm: str = "best",
) -> float:
    """Return the seconds of a step's collectives: 2*L all-reduces and the gather of the logits (default: of all tokens)."""
    size = require_count("tokens", tokens, minimum=1) * dtype_bytes(dtype)
    rows = require_count("logits", tokens if logits is None else logits, minimum=1) * dtype_bytes(dtype)
    layers = 2 * model.n_layers * all_reduce_time(size * model.d_model, cards, link, algorithm)
    return layers + all_gather_time(rows * model.vocab_size, cards, link)


@dataclass(frozen=True)
class ParallelStep:
    """Seconds of one decode step on several cards, by what they go into."""

    memory: float
    compute: float
    communication: float

    @property
    def total(self) -> float:
        """Seconds of the step: the longer of reading and computing, then communication."""
        return max(self.memory, self.compute) + self.communication


def tensor_parallel_step(
    model: ModelConfig, batch: int, context: int, card: Accelerator, cards: int, link: Link,
    algorithm: str = "best", dtype: str = "bf16", kv_dtype: str = "bf16", mfu: float = 1.0, mbu: float = 1.0,
    context_parallel: int = 1,
) -> ParallelStep:
    """Return the time of a decode step under tensor parallelism: its total is the TPOT of every sequence.

    Each card reads 1/N of the streamed weights and its own share of K and V (above
    n_kv_heads cards: copies, unless context_parallel divides them) and computes 1/N
    of the FLOPs. Raises ValueError for cards that do not divide n_heads or do not fit
    the KV heads, and as decode_time.
    """
    n = require_count("cards", cards, minimum=1)
    if model.n_heads % n:
        raise ValueError(f"cards={n} does not divide n_heads={model.n_heads}")
    held = kv_cache_bytes_per_card(model, context, n, dtype=kv_dtype, context_parallel=context_parallel)
    read = weight_bytes(model, dtype, resident=False) / n + require_count("batch", batch, minimum=1) * held
    compute = decode_flops(model, batch, context) / n
    return ParallelStep(
        read / (card.bandwidth * require_fraction("mbu", mbu)),
        compute / (card.peak(dtype) * require_fraction("mfu", mfu)),
        tensor_parallel_time(model, batch, n, link, dtype, algorithm=algorithm),
    )


def best_tensor_parallel(
    model: ModelConfig, batch: int, context: int, card: Accelerator, link: Link, degrees: Iterable[int] = (1, 2, 4, 8),
    algorithm: str = "best",
) -> int:
    """Return the degree with the shortest step; whether the weights fit is not asked (see memory_plan)."""
    return min(degrees, key=lambda n: tensor_parallel_step(model, batch, context, card, n, link, algorithm).total)


def pipeline_bubble(stages: int, microbatches: int) -> float:
    """Return the idle share (0 to 1) of p stages that m micro-batches pass once: (p-1)/(m+p-1).

    Source: Huang et al. 2019, GPipe (1811.06965), section 2.3. Raises ValueError for a count below 1.
    """
    waiting = require_count("stages", stages, minimum=1) - 1
    return waiting / (require_count("microbatches", microbatches, minimum=1) + waiting)


def pipeline_schedule(stages: int, microbatches: int) -> list[list[int | None]]:
    """Return for each stage what it works on at every tick: a micro-batch (from 0), or None where it waits."""
    ticks = require_count("stages", stages, minimum=1) + require_count("microbatches", microbatches, minimum=1) - 1
    return [[t - s if 0 <= t - s < microbatches else None for t in range(ticks)] for s in range(stages)]


def pipeline_step(
    model: ModelConfig, batch: int, context: int, card: Accelerator, stages: int, link: Link, microbatches: int = 1,
    dtype: str = "bf16",
) -> float:
    """Return the TPOT, in seconds, of decoding batch sequences in micro-batches through stages of one card each.

    A stage reads its 1/p of the weights for each micro-batch, works, and sends the
    hidden vectors on. A sequence's next token can start when its last one has left
    the last stage: max(p, m) ticks. Raises ValueError for a batch that microbatches
    does not divide, and for stages above n_layers.
    """
    p, m = require_count("stages", stages, minimum=1), require_count("microbatches", microbatches, minimum=1)
    if require_count("batch", batch, minimum=1) % m:
        raise ValueError(f"batch={batch} is not a multiple of microbatches={m}")
    if p > model.n_layers:
        raise ValueError(f"stages={p} is above n_layers={model.n_layers}")
    rows = batch // m
    moved = decode_bytes(model, rows, context, dtype, dtype) / p
    work = max(moved / card.bandwidth, decode_flops(model, rows, context) / p / card.peak(dtype))
    handed = link.hop + rows * model.d_model * dtype_bytes(dtype) / link.one_way if p > 1 else 0.0
    return max(p, m) * (work + handed)


def expert_parallel_sent(model: MoEConfig, tokens: int, cards: int, dtype: str = "bf16", merged: bool = True) -> float:
    """Return the bytes one card sends in one layer's dispatch of its tokens to the experts' cards (combining sends as many).

    Uniform routing. merged: a token goes once to each card that holds any of its
    experts, (N-1)*(1 - C(E-E/N, k)/C(E, k)) cards on average; otherwise once for each
    expert elsewhere, k*(N-1)/N. Raises ValueError for cards that do not divide n_experts.
    """
    n = require_count("cards", cards, minimum=1)
    if model.n_experts % n:
        raise ValueError(f"cards={n} does not divide n_experts={model.n_experts}")
    experts, k = model.n_experts, model.top_k
    missed = math.comb(experts - experts // n, k) / math.comb(experts, k)
    copies = (n - 1) * (1 - missed) if merged else k * (n - 1) / n
    return require_count("tokens", tokens) * copies * model.d_model * dtype_bytes(dtype)


def expert_parallel_time(
    model: MoEConfig, tokens: int, cards: int, link: Link, dtype: str = "bf16", merged: bool = True
) -> float:
    """Return the seconds of all all-to-alls of a step, two for each layer with experts. tokens: of one card."""
    sent = expert_parallel_sent(model, tokens, cards, dtype, merged)
    return 2 * model.n_moe_layers * (link.hop + sent / link.one_way) if cards > 1 else 0.0


def context_parallel_sent(model: ModelConfig, batch: int, cards: int, dtype: str = "fp32") -> float:
    """Return the bytes one card sends in a decode step to merge attention over N parts of the context, all layers.

    For each head a partial sum of d_h numbers and the logarithm of its weights' sum,
    scattered over the cards: (N-1)/N of L*H*(d_h + 1) a sequence, however long the context.
    """
    size = model.n_layers * model.n_heads * (model.head_dim + 1) * dtype_bytes(dtype)
    return all_gather_bytes(require_count("batch", batch, minimum=1) * size, cards)
