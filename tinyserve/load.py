"""Load for an engine: requests that come when they come (open loop), or when a client has its answer (closed loop)."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from .engine import Engine
from .request import Request


def poisson(rate: float, count: int, seed: int = 0) -> list[float]:
    """Return count arrival times in seconds, from 0 on: independent gaps with mean 1/rate, exponentially distributed.

    rate in requests per second; infinite: all at once. Raises ValueError for a rate not above 0.
    """
    if not rate > 0:
        raise ValueError(f"rate={rate!r} is not above 0")
    rng, now, times = random.Random(seed), 0.0, []
    for _ in range(count):
        times.append(now)
        now += rng.expovariate(rate) if rate != float("inf") else 0.0
    return times


def open_loop(
    engine: Engine, arrivals: Iterable[tuple[float, Request]], sleep: Callable[[float], None] = time.sleep
) -> list[Request]:
    """Serve requests that are due at the given seconds from now, whatever the engine is doing; return them, ended.

    A request that is due while a step runs is submitted at its end, but its clock runs from when it
    was due: the wait counts. sleep passes the time while the engine is idle. A refused request
    ends with its error.
    """
    due = deque(sorted(arrivals, key=lambda pair: pair[0]))
    requests, begin = [request for _, request in due], engine.clock()
    while due or not engine.scheduler.idle:
        while due and begin + due[0][0] <= engine.clock():
            at, request = due.popleft()
            _submit(engine, request, begin + at)
        if not engine.step() and due and engine.scheduler.idle:
            sleep(max(0.0, begin + due[0][0] - engine.clock()))
    return requests


def closed_loop(engine: Engine, requests: Sequence[Request], clients: int) -> list[Request]:
    """Serve the requests with so many clients, each of which sends its next one when it has its answer; return them, ended.

    At most ``clients`` requests are in the engine at once: when it is slow, less is asked of it.
    Raises ValueError for clients below 1.
    """
    if clients < 1:
        raise ValueError(f"clients={clients} is below 1")
    due, inside = deque(requests), 0
    while due or not engine.scheduler.idle:
        while due and inside < clients:
            request = due.popleft()
            _submit(engine, request, None)
            inside += request.finish_reason is None
        engine.step()
        inside = len(engine.scheduler.waiting) + len(engine.scheduler.running)
    return list(requests)


def _submit(engine: Engine, request: Request, arrival: float | None) -> None:
    """Submit a request, or end it with the reason why it is refused."""
    try:
        engine.submit(request, arrival)
    except ValueError as error:
        request.fail(str(error))
