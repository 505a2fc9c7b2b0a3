"""One matrix product: its FLOPs, its bytes, and so its intensity."""

from __future__ import annotations

from .checks import as_int, require_count
from .memory import dtype_bytes


def matmul_flops(m: int, k: int, n: int) -> int:
    """Count the FLOPs of [m, k] times [k, n]: 2*m*k*n, a multiply-add being two.

    Raises ValueError for a dimension below 1.
    """
    return 2 * require_count("m", m, minimum=1) * require_count("k", k, minimum=1) * require_count("n", n, minimum=1)


def matmul_bytes(m: int, k: int, n: int, dtype: str = "bf16") -> int | float:
    """Return the bytes of [m, k] times [k, n] when each operand is read once and the result written once.

    (m*k + k*n + m*n) * b: the least any kernel can move. Raises ValueError for a
    dimension below 1 or an unknown dtype.
    """
    sizes = [require_count(name, value, minimum=1) for name, value in (("m", m), ("k", k), ("n", n))]
    return as_int((sizes[0] * sizes[1] + sizes[1] * sizes[2] + sizes[0] * sizes[2]) * dtype_bytes(dtype))


def matmul_intensity(m: int, k: int, n: int, dtype: str = "bf16") -> float:
    """Return the FLOPs per byte of [m, k] times [k, n]; for m far below k and n about 2*m/b, the number of rows in bf16."""
    return matmul_flops(m, k, n) / matmul_bytes(m, k, n, dtype)
