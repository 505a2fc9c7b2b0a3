"""A decoder on torch's meta device, built from a ModelConfig with plain modules.

It has shapes and no numbers, so a 70B model costs nothing: tests compare what
the cost model says with what these tensors are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tinyserve.attention import naive_attention
from tinyserve.configs import ModelConfig


def _norm(config: ModelConfig) -> nn.Module:
    kind = nn.RMSNorm if config.norm == "rmsnorm" else nn.LayerNorm
    return kind(config.d_model, eps=config.norm_eps)


class Block(nn.Module):
    """One pre-norm block; RoPE is left out (it has no weights and no matrix product)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        d, q, kv, f = config.d_model, config.q_width, config.kv_width, config.d_ff
        qkv, out, ffn = (config.bias in kinds for kinds in (("qkv", "all"), ("all",), ("ffn", "all")))
        self.norm_1, self.norm_2 = _norm(config), _norm(config)
        self.q, self.k, self.v = nn.Linear(d, q, qkv), nn.Linear(d, kv, qkv), nn.Linear(d, kv, qkv)
        self.o = nn.Linear(q, d, out)
        self.gate = nn.Linear(d, f, ffn) if config.ffn == "swiglu" else None
        self.up, self.down = nn.Linear(d, f, ffn), nn.Linear(f, d, ffn)

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        c, (b, n, _) = self.config, x.shape
        h = self.norm_1(x)
        q = self.q(h).view(b, n, c.n_heads, c.head_dim).transpose(1, 2)
        k = self.k(h).view(b, n, c.n_kv_heads, c.head_dim).transpose(1, 2)
        v = self.v(h).view(b, n, c.n_kv_heads, c.head_dim).transpose(1, 2)
        if cache is not None:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        x = x + self.o(naive_attention(q, k, v, causal=True).transpose(1, 2).reshape(b, n, c.q_width))
        h = self.norm_2(x)
        inner = self.up(h) if self.gate is None else nn.functional.silu(self.gate(h)) * self.up(h)
        return x + self.down(inner), (k, v)


class Decoder(nn.Module):
    """Token ids to the logits of the last position, or of all."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = nn.Embedding(config.learned_positions, config.d_model) if config.learned_positions else None
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = _norm(config) if config.final_norm else nn.Identity()
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tied_embedding:
            self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor, caches: list | None = None, logits: str = "last") -> tuple[Tensor, list]:
        x = self.embedding(ids)
        if self.positions is not None:
            x = x + self.positions(torch.zeros_like(ids))
        new = []
        for i, block in enumerate(self.blocks):
            x, cache = block(x, caches[i] if caches else None)
            new.append(cache)
        return self.head(self.norm(x if logits == "all" else x[:, -1:])), new


def build(config: ModelConfig, dtype: torch.dtype = torch.bfloat16) -> Decoder:
    """Return the decoder on the meta device."""
    with torch.device("meta"):
        return Decoder(config).to(dtype)


def empty_cache(config: ModelConfig, tokens: int, batch: int = 1, dtype: torch.dtype = torch.bfloat16) -> list:
    """Return K and V of every layer, [batch, n_kv_heads, tokens, head_dim], on the meta device."""
    shape = (batch, config.n_kv_heads, tokens, config.head_dim)
    return [tuple(torch.empty(shape, dtype=dtype, device="meta") for _ in range(2)) for _ in range(config.n_layers)]
