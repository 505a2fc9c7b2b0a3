"""What runs in the next step: a policy over requests and blocks. No tensors; the time is handed in.

Every step is put together anew. A step has a budget of tokens; a request takes one
(decode), or as many of its prompt as are left of the budget (chunked prefill).
Decodes come first, then prompts that are half done, then new requests. Among equals
the lower rank goes first, and no new request overtakes one of lower rank.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .block_pool import BlockPool
from .request import Request, Status


@dataclass(frozen=True)
class Chunk:
    """Tokens start .. start + n of a request, to be run in this step; samples: the last of them yields a new token.

    The last ``drafts`` of the n are guesses that stand behind the request's own tokens: room for as many, at first.
    """

    request: Request
    start: int
    n: int
    samples: bool
    drafts: int = 0


class Scheduler:
    """Iteration-level scheduling with a token budget, over a pool of blocks.

    At most ``max_num_seqs`` requests run at once and at most ``max_num_batched_tokens``
    tokens go into a step. When blocks run out, the request of the highest rank that runs
    is preempted: its blocks are released, and it waits to be computed again. With
    chunked=False a prompt goes whole or not at all.

    Counters: steps, tokens (scheduled), preemptions. ``trace`` (None, or a list) takes
    one dict a step; its fields are in ``record``. Raises ValueError for a limit below 1.
    """

    def __init__(
        self, pool: BlockPool, max_num_seqs: int = 16, max_num_batched_tokens: int = 256,
        chunked: bool = True, trace: list[dict[str, Any]] | None = None,
    ) -> None:
        for name, value in (("max_num_seqs", max_num_seqs), ("max_num_batched_tokens", max_num_batched_tokens)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}={value!r} is not a whole number of at least 1")
        self.pool, self.max_num_seqs, self.max_num_batched_tokens = pool, max_num_seqs, max_num_batched_tokens
        self.chunked, self.trace = chunked, trace
        self.waiting: list[Request] = []  # both by rank
        self.running: list[Request] = []
        self.steps = self.tokens = self.preemptions = 0
        self._events: list[list[Any]] = []
        self._numbers = itertools.count()

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing runs."""
        return not self.waiting and not self.running

    def add(self, request: Request, now: float = 0.0) -> None:
        """Let a request wait from now (seconds) on. Raises ValueError if it could never be served, or has been added before."""
        if request.arrival is not None or request.status is not Status.WAITING:
            raise ValueError(f"request {request.request_id} has been added before, or has ended")
        blocks = self.pool.blocks_for(request.max_length)
        if blocks > self.pool.num_blocks:
            raise ValueError(
                f"request {request.request_id} can never fit: {len(request.prompt)} + {request.max_tokens} tokens "
                f"need {blocks} blocks, the pool has {self.pool.num_blocks}"
            )
        if not self.chunked and request.max_length > self.max_num_batched_tokens:
            raise ValueError(
                f"request {request.request_id} can never fit: without chunks its {request.max_length} tokens "
                f"exceed max_num_batched_tokens={self.max_num_batched_tokens}"
            )
        request.arrival, request.number = now, next(self._numbers)
        bisect.insort(self.waiting, request, key=lambda r: r.rank)
        self._events.append(["arrive", request.request_id])

    def schedule(self, now: float = 0.0) -> list[Chunk]:
        """Return the chunks of the next step, which begins now; their blocks are held. Empty if nothing can run."""
        chunks: dict[Request, Chunk] = {}
        budget, starved = self.max_num_batched_tokens, False
        for request in sorted(self.running, key=lambda r: (len(r.tokens) - r.num_computed_tokens > 1, r.rank)):
            n = min(len(request.tokens) - request.num_computed_tokens, budget)
            if n == 0 or request.status is not Status.RUNNING:  # preempted by one before it
                continue
            needed = self.pool.blocks_for(request.num_computed_tokens + n) - len(request.block_table)
            if needed > self.pool.num_free:
                starved = True
                for victim in self._make_room(request, needed):
                    budget += chunks.pop(victim).n if victim in chunks else 0
                if needed > self.pool.num_free:
                    continue
            chunks[request] = self._chunk(request, n)
            budget -= n
        while self.waiting and budget and len(self.running) < self.max_num_seqs and not starved:
            n = self._admit(self.waiting[0], budget)
            if n == 0:
                break
            request = self.waiting.pop(0)
            request.scheduled = now if request.scheduled is None else request.scheduled
            chunks[request] = self._chunk(request, n)
            budget -= n
        return [self._with_drafts(chunk, budget) if chunk.request.num_draft_tokens else chunk for chunk in chunks.values()]

    def _with_drafts(self, chunk: Chunk, budget: int) -> Chunk:
        """Give a decode room for the guesses that the request wants, as far as free blocks and budget go; nobody is preempted for guesses."""
        request, size = chunk.request, self.pool.block_size
        end = chunk.start + chunk.n
        room = (len(request.block_table) + self.pool.num_free) * size - end
        left = request.max_tokens - request.num_output_tokens - 1  # more tokens than that would be thrown away
        drafts = min(request.num_draft_tokens, budget // len(self.running), room, left) if chunk.n == 1 and chunk.samples else 0
        if drafts <= 0:
            return chunk
        request.block_table += self.pool.allocate(max(0, self.pool.blocks_for(end + drafts) - len(request.block_table)))
        return Chunk(request, chunk.start, chunk.n + drafts, True, drafts)

    def _chunk(self, request: Request, n: int) -> Chunk:
        """Allocate the blocks that n more tokens begin, and return the chunk."""
        end = request.num_computed_tokens + n
        needed = self.pool.blocks_for(end) - len(request.block_table)
        if needed > 0:
            request.block_table += self.pool.allocate(needed)
        return Chunk(request, request.num_computed_tokens, n, end == len(request.tokens))

    def _make_room(self, request: Request, needed: int) -> list[Request]:
        """Preempt requests of higher rank, the highest first, until so many blocks are free; return whom.

        None where that is not enough: then the request keeps its blocks, and waits for those before it to end.
        """
        place = self.running.index(request)
        kept = {block for r in self.running[: place + 1] for block in r.block_table}
        preempted: list[Request] = []
        if self.pool.num_blocks - len(kept) < needed:
            return preempted
        while self.pool.num_free < needed:
            preempted.append(self.running[-1])
            self._preempt(preempted[-1])
        return preempted

    def _preempt(self, request: Request) -> None:
        """Release everything the request holds and let it wait; its output stays, to be computed again as a prompt."""
        self._leave(request)
        request.status, request.contents = Status.WAITING, []
        request.num_computed_tokens = request.num_transferred_tokens = 0
        request.preemptions += 1
        self.preemptions += 1
        bisect.insort(self.waiting, request, key=lambda r: r.rank)
        self._events.append(["preempt", request.request_id])

    def _admit(self, request: Request, budget: int) -> int:
        """Take the cached prefix of a waiting request and let it run; return the tokens of its first chunk, 0 if it must wait.

        All its tokens must fit beside those that run, though the blocks are allocated chunk by
        chunk. The last token is always computed: its logits are wanted, and are not cached.
        """
        size, reach = self.pool.block_size, len(request.tokens) - 1
        blocks, contents = self.pool.match(request.tokens[:reach], request.salt)
        known = max(len(blocks) * size, request.num_transferred_tokens)
        n = len(request.tokens) - known
        free = self.pool.num_free - sum(map(self.pool.is_free, blocks))
        if self.pool.blocks_for(len(request.tokens)) - len(blocks) > free or n > budget and not self.chunked:
            return 0
        self.pool.take(blocks, reach // size if self.pool.prefix_caching else 0)
        request.block_table, request.contents = list(blocks), contents
        request.num_computed_tokens = known
        if not request.preemptions:
            request.num_cached_tokens = len(blocks) * size
        request.status = Status.RUNNING
        bisect.insort(self.running, request, key=lambda r: r.rank)
        self._events.append(["admit", request.request_id, request.num_computed_tokens])
        return min(n, budget)

    def update(
        self, chunks: Sequence[Chunk], tokens: Sequence[Sequence[int]], now: float = 0.0,
        stops: Callable[[Request], bool] | None = None,
    ) -> list[Request]:
        """Count the chunks as computed and append each one's new tokens, which are there now: none where it does not sample.

        A chunk with drafts brings the accepted ones and one more. stops is asked after each
        token whether the request should end with it. Returns the requests that got a token;
        those that were aborted while the step ran get none.
        """
        got = []
        self.steps += 1
        for chunk, new in zip(chunks, tokens, strict=True):
            request, reason = chunk.request, None
            self.tokens += chunk.n
            if request.status is not Status.RUNNING:
                continue
            for token in new:
                request.tokens.append(token)
                request.token_times.append(now)
                if request.stop_ids and token in request.stop_ids or stops is not None and stops(request):
                    reason = "stop"
                elif request.num_output_tokens == request.max_tokens:
                    reason = "length"
                if reason:
                    break
            # K and V of rejected guesses are in the blocks too: not counted, they are written over.
            end = min(chunk.start + chunk.n, len(request.tokens) - bool(new))
            request.num_recomputed_tokens += max(0, min(request.most_computed_tokens, end) - chunk.start)
            request.most_computed_tokens = max(request.most_computed_tokens, end)
            request.num_computed_tokens = end
            self._register(request)
            got += [request] if new else []
            if reason:
                self.finish(request, reason, now)
        return got

    def _register(self, request: Request) -> None:
        """Make the blocks that have become full findable."""
        size = self.pool.block_size
        if not self.pool.prefix_caching:
            return
        for i in range(len(request.contents), request.num_computed_tokens // size):
            before = request.contents[-1] if request.contents else None
            content = self.pool.content(request.tokens[i * size : (i + 1) * size], before, request.salt)
            request.contents.append(self.pool.register(request.block_table[i], content))

    def _leave(self, request: Request) -> None:
        """Take a request out of its queue and release its blocks."""
        (self.running if request.status is Status.RUNNING else self.waiting).remove(request)
        self.pool.release(request.block_table)
        request.block_table = []

    def finish(self, request: Request, reason: str, now: float = 0.0) -> None:
        """End a request, waiting or running; its full blocks stay findable. Nothing happens to one that has ended."""
        if request.status is Status.FINISHED:
            return
        self._leave(request)
        request.status, request.finish_reason, request.finished = Status.FINISHED, reason, now
        self._events.append(["finish", request.request_id, reason])

    def record(self, chunks: Sequence[Chunk], begin: float, end: float) -> None:
        """Append a step to the trace, if there is one: what the simulator and the figures read.

        {"step", "begin", "end" (seconds), "chunks": [[request_id, start, n], …], "blocks": {request_id: held},
        "waiting": [request_id, …], "events": [["arrive", id], ["admit", id, cached tokens], ["preempt", id],
        ["finish", id, reason], …] since the last step}; what happens after the last step is in no record
        """
        if self.trace is not None:
            self.trace.append({
                "step": self.steps, "begin": begin, "end": end,
                "chunks": [[c.request.request_id, c.start, c.n] for c in chunks],
                "blocks": {r.request_id: len(r.block_table) for r in self.running},
                "waiting": [r.request_id for r in self.waiting], "events": self._events,
            })
        self._events = []
