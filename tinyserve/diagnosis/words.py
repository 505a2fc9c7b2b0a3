"""Readings, ranges and changes in words, for tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .normal import Normal, Range
from .readings import READINGS
from .rows import Row

UNITS = {"s": (1e3, "ms"), "%": (100, "%"), "tokens": (1, "tokens"), "1/s": (1, "per s"), "x": (1, "x"), "GB": (1, "GB"), "": (1, "")}
"""Unit of a reading -> what to multiply by, and the unit that is printed."""
FLAGS = frozenset((
    "tensor_parallel_size", "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "max_num_queued_reqs",
    "enforce_eager", "api_server_count",
))
"""Settings that have the name of a flag of ``vllm serve``."""


def show_value(name: str, value: float | None) -> str:
    """Return a reading with three digits and the unit that people say; "-" for None. Raises KeyError for an unknown reading."""
    scale, unit = UNITS[READINGS[name].unit]
    if value is None:
        return "-"
    scaled = value * scale
    digits = 0 if scaled == 0 or abs(scaled) >= 100 or unit in ("%", "tokens") else 1 if abs(scaled) >= 10 else 2
    return f"{scaled:,.{digits}f} {unit}".strip()


def show_range(name: str, within: Range | None) -> str:
    """Return a normal range in words; None: no healthy run has this reading."""
    if within is None:
        return "not there"
    if math.isinf(within.low):
        return f"at most {show_value(name, within.high)}"
    return f"at least {show_value(name, within.low)}" + ("" if math.isinf(within.high) else f", at most {show_value(name, within.high)}")


def show_normal(name: str, normal: Normal) -> str:
    """Return the normal range of a reading in words."""
    return show_range(name, normal.ranges.get(name))


def show_changes(changes: Mapping[str, Any]) -> str:
    """Return changes of a Setup as one would write them: flags as flags, the rest as name = value."""
    return ", ".join(_change(name, value) for name, value in changes.items())


def _change(name: str, value: Any) -> str:
    if hasattr(value, "name"):
        value = value.name
    if isinstance(value, tuple):
        value = f"{value[0]:,} to {value[1]:,}"
    if name not in FLAGS:
        return f"{name.replace('_', ' ')} = {value}"
    flag = "--" + name.replace("_", "-")
    return flag if value is True else f"no {flag}" if value is False else f"{flag} {value}"


def show_row(row: Row | None) -> str:
    """Return what the tree says."""
    return "nothing is wrong" if row is None else f"row {row.number}"
