"""Small floats from their bits: FP8 (E4M3, E5M2), FP4 (E2M1), and blocks of FP4 that share a scale (MXFP4, NVFP4).

A code is a sign, an exponent field E and a mantissa field M of m bits:
2^(E - bias) * (1 + M / 2^m), or 2^(1 - bias) * M / 2^m where E = 0 (subnormal).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .integers import pack4, unpack4


@dataclass(frozen=True)
class FloatFormat:
    """A float of 1 + exponent + mantissa bits.

    specials: "ieee" keeps the highest exponent for infinity and NaN, "nan" only the
    code of all ones for NaN, "none" has neither.
    """

    name: str
    exponent: int
    mantissa: int
    bias: int
    specials: str

    @property
    def codes(self) -> int:
        """How many codes there are."""
        return 2 ** (1 + self.exponent + self.mantissa)

    def decode(self, code: int) -> float:
        """Return the value of one code, from its bits. Raises ValueError for a code out of range."""
        if not 0 <= code < self.codes:
            raise ValueError(f"code={code} is not between 0 and {self.codes - 1}")
        sign = -1.0 if code & self.codes >> 1 else 1.0
        field, mantissa = code >> self.mantissa & 2**self.exponent - 1, code & 2**self.mantissa - 1
        if field == 2**self.exponent - 1:
            if self.specials == "ieee":
                return math.nan if mantissa else sign * math.inf
            if self.specials == "nan" and mantissa == 2**self.mantissa - 1:
                return math.nan
        if field == 0:
            return sign * math.ldexp(mantissa, 1 - self.bias - self.mantissa)
        return sign * math.ldexp(2**self.mantissa + mantissa, field - self.bias - self.mantissa)

    def values(self) -> Tensor:
        """Return the values of all codes, in the order of the codes."""
        return torch.tensor([self.decode(code) for code in range(self.codes)])

    @property
    def max(self) -> float:
        """The largest finite value."""
        return max(value for value in map(self.decode, range(self.codes)) if math.isfinite(value))

    @property
    def smallest(self) -> float:
        """The smallest value above 0, a subnormal."""
        return self.decode(1)

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes (uint8) of the nearest values; a tie goes to the even mantissa; what is too large saturates.

        Infinity becomes the largest value as well. Raises ValueError for NaN in x.
        """
        if torch.isnan(x).any():
            raise ValueError("x holds NaN: it has no nearest value")
        magnitude = x.float().abs().clamp(max=self.max)
        exponent = (torch.frexp(magnitude).exponent - 1).clamp(min=1 - self.bias)  # 2^exponent <= magnitude
        exponent = exponent.masked_fill(magnitude == 0, 1 - self.bias)  # frexp gives 0 an exponent of 0
        steps = torch.ldexp(magnitude, self.mantissa - exponent).round()  # torch rounds ties to even
        code = (exponent + self.bias - 1) * 2**self.mantissa + steps.int()
        return (code + torch.signbit(x).int() * (self.codes >> 1)).to(torch.uint8)

    def round(self, x: Tensor) -> Tensor:
        """Return x with every number replaced by the nearest value of the format."""
        return self.values()[self.encode(x).int()]


E4M3 = FloatFormat("E4M3", 4, 3, 7, "nan")
"""FP8 for weights, activations and K, V: Micikevicius et al. 2022, arXiv 2209.05433, table 1 (torch: float8_e4m3fn)."""
E5M2 = FloatFormat("E5M2", 5, 2, 15, "ieee")
"""FP8 with fp16's exponents, made for gradients; same source."""
E2M1 = FloatFormat("E2M1", 2, 1, 1, "none")
"""FP4: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; OCP Microscaling Formats (MX) specification 1.0."""


@dataclass(frozen=True)
class Floats:
    """x ~ values[codes] * scale * outer; codes [..., blocks, block] or the tensor's own shape.

    scale_bytes is what one scale takes: 4 for fp32, 1 for E8M0 or E4M3; outer is a
    single fp32 number for the tensor, or None.
    """

    codes: Tensor
    scale: Tensor
    format: FloatFormat
    scale_bytes: int
    shape: torch.Size
    outer: Tensor | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales; 4-bit codes are counted packed."""
        codes = -(-self.codes.numel() * (1 + self.format.exponent + self.format.mantissa) // 8)
        return codes + self.scale.numel() * self.scale_bytes + (0 if self.outer is None else 4)

    def dequantize(self) -> Tensor:
        """Return the float32 numbers in the original's shape."""
        values = self.format.values()[self.codes.int()] * self.scale
        return (values if self.outer is None else values * self.outer).reshape(self.shape)


def fp8(x: Tensor, format: FloatFormat = E4M3, dim: int | None = None) -> Floats:
    """Scale the largest magnitude to the format's largest value and round; one scale per tensor or along dim.

    Raises ValueError for numbers that are not finite. For numbers that land in the
    normal range |x - x_hat| <= |x| * 2^-(mantissa + 1).
    """
    if not x.numel() or not torch.isfinite(x).all():
        raise ValueError(f"x of shape {list(x.shape)} must hold numbers, and only finite ones")
    x = x.float()
    largest = x.abs().max() if dim is None else x.abs().amax(dim, keepdim=True)
    scale = (largest / format.max).clamp(min=torch.finfo(torch.float32).tiny)
    return Floats(format.encode(x / scale), scale, format, 4, x.shape)


def _blocks(x: Tensor, block: int) -> Tensor:
    """Return x [..., n] as [..., n / block, block]; raise ValueError where block does not divide n or a number is not finite."""
    if x.shape[-1] % block:
        raise ValueError(f"block={block} does not divide the {x.shape[-1]} numbers of a row")
    if not torch.isfinite(x).all():
        raise ValueError("x must hold only finite numbers")
    return x.float().unflatten(-1, (-1, block))


def mxfp4(x: Tensor) -> Floats:
    """Blocks of 32 numbers of a row in E2M1 with a power of two as scale: 2^(floor(log2 max|x|) - 2), one byte (E8M0).

    The scaled maximum lies in [4, 8), so values above 6 saturate: OCP MX
    specification 1.0, section 6.3. (E8M0 goes down to 2^-127; here 2^-126, the least
    normal float32.) Raises ValueError where 32 does not divide.
    """
    parts = _blocks(x, 32)
    exponent = torch.frexp(parts.abs().amax(-1, keepdim=True)).exponent - 1 - 2  # 2 = exponent of 4, the largest in E2M1
    scale = torch.ldexp(torch.ones_like(exponent, dtype=torch.float32), exponent.clamp(-126, 127))
    return Floats(E2M1.encode(parts / scale), scale, E2M1, 1, x.shape)


def nvfp4(x: Tensor) -> Floats:
    """Blocks of 16 numbers of a row in E2M1 with an E4M3 scale, and one fp32 scale for the tensor.

    outer = max|x| / (6 * 448), scale = E4M3(block max / (6 * outer)): NVIDIA's
    two-level scaling. Raises ValueError where 16 does not divide.
    """
    parts = _blocks(x, 16)
    outer = (parts.abs().max() / (E2M1.max * E4M3.max)).clamp(min=torch.finfo(torch.float32).tiny)
    scale = E4M3.round(parts.abs().amax(-1, keepdim=True) / (E2M1.max * outer))
    safe = scale.clamp(min=E4M3.smallest) * outer  # a block whose scale rounds to 0 is stored as zeros
    return Floats(E2M1.encode(parts / safe), scale, E2M1, 1, x.shape, outer)


def pack_fp4(stored: Floats) -> Tensor:
    """Return the 4-bit codes of a stored tensor two to a byte. Raises ValueError for a format of other width."""
    if stored.format.codes != 16:
        raise ValueError(f"format={stored.format.name} has {stored.format.codes} codes, not 16")
    return pack4(stored.codes.flatten(-2) if stored.codes.dim() > len(stored.shape) else stored.codes)


def unpack_fp4(packed: Tensor) -> Tensor:
    """Return the values [..., 2 m] of packed E2M1 codes [..., m]."""
    return E2M1.values()[unpack4(packed).int()]
