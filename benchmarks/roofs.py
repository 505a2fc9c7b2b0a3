"""What this machine does with single operations: the roofs that predictions are made from.

Every weight and every K and V is cold: calls walk through a pool far larger than
the last-level cache. No number here comes from a model's step.
"""

from __future__ import annotations

import math
import re
import statistics
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from tinyserve import costs, probe
from tinyserve.configs import ModelConfig
from tinyserve.hardware import Accelerator
from tinyserve.attention import grouped_attention

DEFAULT_CACHE = 64 * 2**20
"""Bytes of last-level cache to assume where the system does not say."""
Shape = tuple[int, int]


def parse_size(text: str) -> int:
    """Return bytes of '32768K', '32M' or '33554432'; raise ValueError for anything else."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    if not match:
        raise ValueError(f"size={text!r} is not a number with K, M, G or nothing after it")
    return int(match[1]) * 2 ** {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def last_level_cache(device: str, folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """Return the bytes of the largest cache: a GPU's L2, or a CPU's as the system reports it."""
    if device == "cuda":
        return getattr(torch.cuda.get_device_properties(0), "L2_cache_size", DEFAULT_CACHE)
    sizes = []
    for file in folder.glob("index*/size"):
        sizes.append(parse_size(file.read_text(encoding="utf-8")))
    for key in () if sizes else ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize"):  # macOS
        try:
            done = subprocess.run(["sysctl", "-n", key], capture_output=True, text=True, check=False)
        except OSError:
            break
        if done.returncode == 0 and done.stdout.strip().isdigit():
            sizes.append(int(done.stdout))
    return max(sizes, default=0) or DEFAULT_CACHE


@dataclass
class Roofs:
    """Rates of single operations, and every repetition behind them.

    card carries the two roofs (streaming read, best GEMM); best_gemv is the best
    bytes/s of a matrix-vector product. linear maps (rows, shape) to the median
    seconds of one product with that many rows of x; attention maps (heads,
    kv_heads, head_dim, batch, new_tokens, context) to the median seconds of one
    layer's attention. rows and attention keys that were not measured raise
    KeyError.
    """

    card: Accelerator
    best_gemv: float
    dtype: str
    linear: dict[tuple[int, Shape], float] = field(default_factory=dict)
    attention: dict[tuple[int, ...], float] = field(default_factory=dict)
    repetitions: dict[str, list[float]] = field(default_factory=dict)

    def byte_rates(self, model: ModelConfig, rows: int) -> dict[Shape, float]:
        """Return bytes/s of weights for each shape of the model, at this many rows."""
        size = costs.dtype_bytes(self.dtype)
        return {s: s[0] * s[1] * size / self.linear[rows, s] for s in costs.matrix_shapes(model)}

    def flop_rates(self, model: ModelConfig, rows: int) -> dict[Shape, float]:
        """Return FLOP/s for each shape of the layers, at this many rows."""
        return {s: costs.matmul_flops(rows, s[1], s[0]) / self.linear[rows, s] for s in costs.layer_matrix_shapes(model)}


def attention_key(model: ModelConfig, batch: int, new_tokens: int, context: int) -> tuple[int, ...]:
    """Return the key under which Roofs keeps one layer's attention."""
    return model.n_heads, model.n_kv_heads, model.head_dim, batch, new_tokens, context


class Prober:
    """Measures the operations that a list of cases needs, each once, within a budget of seconds for each."""

    def __init__(self, device: str, dtype: str, pool_bytes: int, budget: float) -> None:
        self.device, self.dtype, self.budget = device, dtype, budget
        self.kind = probe.DTYPES[dtype]
        width = torch.empty((), dtype=self.kind).element_size()
        self.pool = torch.full((pool_bytes // width // 8 * 8,), 0.01, dtype=self.kind, device=device)

    def _time(self, calls: list[Callable[[], object]]) -> list[float]:
        return probe.time_calls(calls, self.device, self.budget, minimum=5)

    def _slices(self, numbers: int) -> list[Tensor]:
        """Cut the pool into pieces of this many numbers; raise ValueError unless two fit."""
        count = self.pool.numel() // numbers
        if count < 2:
            raise ValueError(f"a matrix of {numbers} numbers does not fit twice in a pool of {self.pool.numel()}")
        return [self.pool[i * numbers : (i + 1) * numbers] for i in range(count)]

    def roofs(self, gemm_sizes: Iterable[int], gemv_shapes: Iterable[Shape]) -> Roofs:
        """Measure the streaming read, the best GEMM and the best GEMV with tinyserve.probe."""
        gemm = [probe.gemm_rate(size, self.device, self.kind, self.budget) for size in gemm_sizes]
        stream = probe.stream_rate(self.pool, self.device, self.budget)
        gemv = [probe.gemv_rate(shape, self.pool, self.device, self.budget) for shape in gemv_shapes]
        card = Accelerator(
            "this machine", {self.dtype: max(rate.median for rate in gemm)}, stream.median, 1, 1, "none", 0,
            "measured by tinyserve.probe", "",
        )
        return Roofs(card, max(rate.median for rate in gemv), self.dtype)

    def add_linear(self, roofs: Roofs, rows: int, shape: Shape) -> None:
        """Measure x [rows, k] times a cold weight of this shape, the call the model makes."""
        if (rows, shape) in roofs.linear:
            return
        x = torch.full((rows, 1, shape[1]), 0.5, dtype=self.kind, device=self.device)
        weights = [piece.view(shape) for piece in self._slices(math.prod(shape))]
        seconds = self._time([lambda w=w: F.linear(x, w) for w in weights])
        roofs.linear[rows, shape] = statistics.median(seconds)
        roofs.repetitions.setdefault(f"linear rows={rows} shape={shape[0]}x{shape[1]}", []).extend(seconds)

    def add_attention(self, roofs: Roofs, model: ModelConfig, batch: int, new_tokens: int, context: int) -> None:
        """Measure one layer's attention of new_tokens queries a sequence on cold K and V of this context."""
        key = attention_key(model, batch, new_tokens, context)
        if key in roofs.attention:
            return
        q = torch.full((batch, model.n_heads, new_tokens, model.head_dim), 0.5, dtype=self.kind, device=self.device)
        shape = (2, batch, model.n_kv_heads, context, model.head_dim)
        pieces = [piece.view(shape) for piece in self._slices(math.prod(shape))]
        seconds = self._time([lambda kv=kv: grouped_attention(q, kv[0], kv[1]) for kv in pieces])
        roofs.attention[key] = statistics.median(seconds)
        name = f"attention heads={key[0]}/{key[1]}x{key[2]} b={batch} n={new_tokens} t={context}"
        roofs.repetitions.setdefault(name, []).extend(seconds)
