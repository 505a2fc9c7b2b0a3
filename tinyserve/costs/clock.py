"""How long a step takes, asked thousands of times: from the roofline, or fitted to steps that were measured.

Work is roofline's: one (new_tokens, cached) for each sequence of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..configs import ModelConfig
from ..hardware import Accelerator
from .checks import require_count
from .flops import attention_flops_per_context_token, head_flops, linear_flops_per_token
from .least_squares import solve_nonnegative
from .memory import kv_cache_bytes, weight_bytes
from .roofline import roofline_time

Work = Sequence[tuple[int, int]]


def work_sums(work: Work) -> tuple[int, int, int, int]:
    """Return the sequences, new tokens, tokens in reach (K and V read), and causal pairs (query, key) of a step."""
    tokens = sum(new for new, _ in work)
    reach = tokens + sum(cached for _, cached in work)
    pairs = sum(new * cached + new * (new + 1) // 2 for new, cached in work)
    return len(work), tokens, reach, pairs


class StepClock:
    """step_time of one set-up, with what depends on the set-up alone computed once.

    Called with work, returns max(compute, memory) + overhead in seconds: step_time's
    value at overhead 0. overhead is what a step costs beside the card's work (launches,
    scheduling, communication). Raises ValueError as step_time, and for overhead below 0.
    """

    def __init__(
        self, model: ModelConfig, card: Accelerator, cards: int = 1, dtype: str = "bf16", kv_dtype: str = "bf16",
        mfu: float = 1.0, mbu: float = 1.0, weights: float | None = None, overhead: float = 0.0,
    ) -> None:
        if overhead < 0:
            raise ValueError(f"overhead={overhead!r} is below 0")
        self.overhead = overhead
        per_flop = roofline_time(1, 0, card, cards, dtype, mfu, mbu)
        per_byte = roofline_time(0, 1, card, cards, dtype, mfu, mbu)
        self._token = linear_flops_per_token(model, head=False) * per_flop
        self._sequence = head_flops(model) * per_flop
        self._pair = attention_flops_per_context_token(model) * per_flop
        self._weights = (weight_bytes(model, dtype, resident=False) if weights is None else weights) * per_byte
        self._reach = kv_cache_bytes(model, 1, kv_dtype) * per_byte

    def __call__(self, work: Work) -> float:
        """Return the seconds of one step."""
        sequences, tokens, reach, pairs = work_sums(work)
        compute = sequences * self._sequence + tokens * self._token + pairs * self._pair
        return max(compute, self._weights + reach * self._reach) + self.overhead


@dataclass(frozen=True)
class FittedClock:
    """Seconds of a step as a sum: fixed, and so much for each sequence, new token, token in reach, and pair."""

    fixed: float
    sequence: float
    token: float
    reach: float
    pair: float

    def __call__(self, work: Work) -> float:
        """Return the seconds of one step."""
        sequences, tokens, reach, pairs = work_sums(work)
        return self.fixed + sequences * self.sequence + tokens * self.token + reach * self.reach + pairs * self.pair


def fit_clock(steps: Iterable[tuple[Work, float]]) -> FittedClock:
    """Fit a FittedClock to measured steps (work, seconds): least squares of the relative error, no price below 0.

    Raises ValueError for fewer steps than the five prices, and for a time not above 0.
    """
    measured = [(work_sums(work), seconds) for work, seconds in steps]
    require_count("steps", len(measured), minimum=5)
    if min(seconds for _, seconds in measured) <= 0:
        raise ValueError("a step took no time: the relative error has no meaning")
    rows = [[1 / seconds, *(x / seconds for x in sums)] for sums, seconds in measured]
    scale = [max(abs(row[i]) for row in rows) or 1.0 for i in range(5)]  # keeps the columns near 1
    found = solve_nonnegative([[x / s for x, s in zip(row, scale, strict=True)] for row in rows], [1.0] * len(rows))
    return FittedClock(*(x / s for x, s in zip(found, scale, strict=True)))
