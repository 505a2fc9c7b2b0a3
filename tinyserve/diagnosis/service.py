"""A run of the service: its requests, a front end before the scheduler, and replicas that write down each step."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..load import poisson
from ..request import Request
from ..simulator import Replica, least_loaded, simulate
from .setup import Setup

VOCABULARY = 128_000  # ids above it are times of day


@dataclass(slots=True)
class Step:
    """One step of one replica: when it began, how long it took, for how much of that kernels ran (s), bytes and FLOPs, and what was in it."""

    begin: float
    seconds: float
    kernels: float
    moved: float
    computed: float
    running: int
    waiting: int
    kv_usage: float
    tokens: int
    decodes: int


class MeteredReplica(Replica):
    """A Replica that keeps a Step of each step. With speculation, alpha is the chance of each drafted token to stay, if those before it did."""

    def __init__(self, setup: Setup, alpha: float | None = None, seed: int = 0) -> None:
        limits = {"max_num_seqs": setup.max_num_seqs, "max_num_batched_tokens": setup.max_num_batched_tokens}
        super().__init__(setup.clock(), setup.memory.tokens // 16, **limits)
        self.steps: list[Step] = []
        self.alpha, self.drafted, self.accepted = alpha, 0, 0
        self._rng = random.Random(seed)

    def start(self, now: float) -> bool:
        """Begin the next step and write it down; return whether there was anything to do."""
        if not super().start(now):
            return False
        work, scheduler = [(chunk.n, chunk.start) for chunk in self._chunks], self.scheduler
        self.steps.append(Step(
            now, self.busy_until - now, self.clock.kernels(work), self.clock.moved(work), self.clock.computed(work),
            len(scheduler.running), len(scheduler.waiting), self.pool.num_in_use / self.pool.num_blocks, sum(n for n, _ in work),
            sum(chunk.samples and chunk.start >= len(chunk.request.prompt) for chunk in self._chunks),
        ))
        return True

    def _tokens(self, drafts: int) -> int:
        """Return how many tokens a verified draft brings: those before the first rejected one, and one more."""
        kept = 0
        while kept < drafts and self._rng.random() < self.alpha:
            kept += 1
        self.drafted, self.accepted = self.drafted + drafts, self.accepted + kept
        return kept + 1

    def end(self) -> list[Request]:
        """End the running step, as Replica does, but let a verified draft bring several tokens."""
        if self.alpha is None:
            return super().end()
        now, self.busy_until = self.busy_until, None
        tokens = [
            [self.next_token(chunk.request)] * self._tokens(chunk.drafts) if chunk.samples else [] for chunk in self._chunks
        ]
        return self.scheduler.update(self._chunks, tokens, now)


class Refusing:
    """Where refused requests go: it stands in for a replica whose scheduler ends each with the reason."""

    def __init__(self) -> None:
        self.refused: list[Request] = []

    @property
    def scheduler(self) -> Refusing:
        """Itself: all that is asked of its scheduler is add."""
        return self

    def add(self, request: Request, now: float) -> None:
        """Refuse a request."""
        request.arrival = now
        request.fail("too many requests in flight")
        self.refused.append(request)


class FrontEnd:
    """Processes that read, encode and hand on requests, first come, first served. ``delays``: seconds of each request, by its id."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self._free = setup, [0.0] * setup.api_server_count
        self.delays: dict[Any, float] = {}

    def hand_on(self, at: float, request: Request) -> float:
        """Return when a request that comes at this second reaches the scheduler. Call it in the order of arrival."""
        start = max(at, heapq.heappop(self._free))
        done = start + self.setup.front_end_seconds(len(request.prompt))
        heapq.heappush(self._free, done)
        self.delays[request.request_id] = done - at
        return done


def draw_requests(setup: Setup, seed: int) -> Iterator[Request]:
    """Yield the service's requests without end, drawn from a seed; the stamp is the place of a request in the order of arrival."""
    rng = random.Random(seed)
    shared, number = rng.choices(range(VOCABULARY), k=setup.shared), 0
    while True:
        low, high = setup.long_prompt if rng.random() < setup.long_share else setup.prompt
        own = rng.choices(range(VOCABULARY), k=rng.randint(low, high))
        stamp = [VOCABULARY + number]
        head = [*stamp, *shared] if setup.stamp == "front" else [*shared, *stamp]
        draft = setup.num_speculative_tokens if setup.draft else 0
        yield Request([*head, *own], max_tokens=rng.randint(*setup.output), request_id=number, num_draft_tokens=draft)
        number += 1


@dataclass
class Run:
    """What a run left behind. window: the seconds from the first to the last arrival, in which rates are counted."""

    setup: Setup
    requests: list[Request]
    refused: list[Request]
    replicas: Sequence[MeteredReplica]
    delays: dict[Any, float]
    window: float
    steps: list[Step] = field(default_factory=list)


def serve(setup: Setup, seed: int = 0, alpha: float | None = None) -> Run:
    """Serve the work of a setup and return the Run. Raises ValueError where not one request of max_model_len fits the pool."""
    if setup.memory.tokens < setup.max_model_len:
        raise ValueError(f"max_model_len={setup.max_model_len} needs more than the {setup.memory.tokens} tokens of the KV pool")
    front, refusing, drawn = FrontEnd(setup), Refusing(), draw_requests(setup, seed)
    replicas = [MeteredReplica(setup, alpha, seed + i) for i in range(setup.replicas)]
    arrivals, on_token = _work(setup, seed, front, drawn)

    def route(request: Request, among: Sequence[Replica]) -> Any:
        in_flight = sum(len(r.scheduler.waiting) + len(r.scheduler.running) for r in among)
        if setup.max_num_queued_reqs is not None and in_flight >= setup.max_num_queued_reqs:
            return refusing
        return least_loaded(request, among)

    requests = simulate(arrivals, replicas, route, on_token)
    window = max(r.arrival for r in requests) or max(r.finished for r in requests)
    steps = sorted((s for r in replicas for s in r.steps if s.begin <= window), key=lambda s: s.begin)
    refused = set(refusing.refused)
    return Run(setup, [r for r in requests if r not in refused], refusing.refused, replicas, front.delays, window, steps)


def _work(setup: Setup, seed: int, front: FrontEnd, drawn: Iterator[Request]) -> tuple[list[tuple[float, Request]], Any]:
    """Return the arrivals at the scheduler that are known beforehand, and what sends the others (None: nothing does)."""
    if setup.clients is None:
        times = [*poisson(setup.rate, setup.requests, seed)]
        middle = times[-1] / 2
        times += [middle + setup.burst_seconds * i / setup.burst for i in range(setup.burst)]
        return [(front.hand_on(at, request), request) for at, request in zip(sorted(times), drawn)], None
    left = setup.requests - setup.clients

    def on_token(request: Request, now: float) -> Iterator[tuple[float, Request]]:
        nonlocal left
        if request.finish_reason is not None and left > 0:
            left -= 1
            following, at = next(drawn), now + setup.think
            yield front.hand_on(at, following), following

    beginnings = [setup.ramp * i / setup.clients for i in range(setup.clients)]
    return [(front.hand_on(at, request), request) for at, request in zip(beginnings, drawn)], on_token
