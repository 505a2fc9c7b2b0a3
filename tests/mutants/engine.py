"""Faults for the engine's block pool, scheduler and request: see tests/test_engine_mutants.py.

A fault is an edit of the source, old text to new; each old text must stand there exactly once. ``modules`` loads the three
edited files beside the real ones, under a package name of their own.
"""

from __future__ import annotations

import itertools
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import tinyserve
from tinyserve import sampling

NAMES = ("block_pool", "request", "scheduler")
FOLDER = Path(tinyserve.__file__).parent
_numbers = itertools.count()


@dataclass(frozen=True)
class Fault:
    """A name, and edits: (file, old, new) each."""

    name: str
    edits: tuple[tuple[str, str, str], ...]


def modules(fault: Fault | None = None) -> types.SimpleNamespace:
    """Return block_pool, request and scheduler with the fault planted (None: as they are). ValueError for an edit that does not fit."""
    package = types.ModuleType(f"engine_mutant_{next(_numbers)}")
    package.__path__ = []
    loaded = {package.__name__: package, f"{package.__name__}.sampling": sampling}
    sources = {name: (FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in NAMES}
    for name, old, new in fault.edits if fault else ():
        if sources[name].count(old) != 1:
            raise ValueError(f"{fault.name}: {old!r} stands {sources[name].count(old)} times in {name}.py")
        sources[name] = sources[name].replace(old, new)
    sys.modules.update(loaded)
    try:
        for name in NAMES:
            module = types.ModuleType(f"{package.__name__}.{name}")
            module.__package__ = package.__name__
            loaded[module.__name__] = sys.modules[module.__name__] = module
            exec(compile(sources[name], f"{name}.py, {fault.name if fault else 'as it is'}", "exec"), module.__dict__)
    finally:
        for name in loaded:
            del sys.modules[name]
    return types.SimpleNamespace(**{name: loaded[f"{package.__name__}.{name}"] for name in NAMES})


def pool(name: str, *edits: tuple[str, str]) -> Fault:
    """A fault in block_pool.py."""
    return Fault(name, tuple(("block_pool", *edit) for edit in edits))


def sched(name: str, *edits: tuple[str, str]) -> Fault:
    """A fault in scheduler.py."""
    return Fault(name, tuple(("scheduler", *edit) for edit in edits))


FAULTS = [
    # what a prefix may give
    sched("a full hit leaves no token to compute", ("self.pool.match(request.tokens[:reach]", "self.pool.match(request.tokens")),
    Fault("the last block is shared though partly filled", (
        ("block_pool", "for i in range(len(tokens) // self.block_size if", "for i in range(self.blocks_for(len(tokens)) if"),
        ("block_pool", "if len(tokens) != self.block_size:", "if False:"),
        ("scheduler", "            return\n        self._leave(request)\n", "            return\n        n, size = request.num_computed_tokens, self.pool.block_size\n        if n % size and self.pool.prefix_caching:\n            last = self.pool.content(request.tokens[n // size * size : n], request.contents[-1] if request.contents else None, request.salt)\n            self.pool.register(request.block_table[n // size], last)\n        self._leave(request)\n"),
    )),
    sched("a partly filled block is registered", ("range(len(request.contents), request.num_computed_tokens // size)", "range(len(request.contents), self.pool.blocks_for(request.num_computed_tokens))"), ("content = self.pool.content(", "if len(request.tokens) < (i + 1) * size:\n                break\n            content = self.pool.content(")),
    sched("blocks are registered before they are computed", ("        return Chunk(request, request.num_computed_tokens, n, end == len(request.tokens))", "        chunk = Chunk(request, request.num_computed_tokens, n, end == len(request.tokens))\n        request.num_computed_tokens = end\n        self._register(request)\n        request.num_computed_tokens = chunk.start\n        return chunk")),
    sched("the new token counts as computed when blocks are registered", ("range(len(request.contents), request.num_computed_tokens // size)", "range(len(request.contents), min(request.num_computed_tokens + 1, len(request.tokens)) // size)")),
    sched("blocks are registered one token late", ("request.num_computed_tokens // size)", "(request.num_computed_tokens - 1) // size)")),
    pool("a block's hash leaves out its prefix", ("return hash((before, tokens, salt))", "return hash((tokens, salt))"), ("if a is None or b is None or a.tokens != b.tokens or a.salt != b.salt:\n                return False\n            a, b = a.before, b.before", "return a.tokens == b.tokens and a.salt == b.salt")),
    pool("only the last block's tokens are compared on a hit", ("            a, b = a.before, b.before\n", "            return True\n")),
    pool("tokens are not compared on a hash collision", ("if block is None or not self._content[block].same(wanted):", "if block is None:")),
    pool("chained to another content of the same hash", ("return self._content[held] if self._content[held].same(content) else content", "return self._content[held]")),
    pool("the salt is ignored", ("return hash((before, tokens, salt))", "return hash((before, tokens))"), (" or a.salt != b.salt", "")),
    pool("the salt is not compared", (" or a.salt != b.salt", "")),
    pool("the first block is enough for a hit of all", ("                break\n            blocks.append(block)", "                if block is None:\n                    break\n            blocks.append(block)")),
    # blocks that are free, held, given away
    pool("double free", ("            if self.ref_count[block] == 0:\n                if self._content", "            if self.ref_count[block] <= 1:\n                if self._content")),
    pool("a release counts down twice where the block is shared", ("self.ref_count[block] -= 1\n", "self.ref_count[block] = 0\n")),
    sched("leak on abort", ("        self._leave(request)\n        request.status, request.finish_reason", "        if reason == \"abort\":\n            (self.running if request.status is Status.RUNNING else self.waiting).remove(request)\n        else:\n            self._leave(request)\n        request.status, request.finish_reason")),
    sched("the last block leaks", ("self.pool.release(request.block_table)", "self.pool.release(request.block_table[: len(request.tokens) // self.pool.block_size])")),
    sched("a released table is kept", ("        self.pool.release(request.block_table)\n        request.block_table = []", "        self.pool.release(request.block_table)")),
    pool("a hit block stays in the free list", ("                del self._cached[block]\n", "                pass\n")),
    pool("a hit is not counted as held", ("            self.ref_count[block] += 1\n        self.hits", "            self.ref_count[block] = 1\n        self.hits")),
    pool("a stale hash stays in the index", ("                del self._index[self._content[block].hash]\n                self._content[block] = None\n                self.evictions", "                self.evictions")),
    pool("a block given away keeps its content", ("                self._content[block] = None\n                self.evictions", "                self.evictions")),
    pool("the most recent is evicted", ("popitem(last=False)", "popitem(last=True)")),
    pool("evicted though an empty block is there", ("            if self._empty:\n", "            if not self._cached:\n")),
    pool("the head of a prefix is evicted before its tail", ("for block in reversed(blocks):", "for block in blocks:")),
    pool("the index takes the newer of two equal blocks", ("held = self._index.setdefault(content.hash, block)", "held = self._index[content.hash] = block")),
    pool("released blocks with content are lost", ("                    self._cached[block] = None\n", "                    pass\n")),
    pool("clear forgets the index", ("            block, _ = self._cached.popitem()\n            del self._index[self._content[block].hash]\n", "            block, _ = self._cached.popitem()\n")),
    pool("one block too many at a boundary", ("return -(-tokens // self.block_size)", "return tokens // self.block_size + 1")),
    pool("one block too few", ("return -(-tokens // self.block_size)", "return max(1, tokens // self.block_size)")),
    # who runs
    sched("budget off by one on its bound", ("budget, starved = self.max_num_batched_tokens, False", "budget, starved = self.max_num_batched_tokens + 1, False")),
    sched("the budget's last token is never used", ("while self.waiting and budget and", "while self.waiting and budget > 1 and")),
    sched("a new request's tokens are not counted", ("            chunks[request] = self._chunk(request, n)\n            budget -= n\n        return", "            chunks[request] = self._chunk(request, n)\n        return")),
    sched("max_num_seqs off by one", ("len(self.running) < self.max_num_seqs", "len(self.running) <= self.max_num_seqs")),
    sched("a seat is never used", ("len(self.running) < self.max_num_seqs", "len(self.running) < max(1, self.max_num_seqs - 1)")),
    sched("a later request overtakes one that does not fit", ("            if n == 0:\n                break\n            request = self.waiting.pop(0)", "            at = 0\n            while n == 0 and at + 1 < len(self.waiting):\n                at += 1\n                n = self._admit(self.waiting[at], budget)\n            if n == 0:\n                break\n            request = self.waiting.pop(at)")),
    sched("the latest request is admitted first", ("n = self._admit(self.waiting[0], budget)", "n = self._admit(self.waiting[-1], budget)"), ("request = self.waiting.pop(0)", "request = self.waiting.pop()")),
    sched("a preempted request waits at the end of the line", ("        bisect.insort(self.waiting, request, key=lambda r: r.rank)\n        self._events.append([\"preempt\"", "        self.waiting.append(request)\n        self._events.append([\"preempt\"")),
    sched("admitted though its blocks are not there", ("if self.pool.blocks_for(len(request.tokens)) - len(blocks) > free or", "if")),
    sched("free blocks that are hits count as free", ("free = self.pool.num_free - sum(map(self.pool.is_free, blocks))", "free = self.pool.num_free")),
    sched("one block is kept back at the admission", ("- len(blocks) > free or", "- len(blocks) >= free or")),
    sched("without chunks a prompt goes in parts", ("or n > budget and not self.chunked:", "or n > budget and self.chunked is None:")),
    # preemption and the end
    sched("the victim is the oldest", ("            preempted.append(self.running[-1])", "            preempted.append(next(r for r in self.running if r is not request))")),
    sched("the victim's chunk stays in the step", ("budget += chunks.pop(victim).n if", "budget += chunks[victim].n if")),
    sched("the victim runs on in the same step", ("if n == 0 or request.status is not Status.RUNNING:", "if n == 0:")),
    sched("a preempted request keeps num_computed_tokens", ("        request.num_computed_tokens = request.num_transferred_tokens = 0\n", "        request.num_transferred_tokens = request.num_computed_tokens\n        request.num_computed_tokens = 0\n")),
    sched("a preempted request loses its output", ("        request.preemptions += 1\n", "        request.preemptions += 1\n        request.tokens = list(request.prompt)\n")),
    sched("a preempted request keeps the contents of its blocks", ("request.status, request.contents = Status.WAITING, []", "request.status = Status.WAITING"), ("request.block_table, request.contents = list(blocks), contents", "request.block_table = list(blocks)")),
    sched("a request aborted while the step ran is updated", ("            if request.status is not Status.RUNNING:\n                continue\n            for token in new", "            for token in new")),
    sched("a part of a prompt yields a token", ("n, end == len(request.tokens))", "n, True)")),
    sched("one token more than max_tokens", ("elif request.num_output_tokens == request.max_tokens:", "elif request.num_output_tokens > request.max_tokens:")),
    sched("the end of sequence does not stop", ("if request.stop_ids and token in request.stop_ids or", "if request.stop_ids and token in request.stop_ids and len(request.output) > 1 or")),
    sched("a request that can never fit is accepted", ("if blocks > self.pool.num_blocks:", "if blocks > self.pool.num_blocks + 1:")),
    sched("a request that fits to the last token is refused", ("if blocks > self.pool.num_blocks:", "if blocks >= self.pool.num_blocks:")),
    sched("the latest arrival has the lowest number", ("next(self._numbers)", "-next(self._numbers)")),
    sched("one that cannot get its blocks gives up those it has", ("                if needed > self.pool.num_free:\n                    continue\n", "                if needed > self.pool.num_free:\n                    self._preempt(request)\n                    continue\n")),
    sched("admits in a step that preempted", ("                starved = True\n", "                pass\n")),
    # guesses
    sched("wrong guesses count as computed", ("            end = min(chunk.start + chunk.n, len(request.tokens) - bool(new))", "            end = chunk.start + chunk.n")),
    sched("each may guess as many as are left of the budget", ("budget // len(self.running)", "budget")),
    sched("guesses beyond the last token allowed", ("budget // len(self.running), room, left)", "budget // len(self.running), room)")),
    sched("guesses without a block for them", ("budget // len(self.running), room, left)", "budget // len(self.running), left)")),
]
