"""One history: requests of a plan go through block pool and scheduler with the stand-in model, and every step is checked."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from stand_in import BASES, STOP, VOCAB, Ask, Plan, Watch, alone, spelled, written

from tinyserve import block_pool, request, scheduler

REAL = SimpleNamespace(block_pool=block_pool, request=request, scheduler=scheduler)
"""The modules under test; tests/mutants/engine.py makes others of the same shape."""

PATIENCE = 600  # steps
HASHES: dict[str, Callable[..., int]] = {
    "chain": block_pool.chain_hash, "constant": lambda *_: 7, "four": lambda *what: block_pool.chain_hash(*what) % 4,
}


class Play:
    """One history: the plan's requests from their arrivals until nothing waits and nothing runs."""

    def __init__(self, plan: Plan, modules: Any = REAL) -> None:
        self.plan, self.modules = plan, modules
        self.pool = modules.block_pool.BlockPool(plan.num_blocks, plan.block_size, plan.caching, HASHES[plan.hashing])
        self.watch = Watch(self.pool)
        self.scheduler = modules.scheduler.Scheduler(self.pool, plan.max_num_seqs, plan.budget, plan.chunked)
        self.slots = [0] * (plan.num_blocks * plan.block_size)
        self.asked: list[tuple[Ask, Any, int]] = []  # ask, request, step of arrival
        self.drawn: dict[Any, list[int]] = {}
        self.known: dict[Any, set[int]] = {}  # positions of each request that were computed, or found
        self.again: Counter[Any] = Counter()  # tokens computed though known
        self.seen: Counter[str] = Counter()
        self.step = self.tokens = self.hits = 0

    def rank(self, request: Any) -> tuple[float, int]:
        """Who goes first, from this book alone."""
        return next((ask.priority, i) for i, (ask, r, _) in enumerate(self.asked) if r is request)

    def running(self) -> list[Any]:
        return [r for _, r, _ in self.asked if r.status.value == "running"]

    def waiting(self) -> list[Any]:
        return [r for _, r, _ in self.asked if r.status.value == "waiting"]

    def arrive(self, ask: Ask) -> None:
        """Submit a request, cut to what fits; what does not fit is refused and changes nothing."""
        plan = self.plan
        room = min(plan.num_blocks * plan.block_size, plan.budget if not plan.chunked else sys.maxsize)
        base = [*BASES, self.asked[-1][1].tokens if self.asked else BASES[0]][ask.base]
        prompt = ([*base[: ask.length], *ask.tail] or [1])[:room]
        options = {"stop_ids": {STOP} if ask.stops else (), "priority": ask.priority, "salt": ask.salt, "num_draft_tokens": ask.drafts}
        most = room - len(prompt) + 1
        if ask.max_tokens > most:
            try:
                self.scheduler.add(self.modules.request.Request(prompt, max_tokens=most + 1, **options), self.step)
            except ValueError:
                self.seen["refused"] = 1
            else:
                raise AssertionError(f"{len(prompt)} + {most + 1} tokens are accepted, room is for {room}")
        request = self.modules.request.Request(prompt, max_tokens=min(ask.max_tokens, most), **options)
        self.scheduler.add(request, self.step)
        self.asked.append((ask, request, self.step))
        self.drawn[request], self.known[request] = [], set()

    def abort(self, midway: bool) -> None:
        for ask, request, arrival in self.asked:
            if ask.abort is None or ask.midway != midway or request.status.value == "finished":
                continue
            in_prefill = request.status.value == "running" and 0 < request.num_computed_tokens < len(request.prompt)
            if in_prefill if ask.abort == "prefill" else self.step - arrival >= ask.abort:
                self.seen["aborted in a prefill"] |= in_prefill
                self.seen["aborted"] = 1
                self.scheduler.finish(request, "abort", self.step)

    def guess(self, chunk: Any) -> tuple[Any, list[int]]:
        """Return the chunk with the guesses that were made, which may be fewer than there is room for; two in three are right."""
        request = chunk.request
        if not chunk.drafts:
            return chunk, []
        right = alone(request.prompt, len(request.output) + chunk.drafts, False, request.salt)[0][len(request.output) :]
        made = [token if (chunk.start + i) % 3 else (token + 1) % VOCAB for i, token in enumerate(right)]
        made = made[: chunk.drafts - (chunk.start % 5 == 4)]
        return replace(chunk, n=chunk.n - chunk.drafts + len(made), drafts=len(made)), made

    def compute(self, chunks: Sequence[Any], guesses: Sequence[Sequence[int]]) -> list[list[int]]:
        """Run the stand-in model over the chunks: write, then read everything back; return each one's new tokens."""
        size, found = self.plan.block_size, []
        places = [[table[i // size] * size + i % size for i in range(c.start + c.n)] for c in chunks for table in [c.request.block_table]]
        for chunk, where, guessed in zip(chunks, places, guesses, strict=True):
            numbers = [self.slots[place] for place in where[: chunk.start]]
            for place, token in zip(where[chunk.start :], [*chunk.request.tokens[chunk.start :], *guessed], strict=False):
                numbers.append(written(numbers, token, chunk.request.salt))
                self.slots[place] = numbers[-1]
        for chunk, where, guessed in zip(chunks, places, guesses, strict=True):
            new: list[int] = []
            while chunk.samples and (not new or len(new) <= chunk.drafts and new[-1] == guessed[len(new) - 1]):
                read = hash(tuple(self.slots[place] for place in where[: len(where) - chunk.drafts + len(new)]))
                self.drawn[chunk.request].append(read)
                new.append(read % VOCAB)
            found.append(new)
        return found

    def advance(self) -> None:
        """One step, with all that is to hold before, within and after it."""
        before = set(self.running())
        self.abort(midway=False)
        stayed = before & set(self.running())
        if self.scheduler.idle:
            return
        free, self.watch.allocated = self.pool.num_free, 0
        chunks = self.scheduler.schedule(self.step)
        assert not stayed - set(self.running()) or self.watch.allocated > free, "preempted in vain"
        self.check_step(chunks, stayed)
        chunks, guesses = zip(*map(self.guess, chunks), strict=True)
        befores = [(chunk, len(chunk.request.tokens), len(chunk.request.contents), list(chunk.request.block_table)) for chunk in chunks]
        tokens = self.compute(chunks, guesses)
        self.abort(midway=True)
        cut = {chunk.request for chunk in chunks if chunk.request.status.value == "finished"}
        got = self.scheduler.update(chunks, tokens, self.step)
        assert got == [chunk.request for chunk in chunks if chunk.samples and chunk.request not in cut], "who got a token"
        self.tokens += sum(chunk.n for chunk in chunks)
        for chunk, *rest in befores:
            if chunk.request in cut:
                del self.drawn[chunk.request][len(chunk.request.output) :]  # they came too late
            else:
                self.check_computed(chunk, *rest)
        self.check_pool()

    def check_step(self, chunks: Sequence[Any], stayed: set[Any]) -> None:
        """Limits, order and room of a step that has been put together; ``stayed`` ran before it."""
        plan, running, waiting = self.plan, self.running(), self.waiting()
        total, chosen = sum(chunk.n for chunk in chunks), {chunk.request for chunk in chunks}
        assert chunks, "an empty step, though there is work"
        assert total <= plan.budget, f"{total} tokens in a step of {plan.budget}"
        assert len(running) <= plan.max_num_seqs, f"{len(running)} requests run, {plan.max_num_seqs} may"
        assert len(chosen) == len(chunks) and chosen <= set(running), "a chunk twice, or of a request that does not run"
        admitted, preempted = set(running) - stayed, stayed - set(running)
        for first, then in ((admitted, set(waiting)), (set(running), preempted)):
            if first and then:
                assert max(map(self.rank, first)) < min(map(self.rank, then)), "a later request goes before an earlier one"
        for chunk in chunks:
            request, end = chunk.request, chunk.start + chunk.n - chunk.drafts
            assert chunk.n >= 1 and chunk.start == request.num_computed_tokens and end <= len(request.tokens)
            assert chunk.samples == (end == len(request.tokens)), "samples without its last token, or not with it"
            assert not chunk.drafts or (chunk.samples and end + chunk.drafts <= request.max_length), "guesses that nobody can use"
            assert plan.chunked or end == len(request.tokens), "a prompt in parts"
            for block in request.block_table[chunk.start // plan.block_size :]:
                assert self.pool.ref_count[block] == 1 and self.pool._content[block] is None, f"block {block} is shared and written"
        for request in running:
            end = request.num_computed_tokens + sum(chunk.n for chunk in chunks if chunk.request is request)
            most = min(end + request.num_draft_tokens, request.max_length)  # a wrong guess leaves its block
            assert -(-end // plan.block_size) <= len(request.block_table) <= -(-most // plan.block_size), f"{len(request.block_table)} blocks for {end} tokens"
        for request in waiting:
            assert not request.block_table and not request.num_computed_tokens, "waits and holds something"
        if not preempted and chosen == set(running):
            assert total == plan.budget or all(chunk.samples for chunk in chunks), "a part of a prompt, with budget left"
            if total < plan.budget and not any(chunk.drafts for chunk in chunks) and len(running) < plan.max_num_seqs and waiting:
                self.check_no_room(min(waiting, key=self.rank), plan.budget - total)
        for request in admitted:
            assert request.preemptions or request.num_cached_tokens == request.num_computed_tokens
        self.hits += sum(request.num_computed_tokens for request in admitted)
        self.seen["preempted"] |= bool(preempted)
        self.seen["hit"] |= any(request.num_computed_tokens for request in admitted)

    def check_no_room(self, request: Any, budget: int) -> None:
        """The first that waits must not fit, where budget and seats are left."""
        blocks, _ = self.pool.match(request.tokens[:-1], request.salt)
        size, free = self.plan.block_size, self.pool.num_free - sum(self.pool.ref_count[block] == 0 for block in blocks)
        left = len(request.tokens) - len(blocks) * size
        assert -(-left // size) > free or (not self.plan.chunked and left > budget), "the first that waits would fit"

    def check_computed(self, chunk: Any, tokens: int, full: int, table: Sequence[int]) -> None:
        """What stayed counts as computed, and a block that it filled is found by its content, unless another one has its hash."""
        request, size, new = chunk.request, self.plan.block_size, len(chunk.request.tokens) - tokens
        assert bool(new) == chunk.samples and (new < 2 or chunk.drafts)
        self.seen["guessed right"] |= new > 1
        self.seen["guessed wrong"] |= new <= chunk.drafts
        del self.drawn[request][len(request.output) :]  # right guesses behind an end
        end = chunk.start + chunk.n - chunk.drafts + max(0, new - 1)
        assert request.num_computed_tokens == end, f"{request.num_computed_tokens} tokens count as computed, {end} are"
        now = set(range(chunk.start, end))
        self.again[request] += len(now & self.known[request])
        self.known[request] |= set(range(end))
        assert not self.plan.caching or len(request.contents) == end // size, "full blocks and contents differ in number"
        for i in range(full, len(request.contents)):
            content = request.contents[i]
            assert spelled(content) == (request.salt, tuple(request.tokens[: (i + 1) * size])), "content of other tokens"
            held = self.pool._index[content.hash]
            assert held == table[i] or self.plan.hashing != "chain" or spelled(self.pool._content[held]) == spelled(content)

    def check_pool(self) -> None:
        """Nothing leaked, nothing used twice, and the index true."""
        pool, size = self.pool, self.plan.block_size
        held = Counter(block for request in self.running() for block in set(request.block_table))
        assert all(len(r.block_table) == len(set(r.block_table)) for r in self.running()), "a block twice in a table"
        assert pool.ref_count == [held[block] for block in range(pool.num_blocks)], f"counts {pool.ref_count}, held {dict(held)}"
        empty, cached = list(pool._empty), list(pool._cached)
        assert sorted(empty + cached) == [b for b in range(pool.num_blocks) if not held[b]], "a free block not counted once"
        assert set(empty) == self.watch.empty and cached == self.watch.cached, "free blocks, or their order"
        contents = {block: content for block, content in enumerate(pool._content) if content is not None}
        assert pool._index == {content.hash: block for block, content in contents.items()}, "the index names other blocks"
        assert len(pool._index) == len(contents), "two blocks of one hash"
        assert set(cached) <= contents.keys() and not set(empty) & contents.keys()
        for block, content in contents.items():
            tenant, tokens = spelled(content)
            numbers: list[int] = []
            for token in tokens:
                numbers.append(written(numbers, token, tenant))
            assert numbers[-size:] == self.slots[block * size : (block + 1) * size], f"block {block} holds something else"

    def check_end(self) -> None:
        """Every request ended as it does alone, and the pool is as it was."""
        assert self.pool.ref_count == [0] * self.plan.num_blocks and self.pool.num_free == self.plan.num_blocks, "a block leaked"
        assert self.scheduler.idle and not self.running() and not self.waiting()
        for ask, request, _ in self.asked:
            output, drawn, reason = alone(request.prompt, request.max_tokens, ask.stops, ask.salt)
            n = len(request.output)
            assert request.output == output[:n] and self.drawn[request] == drawn[:n], "another output than alone"
            assert request.finish_reason == "abort" and ask.abort is not None or (n, request.finish_reason) == (len(output), reason)
            assert request.num_recomputed_tokens == self.again[request], "tokens computed again"
            assert len(request.token_times) == n and request.token_times == sorted(request.token_times)
        assert (self.scheduler.tokens, self.pool.hits * self.plan.block_size) == (self.tokens, self.hits), "counters"
        assert self.scheduler.preemptions == sum(request.preemptions for _, request, _ in self.asked)

    def run(self) -> Counter[str]:
        """Play to the end; return which of the events happened, once each."""
        left, due = list(self.plan.asks), self.plan.asks[0].gap
        while left or not self.scheduler.idle:
            while left and (due <= self.step or self.scheduler.idle):
                self.arrive(left.pop(0))
                due = self.step + left[0].gap if left else due
            if self.step == self.plan.clear:
                self.pool.clear()
            self.advance()
            self.step += 1
            assert self.step < PATIENCE, "it does not end"
        self.check_pool()
        self.check_end()
        self.seen["evicted"] = int(self.pool.evictions > 0)
        return +self.seen
