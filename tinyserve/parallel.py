"""One model on several ranks: weights cut by columns and rows, sums over the ranks, every byte counted.

The same forward pass runs in two ways. ``Together`` holds all ranks in one process
and adds their parts; ``ProcessGroup`` holds one rank and asks torch.distributed
(``tinyserve.processes`` starts such processes). Shapes: b sequences, n new tokens,
N ranks, rank r.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn import functional as F

from .configs import ModelConfig
from .costs import all_gather_bytes, all_reduce_bytes
from .kv_cache import ContiguousCache
from .model import Decoder
from .rope import apply_rope, rope_table


def columns(weight: Tensor, rank: int, ranks: int) -> Tensor:
    """Return rank's part of W [out, in] cut by outputs: each rank computes some of y = W x, from the whole x.

    (Columns of W^T, as the papers write x W.) Raises ValueError for outputs that ranks does not divide.
    """
    if weight.shape[0] % ranks:
        raise ValueError(f"{weight.shape[0]} outputs are not a multiple of ranks={ranks}")
    return weight.chunk(ranks, 0)[rank].contiguous()


def rows(weight: Tensor, rank: int, ranks: int) -> Tensor:
    """Return rank's part of W [out, in] cut by inputs: from its part of x each rank computes a summand of all of y.

    Raises ValueError for inputs that ranks does not divide.
    """
    if weight.shape[1] % ranks:
        raise ValueError(f"{weight.shape[1]} inputs are not a multiple of ranks={ranks}")
    return weight.chunk(ranks, 1)[rank].contiguous()


def shard_config(config: ModelConfig, ranks: int) -> ModelConfig:
    """Return the shape of one rank's part: heads and d_ff divided; KV heads too, down to one that several ranks copy.

    Raises ValueError where the heads, d_ff or the vocabulary do not divide.
    """
    for name in ("n_heads", "d_ff", "vocab_size"):
        if getattr(config, name) % ranks:
            raise ValueError(f"{name}={getattr(config, name)} is not a multiple of ranks={ranks}")
    kv = config.n_kv_heads
    if kv % ranks and ranks % kv:
        raise ValueError(f"ranks={ranks} neither divides n_kv_heads={kv} nor is a multiple of it")
    return replace(
        config, n_heads=config.n_heads // ranks, n_kv_heads=max(1, kv // ranks), d_ff=config.d_ff // ranks, tied_embedding=False
    )


def kv_columns(weight: Tensor, config: ModelConfig, rank: int, ranks: int) -> Tensor:
    """Return rank's part of W_k or W_v: its own KV heads, or a copy of the one its query heads read."""
    kv = config.n_kv_heads
    return columns(weight, rank, ranks) if kv >= ranks else columns(weight, rank * kv // ranks, kv)


def shard(decoder: Decoder, rank: int, ranks: int) -> Decoder:
    """Return rank's decoder: Q, K, V, gate, up and head cut by columns, O and down by rows, embedding and norms whole.

    A tied head is cut from the embedding, and then a matrix of its own. Raises ValueError
    for a model with biases, and as shard_config.
    """
    config = decoder.config
    if config.bias != "none":
        raise ValueError(f"bias={config.bias!r}: only models without biases are cut here")
    with torch.device("meta"):
        part = Decoder(shard_config(config, ranks))
        part.head = nn.Linear(config.d_model, config.vocab_size // ranks, bias=False)
    whole, state = decoder.state_dict(), {}
    whole.setdefault("head.weight", whole["embedding.weight"])
    for name, weight in whole.items():
        kind = name.split(".")[-2]
        if kind in ("q", "gate", "up", "head"):
            weight = columns(weight, rank, ranks)
        elif kind in ("k", "v"):
            weight = kv_columns(weight, config, rank, ranks)
        elif kind in ("o", "down"):
            weight = rows(weight, rank, ranks)
        state[name] = weight
    part.load_state_dict(state, assign=True)
    return part.requires_grad_(False)


@dataclass
class Traffic:
    """What one rank sent, as a ring would: collectives of each kind and bytes of all."""

    all_reduces: int = 0
    all_gathers: int = 0
    sent: float = 0.0


class Group(Protocol):
    """Ranks that add and gather. Lists hold the local ranks' tensors: all of them, or one."""

    ranks: int
    traffic: Traffic

    def all_reduce(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the sum of all ranks' tensors."""

    def all_gather(self, parts: Sequence[Tensor]) -> Tensor:
        """Return all ranks' tensors side by side along the last axis."""


class Together:
    """All ranks in one process: nothing moves, and what would have moved is counted."""

    def __init__(self, ranks: int) -> None:
        self.ranks, self.traffic = ranks, Traffic()

    def all_reduce(self, parts: Sequence[Tensor]) -> Tensor:
        """Add the parts in the order of the ranks."""
        self.traffic.all_reduces += 1
        self.traffic.sent += all_reduce_bytes(parts[0].nbytes, self.ranks)
        return torch.stack(list(parts)).sum(0)

    def all_gather(self, parts: Sequence[Tensor]) -> Tensor:
        """Join the parts."""
        joined = torch.cat(list(parts), -1)
        self.traffic.all_gathers += 1
        self.traffic.sent += all_gather_bytes(joined.nbytes, self.ranks)
        return joined


class ProcessGroup:
    """One rank in this process, the others in theirs: torch.distributed, initialised beforehand."""

    def __init__(self) -> None:
        self.ranks, self.traffic = torch.distributed.get_world_size(), Traffic()

    def all_reduce(self, parts: Sequence[Tensor]) -> Tensor:
        """Sum over the processes, in place."""
        (part,) = parts
        torch.distributed.all_reduce(part)
        self.traffic.all_reduces += 1
        self.traffic.sent += all_reduce_bytes(part.nbytes, self.ranks)
        return part

    def all_gather(self, parts: Sequence[Tensor]) -> Tensor:
        """Collect from the processes and join."""
        (part,) = parts
        found = [torch.empty_like(part) for _ in range(self.ranks)]
        torch.distributed.all_gather(found, part.contiguous())
        joined = torch.cat(found, -1)
        self.traffic.all_gathers += 1
        self.traffic.sent += all_gather_bytes(joined.nbytes, self.ranks)
        return joined


@torch.no_grad()
def forward(parts: Sequence[Decoder], caches: Sequence[ContiguousCache], group: Group, ids: Tensor) -> Tensor:
    """Run ids [b, n] through the local parts and return logits [b, 1, vocab] of the last position.

    Two all-reduces a layer and one gather of the logits. Each part has its own cache of its own KV heads.
    """
    first, held, n = parts[0], caches[0].length, ids.shape[1]
    config = first.config
    table = rope_table(torch.arange(held, held + n), config.head_dim, config.rope_theta, config.rope_scaling)
    x = first.embedding(ids)  # [b, n, d], whole on every rank
    for layer in range(config.n_layers):
        x = x + group.all_reduce([_attention(part, cache, layer, x, table) for part, cache in zip(parts, caches)])
        x = x + group.all_reduce([_feed_forward(part, layer, x) for part in parts])
    for cache in caches:
        cache.advance(n)
    last = first.norm(x[:, -1:])
    return group.all_gather([part.head(last) for part in parts])


def _attention(part: Decoder, cache: ContiguousCache, layer: int, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Return this rank's summand of the attention output [b, n, d]."""
    block, head_dim = part.blocks[layer], part.config.head_dim
    h = block.norm1(x)
    q, k, v = (w(h).unflatten(-1, (-1, head_dim)).transpose(1, 2) for w in (block.q, block.k, block.v))
    a = cache.attend(layer, apply_rope(q, table), apply_rope(k, table), v)
    return block.o(a.transpose(1, 2).flatten(2))


def _feed_forward(part: Decoder, layer: int, x: Tensor) -> Tensor:
    """Return this rank's summand of the feed-forward output [b, n, d]."""
    block = part.blocks[layer]
    h = block.norm2(x)
    return block.down(F.silu(block.gate(h)) * block.up(h))


def partial_attention(q: Tensor, k: Tensor, v: Tensor, start: int, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Attend q [b, H, n, d_h] to one rank's part of the context, k and v [b, H, m, d_h] from position start on.

    positions [n] are the queries'. Returns the normalised sum [b, H, n, d_h] and the
    logarithm of its weights' sum [b, H, n, 1]; -inf where nothing is visible.
    """
    seen = torch.arange(start, start + k.shape[2]) <= positions[:, None]
    scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~seen, float("-inf"))
    total = scores.logsumexp(-1, keepdim=True)
    return (scores - total.nan_to_num(neginf=0.0)).exp() @ v, total


def merge_attention(parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Return attention over the whole context from the ranks' (sum, logarithm) pairs: a softmax over the logarithms weighs them."""
    sums, totals = (torch.stack(list(x)) for x in zip(*parts))
    return (totals.softmax(0) * sums).sum(0)
