"""Blocks of the KV cache as numbers: who holds which, which are free, and what the full ones contain. No tensors.

A block has room for ``block_size`` tokens. Several requests may hold one block, as
long as nobody writes to it: that is a full block, found again by its content. A
block that nobody holds is free, but keeps its content until it is given away.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Content:
    """What a full block holds: its tokens, and (K and V depend on it) the content of the block before it.

    ``salt`` keeps tenants apart: contents with different salts are never the same.
    """

    tokens: tuple[int, ...]
    before: Content | None
    salt: Hashable
    hash: int

    def same(self, other: Content) -> bool:
        """Compare the tokens of both chains; equal hashes are no proof. Ends where the chains join."""
        a, b = self, other
        while a is not b:
            if a is None or b is None or a.tokens != b.tokens or a.salt != b.salt:
                return False
            a, b = a.before, b.before
        return True


def chain_hash(tokens: tuple[int, ...], before: int | None, salt: Hashable) -> int:
    """Return the hash of a block's tokens, the hash of the block before it and the salt."""
    return hash((before, tokens, salt))


class BlockPool:
    """``num_blocks`` blocks with reference counts, and an index of the full ones by content.

    Counters: allocations, evictions (cached blocks given away), queries and hits
    (full blocks looked for and found), peak (most blocks held at once). Raises
    ValueError for a size below 1.
    """

    def __init__(
        self, num_blocks: int, block_size: int, prefix_caching: bool = True,
        hash_function: Callable[[tuple[int, ...], int | None, Hashable], int] = chain_hash,
    ) -> None:
        for name, value in (("num_blocks", num_blocks), ("block_size", block_size)):
            if value < 1:
                raise ValueError(f"{name}={value} is below 1")
        self.num_blocks, self.block_size, self.prefix_caching = num_blocks, block_size, prefix_caching
        self._hash = hash_function
        self.ref_count = [0] * num_blocks
        self._content: list[Content | None] = [None] * num_blocks
        self._index: dict[int, int] = {}  # hash of a content -> the block that holds it
        self._empty = deque(range(num_blocks))  # free, without content
        self._cached: OrderedDict[int, None] = OrderedDict()  # free, with content: least recently used first
        self.allocations = self.evictions = self.queries = self.hits = self.peak = 0

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds; those with content count, since they can be given away."""
        return len(self._empty) + len(self._cached)

    @property
    def num_in_use(self) -> int:
        """Blocks that somebody holds."""
        return self.num_blocks - self.num_free

    def is_free(self, block: int) -> bool:
        """Return whether nobody holds the block."""
        return self.ref_count[block] == 0

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks this many tokens of one request fill or begin."""
        return -(-tokens // self.block_size)

    def content(self, tokens: Sequence[int], before: Content | None, salt: Hashable = None) -> Content:
        """Return the content of a full block with these tokens behind ``before``. ValueError unless block_size tokens."""
        if len(tokens) != self.block_size:
            raise ValueError(f"{len(tokens)} tokens: only a full block of {self.block_size} has a content")
        tokens = tuple(tokens)
        return Content(tokens, before, salt, self._hash(tokens, before.hash if before else None, salt))

    def match(self, tokens: Sequence[int], salt: Hashable = None) -> tuple[list[int], list[Content]]:
        """Return the blocks (and contents) of the longest cached prefix, in whole blocks. Nothing is taken yet."""
        blocks: list[int] = []
        contents: list[Content] = []
        for i in range(len(tokens) // self.block_size if self.prefix_caching else 0):
            wanted = self.content(tokens[i * self.block_size : (i + 1) * self.block_size], contents[-1] if contents else None, salt)
            block = self._index.get(wanted.hash)
            if block is None or not self._content[block].same(wanted):
                break
            blocks.append(block)
            contents.append(self._content[block])
        return blocks, contents

    def take(self, blocks: Sequence[int], looked_for: int | None = None) -> None:
        """Hold these matched blocks too; looked_for is the number of full blocks that the match was asked for."""
        for block in blocks:
            if self.ref_count[block] == 0:
                del self._cached[block]
            self.ref_count[block] += 1
        self.hits += len(blocks)
        self.queries += len(blocks) if looked_for is None else looked_for
        self.peak = max(self.peak, self.num_in_use)

    def allocate(self, n: int) -> list[int]:
        """Return n blocks for writing, empty ones first, then the least recently used. ValueError if fewer are free."""
        if not 0 <= n <= self.num_free:
            raise ValueError(f"{n} blocks wanted, {self.num_free} are free")
        blocks = []
        for _ in range(n):
            if self._empty:
                block = self._empty.popleft()
            else:
                block, _ = self._cached.popitem(last=False)
                del self._index[self._content[block].hash]
                self._content[block] = None
                self.evictions += 1
            self.ref_count[block] = 1
            blocks.append(block)
        self.allocations += n
        self.peak = max(self.peak, self.num_in_use)
        return blocks

    def register(self, block: int, content: Content) -> Content:
        """Let others find a held block by its content, unless the index has one of the same hash.

        Returns the content to chain the next block to: the index's own if it is the same.
        """
        if not self.prefix_caching:
            return content
        held = self._index.setdefault(content.hash, block)
        if held == block:
            self._content[block] = content
        return self._content[held] if self._content[held].same(content) else content

    def release(self, blocks: Sequence[int]) -> None:
        """Give up one hold on each block. The last goes first: the head of a prefix serves more requests, and stays longest.

        Raises ValueError, before anything changes, for a block that nobody holds.
        """
        for block in blocks:
            if self.ref_count[block] < 1:
                raise ValueError(f"block {block} is released but nobody holds it")
        for block in reversed(blocks):
            self.ref_count[block] -= 1
            if self.ref_count[block] == 0:
                if self._content[block] is None:
                    self._empty.append(block)
                else:
                    self._cached[block] = None

    def clear(self) -> None:
        """Forget the contents of all free blocks: what a benchmark does between two runs."""
        while self._cached:
            block, _ = self._cached.popitem()
            del self._index[self._content[block].hash]
            self._content[block] = None
            self._empty.append(block)
