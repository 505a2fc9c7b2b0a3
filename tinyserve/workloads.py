"""Requests that share beginnings: chats, few-shot prompts, agents. Made-up tokens, drawn from a seed.

A workload is drawn whole when it is made: whose turn brings how many tokens does not depend
on how fast it is served. What does depend on it is when a next turn comes: it follows the
answer, so ``simulate`` asks for it through ``on_token``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .request import Request

VOCABULARY = 128_256  # Llama 3's
_TURNS = 1000  # request_id = session * _TURNS + turn


@dataclass(frozen=True)
class Turn:
    """What one turn adds to its session: new tokens, the length of the answer, and the seconds since the answer before."""

    tokens: tuple[int, ...]
    answer: int
    pause: float


class Workload:
    """Sessions of one turn or more, each turn with the whole text before it as its beginning.

    starts: the second in which each session begins. ``arrivals`` are the first turns; hand
    ``on_token`` to simulate for the others. stamp_every puts a token in front of each prompt
    that changes every so many seconds: a time in the system prompt. tenants: how many salts
    the sessions have in turn (0: none, all share). Raises ValueError for lists of different
    lengths, a session without a turn or with 1,000 or more, stamp_every not above 0, and tenants below 0.
    """

    def __init__(
        self, sessions: Sequence[Sequence[Turn]], starts: Sequence[float], stamp_every: float | None = None, tenants: int = 0
    ) -> None:
        if len(sessions) != len(starts):
            raise ValueError(f"{len(sessions)} sessions and {len(starts)} starts")
        if bad := [len(turns) for turns in sessions if not 1 <= len(turns) < _TURNS]:
            raise ValueError(f"a session has {bad[0]} turns: it takes 1 to {_TURNS - 1}")
        if stamp_every is not None and not stamp_every > 0:
            raise ValueError(f"stamp_every={stamp_every!r} is not above 0")
        if tenants < 0:
            raise ValueError(f"tenants={tenants!r} is below 0")
        self.sessions, self.stamp_every, self.tenants = sessions, stamp_every, tenants
        self.arrivals = [(at, self._request(number, 0, [], at)) for number, at in enumerate(starts)]

    @property
    def turns(self) -> int:
        """Requests in all."""
        return sum(map(len, self.sessions))

    def _request(self, session: int, turn: int, before: Sequence[int], at: float) -> Request:
        """Return the request of a turn that comes at the given second, after the text before it."""
        new = self.sessions[session][turn]
        stamp = [] if self.stamp_every is None else [VOCABULARY + int(at // self.stamp_every)]
        salt = session % self.tenants if self.tenants else None
        return Request([*stamp, *before, *new.tokens], max_tokens=new.answer, salt=salt, request_id=session * _TURNS + turn)

    def on_token(self, request: Request, now: float) -> list[tuple[float, Request]]:
        """Return the next turn (seconds, request) when this request has ended and its session goes on, else nothing."""
        session, turn = divmod(request.request_id, _TURNS)
        if request.finish_reason is None or turn + 1 == len(self.sessions[session]):
            return []
        at = now + self.sessions[session][turn + 1].pause
        before = request.tokens if self.stamp_every is None else request.tokens[1:]
        return [(at, self._request(session, turn + 1, before, at))]


def _tokens(rng: random.Random, n: int) -> tuple[int, ...]:
    """Return n made-up tokens."""
    return tuple(rng.choices(range(VOCABULARY), k=n))


def _about(rng: random.Random, mean: float) -> int:
    """Return a length of at least 1, exponentially distributed around a mean."""
    return 1 + int(rng.expovariate(1 / mean))


def _pause(rng: random.Random, mean: float) -> float:
    """Return seconds, exponentially distributed around a mean; 0 for a mean of 0."""
    return rng.expovariate(1 / mean) if mean else 0.0


def _check(**counts: float) -> None:
    """Raise ValueError for a count below 1."""
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"{name}={value!r} is below 1")


def _check_pause(pause: float) -> None:
    """Raise ValueError for a pause below 0."""
    if not pause >= 0:
        raise ValueError(f"pause={pause!r} is below 0")


def _starts(rng: random.Random, count: int, rate: float) -> list[float]:
    """Return count starts with independent gaps of mean 1/rate seconds."""
    if not rate > 0:
        raise ValueError(f"rate={rate!r} is not above 0")
    now, found = 0.0, []
    for _ in range(count):
        found.append(now)
        now += rng.expovariate(rate)
    return found


def chat(
    sessions: int = 100, rate: float = 2.0, turns: float = 5, system: int = 600, message: float = 80, answer: float = 200,
    pause: float = 20.0, seed: int = 0, stamp_every: float | None = None, tenants: int = 0,
) -> Workload:
    """Return chats behind one system prompt. turns, message, answer (tokens) and pause (s) are means; rate: new chats per second.

    The mean of turns holds from about 3 on; 1 comes out as 1.16.
    Raises ValueError for a count below 1, a rate not above 0 and a pause below 0.
    """
    _check(sessions=sessions, turns=turns, system=system, message=message, answer=answer)
    _check_pause(pause)
    rng = random.Random(seed)
    starts, head = _starts(rng, sessions, rate), _tokens(rng, system)
    drawn = [
        [
            Turn((() if turn else head) + _tokens(rng, _about(rng, message)), _about(rng, answer), _pause(rng, pause))
            for turn in range(min(_about(rng, turns - 0.5), _TURNS - 1))
        ]
        for _ in range(sessions)
    ]
    return Workload(drawn, starts, stamp_every, tenants)


def few_shot(
    requests: int = 400, rate: float = 10.0, tasks: int = 8, examples: int = 1500, question: float = 60, answer: float = 20,
    seed: int = 0, stamp_every: float | None = None, tenants: int = 0,
) -> Workload:
    """Return single questions, each behind one of a few lists of examples. question and answer (tokens) are means.

    Raises ValueError for a count below 1 and a rate not above 0.
    """
    _check(requests=requests, tasks=tasks, examples=examples, question=question, answer=answer)
    rng = random.Random(seed)
    starts, heads = _starts(rng, requests, rate), [_tokens(rng, examples) for _ in range(tasks)]
    drawn = [[Turn(rng.choice(heads) + _tokens(rng, _about(rng, question)), _about(rng, answer), 0.0)] for _ in range(requests)]
    return Workload(drawn, starts, stamp_every, tenants)


def agents(
    sessions: int = 60, rate: float = 0.5, steps: int = 12, tools: int = 3000, result: float = 400, call: float = 60,
    pause: float = 2.0, seed: int = 0, stamp_every: float | None = None, tenants: int = 0,
) -> Workload:
    """Return agents behind one description of tools: each step is a short call, then a tool's result after a short pause.

    result and call (tokens) and pause (s) are means.
    Raises ValueError for a count below 1, a rate not above 0 and a pause below 0.
    """
    _check(sessions=sessions, steps=steps, tools=tools, result=result, call=call)
    _check_pause(pause)
    rng = random.Random(seed)
    starts, head = _starts(rng, sessions, rate), _tokens(rng, tools)
    drawn = [
        [
            Turn((() if step else head) + _tokens(rng, _about(rng, result)), _about(rng, call), _pause(rng, pause))
            for step in range(steps)
        ]
        for _ in range(sessions)
    ]
    return Workload(drawn, starts, stamp_every, tenants)
