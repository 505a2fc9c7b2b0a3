"""Encoder-decoder against decoder-only at about equal parameters.

The encoder-decoder has L encoder and L decoder layers of width d; the
decoder-only stack has 2*L. FFN of 4*d in two matrices, multi-head attention,
input n tokens, output m. Per layer, in weights: self-attention 4*d*d, FFN
8*d*d, cross-attention 4*d*d, of which K and V (2*d*d) run once per input token.
Embeddings and head are the same for both and left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from .checks import as_int, require_count
from .memory import dtype_bytes


@dataclass(frozen=True)
class ArchitecturePair:
    """One quantity for both architectures."""

    encoder_decoder: float
    decoder_only: float


@dataclass(frozen=True)
class EncoderDecoderCosts:
    """Costs of one request with n input and m output tokens; raises ValueError for a size below 1."""

    layers: int
    d_model: int
    n: int
    m: int
    dtype: str = "bf16"

    def __post_init__(self) -> None:
        for name in ("layers", "d_model", "n", "m"):
            require_count(name, getattr(self, name), minimum=1)
        dtype_bytes(self.dtype)

    @property
    def _square(self) -> int:
        """L*d*d, the unit of the linear terms."""
        return self.layers * self.d_model**2

    @property
    def _line(self) -> int:
        """L*d, the unit of the attention and cache terms."""
        return self.layers * self.d_model

    def params(self) -> ArchitecturePair:
        """Return the weights of the layers: 28*L*d*d and 24*L*d*d."""
        return ArchitecturePair((12 + 16) * self._square, 24 * self._square)

    def input_flops(self) -> ArchitecturePair:
        """Return the FLOPs of the input without cross-attention.

        Encoder: full square over L layers. Decoder-only: causal half (n*n/2) over 2*L.
        """
        square = 4 * self._line * self.n**2
        return ArchitecturePair(2 * self.n * 12 * self._square + square, 2 * self.n * 24 * self._square + square)

    def cross_kv_flops(self) -> ArchitecturePair:
        """Return the FLOPs of the cross-attention's K and V of the input, once a request: 4*n*L*d*d and 0."""
        return ArchitecturePair(4 * self.n * self._square, 0)

    def output_flops(self) -> ArchitecturePair:
        """Return the FLOPs of all m output tokens; token t sees t outputs and n inputs."""
        linear, line, seen = self._square, self._line, self.m * (self.m + 1) // 2
        pair_line = self.m * self.n + seen
        return ArchitecturePair(
            self.m * 2 * 14 * linear + 4 * line * pair_line, self.m * 2 * 24 * linear + 8 * line * pair_line
        )

    def step_weight_bytes(self) -> ArchitecturePair:
        """Return the weights one output token reads: 14*L*d*d and 24*L*d*d numbers."""
        size = dtype_bytes(self.dtype)
        return ArchitecturePair(as_int(14 * self._square * size), as_int(24 * self._square * size))

    def kv_bytes(self) -> ArchitecturePair:
        """Return the cache at the end: self m and cross n over L layers; n + m over 2*L."""
        size = dtype_bytes(self.dtype)
        tokens = self.n + self.m
        return ArchitecturePair(as_int(2 * self._line * tokens * size), as_int(4 * self._line * tokens * size))

    def follow_up_linear_flops(self, tokens: int) -> ArchitecturePair:
        """Return the linear FLOPs of reading a second turn of this many tokens.

        The encoder reads all of its input again (its cross K and V come on top, see
        cross_kv_flops); a decoder with a prefix cache reads the new tokens only.
        """
        more = require_count("tokens", tokens, minimum=1)
        return ArchitecturePair(2 * (self.n + more) * 12 * self._square, 2 * more * 24 * self._square)

    def step_bytes(self, batch: int = 1) -> ArchitecturePair:
        """Return the bytes of one decode step at the end of the answer: weights once, each sequence's cache."""
        count = require_count("batch", batch, minimum=1)
        weights, cache = self.step_weight_bytes(), self.kv_bytes()
        return ArchitecturePair(
            weights.encoder_decoder + count * cache.encoder_decoder, weights.decoder_only + count * cache.decoder_only
        )

    def request_flops(self, cached: int = 0) -> ArchitecturePair:
        """Return the FLOPs of reading n tokens and writing m, with this many tokens of a conversation before them.

        The encoder has no cache: it reads all cached + n, and cross-attention gets all
        of their K and V. The decoder-only stack holds the cached tokens' K and V and reads n.
        """
        before = require_count("cached", cached)
        whole = EncoderDecoderCosts(self.layers, self.d_model, before + self.n, self.m, self.dtype)
        parts = (whole.input_flops(), whole.cross_kv_flops(), whole.output_flops())
        fresh = self.input_flops().decoder_only + 8 * self._line * self.n * before
        return ArchitecturePair(sum(part.encoder_decoder for part in parts), fresh + whole.output_flops().decoder_only)

    def conversation_flops(self, turns: int, more: int, prefix_cache: bool = True) -> ArchitecturePair:
        """Return the FLOPs of a conversation: n tokens in the first turn, more in each later one, m in each answer.

        Without a prefix cache the decoder-only stack reads the conversation anew at every
        turn, as the encoder must. (The K and V of an answer's last token are counted as
        cached.) Raises ValueError for turns or more below 1.
        """
        count, added, before = require_count("turns", turns, minimum=1), require_count("more", more, minimum=1), 0
        sums = [0.0, 0.0]
        for turn in range(count):
            new = added if turn else self.n
            held = EncoderDecoderCosts(self.layers, self.d_model, new, self.m, self.dtype).request_flops(before)
            anew = EncoderDecoderCosts(self.layers, self.d_model, before + new, self.m, self.dtype).request_flops()
            sums[0] += held.encoder_decoder
            sums[1] += (held if prefix_cache else anew).decoder_only
            before += new + self.m
        return ArchitecturePair(*sums)
