"""A decoder of the Llama kind in plain torch: RMSNorm, RoPE, grouped-query attention, SwiGLU.

Random weights, no loader. K and V are plain tensors that the caller allocates
(``empty_kv``). Shapes: b sequences, n new tokens, t tokens in reach (cached and
new), H query heads, K key/value heads, d_h numbers in a head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .configs import ModelConfig
from .rope import apply_rope, rope_table

KV = list[tuple[Tensor, Tensor]]
"""K and V of every layer, each [b, K, t, d_h]; the last n slots are for the new tokens."""


def grouped_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return causal attention [b, H, n, d_h] of q [b, H, n, d_h] on k and v [b, K, t, d_h].

    The H/K query heads of a group are rows of one product: K and V are not
    repeated. The queries are the last n of the t positions.
    """
    b, heads, n, d_h = q.shape
    kv_heads, t = k.shape[1], k.shape[2]
    rows = q.reshape(b, kv_heads, heads // kv_heads * n, d_h)
    scores = rows @ k.transpose(-2, -1) / math.sqrt(d_h)  # [b, K, H/K * n, t]
    if n > 1:  # one query sees everything
        unseen = torch.ones(n, t, dtype=torch.bool, device=q.device).triu(t - n + 1)
        scores = scores.view(b, heads, n, t).masked_fill(unseen, -math.inf).view(scores.shape)
    return (scores.softmax(dim=-1) @ v).view(b, heads, n, d_h)


class Block(nn.Module):
    """One pre-norm block: attention, then SwiGLU, each added to the stream."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, bias = config, config.bias == "qkv"
        d, q, kv, f = config.d_model, config.q_width, config.kv_width, config.d_ff
        self.norm1, self.norm2 = (nn.RMSNorm(d, eps=config.norm_eps) for _ in range(2))
        self.q, self.k, self.v = nn.Linear(d, q, bias), nn.Linear(d, kv, bias), nn.Linear(d, kv, bias)
        self.o = nn.Linear(q, d, bias=False)
        self.gate, self.up, self.down = nn.Linear(d, f, False), nn.Linear(d, f, False), nn.Linear(f, d, False)

    def _split(self, x: Tensor) -> Tensor:
        """[b, n, heads * d_h] -> [b, heads, n, d_h]; nothing moves in memory."""
        return x.unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2)

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor], kv: tuple[Tensor, Tensor] | None) -> Tensor:
        """[b, n, d] -> [b, n, d]; kv [b, K, t, d_h] twice: the last n slots are written, all t are read."""
        h, n = self.norm1(x), x.shape[1]
        q, k = apply_rope(self._split(self.q(h)), table), apply_rope(self._split(self.k(h)), table)
        v = self._split(self.v(h))  # [b, K, n, d_h]
        if kv is not None:
            kv[0][:, :, -n:], kv[1][:, :, -n:] = k, v
            k, v = kv
        x = x + self.o(grouped_attention(q, k, v).transpose(1, 2).flatten(2))
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
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        self.head = None if config.tied_embedding else nn.Linear(config.d_model, config.vocab_size, bias=False)

    def compute(self, ids: Tensor, positions: Tensor, kv: KV | None = None, logits: str = "last") -> Tensor:
        """Do forward's work without its checks and counters: what a compiler or a CUDA graph records."""
        x = self.embedding(ids)  # [b, n, d]
        table = rope_table(positions, self.config.head_dim, self.config.rope_theta)
        for i, block in enumerate(self.blocks):
            x = block(x, table, None if kv is None else kv[i])
        x = self.norm(x if logits == "all" else x[:, -1:])
        return F.linear(x, self.embedding.weight if self.head is None else self.head.weight)

    @torch.no_grad()
    def forward(self, ids: Tensor, positions: Tensor | None = None, kv: KV | None = None, logits: str = "last") -> Tensor:
        """Return logits [b, 1, vocab] of the last position, or [b, n, vocab] with logits="all".

        ids [b, n]; positions [n], by default the last n of the t in reach. kv: K and
        V of every layer, the n new tokens' slots last, written in place: a decode
        step at context t has n = 1 and kv of length t. Raises ValueError for shapes that do not fit and another word for logits.
        """
        if ids.dim() != 2 or ids.shape[1] < 1:
            raise ValueError(f"ids has shape {list(ids.shape)}, not [batch, tokens] with a token at least")
        if logits not in ("last", "all"):
            raise ValueError(f"logits={logits!r} is not one of last, all")
        (b, n), c = ids.shape, self.config
        reach = n if kv is None else kv[0][0].shape[2]
        shape = (b, c.n_kv_heads, reach, c.head_dim)
        if kv is not None and (len(kv) != c.n_layers or reach < n or any(x.shape != shape for pair in kv for x in pair)):
            raise ValueError(f"kv is not K and V of {list(shape)}, {n} slots or more, for {c.n_layers} layers")
        if positions is None:
            positions = torch.arange(reach - n, reach, device=ids.device)
        if positions.shape != (n,):
            raise ValueError(f"positions has shape {list(positions.shape)}, not [{n}]")
        self.tokens, self.steps = self.tokens + b * n, self.steps + 1
        return self.compute(ids, positions, kv, logits)


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


def empty_kv(
    config: ModelConfig, batch: int, tokens: int, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> KV:
    """Return K and V of zeros, [batch, K, tokens, d_h], for every layer; raises ValueError for a size below 1."""
    if batch < 1 or tokens < 1:
        raise ValueError(f"batch={batch} and tokens={tokens} must be at least 1")
    shape = (batch, config.n_kv_heads, tokens, config.head_dim)
    return [tuple(torch.zeros(shape, dtype=dtype, device=device) for _ in range(2)) for _ in range(config.n_layers)]
