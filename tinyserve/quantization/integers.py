"""Integers for numbers: a scale per tensor, row, column or group of a row; two 4-bit codes packed in a byte.

Every stored form here answers ``dequantize()`` with the numbers a kernel would
use, and ``nbytes`` with the bytes that must be kept, scales included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Stored(Protocol):
    """A quantized tensor."""

    @property
    def nbytes(self) -> int:
        """Bytes kept: codes, scales and zero points."""

    def dequantize(self) -> Tensor:
        """Return the float32 numbers that the codes stand for, in the original's shape."""


def _packed_bytes(count: int, bits: int) -> int:
    """Bytes of count codes without gaps between them."""
    return -(-count * bits // 8)


@dataclass(frozen=True)
class Integers:
    """x ~ (codes - zero) * scale, or codes * scale + low. The small tensors broadcast against codes; shape is the original's.

    nbytes counts codes of this many bits without gaps, whatever the tensor that
    holds them here, and 2 bytes for each number of scale, zero and low.
    """

    codes: Tensor
    scale: Tensor
    zero: Tensor | None
    bits: int
    shape: torch.Size
    low: Tensor | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scales, zero points and minima."""
        small = [t for t in (self.scale, self.zero, self.low) if t is not None]
        return _packed_bytes(self.codes.numel(), self.bits) + 2 * sum(t.numel() for t in small)

    def dequantize(self) -> Tensor:
        """Return the numbers as float32 in the original's shape."""
        codes = self.codes.float() if self.zero is None else self.codes - self.zero
        x = codes * self.scale
        return (x if self.low is None else x + self.low).reshape(self.shape)


def _check(x: Tensor, bits: int) -> None:
    """Raise ValueError for numbers that no scale fits, or bits outside 2 to 8."""
    if not 2 <= bits <= 8:
        raise ValueError(f"bits={bits} is not between 2 and 8")
    if not x.numel() or not torch.isfinite(x).all():
        raise ValueError(f"x of shape {list(x.shape)} must hold numbers, and only finite ones")


def _grouped(x: Tensor, dim: int | None, group: int | None) -> tuple[Tensor, int | tuple[int, ...]]:
    """Return x, its dimension cut into groups where asked, and the dimensions that share a scale."""
    if dim is None:
        if group is not None:
            raise ValueError(f"group={group} needs a dim to cut")
        return x, tuple(range(x.dim()))
    dim = dim % x.dim()
    if group is None:
        return x, dim
    if group < 1 or x.shape[dim] % group:
        raise ValueError(f"group={group} does not divide the {x.shape[dim]} numbers of dimension {dim}")
    return x.unflatten(dim, (-1, group)), dim + 1


def _half(scale: Tensor) -> Tensor:
    """Round scales up to fp16, in which they are stored: rounded down, the largest number would not be reached.

    A scale of 0 becomes the smallest above it. Raises ValueError above fp16's range.
    """
    if scale.max() > 65504:
        raise ValueError(f"scale={float(scale.max()):.3g} is above 65504, fp16's largest number")
    near = scale.clamp(min=2**-24).half()
    above = (near.view(torch.int16) + 1).view(torch.float16)  # the next number up has the next bits
    return torch.where(near.float() < scale, above, near).float()


def absmax(x: Tensor, bits: int = 8, dim: int | None = None, group: int | None = None) -> Integers:
    """Quantize symmetrically: scale = max|x| / (2^(bits-1) - 1), codes round(x / scale), no zero point.

    dim is the dimension along which numbers share a scale (None: the whole tensor);
    with group, every run of that many along dim has its own. Scales are kept in
    fp16, rounded up. |x - x_hat| <= scale / 2. Raises ValueError for bits outside
    2 to 8, a group that does not divide, numbers that are not finite or too large.
    """
    _check(x, bits)
    parts, shared = _grouped(x.float(), dim, group)
    top = 2 ** (bits - 1) - 1
    scale = _half(parts.abs().amax(shared, keepdim=True) / top)
    codes = (parts / scale).round().clamp(-top, top).to(torch.int8)
    return Integers(codes, scale, None, bits, x.shape)


def affine(
    x: Tensor, bits: int = 8, dim: int | None = None, group: int | None = None, exact_zero: bool = True
) -> Integers:
    """Quantize between minimum and maximum: scale = (max - min) / (2^bits - 1), codes from 0 to 2^bits - 1.

    With exact_zero the range is widened to hold 0 and the zero point is a whole
    number, so that 0 comes back as 0 (padding and ReLU need that). Without it the
    minimum itself is kept, in fp16: better for keys that lie far from 0.
    |x - x_hat| <= scale / 2; the fp16 minimum adds up to 2^-11 of its magnitude.
    dim, group and errors as in absmax.
    """
    _check(x, bits)
    parts, shared = _grouped(x.float(), dim, group)
    low, high = parts.amin(shared, keepdim=True), parts.amax(shared, keepdim=True)
    if exact_zero:
        low, high = low.clamp(max=0), high.clamp(min=0)
    top = 2**bits - 1
    scale = _half((high - low) / top)
    if exact_zero:
        zero, kept = (-low / scale).round(), None
        codes = (parts / scale).round() + zero
    else:
        zero, kept = None, low.half().float()
        codes = ((parts - kept) / scale).round()
    return Integers(codes.clamp(0, top).to(torch.uint8), scale, zero, bits, x.shape, kept)


def pack4(codes: Tensor) -> Tensor:
    """Pack codes 0 to 15 [..., n] into bytes [..., n / 2]: the even one in the low half, the odd one in the high half.

    Raises ValueError for an odd n or a code out of range.
    """
    if codes.shape[-1] % 2:
        raise ValueError(f"n={codes.shape[-1]} codes in a row: two to a byte need an even number")
    if codes.numel() and not 0 <= int(codes.min()) <= int(codes.max()) <= 15:
        raise ValueError(f"codes run from {int(codes.min())} to {int(codes.max())}, not within 0 to 15")
    codes = codes.to(torch.uint8)
    return codes[..., 0::2] | codes[..., 1::2] << 4


def unpack4(packed: Tensor) -> Tensor:
    """Return the codes 0 to 15 [..., 2 m] of packed bytes [..., m]."""
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)


@dataclass(frozen=True)
class PackedInt4:
    """A weight matrix [rows, columns] as 4-bit codes: packed [rows, columns / 2], scale and zero [rows, groups, 1]."""

    packed: Tensor
    scale: Tensor
    zero: Tensor

    @property
    def nbytes(self) -> int:
        """Bytes of the codes, and of an fp16 scale and a 2-byte zero point per group."""
        return self.packed.numel() + 2 * (self.scale.numel() + self.zero.numel())

    def dequantize(self) -> Tensor:
        """Return the float32 matrix [rows, columns]."""
        codes = unpack4(self.packed).float().unflatten(-1, (self.scale.shape[1], -1))
        return ((codes - self.zero) * self.scale).flatten(1)


def int4(weight: Tensor, group: int = 128) -> PackedInt4:
    """Round a matrix [rows, columns] to affine 4-bit codes, a scale for every group of a row; packed.

    No calibration data: only the weights are looked at. Raises ValueError for
    another number of dimensions or a group that does not divide the columns.
    """
    if weight.dim() != 2:
        raise ValueError(f"weight has shape {list(weight.shape)}, not [rows, columns]")
    found = affine(weight, 4, dim=1, group=group)
    return PackedInt4(pack4(found.codes.flatten(1)), found.scale, found.zero)
