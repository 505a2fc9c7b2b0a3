"""RoPE beyond the window a model was trained for: linear, NTK-aware and YaRN frequencies, and YaRN's attention factor.

All three slow the pairs' turning for a context ``factor`` times as long, and differ in
which pairs they slow. Linear and YaRN keep every slow pair within the angles that training
has seen; NTK leaves some beyond them. Nothing here trains a weight. Sources: Chen et al.
2023, arXiv 2306.15595 (linear, "position interpolation"); Peng et al. 2023, arXiv 2309.00071
(NTK-aware in appendix A, YaRN in section 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from .kv_cache import Uncached
from .model import Decoder
from .rope import frequencies

METHODS = ("none", "linear", "ntk", "yarn")


def _checked(head_dim: int, theta: float, factor: float) -> None:
    """Raise ValueError for a head that has no pairs, a base not above 1, and a factor below 1."""
    if head_dim < 4 or head_dim % 2:
        raise ValueError(f"head_dim={head_dim!r} is not an even number of at least 4")
    if not theta > 1:
        raise ValueError(f"theta={theta!r} is not above 1")
    if not 1 <= factor < math.inf:
        raise ValueError(f"factor={factor!r} is not a finite number of at least 1")


def linear_frequencies(head_dim: int, theta: float, factor: float) -> Tensor:
    """Return every pair's frequency divided by factor, [d_h/2] radians a position: positions are squeezed."""
    _checked(head_dim, theta, factor)
    return frequencies(head_dim, theta) / factor


def ntk_theta(head_dim: int, theta: float, factor: float) -> float:
    """Return the base at which the slowest pair turns factor times more slowly: theta * factor^(d_h / (d_h - 2)).

    The fastest pair keeps its frequency, since its exponent is 0; those between are slowed by less than factor.
    """
    _checked(head_dim, theta, factor)
    return theta * factor ** (head_dim / (head_dim - 2))


def ntk_frequencies(head_dim: int, theta: float, factor: float) -> Tensor:
    """Return the frequencies of ``ntk_theta``, [d_h/2] radians a position."""
    return frequencies(head_dim, ntk_theta(head_dim, theta, factor))


def pair_of_turns(turns: float, head_dim: int, theta: float, window: int) -> float:
    """Return the index, a fraction, of the pair that turns so many times within the window."""
    return head_dim * math.log(window / (turns * 2 * math.pi)) / (2 * math.log(theta))


def yarn_frequencies(
    head_dim: int, theta: float, factor: float, window: int, fast: float = 32.0, slow: float = 1.0
) -> Tensor:
    """Return YaRN's frequencies, [d_h/2] radians a position, for a model trained on windows of so many tokens.

    A pair that turns more than ``fast`` times within the window stays; one that turns less than
    ``slow`` times is divided by factor; between them the share of the undivided frequency falls
    linearly with the pair's index. The bounds are rounded outward to whole pairs, as in the authors' code.
    Raises ValueError for a window below 1 and for fast not above slow.
    """
    _checked(head_dim, theta, factor)
    if window < 1:
        raise ValueError(f"window={window!r} is below 1")
    if not fast > slow > 0:
        raise ValueError(f"fast={fast!r} is not above slow={slow!r}, or slow is not above 0")
    first = max(math.floor(pair_of_turns(fast, head_dim, theta, window)), 0)
    last = min(math.ceil(pair_of_turns(slow, head_dim, theta, window)), head_dim - 1)
    pair = torch.arange(head_dim // 2, dtype=torch.float32)
    slowed = ((pair - first) / max(last - first, 1e-3)).clamp(0, 1)
    turn = frequencies(head_dim, theta)
    return slowed * turn / factor + (1 - slowed) * turn


def yarn_attention(factor: float) -> float:
    """Return what YaRN multiplies q and k by, each: 0.1 ln(factor) + 1. The scores grow by its square."""
    if not 1 <= factor < math.inf:
        raise ValueError(f"factor={factor!r} is not a finite number of at least 1")
    return 0.1 * math.log(factor) + 1


@dataclass(frozen=True)
class Stretch:
    """Frequencies [d_h/2], and what q and k are multiplied by."""

    turn: Tensor
    attention: float = 1.0

    def table(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines [n, d_h] for positions [n], as ``rope.rope_table`` does, times the attention factor."""
        angle = positions.to(torch.float32)[:, None] * self.turn.to(positions.device)
        angle = torch.cat((angle, angle), dim=-1)
        return self.attention * angle.cos(), self.attention * angle.sin()


def stretch(method: str, head_dim: int, theta: float, factor: float, window: int) -> Stretch:
    """Return the Stretch of a method: none, linear, ntk or yarn. Raises ValueError for another, and as those do."""
    if method == "linear":
        return Stretch(linear_frequencies(head_dim, theta, factor))
    if method == "ntk":
        return Stretch(ntk_frequencies(head_dim, theta, factor))
    if method == "yarn":
        return Stretch(yarn_frequencies(head_dim, theta, factor, window), yarn_attention(factor))
    if method != "none":
        raise ValueError(f"method={method!r} is not one of {', '.join(METHODS)}")
    _checked(head_dim, theta, factor)
    return Stretch(frequencies(head_dim, theta))


@torch.no_grad()
def stretched_logits(decoder: Decoder, ids: Tensor, how: Stretch) -> Tensor:
    """Return the logits [b, n, vocab] of all positions of ids [b, n], with the positions turned by how.

    Raises ValueError for ids of another shape.
    """
    if ids.dim() != 2 or ids.shape[1] < 1:
        raise ValueError(f"ids has shape {list(ids.shape)}, not [batch, tokens] with a token at least")
    x, cache = decoder.embedding(ids), Uncached()
    table = how.table(torch.arange(ids.shape[1], device=ids.device))
    for block in decoder.blocks:
        x = block(x, table, cache)
    x = decoder.norm(x)
    return F.linear(x, decoder.embedding.weight) if decoder.head is None else decoder.head(x)


def token_bits(decoder: Decoder, ids: Tensor, how: Stretch) -> Tensor:
    """Return the bits [n - 1] that the model needs for each token of ids [n] but the first, given all before it."""
    if ids.dim() != 1 or len(ids) < 2:
        raise ValueError(f"ids has shape {list(ids.shape)}, not [tokens] with two at least")
    logits = stretched_logits(decoder, ids[None, :-1], how)[0].float()
    return F.cross_entropy(logits, ids[1:], reduction="none") / math.log(2)
