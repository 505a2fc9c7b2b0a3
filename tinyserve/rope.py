"""Rotary positions (RoPE), in the rotate-half convention of Llama's published weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .configs import Llama3RopeScaling


def frequencies(
    head_dim: int, theta: float, scaling: Llama3RopeScaling | None = None, device: torch.device | str | None = None
) -> Tensor:
    """Return by how many radians each pair turns from one position to the next: [d_h/2] in float32.

    Pair i turns by theta**(-2i/d_h) (Su et al. 2021, arXiv 2104.09864). With
    scaling, as published with Llama 3.1: a pair that turns r times within the
    original context keeps the share (r - low) / (high - low), held within 0 and
    1, of its frequency, and the rest of it is divided by factor.
    """
    # Powers first, then the reciprocal, all in float32: bit for bit what Llama's and transformers' code computes.
    turn = 1.0 / theta ** (torch.arange(0, head_dim, 2, device=device, dtype=torch.float32) / head_dim)
    if scaling is None:
        return turn
    turns = scaling.original_max_context * turn / (2 * math.pi)
    kept = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    kept = kept.clamp(0, 1)
    return (1 - kept) * turn / scaling.factor + kept * turn


def rope_table(
    positions: Tensor, head_dim: int, theta: float, scaling: Llama3RopeScaling | None = None
) -> tuple[Tensor, Tensor]:
    """Return cosines and sines in float32: [n, d_h] for positions [n], [b, 1, n, d_h] for positions [b, n].

    Pair i is (i, i + d_h/2), as in Llama's published weights, and turns by
    position times its frequency.
    """
    angle = positions.to(torch.float32)[..., None] * frequencies(head_dim, theta, scaling, positions.device)
    angle = torch.cat((angle, angle), dim=-1)  # [n, d_h] or [b, n, d_h]
    if angle.dim() == 3:
        angle = angle[:, None]  # one table for all heads of a sequence
    return angle.cos(), angle.sin()


def apply_rope(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the pairs of x [b, heads, n, d_h] by the table's angles; same shape."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)  # rotate half
    return x * table[0].to(x.dtype) + turned * table[1].to(x.dtype)
