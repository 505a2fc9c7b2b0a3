"""What is normal: a range for each reading, from several runs of the healthy service that differ in their seed."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .readings import READINGS, Reading, Readings, read
from .setup import Setup

SEEDS = (0, 1, 2, 3, 4)
WIDEN = 0.25
"""A range is widened by this share of its middle: alarms closer than that ring every week."""


@dataclass(frozen=True)
class Range:
    """The normal range of a reading; infinite on a side that is no symptom."""

    low: float
    high: float

    def state(self, value: float | None) -> str:
        """Return "low", "normal", "high", or "absent" for None."""
        if value is None:
            return "absent"
        return "low" if value < self.low else "high" if value > self.high else "normal"


def range_of(reading: Reading, values: Sequence[float]) -> Range:
    """Return the range of a reading: its limit, or the values seen, widened by their spread, WIDEN of their mean, or the floor.

    Raises ValueError for no values.
    """
    if not values:
        raise ValueError(f"{reading.name}: no values of normal runs")
    if reading.limit is not None:
        low = high = reading.limit
    else:
        margin = max(max(values) - min(values), WIDEN * abs(statistics.fmean(values)), reading.floor)
        low, high = min(values) - margin, max(values) + margin
    return Range(low if reading.bad in ("low", "both") else -math.inf, high if reading.bad in ("high", "both") else math.inf)


class Normal:
    """Ranges and medians by reading. A reading that no normal run has (speculation that is off) has no range, and is "absent"."""

    def __init__(self, runs: Iterable[Readings]) -> None:
        runs = list(runs)
        seen = {name: [r[name] for r in runs if r.get(name) is not None] for name in READINGS}
        self.ranges = {name: range_of(READINGS[name], values) for name, values in seen.items() if values}
        self.medians = {name: statistics.median(values) for name, values in seen.items() if values}

    def states(self, readings: Mapping[str, float | None]) -> dict[str, str]:
        """Return "low", "normal", "high" or "absent" for each reading."""
        return {
            name: self.ranges[name].state(readings.get(name)) if name in self.ranges else "absent" for name in READINGS
        }


@functools.cache
def normal_of(setup: Setup, seeds: tuple[int, ...] = SEEDS) -> Normal:
    """Return what is normal for a healthy setup."""
    return Normal(read(setup, seed) for seed in seeds)
