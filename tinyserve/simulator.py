"""Serving on paper: the engine's scheduler and block pool, driven by a clock in place of a model.

A clock is a function of a step's work, [(new_tokens, cached), …], to seconds:
``costs.StepClock`` for a card of the table, ``costs.fit_clock`` for a machine that was
measured. Tokens are made up, so everything but their values comes out as in the engine.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .block_pool import BlockPool
from .request import Request
from .scheduler import Chunk, Scheduler

Clock = Callable[[Sequence[tuple[int, int]]], float]
Route = Callable[[Request, "Sequence[Replica]"], "Replica"]


def made_up(request: Request) -> int:
    """Return a token that no other request has at this place: nothing generated is shared."""
    return hash((request.request_id, len(request.tokens)))


class Replica:
    """One engine on paper: scheduler, pool, clock. ``busy_until`` is the end of the running step, None when idle.

    limits are Scheduler's. ``busy`` sums the seconds of its steps.
    """

    def __init__(
        self, clock: Clock, num_blocks: int, block_size: int = 16, prefix_caching: bool = True,
        next_token: Callable[[Request], int] = made_up, **limits: Any,
    ) -> None:
        self.clock, self.next_token = clock, next_token
        self.pool = BlockPool(num_blocks, block_size, prefix_caching)
        self.scheduler = Scheduler(self.pool, **limits)
        self.begin, self.busy_until, self.busy = 0.0, None, 0.0
        self._chunks: list[Chunk] = []

    @property
    def load(self) -> int:
        """Tokens still to compute for the requests that wait and run, their output as if it came to max_tokens."""
        requests = (*self.scheduler.waiting, *self.scheduler.running)
        return sum(request.max_length - request.num_computed_tokens for request in requests)

    def start(self, now: float) -> bool:
        """Begin the next step of an idle replica; return whether there was anything to do."""
        self._chunks = self.scheduler.schedule(now)
        if self._chunks:
            seconds = self.clock([(chunk.n, chunk.start) for chunk in self._chunks])
            self.begin, self.busy_until, self.busy = now, now + seconds, self.busy + seconds
        return bool(self._chunks)

    def end(self) -> list[Request]:
        """End the running step and return the requests that got a token."""
        now, self.busy_until = self.busy_until, None
        tokens = [[self.next_token(chunk.request)] if chunk.samples else [] for chunk in self._chunks]
        got = self.scheduler.update(self._chunks, tokens, now)
        self.scheduler.record(self._chunks, self.begin, now)
        return got


def first(request: Request, replicas: Sequence[Replica]) -> Replica:
    """Send everything to the first replica."""
    return replicas[0]


class RoundRobin:
    """Send requests to the replicas in turn."""

    def __init__(self) -> None:
        self.turn = -1

    def __call__(self, request: Request, replicas: Sequence[Replica]) -> Replica:
        """Return the next replica."""
        self.turn = (self.turn + 1) % len(replicas)
        return replicas[self.turn]


def least_loaded(request: Request, replicas: Sequence[Replica]) -> Replica:
    """Return the replica with the fewest tokens to compute."""
    return min(replicas, key=lambda replica: replica.load)


def longest_prefix(request: Request, replicas: Sequence[Replica]) -> Replica:
    """Return the replica that would have to compute the fewest tokens before this request ends: cached ones count as done."""
    return min(replicas, key=lambda r: r.load - len(r.pool.match(request.tokens, request.salt)[0]) * r.pool.block_size)


def simulate(
    arrivals: Iterable[tuple[float, Request]], replicas: Sequence[Replica], route: Route = first,
    on_token: Callable[[Request, float], Iterable[tuple[float, Request]]] | None = None,
) -> list[Request]:
    """Serve requests that arrive at the given seconds until all have ended, and return them in order of arrival.

    A request that comes in while a step runs is seen at its end, as in the engine.
    on_token(request, now) is called for each new token and returns further arrivals:
    the next turn of a chat, or the second half of a disaggregated request. Raises
    ValueError for one that can never fit.
    """
    numbers = itertools.count()  # among events of one time, the earlier made goes first
    events: list[tuple[float, int, Request | Replica]] = [(at, next(numbers), request) for at, request in arrivals]
    heapq.heapify(events)
    served = []
    while events:
        now = events[0][0]
        while events and events[0][0] == now:  # all that happens at this moment, before the next steps are put together
            what = heapq.heappop(events)[2]
            if isinstance(what, Request):
                route(what, replicas).scheduler.add(what, now)
                served.append(what)
                continue
            for request in what.end():
                for at, follower in on_token(request, now) if on_token else ():
                    heapq.heappush(events, (at, next(numbers), follower))
        for replica in replicas:
            if replica.busy_until is None and replica.start(now):
                heapq.heappush(events, (replica.busy_until, next(numbers), replica))
    return served


def disaggregated(
    arrivals: Iterable[tuple[float, Request]], prefill: Sequence[Replica], decode: Sequence[Replica],
    transfer: Callable[[int], float],
) -> list[Request]:
    """Serve each prompt on a prefill replica and its other tokens on a decode replica; return the requests, ended.

    transfer gives the seconds that K and V of so many tokens take on the link between;
    the decode replica finds them there and computes none of them. The link is not shared:
    two transfers at once do not slow each other. Zhong et al. 2024, arXiv 2401.09670.
    """
    halves: dict[Request, tuple[Request, int]] = {}  # first half -> the whole request and its max_tokens
    second: dict[Request, Request] = {}  # second half -> the whole request

    def split() -> Iterable[tuple[float, Request]]:
        for at, whole in arrivals:
            half = Request(whole.prompt, max_tokens=1, priority=whole.priority, salt=whole.salt, request_id=whole.request_id)
            halves[half] = whole, whole.max_tokens
            yield at, half

    def hand_over(request: Request, now: float) -> Iterable[tuple[float, Request]]:
        if request in halves and halves[request][1] > 1:
            whole, wanted = halves[request]
            half = Request(request.tokens, max_tokens=wanted - 1, priority=whole.priority, salt=whole.salt, request_id=whole.request_id)
            half.num_transferred_tokens = len(request.prompt)
            second[half] = whole
            yield now + transfer(len(request.prompt)), half

    def route(request: Request, replicas: Sequence[Replica]) -> Replica:
        return least_loaded(request, decode if request in second else prefill)

    simulate(split(), (*prefill, *decode), route, hand_over)
    for half, (whole, _) in halves.items():
        whole.arrival, whole.scheduled = half.arrival, half.scheduled
        _take_over(whole, half)
    for half, whole in second.items():
        _take_over(whole, half)
    return [whole for whole, _ in halves.values()]


def _take_over(whole: Request, half: Request) -> None:
    """Let a request have what one half of it came to."""
    whole.tokens = half.tokens
    whole.token_times += half.token_times
    whole.status, whole.finish_reason, whole.finished = half.status, half.finish_reason, half.finished
    whole.preemptions += half.preemptions
