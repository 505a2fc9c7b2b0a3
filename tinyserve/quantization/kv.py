"""A KV cache that keeps whole groups of tokens as small codes, and the last few tokens as they came.

Keys have channels that are large in every token, so their scales belong to
channels; values do not, so theirs belong to tokens: Liu et al. 2024 (KIVI),
arXiv 2402.02750. A group of keys can be coded only when all its tokens are there:
hence the uncoded rest.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..attention import grouped_attention
from ..configs import ModelConfig
from .floats import E4M3, fp8
from .integers import Stored, absmax, affine

Coder = Callable[[Tensor], Stored]
"""K or V of one group of tokens, [b, K, group, d_h], to its stored form."""


def per_channel(bits: int) -> Coder:
    """Codes between minimum and maximum, one scale for every channel over the tokens of a group."""
    return lambda x: affine(x, bits, dim=2, exact_zero=False)


def per_token(bits: int) -> Coder:
    """Codes between minimum and maximum, one scale for every token (of a head) over its channels."""
    return lambda x: affine(x, bits, dim=3, exact_zero=False)


CODERS: dict[str, tuple[Coder, Coder]] = {
    "int8": (lambda x: absmax(x, 8, dim=2), lambda x: absmax(x, 8, dim=3)),
    "fp8": (lambda x: fp8(x, E4M3), lambda x: fp8(x, E4M3)),
    "int4": (per_channel(4), per_token(4)),
    "int2": (per_channel(2), per_token(2)),
    "int2, keys per token": (per_token(2), per_token(2)),
}
"""Coders of keys and of values. fp8: one scale for a group of tokens and all their channels."""


class QuantizedCache:
    """K and V as codes, in groups of tokens; the rest, fewer than group tokens, as float32 numbers.

    A pass attends to the codes of all tokens before it and to its own tokens
    uncoded. tokens_coded counts tokens times sequences, in the first layer. Raises
    ValueError for a group below 1.
    """

    def __init__(self, config: ModelConfig, key: Coder, value: Coder, group: int = 32) -> None:
        if group < 1:
            raise ValueError(f"group={group} is below 1")
        self.key, self.value, self.group, self.length, self.tokens_coded = key, value, group, 0, 0
        self.coded: list[list[tuple[Stored, Stored]]] = [[] for _ in range(config.n_layers)]
        self.rest: list[tuple[Tensor, Tensor] | None] = [None] * config.n_layers

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales, and 2 for each number of the rest, which would be kept in bf16."""
        coded = sum(k.nbytes + v.nbytes for layer in self.coded for k, v in layer)
        return coded + sum(2 * (k.numel() + v.numel()) for k, v in filter(None, self.rest))

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend over codes, rest and the new k and v [b, K, n, d_h]; then code every whole group of the rest."""
        held = self.rest[layer]
        if held is not None:
            k, v = torch.cat((held[0], k), dim=2), torch.cat((held[1], v), dim=2)
        old = [(a.dequantize(), b.dequantize()) for a, b in self.coded[layer]]
        answer = grouped_attention(
            q, torch.cat([a for a, _ in old] + [k], dim=2), torch.cat([b for _, b in old] + [v], dim=2)
        )
        whole = k.shape[2] // self.group * self.group
        for start in range(0, whole, self.group):
            part = slice(start, start + self.group)
            self.coded[layer].append((self.key(k[:, :, part]), self.value(v[:, :, part])))
        if layer == 0:
            self.tokens_coded += whole * k.shape[0]
        self.rest[layer] = (k[:, :, whole:], v[:, :, whole:])
        return answer

    def advance(self, n: int) -> None:
        """Count n tokens more of every sequence as held."""
        self.length += n
