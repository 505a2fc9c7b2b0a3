"""GPTQ: round the columns of a matrix one after the other, and let the columns still to come make up for each error."""

from __future__ import annotations

import torch
from torch import Tensor

from .integers import PackedInt4, affine, pack4


@torch.no_grad()
def gptq(weight: Tensor, x: Tensor, group: int = 128, damp: float = 0.01) -> PackedInt4:
    """Return weight [rows, columns] as group-wise 4-bit codes chosen for the inputs x [n, columns].

    With H = x^T x (damped by this share of its mean diagonal) and U the upper Cholesky
    factor of H^-1: column j is rounded, and its error over U[j, j] times U[j, j+1:]
    is taken off the columns to the right. Scales of a group are set when its
    first column is reached, as plain rounding would set them. Raises ValueError for
    shapes that do not fit or damp not above 0. Frantar et al. 2022, arXiv 2210.17323, algorithm 1.
    """
    rows, columns = weight.shape
    if x.dim() != 2 or x.shape[1] != columns or not len(x):
        raise ValueError(f"x has shape {list(x.shape)}, not [n, {columns}]")
    if columns % group or group % 2:
        raise ValueError(f"group={group} must be even and divide the {columns} columns")
    if not damp > 0:
        raise ValueError(f"damp={damp} is not above 0")
    h = x.double().T @ x.double()
    h += (damp * h.diagonal().mean() + 1e-12) * torch.eye(columns, dtype=h.dtype)
    upper = torch.linalg.cholesky(torch.linalg.inv(h), upper=True).float()
    w = weight.float().clone()
    codes = torch.empty(rows, columns, dtype=torch.uint8)
    scales, zeros = [], []
    for j in range(columns):
        if j % group == 0:
            plain = affine(w[:, j : j + group], 4, dim=1)
            scales.append(plain.scale)
            zeros.append(plain.zero)
        codes[:, j : j + 1] = ((w[:, j : j + 1] / scales[-1]).round() + zeros[-1]).clamp(0, 15).to(torch.uint8)
        rounded = (codes[:, j : j + 1] - zeros[-1]) * scales[-1]
        error = (w[:, j : j + 1] - rounded) / upper[j, j]
        w[:, j + 1 :] -= error * upper[j, j + 1 :]
    return PackedInt4(pack4(codes), torch.stack(scales, dim=1), torch.stack(zeros, dim=1))
