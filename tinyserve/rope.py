"""Rotary positions (RoPE), in the rotate-half convention of Llama's published weights."""

from __future__ import annotations

import torch
from torch import Tensor


def rope_table(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Return cosines and sines [n, d_h] in float32 for positions [n]; Su et al. 2021, arXiv 2104.09864.

    Pair i is (i, i + d_h/2), as in Llama's published weights, and turns by
    position * theta**(-2i/d_h).
    """
    step = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32) / head_dim
    angle = positions.to(torch.float32)[:, None] * theta**-step  # [n, d_h/2]
    angle = torch.cat((angle, angle), dim=-1)  # [n, d_h]
    return angle.cos(), angle.sin()


def apply_rope(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the pairs of x [b, heads, n, d_h] by the table's angles; same shape."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)  # rotate half
    return x * table[0].to(x.dtype) + turned * table[1].to(x.dtype)
