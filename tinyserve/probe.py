"""Measure this machine's two roofs: how fast it multiplies, how fast it reads.

Every timing is repeated and reported as a median with its spread; weights are
cold (a pool larger than the last-level cache is walked through), because in
decode each weight is read once per step and the cache never holds them all.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
POOL_BYTES = {"cpu": 512 * 2**20, "cuda": 2 * 2**30}
"""Bytes walked through between two readings of the same weight; far above any last-level cache."""
GEMM_SIZES = {"cpu": (512, 1024, 2048), "cuda": (2048, 4096, 8192)}
GEMV_SHAPES = {
    "cpu": ((256, 1024), (1024, 1024), (1024, 2816), (2816, 1024), (4096, 4096), (8192, 4096)),
    "cuda": ((1024, 1024), (4096, 1024), (4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192)),
}


@dataclass(frozen=True)
class Rate:
    """Median of several timings as a rate, with the slowest and fastest seen."""

    median: float
    low: float
    high: float
    repeats: int

    @property
    def spread(self) -> float:
        """Width of what was seen, as a share of the median."""
        return (self.high - self.low) / self.median


@dataclass(frozen=True)
class Measurement:
    """Rates of this machine: GEMM in FLOP/s, reading and GEMV in bytes/s of weights.

    gemm maps the size n of an n*n*n product to its rate; gemv maps the weight's
    shape (rows, columns) to the rate at which y = W x reads W.
    """

    device: str
    dtype: str
    gemm: dict[int, Rate]
    stream: Rate
    gemv: dict[tuple[int, int], Rate]

    @property
    def peak_flops(self) -> float:
        """The best median GEMM rate, in FLOP/s."""
        return max(rate.median for rate in self.gemm.values())

    @property
    def ridge(self) -> float:
        """FLOP per byte at which the measured roofs meet."""
        return self.peak_flops / self.stream.median


def _synchronize(device: str) -> None:
    """Wait until the device has done all its work."""
    if device == "cuda":
        torch.cuda.synchronize()


def time_calls(calls: Sequence[Callable[[], object]], device: str, budget: float, minimum: int = 3) -> list[float]:
    """Return seconds of single calls, cycling through calls until the budget of seconds is used.

    One untimed call comes first. At least minimum timings are taken.
    """
    calls[0]()
    _synchronize(device)
    seconds: list[float] = []
    start = time.perf_counter()
    while len(seconds) < minimum or (time.perf_counter() - start < budget and len(seconds) < 200):
        call = calls[(len(seconds) + 1) % len(calls)]
        before = time.perf_counter()
        call()
        _synchronize(device)
        seconds.append(time.perf_counter() - before)
    return seconds


def _rate(amount: float, seconds: Sequence[float]) -> Rate:
    """Return amount per second over the timings."""
    return Rate(amount / statistics.median(seconds), amount / max(seconds), amount / min(seconds), len(seconds))


def gemm_rate(size: int, device: str, dtype: torch.dtype, budget: float) -> Rate:
    """Measure an n*n*n matrix product in FLOP/s: 2*n**3 operations."""
    a = torch.randn(size, size, device=device).to(dtype)
    b = torch.randn(size, size, device=device).to(dtype)
    return _rate(2 * size**3, time_calls([lambda: a @ b], device, budget))


def stream_rate(pool: torch.Tensor, device: str, budget: float) -> Rate:
    """Measure reading a large buffer once (the sum of its numbers), in bytes/s.

    The numbers are summed as 64-bit words: one addition for 8 bytes keeps the
    arithmetic out of the way.
    """
    words = pool.view(torch.int64)
    return _rate(words.numel() * 8, time_calls([lambda: words.sum()], device, budget))


def gemv_rate(shape: tuple[int, int], pool: torch.Tensor, device: str, budget: float) -> Rate:
    """Measure y = W x in bytes/s of W, each call with the next W of the pool, so that W is cold."""
    rows, columns = shape
    count = pool.numel() // (rows * columns)
    weights = [pool[i * rows * columns : (i + 1) * rows * columns].view(rows, columns) for i in range(count)]
    x = torch.randn(columns, device=device).to(pool.dtype)
    calls = [lambda w=w: torch.mv(w, x) for w in weights]
    return _rate(rows * columns * pool.element_size(), time_calls(calls, device, budget))


def _resolve(device: str | None, dtype: str | None, seconds: float) -> tuple[str, str]:
    """Return device and dtype with defaults filled in; raise ValueError for what cannot be measured."""
    cuda = torch.cuda.is_available()
    device = device or ("cuda" if cuda else "cpu")
    if device not in POOL_BYTES or (device == "cuda" and not cuda):
        raise ValueError(f"device={device!r} is not one of cpu{', cuda' if cuda else ' (no CUDA device is present)'}")
    dtype = dtype or ("fp16" if device == "cuda" else "fp32")
    if dtype not in DTYPES:
        raise ValueError(f"dtype={dtype!r} is not one of {', '.join(DTYPES)}")
    if not 0 < seconds <= 25:
        raise ValueError(f"seconds={seconds!r} is not above 0 and at most 25")
    return device, dtype


def measure(
    device: str | None = None,
    dtype: str | None = None,
    seconds: float = 20.0,
    shapes: Sequence[tuple[int, int]] | None = None,
    gemm_sizes: Sequence[int] | None = None,
    pool_bytes: int | None = None,
) -> Measurement:
    """Measure GEMM, streaming-read and GEMV rates; see tinyserve.hardware.measure.

    The budget is split evenly over the measurements. shapes, gemm_sizes and
    pool_bytes replace the defaults for the device; a shape must fit in the pool
    at least twice. Raises ValueError for what cannot be measured.
    """
    device, dtype = _resolve(device, dtype, seconds)
    shapes = tuple(shapes or GEMV_SHAPES[device])
    sizes = tuple(gemm_sizes or GEMM_SIZES[device])
    kind = DTYPES[dtype]
    width = torch.empty((), dtype=kind).element_size()
    numbers = (pool_bytes or POOL_BYTES[device]) // width // 8 * 8
    for rows, columns in shapes:
        if 2 * rows * columns > numbers:
            raise ValueError(f"shape={(rows, columns)} does not fit twice in a pool of {numbers * width} bytes")
    each = seconds / (len(shapes) + len(sizes) + 1)
    gemm = {size: gemm_rate(size, device, kind, each) for size in sizes}
    pool = torch.full((numbers,), 0.01, dtype=kind, device=device)
    stream = stream_rate(pool, device, each)
    return Measurement(device, dtype, gemm, stream, {shape: gemv_rate(shape, pool, device, each) for shape in shapes})
