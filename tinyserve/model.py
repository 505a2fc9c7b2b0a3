"""A decoder of the Llama kind in plain torch: RMSNorm, RoPE, grouped-query attention, SwiGLU.

Weights come from ``build`` (random) or ``checkpoint.load``; K and V go to a cache of
``kv_cache``, which does the attention. Shapes: b sequences, n new tokens, H query
heads, K key/value heads, d_h numbers in a head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .configs import ModelConfig
from .kv_cache import KVCache, Uncached
from .rope import apply_rope, rope_table


class Block(nn.Module):
    """One pre-norm block: attention, then SwiGLU, each added to the stream."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.config, self.layer, bias = config, layer, config.bias == "qkv"
        d, q, kv, f = config.d_model, config.q_width, config.kv_width, config.d_ff
        self.norm1, self.norm2 = (nn.RMSNorm(d, eps=config.norm_eps) for _ in range(2))
        self.q, self.k, self.v = nn.Linear(d, q, bias), nn.Linear(d, kv, bias), nn.Linear(d, kv, bias)
        self.o = nn.Linear(q, d, bias=False)
        self.gate, self.up, self.down = nn.Linear(d, f, False), nn.Linear(d, f, False), nn.Linear(f, d, False)

    def _split(self, x: Tensor) -> Tensor:
        """[b, n, heads * d_h] -> [b, heads, n, d_h]; nothing moves in memory."""
        return x.unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2)

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor], cache: KVCache) -> Tensor:
        """[b, n, d] -> [b, n, d]; this layer's K and V [b, K, n, d_h] go to the cache."""
        h = self.norm1(x)
        q, k = apply_rope(self._split(self.q(h)), table), apply_rope(self._split(self.k(h)), table)
        a = cache.attend(self.layer, q, k, self._split(self.v(h)))  # [b, H, n, d_h]
        x = x + self.o(a.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    """Token ids to logits. ``tokens`` counts what ran through the model, ``steps`` how often it ran."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        for name, value, known in (
            ("ffn", config.ffn, ("swiglu",)), ("norm", config.norm, ("rmsnorm",)), ("bias", config.bias, ("none", "qkv")),
            ("learned_positions", config.learned_positions, (0,)), ("final_norm", config.final_norm, (True,)),
        ):
            if value not in known:
                raise ValueError(f"{name}={value!r}: this decoder has {known[0]!r} only")
        if config.rope_theta is None:
            raise ValueError("rope_theta=None: this decoder's positions are rotary")
        self.config, self.tokens, self.steps = config, 0, 0
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.n_layers))
        self.norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        self.head = None if config.tied_embedding else nn.Linear(config.d_model, config.vocab_size, bias=False)

    def compute(self, ids: Tensor, positions: Tensor, cache: KVCache, logits: str | Tensor = "last") -> Tensor:
        """Do forward's work without its checks and counters: what training, a compiler or a CUDA graph records."""
        c = self.config
        x = self.embedding(ids)  # [b, n, d]
        table = rope_table(positions, c.head_dim, c.rope_theta, c.rope_scaling)
        for block in self.blocks:
            x = block(x, table, cache)
        if isinstance(logits, Tensor):
            x = x[:, logits]
        elif logits == "last":
            x = x[:, -1:]
        x = self.norm(x)
        return F.linear(x, self.embedding.weight) if self.head is None else self.head(x)

    @torch.no_grad()
    def forward(
        self, ids: Tensor, positions: Tensor | None = None, cache: KVCache | None = None, logits: str | Tensor = "last"
    ) -> Tensor:
        """Return logits [b, 1, vocab] of the last position, [b, n, vocab] with logits="all", [b, m, vocab] of m indices.

        ids [b, n] are the new tokens; those before them are in the cache, which takes
        up the new ones. positions [n]: by default the n that follow the cache's. Raises
        ValueError for shapes that do not fit, ids outside the vocabulary and another word for logits.
        """
        if ids.dim() != 2 or ids.shape[1] < 1:
            raise ValueError(f"ids has shape {list(ids.shape)}, not [batch, tokens] with a token at least")
        if not isinstance(logits, Tensor) and logits not in ("last", "all"):
            raise ValueError(f"logits={logits!r} is not one of last, all, or indices of tokens")
        if not ids.is_meta and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.config.vocab_size:
            raise ValueError(f"ids from {int(ids.min())} to {int(ids.max())} are not all in 0 .. {self.config.vocab_size - 1}")
        (b, n), cache = ids.shape, Uncached() if cache is None else cache
        if positions is None:
            positions = torch.arange(cache.length, cache.length + n, device=ids.device)
        if positions.shape != (n,):
            raise ValueError(f"positions has shape {list(positions.shape)}, not [{n}]")
        found = self.compute(ids, positions, cache, logits)
        cache.advance(n)
        self.tokens, self.steps = self.tokens + b * n, self.steps + 1
        return found


def build(
    config: ModelConfig, device: str = "cpu", dtype: torch.dtype = torch.float32, std: float = 0.02, seed: int = 0
) -> Decoder:
    """Return a decoder with normal random matrices of this standard deviation, and norms of ones.

    On "meta" it has no numbers. Raises ValueError for std not above 0 or an uncovered config.
    """
    if not std > 0:
        raise ValueError(f"std={std!r} is not above 0")
    with torch.device("meta"):
        model = Decoder(config).to(dtype)
    if device == "meta":
        return model.requires_grad_(False)
    model = model.to_empty(device=device).requires_grad_(False)
    generator = torch.Generator(device=device).manual_seed(seed)
    for name, parameter in model.named_parameters():
        parameter.fill_(1.0 if "norm" in name else 0.0)
        if parameter.dim() == 2:
            parameter.normal_(std=std, generator=generator)
    return model
