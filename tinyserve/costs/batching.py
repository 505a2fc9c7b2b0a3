"""What continuous batching saves, in decode steps: the longest answer of a batch against the mean one.

A static batch of B takes as many steps as its longest answer, a batch that is refilled
at once takes the mean: E[max of B] / E[mean] times fewer, as long as the queue is not empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from .checks import require_count


def expected_longest(lengths: Sequence[float], batch: int) -> float:
    """Return the expected largest of ``batch`` lengths, each drawn from the list, every entry equally likely.

    All of them are among the i smallest with probability (i / n)^batch. Raises ValueError for
    no lengths, one not above 0, or batch below 1.
    """
    require_count("batch", batch, minimum=1)
    ranked, n = sorted(lengths), len(lengths)
    if not ranked or not ranked[0] > 0:
        raise ValueError(f"lengths={list(lengths)[:5]!r}: at least one is needed, and each must be above 0")
    return sum(length * (((i + 1) / n) ** batch - (i / n) ** batch) for i, length in enumerate(ranked))


def batching_gain(lengths: Sequence[float], batch: int) -> float:
    """Return E[max] / E[mean]: a static batch's steps over continuous batching's. Raises ValueError as expected_longest."""
    return expected_longest(lengths, batch) * len(lengths) / sum(lengths)


def uniform_batching_gain(batch: int) -> float:
    """Return the gain for lengths spread evenly between 0 and a longest: the largest of B is B / (B + 1) of it, the mean half."""
    return 2 * batch / (require_count("batch", batch, minimum=1) + 1)


def exponential_batching_gain(batch: int) -> float:
    """Return the gain for exponentially distributed lengths: 1 + 1/2 + … + 1/B.

    Of k that still run, the next ends after mean / k: that is the property of having no memory.
    """
    return sum(1 / k for k in range(1, require_count("batch", batch, minimum=1) + 1))
