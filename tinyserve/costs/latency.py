"""Laws of latencies: how the times of one request hang together, and rate, time and number of many."""

from __future__ import annotations

from collections.abc import Sequence

from .checks import require_count, require_fraction, require_positive


def end_to_end(ttft: float, tpot: float, tokens: int) -> float:
    """Return the time from arrival to the last of so many tokens: TTFT + (tokens - 1) * TPOT, in the unit of both."""
    return require_positive("ttft", ttft) + (require_count("tokens", tokens, minimum=1) - 1) * tpot


def time_per_output_token(times: Sequence[float]) -> float:
    """Return TPOT, the mean gap of a request whose tokens came at these times: (last - first) / (tokens - 1).

    Raises ValueError for fewer than two tokens, and for times that go back.
    """
    require_count("tokens", len(times), minimum=2)
    if any(later < earlier for earlier, later in zip(times, times[1:])):
        raise ValueError(f"times={list(times)} go back")
    return (times[-1] - times[0]) / (len(times) - 1)


def in_system(rate: float, seconds: float) -> float:
    """Return the mean number of requests inside: rate (1/s) * mean time inside (s). Little 1961, doi 10.1287/opre.9.3.383."""
    return require_positive("rate", rate) * require_positive("seconds", seconds)


def largest_rate(inside: float, seconds: float) -> float:
    """Return the requests per second that can be reached with so many inside at most, each for so long: Little's law, solved for the rate."""
    return require_positive("inside", inside) / require_positive("seconds", seconds)


def meets_tail(percent: float, tries: int) -> float:
    """Return the probability (0 to 1) that at least one of so many independent requests lies beyond this percentile: 1 - (p/100)^tries."""
    return 1 - require_fraction("percent / 100", percent / 100) ** require_count("tries", tries, minimum=1)
