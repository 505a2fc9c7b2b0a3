"""Checks of arguments that all cost functions share."""

from __future__ import annotations

import math


def require_count(name: str, value: object, minimum: int = 0) -> int:
    """Return value as an int; raise ValueError unless it is a whole number of at least minimum."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    whole = whole or (hasattr(value, "__index__") and not isinstance(value, bool))
    if not whole or int(value) < minimum:  # type: ignore[call-overload]
        raise ValueError(f"{name}={value!r} is not a whole number of at least {minimum}")
    return int(value)  # type: ignore[call-overload]


def require_positive(name: str, value: float) -> float:
    """Return value; raise ValueError unless it is a finite number above 0."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name}={value!r} is not a finite number above 0")
    return value


def require_fraction(name: str, value: float) -> float:
    """Return value; raise ValueError unless it is above 0 and at most 1."""
    require_positive(name, value)
    if value > 1:
        raise ValueError(f"{name}={value!r} is above 1")
    return value


def as_int(value: float) -> int | float:
    """Return a whole float as an int, so that byte counts print and compare exactly."""
    return int(value) if float(value).is_integer() else value
