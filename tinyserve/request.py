"""One request: what was asked, what has been computed, and when."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Sequence
from enum import Enum

from .block_pool import Content
from .sampling import Sampler, SamplingParams

GREEDY = SamplingParams(temperature=0)
_numbers = itertools.count()


class Status(Enum):
    """Where a request is: not admitted (or preempted), in the running batch, done."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


class Request:
    """A prompt, how to go on from it, and the state of doing so.

    ``tokens`` is prompt and output; K and V of the first ``num_computed_tokens`` are in
    the blocks of ``block_table``. ``num_cached_tokens`` counts those found in the
    prefix cache at the first admission, ``num_recomputed_tokens`` those computed again
    after a preemption. ``stop_ids`` None means the engine's end of sequence;
    ``priority``: the lower goes first. ``num_draft_tokens``: how many tokens a draft may guess ahead
    of each step (0: none), in an engine that has one. Times are the engine's clock, in seconds.
    What is asked is checked when the request is submitted.
    """

    def __init__(
        self, prompt: Sequence[int], sampling: SamplingParams = GREEDY, max_tokens: int = 16,
        stop_ids: Collection[int] | None = None, stop: str | Sequence[str] = (), priority: float = 0,
        salt: Hashable = None, request_id: Hashable = None, num_draft_tokens: int = 0,
    ) -> None:
        self.prompt, self.sampling, self.max_tokens = list(prompt), sampling, max_tokens
        self.stop_ids, self.stop = None if stop_ids is None else frozenset(stop_ids), (stop,) if isinstance(stop, str) else tuple(stop)
        self.priority, self.salt, self.num_draft_tokens = priority, salt, num_draft_tokens
        self.request_id = next(_numbers) if request_id is None else request_id
        self.number = -1  # its place in the order of arrival, given by the scheduler
        self.sampler = Sampler(sampling)

        self.status = Status.WAITING
        self.tokens, self.text = list(prompt), ""
        self.block_table: list[int] = []
        self.contents: list[Content] = []  # of the full blocks, first to last
        self.num_computed_tokens = self.num_cached_tokens = self.num_recomputed_tokens = self.preemptions = 0
        self.most_computed_tokens = 0  # before the last preemption, or now: what lies below is computed again
        self.num_transferred_tokens = 0  # K and V that another engine computed, there when it is admitted
        self.num_drafted_tokens = self.num_accepted_tokens = 0
        self.finish_reason: str | None = None  # stop, length, abort or error
        self.error: str | None = None
        self.arrival: float | None = None
        self.scheduled: float | None = None
        self.finished: float | None = None
        self.token_times: list[float] = []

    def check(self, vocab_size: int) -> None:
        """Raise ValueError with value and rule for what no engine with this vocabulary can do."""
        if not self.prompt:
            raise ValueError("the prompt is empty: there is nothing to predict the first token from")
        for token in self.prompt:
            if not isinstance(token, int) or not 0 <= token < vocab_size:
                raise ValueError(f"prompt token {token!r} is not a token id in 0 .. {vocab_size - 1}")
        if not isinstance(self.max_tokens, int) or self.max_tokens < 1:
            raise ValueError(f"max_tokens={self.max_tokens!r} is not a whole number of at least 1")
        if not isinstance(self.num_draft_tokens, int) or self.num_draft_tokens < 0:
            raise ValueError(f"num_draft_tokens={self.num_draft_tokens!r} is not a whole number of at least 0")
        if not all(isinstance(text, str) and text for text in self.stop):
            raise ValueError(f"stop={list(self.stop)} is not a list of texts that are not empty")
        if not isinstance(self.priority, (int, float)) or self.priority != self.priority:
            raise ValueError(f"priority={self.priority!r} is not a number")
        for name, value in (("salt", self.salt), ("request_id", self.request_id)):
            try:
                hash(value)
            except TypeError as error:
                raise ValueError(f"{name}={value!r} cannot be hashed: take a text or a number") from error

    def fail(self, reason: str) -> None:
        """End a request that was refused, with the reason."""
        self.status, self.finish_reason, self.error = Status.FINISHED, "error", reason

    def __repr__(self) -> str:
        state = self.finish_reason or self.status.value
        return f"Request({self.request_id}: {len(self.prompt)} + {len(self.output)} of {self.max_tokens} tokens, {state})"

    @property
    def output(self) -> list[int]:
        """The tokens generated so far."""
        return self.tokens[len(self.prompt) :]

    @property
    def num_output_tokens(self) -> int:
        """How many tokens have been generated so far."""
        return len(self.tokens) - len(self.prompt)

    @property
    def max_length(self) -> int:
        """Tokens whose K and V it may need at most: the last one drawn is never run through the model."""
        return len(self.prompt) + self.max_tokens - 1

    @property
    def rank(self) -> tuple[float, int]:
        """Who goes first: the lower priority, then the earlier arrival. A preempted request keeps its rank."""
        return self.priority, self.number

    @property
    def queue_time(self) -> float | None:
        """Seconds from arrival to the first step that computed a token of it."""
        return None if self.scheduled is None else self.scheduled - self.arrival

    @property
    def ttft(self) -> float | None:
        """Time to first token, from arrival, in seconds."""
        return self.token_times[0] - self.arrival if self.token_times else None

    @property
    def itl(self) -> list[float]:
        """Inter-token latencies: the seconds between each token and the one before."""
        return [later - earlier for earlier, later in itertools.pairwise(self.token_times)]

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first: the mean of itl, in seconds; None for a single token."""
        itl = self.itl
        return sum(itl) / len(itl) if itl else None

    @property
    def e2e(self) -> float | None:
        """Seconds from arrival to the end."""
        return None if self.finished is None else self.finished - self.arrival
