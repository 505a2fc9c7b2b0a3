"""Multi-head latent attention (MLA): one short vector per token stands for the keys and values of all heads.

DeepSeek-AI 2024, arXiv 2405.04434, section 2.1, without the compression of the
queries. Shapes: b sequences, n new tokens, t tokens in memory (the new ones are
the last n), H heads of d_h numbers, latent width d_c, rotary width d_R. There is
no loader and no decoder: this file is attention and its cache alone.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .attention import causal_mask
from .rope import apply_rope, rope_table


class LatentAttention(nn.Module):
    """Attention of one layer, in two forms that give the same result.

    ``expanded`` forms every head's K and V from the latent, as in training and
    prefill; ``absorbed`` never does: it moves the queries into the latent space
    and reads the memory as it lies. Raises ValueError for a size below 1 and an
    odd rope_dim.
    """

    def __init__(
        self, d_model: int, n_heads: int, head_dim: int, latent_dim: int, rope_dim: int, theta: float = 10_000.0, eps: float = 1e-6
    ) -> None:
        super().__init__()
        sizes = {"d_model": d_model, "n_heads": n_heads, "head_dim": head_dim, "latent_dim": latent_dim, "rope_dim": rope_dim}
        for name, value in sizes.items():
            if value < 1:
                raise ValueError(f"{name}={value} is below 1")
        if rope_dim % 2:
            raise ValueError(f"rope_dim={rope_dim} is odd: RoPE turns pairs of numbers")
        self.n_heads, self.head_dim, self.latent_dim, self.rope_dim, self.theta = n_heads, head_dim, latent_dim, rope_dim, theta
        self.scale = 1 / math.sqrt(head_dim + rope_dim)
        self.q, self.q_rope = nn.Linear(d_model, n_heads * head_dim, False), nn.Linear(d_model, n_heads * rope_dim, False)
        self.down, self.k_rope = nn.Linear(d_model, latent_dim, False), nn.Linear(d_model, rope_dim, False)
        self.norm = nn.RMSNorm(latent_dim, eps=eps)
        self.up_k, self.up_v = (nn.Linear(latent_dim, n_heads * head_dim, False) for _ in range(2))
        self.o = nn.Linear(n_heads * head_dim, d_model, False)

    def remember(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return what the cache keeps of tokens x [b, n, d] at positions [n]: [b, n, d_c + d_R].

        The latent after its norm, and one rotary key for all heads.
        """
        turned = apply_rope(self.k_rope(x), rope_table(positions, self.rope_dim, self.theta))
        return torch.cat((self.norm(self.down(x)), turned), dim=-1)

    def _queries(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the queries' content part [b, H, n, d_h] and rotary part [b, H, n, d_R]."""
        content, rope = (layer(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for layer in (self.q, self.q_rope))
        return content, apply_rope(rope, rope_table(positions, self.rope_dim, self.theta))

    def _check(self, x: Tensor, memory: Tensor) -> None:
        """Raise ValueError unless memory is [b, t, d_c + d_R] with t of at least n."""
        width = self.latent_dim + self.rope_dim
        if memory.dim() != 3 or memory.shape[0] != x.shape[0] or memory.shape[2] != width or memory.shape[1] < x.shape[1]:
            raise ValueError(f"memory has shape {list(memory.shape)}, not [{x.shape[0]}, {x.shape[1]} or more, {width}]")

    def _weights(self, scores: Tensor) -> Tensor:
        """Return the causal softmax of scores [b, H, n, t], scaled."""
        allowed = causal_mask(scores.shape[2], scores.shape[3], scores.device)
        return (scores * self.scale).masked_fill(~allowed, -math.inf).softmax(dim=-1)

    def expanded(self, x: Tensor, positions: Tensor, memory: Tensor) -> Tensor:
        """Return attention [b, n, d] of x [b, n, d] on memory [b, t, d_c + d_R], through K and V of every head."""
        self._check(x, memory)
        latent, turned = memory.split((self.latent_dim, self.rope_dim), dim=-1)
        k, v = (up(latent).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for up in (self.up_k, self.up_v))  # [b, H, t, d_h]
        content, rope = self._queries(x, positions)
        scores = content @ k.transpose(-2, -1) + rope @ turned[:, None].transpose(-2, -1)
        return self.o((self._weights(scores) @ v).transpose(1, 2).flatten(2))

    def absorbed(self, x: Tensor, positions: Tensor, memory: Tensor) -> Tensor:
        """Return the same [b, n, d] without K or V: up_k is applied to the query, up_v to the weighted latent."""
        self._check(x, memory)
        latent, turned = memory.split((self.latent_dim, self.rope_dim), dim=-1)
        up_k, up_v = (up.weight.unflatten(0, (self.n_heads, -1)) for up in (self.up_k, self.up_v))  # [H, d_h, d_c]
        content, rope = self._queries(x, positions)
        moved = torch.einsum("bhnd,hdc->bhnc", content, up_k)  # queries in the latent space
        scores = moved @ latent[:, None].transpose(-2, -1) + rope @ turned[:, None].transpose(-2, -1)
        found = self._weights(scores) @ latent[:, None]  # [b, H, n, d_c]
        return self.o(torch.einsum("bhnc,hdc->bhnd", found, up_v).transpose(1, 2).flatten(2))


class LatentCache:
    """What MLA keeps of one layer: [b, max_tokens, d_c + d_R], allocated beforehand. ``length`` tokens are held."""

    def __init__(self, layer: LatentAttention, batch: int, max_tokens: int, dtype: torch.dtype = torch.float32) -> None:
        for name, value in (("batch", batch), ("max_tokens", max_tokens)):
            if value < 1:
                raise ValueError(f"{name}={value} is below 1")
        self.memory = torch.zeros(batch, max_tokens, layer.latent_dim + layer.rope_dim, dtype=dtype)
        self.length = 0

    @property
    def nbytes(self) -> int:
        """Bytes allocated, filled or not."""
        return self.memory.nbytes

    def append(self, new: Tensor) -> Tensor:
        """Store what `remember` gave for n tokens; return everything held, [b, length, d_c + d_R], as a view."""
        end = self.length + new.shape[1]
        if new.shape[0] != self.memory.shape[0] or new.shape[2] != self.memory.shape[2] or end > self.memory.shape[1]:
            raise ValueError(f"new has shape {list(new.shape)}; {self.length} tokens of {list(self.memory.shape)} are held")
        self.memory[:, self.length : end] = new
        self.length = end
        return self.memory[:, :end]
