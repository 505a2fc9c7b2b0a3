"""The KV cache: K and V of the tokens that went through the model, kept per layer.

A cache is whatever the decoder can hand its new K and V to: it stores them and
answers with attention over everything it holds. Shapes: b sequences, n new
tokens, t tokens in reach (held and new), H query heads, K key/value heads, d_h
numbers in a head. In the first caches all sequences have the same length; in a
PagedCache each request has its own, and its tokens lie in blocks of a pool (the
numbers of the blocks, and who holds them, are ``block_pool``'s business).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from .attention import grouped_attention, paged_attention
from .configs import ModelConfig

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
"""q [b, H, n, d_h], k and v [b, K, t, d_h] -> [b, H, n, d_h]; the queries are the last n positions."""


class KVCache(Protocol):
    """What the decoder asks of a cache. ``length`` is the number of tokens it holds of each sequence."""

    length: int

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store k and v [b, K, n, d_h] of the n new tokens; return attention [b, H, n, d_h] of q over all tokens."""

    def advance(self, n: int) -> None:
        """Count the n new tokens as held, after every layer has stored them."""


class Uncached:
    """No cache: attention over the new tokens alone, by the function given. Nothing is kept."""

    length = 0

    def __init__(self, attention: Attention = grouped_attention) -> None:
        self.attention = attention

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return attention of the new tokens on each other."""
        return self.attention(q, k, v)

    def advance(self, n: int) -> None:
        """Keep nothing."""


def _count_bytes(cache: ContiguousCache | GrowingCache, k: Tensor, v: Tensor) -> None:
    """Count k and v as written. Not in a compiled step: the compiler would guard the counter's value, and compile every step anew."""
    if not torch.compiler.is_compiling():
        cache.bytes_copied += k.nbytes + v.nbytes


class ContiguousCache:
    """K and V in one block allocated beforehand, [n_layers, b, K, max_tokens, d_h] each.

    tokens_appended counts tokens times sequences; bytes_copied the bytes of K and V
    written, which is only the new tokens' own; a compiled step counts no bytes. Raises ValueError for a size below 1.
    """

    def __init__(
        self, config: ModelConfig, batch: int, max_tokens: int,
        device: str = "cpu", dtype: torch.dtype = torch.float32, attention: Attention = grouped_attention,
    ) -> None:
        for name, value in (("batch", batch), ("max_tokens", max_tokens)):
            if value < 1:
                raise ValueError(f"{name}={value} is below 1")
        shape = (config.n_layers, batch, config.n_kv_heads, max_tokens, config.head_dim)
        self.k, self.v = (torch.zeros(shape, device=device, dtype=dtype) for _ in range(2))
        self.attention, self.length, self.tokens_appended, self.bytes_copied = attention, 0, 0, 0

    @property
    def max_tokens(self) -> int:
        """Tokens of each sequence that fit."""
        return self.k.shape[3]

    @property
    def nbytes(self) -> int:
        """Bytes allocated, filled or not."""
        return self.k.nbytes + self.v.nbytes

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write k and v behind what is held and attend over both; raise ValueError for what does not fit."""
        wanted = (self.k.shape[1], self.k.shape[2], k.shape[2], self.k.shape[4])
        if tuple(k.shape) != wanted:
            raise ValueError(f"k has shape {list(k.shape)}; this cache takes {list(wanted)}")
        end = self.length + k.shape[2]
        if end > self.max_tokens:
            raise ValueError(f"{self.length} tokens held and {k.shape[2]} new ones exceed max_tokens={self.max_tokens}")
        self.k[layer, :, :, self.length : end] = k
        self.v[layer, :, :, self.length : end] = v
        _count_bytes(self, k, v)
        return self.attention(q, self.k[layer, :, :, :end], self.v[layer, :, :, :end])

    def advance(self, n: int) -> None:
        """Count n tokens more of every sequence as held."""
        self.length += n
        self.tokens_appended += n * self.k.shape[1]

    def truncate(self, length: int) -> None:
        """Hold only the first length tokens; the bytes stay where they are. Raises ValueError above the present length."""
        if not 0 <= length <= self.length:
            raise ValueError(f"length={length} is not between 0 and the {self.length} tokens held")
        self.length = length


class GrowingCache:
    """The naive cache: every step allocates K and V anew, one token longer, and copies the old ones over.

    Counters as in ContiguousCache; bytes_copied holds the old tokens' bytes as well.
    """

    def __init__(self, config: ModelConfig, attention: Attention = grouped_attention) -> None:
        self.layers: list[tuple[Tensor, Tensor] | None] = [None] * config.n_layers
        self.attention, self.length, self.tokens_appended, self.bytes_copied = attention, 0, 0, 0

    @property
    def nbytes(self) -> int:
        """Bytes allocated between two steps."""
        return sum(k.nbytes + v.nbytes for k, v in filter(None, self.layers))

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Concatenate, keep the result, attend over it."""
        held = self.layers[layer]
        if held is not None:
            k, v = torch.cat((held[0], k), dim=2), torch.cat((held[1], v), dim=2)
        self.layers[layer] = (k, v)
        _count_bytes(self, k, v)
        return self.attention(q, k, v)

    def advance(self, n: int) -> None:
        """Count n tokens more of every sequence as held."""
        self.length += n
        self.tokens_appended += n * self.layers[0][0].shape[0]


class PagedCache:
    """K and V in ``num_blocks`` blocks of ``block_size`` tokens: kv [n_layers, 2, K, num_blocks, block_size * d_h].

    A request's tokens lie in whichever blocks its table names. The counters are
    ContiguousCache's, and bytes_gathered: what attention copies together, the padding
    included. Raises ValueError for a size below 1.
    """

    def __init__(
        self, config: ModelConfig, num_blocks: int, block_size: int, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        for name, value in (("num_blocks", num_blocks), ("block_size", block_size)):
            if value < 1:
                raise ValueError(f"{name}={value} is below 1")
        shape = (config.n_layers, 2, config.n_kv_heads, num_blocks, block_size * config.head_dim)
        self.config, self.block_size = config, block_size
        self.kv = torch.zeros(shape, device=device, dtype=dtype)
        by_token = self.kv.view(*shape[:3], -1, config.head_dim)
        self.layers = [(pool.flatten(0, 1), k, v) for pool, (k, v) in zip(self.kv, by_token, strict=True)]  # by blocks, and by tokens
        self.block_bytes = self.kv[0, :, :, 0].nbytes  # of one layer
        self._steps = np.repeat(np.float32([0, -np.inf]), num_blocks * block_size)
        self.tokens_appended = self.bytes_copied = self.bytes_gathered = 0

    @property
    def nbytes(self) -> int:
        """Bytes allocated, filled or not."""
        return self.kv.nbytes

    def unseen(self, t: int) -> np.ndarray:
        """Return the mask [tokens of the pool, t] of one query: row p is 0 for the keys 0 .. p and -inf for those behind, in float32.

        All rows are windows on the same numbers: nothing is computed, and no row has memory of its own.
        """
        rows = len(self._steps) // 2
        return np.ndarray((rows, t), np.float32, self._steps, offset=4 * (rows - 1), strides=(-4, 4))

    def batch(self, block_tables: Sequence[Sequence[int]], starts: Sequence[int], counts: Sequence[int]) -> PagedBatch:
        """Return the cache of one step: request i has starts[i] tokens and gets counts[i] more.

        The counts must not decrease: the requests of one count are computed together.
        Raises ValueError if they do, and if a table has no block for a new token.
        """
        for table, start, count in zip(block_tables, starts, counts, strict=True):
            if len(table) * self.block_size < start + count or count < 1:
                raise ValueError(f"{len(table)} blocks of {self.block_size} have no room for {count} tokens after {start}")
        if list(counts) != sorted(counts):
            raise ValueError(f"counts={list(counts)} decrease")
        return PagedBatch(self, block_tables, starts, counts)


class PagedBatch:
    """One step over a PagedCache, for a model that sees the new tokens of all requests as one sequence [1, N].

    ``positions`` [N] and ``last`` (one for a request): each token's place in its request, and each request's last token in N.
    """

    length = 0  # of no use here: positions are each request's own

    def __init__(
        self, cache: PagedCache, block_tables: Sequence[Sequence[int]], starts: Sequence[int], counts: Sequence[int]
    ) -> None:
        self.cache, size = cache, cache.block_size
        spans = [(table, start, start + n) for table, start, n in zip(block_tables, starts, counts, strict=True)]
        positions = [p for _, start, end in spans for p in range(start, end)]
        places = np.array([positions, [table[p // size] * size + p % size for table, start, end in spans for p in range(start, end)]])
        on_device = self._tensor(places)
        self.positions, self.slots = on_device[0], on_device[1]
        self.last = [total - 1 for total in itertools.accumulate(counts)]
        self.groups = []  # (first token, token behind the last, blocks, unseen)
        first = row = 0
        for n, same in itertools.groupby(counts):
            r = len(list(same))
            some, end = spans[row : row + r], first + r * n
            self.groups.append((first, end, *self._group(some, places[0, first:end].reshape(r, 1, n))))
            first, row = end, row + r
        # Attention reads the unfilled rest of a block, with weight 0; but 0 times a NaN that someone left there is NaN.
        blank = [table[end // size] for table, start, end in spans if end % size and end // size * size >= start]
        if blank:
            cache.kv.index_fill_(3, self._tensor(np.array(blank)), 0)

    def _tensor(self, array: np.ndarray, dtype: torch.dtype | None = None) -> Tensor:
        """Return an array as a tensor on the cache's device. A step needs many small ones, and numpy makes them faster."""
        return torch.from_numpy(array).to(self.cache.kv.device, dtype)

    def _group(self, spans: Sequence[tuple[Sequence[int], int, int]], positions: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return blocks and unseen, as paged_attention wants them, of r requests (table, start, end) with n new tokens each; positions [r, 1, n]."""
        c, size, n = self.cache.config, self.cache.block_size, positions.shape[2]
        used = [-(-end // size) for _, _, end in spans]
        m = max(used)  # a shorter table is filled up with its last block that holds a token: what others left behind it is not to be read
        blocks = [block for (table, _, _), u in zip(spans, used, strict=True) for block in [*table[:u], *table[u - 1 : u] * (m - u)]]
        shape = c.n_kv_heads, len(spans), 1 if n == 1 else c.n_heads // c.n_kv_heads, n
        unseen = self.cache.unseen(m * size)[positions + np.zeros(shape, np.int64)].reshape(shape[0] * shape[1], -1, m * size)
        return self._tensor(np.array(blocks)), self._tensor(unseen, self.cache.kv.dtype)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write k and v [1, K, N, d_h] to the slots of their blocks, then attend, the requests of one count together."""
        pool, held_k, held_v = self.cache.layers[layer]
        held_k.index_copy_(1, self.slots, k[0])
        held_v.index_copy_(1, self.slots, v[0])
        self.cache.bytes_copied += k.nbytes + v.nbytes
        found = []
        for first, end, blocks, unseen in self.groups:
            found.append(paged_attention(q[0, :, first:end], pool, blocks, unseen))
            self.cache.bytes_gathered += len(blocks) * self.cache.block_bytes
        return (found[0] if len(found) == 1 else torch.cat(found)).transpose(0, 1)[None]

    def advance(self, n: int) -> None:
        """Count the step's tokens."""
        self.cache.tokens_appended += n
