"""What a run of many requests comes to: percentiles, throughput, goodput, Little's law."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .request import Request


def percentile(values: Iterable[float], p: float) -> float:
    """Return the p-th percentile (0 to 100), linear between the two values around it, as numpy's default.

    Raises ValueError for no values, and for p outside 0 .. 100.
    """
    ranked = sorted(values)
    if not ranked:
        raise ValueError("no values: a percentile needs one at least")
    if not 0 <= p <= 100:
        raise ValueError(f"p={p!r} is not between 0 and 100")
    place = (len(ranked) - 1) * p / 100
    low = math.floor(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (place - low)


def served(requests: Iterable[Request]) -> list[Request]:
    """Return the requests that came to their own end, by a stop or at max_tokens."""
    return [request for request in requests if request.finish_reason in ("stop", "length")]


def meets(request: Request, ttft: float = math.inf, tpot: float = math.inf, itl: float = math.inf) -> bool:
    """Return whether a request ended well within its objectives, in seconds: first token, mean gap, and largest gap."""
    return (
        request.finish_reason in ("stop", "length") and request.ttft <= ttft
        and (request.tpot or 0.0) <= tpot and max(request.itl, default=0.0) <= itl
    )


@dataclass(frozen=True)
class Summary:
    """A run in numbers: seconds, requests, tokens per second. Percentiles of itl are over all gaps of all requests."""

    requests: int
    failed: int
    seconds: float
    output_tokens: int
    ttft_p50: float
    ttft_p99: float
    tpot_p50: float
    tpot_p99: float
    itl_p50: float
    itl_p99: float
    e2e_p50: float
    e2e_p99: float

    @property
    def throughput(self) -> float:
        """Output tokens per second."""
        return self.output_tokens / self.seconds

    @property
    def request_rate(self) -> float:
        """Requests served per second."""
        return (self.requests - self.failed) / self.seconds


def span(requests: Sequence[Request]) -> float:
    """Return the seconds from the first arrival to the last end. Raises ValueError if none of them has arrived and ended."""
    inside = [r for r in requests if r.arrival is not None and r.finished is not None]
    if not inside:
        raise ValueError(f"none of {len(requests)} requests has arrived and ended: there is no time to count in")
    return max(r.finished for r in inside) - min(r.arrival for r in requests if r.arrival is not None)


def summarize(requests: Sequence[Request]) -> Summary:
    """Return the Summary of ended requests. Failed ones count in no percentile. ValueError if none was served."""
    good = served(requests)
    if not good:
        raise ValueError(f"none of {len(requests)} requests was served")
    gaps = [gap for request in good for gap in request.itl] or [0.0]
    tpot = [request.tpot for request in good if request.tpot is not None] or [0.0]
    columns = ([r.ttft for r in good], tpot, gaps, [r.e2e for r in good])
    found = [percentile(column, p) for column in columns for p in (50, 99)]
    return Summary(len(requests), len(requests) - len(good), span(requests), sum(len(r.output) for r in good), *found)


def goodput(requests: Sequence[Request], **objectives: float) -> float:
    """Return the requests per second that meet the objectives of ``meets``, as ``vllm bench serve`` counts it.

    Zhong et al. 2024, arXiv 2401.09670, take another number: the largest rate at which a
    given share of the requests, such as 90 %, meets them. Raises ValueError as ``span``.
    """
    return sum(meets(request, **objectives) for request in requests) / span(requests)


def mean_in_system(requests: Sequence[Request]) -> float:
    """Return the time average of the requests that had arrived and not ended, counted from event to event.

    Little 1961: over a whole run it equals arrival rate times mean time in the system.
    Requests that never arrived or have not ended are left out. Raises ValueError as ``span``.
    """
    seconds = span(requests)
    ended = [request for request in requests if request.e2e is not None and request.arrival is not None]
    events = sorted([(r.arrival, 1) for r in ended] + [(r.finished, -1) for r in ended])
    inside, area = 0, 0.0
    for (now, change), (then, _) in itertools.pairwise(events):
        inside += change
        area += inside * (then - now)
    return area / seconds
