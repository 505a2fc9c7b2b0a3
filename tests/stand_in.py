"""What a history of block pool and scheduler is made of: its plan, a stand-in for the model, and a second book of the free blocks.

The stand-in keeps one number in each slot: a hash of the token there, its position, its tenant, and all the numbers
before it, read back through the block table when the token is computed. A chunk's next token is a hash of all numbers
of the request, read back once more. So a wrong block, a stale one, a wrong position, another tenant's block or a block
behind another prefix changes what comes out; ``alone`` says what should, and knows no blocks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

VOCAB, STOP = 6, 5
BASES = ([0] * 12, [0, 1] * 6, [0, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1])


@dataclass(frozen=True)
class Ask:
    """One request of a plan. It arrives ``gap`` steps after the one before it.

    The prompt is the first ``length`` tokens of BASES[base] (base 3: of the request before it, prompt and output) and ``tail``.
    abort: None, "prefill" (as soon as its prompt is half done), or steps after its arrival;
    midway: the abort comes while a step runs. drafts: guesses ahead of each step, right and wrong ones.
    """

    gap: int
    base: int
    length: int
    tail: list[int]
    max_tokens: int
    stops: bool
    priority: int
    salt: int | None
    abort: int | str | None
    midway: bool
    drafts: int = 0


@dataclass(frozen=True)
class Plan:
    """A pool, a scheduler, and what is asked of them. ``clear``: the step before which the prefix cache is emptied."""

    num_blocks: int
    block_size: int
    max_num_seqs: int
    budget: int
    chunked: bool
    caching: bool
    hashing: str
    clear: int | None
    asks: list[Ask] = field(default_factory=list)


def written(before: Sequence[int], token: int, tenant: Hashable) -> int:
    """The number that a slot gets."""
    return hash((*before, token, len(before), -1 if tenant is None else tenant))


def alone(prompt: Sequence[int], max_tokens: int, stops: bool, tenant: Hashable) -> tuple[list[int], list[int], str]:
    """The output, the hash each of its tokens was made of, and the finish reason, of one request without blocks."""
    numbers: list[int] = []
    for token in prompt:
        numbers.append(written(numbers, token, tenant))
    output: list[int] = []
    drawn: list[int] = []
    while True:
        drawn.append(hash(tuple(numbers)))
        output.append(drawn[-1] % VOCAB)
        if stops and output[-1] == STOP:
            return output, drawn, "stop"
        if len(output) == max_tokens:
            return output, drawn, "length"
        numbers.append(written(numbers, output[-1], tenant))


def spelled(content: Any) -> tuple[Hashable, tuple[int, ...]]:
    """The tenant of a content, and all tokens of its chain."""
    tokens: tuple[int, ...] = ()
    tenant = content.salt
    while content is not None:
        tokens, content = content.tokens + tokens, content.before
    return tenant, tokens


class Watch:
    """The pool's methods, followed by a second book: which blocks should be free, and in which order they should go."""

    def __init__(self, pool: Any) -> None:
        self.pool, self.empty, self.cached = pool, set(range(pool.num_blocks)), []
        self.allocated = 0
        self._take, self._allocate, self._release, self._clear = pool.take, pool.allocate, pool.release, pool.clear
        pool.take, pool.allocate, pool.release, pool.clear = self.take, self.allocate, self.release, self.clear

    def take(self, blocks: Sequence[int], *more: Any) -> None:
        self._take(blocks, *more)
        for block in blocks:
            assert block not in self.empty, f"block {block} is found by its content, which it lost"
            if block in self.cached:
                self.cached.remove(block)

    def allocate(self, n: int) -> list[int]:
        due = self.cached[: max(0, n - len(self.empty))]
        blocks = self._allocate(n)
        assert len(blocks) == len(set(blocks)) == n
        self.allocated += n
        gone = [block for block in blocks if block not in self.empty]
        assert gone == due, f"blocks {gone} given away, {due} were empty or least recently used"
        self.cached = self.cached[len(due) :]
        self.empty -= set(blocks)
        return blocks

    def release(self, blocks: Sequence[int]) -> None:
        self._release(blocks)
        for block in reversed(blocks):
            if self.pool.ref_count[block] == 0:
                if self.pool._content[block] is None:
                    self.empty.add(block)
                else:
                    self.cached.append(block)

    def clear(self) -> None:
        self._clear()
        self.empty |= set(self.cached)
        self.cached = []
