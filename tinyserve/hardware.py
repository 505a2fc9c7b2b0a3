"""Accelerators as their data sheets describe them, and a probe of this machine.

Units: FLOP/s, bytes/s, bytes. Rates are dense: a figure printed "with sparsity"
is halved here. A card's name is not a size: ``memory_bytes`` is what CUDA
reports as total memory, and every memory plan uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .probe import Measurement

GIB = 2**30
TERA = 10**12
GIGA = 10**9


def dense_from_sparse(printed: float) -> float:
    """Return the dense rate behind a figure printed "with sparsity" (2:4 sparsity doubles it)."""
    return printed / 2


@dataclass(frozen=True)
class Accelerator:
    """One card (or CPU): what it can compute, read, hold and send.

    peak_flops maps a dtype to dense FLOP/s; a dtype that is absent has no unit of
    its own on this card. bandwidth is of the main memory, in bytes/s. named_gb is
    the number in the product's name, memory_bytes what CUDA reports.
    link_bandwidth is the sum of both directions in bytes/s, as data sheets print
    it; 0 where there is none. Raises ValueError for a rate or size that is not
    above 0.
    """

    name: str
    peak_flops: Mapping[str, float] = field(hash=False)
    bandwidth: float
    named_gb: int
    memory_bytes: int
    link: str
    link_bandwidth: float
    source: str
    date: str
    """Year of the data sheet."""
    memory_source: str = ""

    def __post_init__(self) -> None:
        if not self.peak_flops:
            raise ValueError(f"{self.name}: peak_flops is empty")
        for dtype, rate in self.peak_flops.items():
            if rate <= 0:
                raise ValueError(f"{self.name}: peak_flops[{dtype!r}]={rate!r} is not above 0")
        for name in ("bandwidth", "named_gb", "memory_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{self.name}: {name}={getattr(self, name)!r} is not above 0")
        if self.link_bandwidth < 0:
            raise ValueError(f"{self.name}: link_bandwidth={self.link_bandwidth!r} is below 0")

    def peak(self, dtype: str = "bf16") -> float:
        """Return the dense peak in FLOP/s; raise ValueError where this card has no unit for the dtype."""
        if dtype not in self.peak_flops:
            raise ValueError(f"{self.name} has no {dtype!r} unit; it has {', '.join(self.peak_flops)}")
        return self.peak_flops[dtype]

    @property
    def link_one_way(self) -> float:
        """Bytes/s of the link in one direction: half of what the data sheet prints."""
        return self.link_bandwidth / 2


def _gib(size: float) -> int:
    """Return whole bytes of a size in GiB."""
    return round(size * GIB)


def _rates(scale: float = TERA, **rates: float) -> dict[str, float]:
    """Return rates in FLOP/s from figures in TFLOP/s."""
    return {dtype: rate * scale for dtype, rate in rates.items()}


_LOGS = "total capacity in public PyTorch out-of-memory logs"
_AMPERE = _rates(bf16=312, fp16=312, tf32=156, fp32=19.5, int8=624)
# The H100 sheet prints 1,979 and 1,513 TFLOP/s with sparsity; halves are 989 and 756, as usually quoted.
_HOPPER = _rates(bf16=989, fp16=989, tf32=494.5, fp32=67, fp8=1979, int8=1979)
_A100_SHEET = "NVIDIA A100 Tensor Core GPU data sheet"
_H100_SHEET = "NVIDIA H100 Tensor Core GPU data sheet, tensor rates halved"

A100_80_SXM = Accelerator(
    "A100-80 SXM", _AMPERE, 2039 * GIGA, 80, _gib(79.2), "NVLink 3", 600 * GIGA,
    _A100_SHEET, "2021", f"{_LOGS}: 79.1 to 79.3 GiB",
)
A100_80_PCIE = Accelerator(
    "A100-80 PCIe", _AMPERE, 1935 * GIGA, 80, _gib(79.2), "NVLink 3 bridge, two cards", 600 * GIGA,
    _A100_SHEET, "2021", f"{_LOGS}: 79.1 to 79.3 GiB",
)
A100_40 = Accelerator(
    "A100-40 SXM", _AMPERE, 1555 * GIGA, 40, _gib(39.5), "NVLink 3", 600 * GIGA,
    _A100_SHEET, "2020", f"{_LOGS}: 39.4 to 39.6 GiB",
)
H100_SXM = Accelerator(
    "H100 SXM", _HOPPER, 3350 * GIGA, 80, _gib(79.2), "NVLink 4", 900 * GIGA,
    _H100_SHEET, "2023", f"{_LOGS}: 79.1 to 79.2 GiB",
)
H100_PCIE = Accelerator(
    "H100 PCIe", _rates(bf16=756, fp16=756, tf32=378, fp32=51, fp8=1513, int8=1513), 2000 * GIGA, 80, _gib(79.2),
    "NVLink 4 bridge, two cards", 600 * GIGA, _H100_SHEET, "2023", f"{_LOGS}: 79.1 to 79.2 GiB",
)
H200 = Accelerator(
    "H200 SXM", _HOPPER, 4800 * GIGA, 141, _gib(139.8), "NVLink 4", 900 * GIGA,
    "NVIDIA H200 Tensor Core GPU data sheet, tensor rates halved", "2023", f"{_LOGS}: 139.7 to 139.8 GiB",
)
B200 = Accelerator(
    "B200 SXM", _rates(bf16=2250, fp16=2250, tf32=1100, fp32=80, fp8=4500, int8=4500), 8000 * GIGA, 180, _gib(178.35),
    "NVLink 5", 1800 * GIGA, "NVIDIA HGX B200 data sheet, tensor rates halved; 192 GB at launch, 180 GB in HGX", "2024",
    f"{_LOGS}: 178.35 GiB",
)
L4 = Accelerator(
    "L4", _rates(bf16=121, fp16=121, tf32=60, fp32=30.3, fp8=242.5, int8=242.5), 300 * GIGA, 24, _gib(22.0),
    "PCIe 4 x16", 64 * GIGA, "NVIDIA L4 Tensor Core GPU data sheet, tensor rates halved", "2023",
    f"{_LOGS}: 22.0 to 22.2 GiB (error-correcting memory on)",
)
T4 = Accelerator(
    "T4", _rates(fp16=65, fp32=8.1, int8=130, int4=260), 320 * GIGA, 16, _gib(14.6),
    "PCIe 3 x16", 32 * GIGA, "NVIDIA T4 Tensor Core GPU data sheet", "2019", f"{_LOGS}: 14.6 to 14.7 GiB",
)
LAPTOP_CPU = Accelerator(
    # 8 cores * 3.0 GHz * 2 FMA units * 8 lanes * 2 operations; two channels of 8 B at 5,600 MT/s.
    "laptop CPU (example)", {"fp32": 8 * 3.0e9 * 2 * 8 * 2}, 2 * 8 * 5600e6, 32, 32 * GIB, "none", 0,
    "computed for an example: 8 cores at 3.0 GHz with AVX2, two channels of DDR5-5600", "2026",
    "32 GiB of modules",
)

ACCELERATORS: dict[str, Accelerator] = {
    card.name: card
    for card in (A100_80_SXM, A100_80_PCIE, A100_40, H100_SXM, H100_PCIE, H200, B200, L4, T4, LAPTOP_CPU)
}
"""The cards by name."""


@dataclass(frozen=True)
class Link:
    """A way between cards or machines: bytes/s in one direction for one card, and seconds for one step of a collective.

    one_way is from a data sheet. hop (launch, synchronisation, the first byte) is an
    ASSUMPTION of the right order: measure yours, for it depends on the library more than on
    the wire. Raises ValueError for a rate not above 0 and for a negative hop.
    """

    name: str
    one_way: float
    hop: float
    source: str

    def __post_init__(self) -> None:
        if not self.one_way > 0:
            raise ValueError(f"{self.name}: one_way={self.one_way!r} is not above 0")
        if not self.hop >= 0:
            raise ValueError(f"{self.name}: hop={self.hop!r} is below 0")


# For scale: NVIDIA/nccl issue 1984 reports 3.7 us for a small send and receive between two H800 on NVLink.
NVLINK_3 = Link("NVLink 3", A100_80_SXM.link_one_way, 3e-6, f"{_A100_SHEET}: 600 GB/s, half of it one way")
NVLINK_4 = Link("NVLink 4", H100_SXM.link_one_way, 3e-6, f"{H100_SXM.source}: 900 GB/s, half of it one way")
PCIE_5 = Link("PCIe 5 x16", 64 * GIGA, 5e-6, "PCIe 5.0: 32 GT/s a lane, 16 lanes, before encoding")
INFINIBAND_NDR = Link("InfiniBand NDR", 400 * GIGA / 8, 10e-6, "NVIDIA ConnectX-7: NDR, 400 Gb/s a port; one port for each card")
ETHERNET_100 = Link("100 Gb Ethernet", 100 * GIGA / 8, 30e-6, "IEEE 802.3: 100 Gb/s; one port for each card, TCP")
LINKS: tuple[Link, ...] = (NVLINK_4, NVLINK_3, PCIE_5, INFINIBAND_NDR, ETHERNET_100)
"""Links, fastest first."""


@dataclass(frozen=True)
class MemoryLevel:
    """One level of memory around the multiplying units: bytes in all, bytes/s out of it (0: no figure was found)."""

    name: str
    shared_by: str
    size: int
    bandwidth: float
    source: str


_H100_SMS = 132
_H100_CLOCK = 1.83e9  # Hz, the clock behind the peak of its tensor cores
_H100_PAPER = "NVIDIA H100 Tensor Core GPU Architecture, 2022"
H100_MEMORY_LEVELS: tuple[MemoryLevel, ...] = (
    MemoryLevel("registers", "one thread", _H100_SMS * 256 * 2**10, 0, f"{_H100_PAPER}: 256 KiB per SM"),
    MemoryLevel(
        "shared memory", "one SM", _H100_SMS * 228 * 2**10, _H100_SMS * 128 * _H100_CLOCK,
        f"{_H100_PAPER}: up to 228 KiB per SM; 128 bytes per clock and SM at 1.83 GHz",
    ),
    MemoryLevel("L2 cache", "all SMs", 50 * 2**20, 0, f"{_H100_PAPER}: 50 MB"),
    MemoryLevel("HBM", "the card", H100_SXM.memory_bytes, H100_SXM.bandwidth, H100_SXM.source),
    MemoryLevel("NVLink, one way", "two cards", 0, H100_SXM.link_one_way, H100_SXM.source),
    MemoryLevel("PCIe 5 x16, one way", "card and host", 0, 64 * GIGA, "PCIe 5.0: 32 GT/s a lane, 16 lanes, before encoding"),
)
"""Where an H100 SXM keeps numbers, nearest first; the last two are ways to memory elsewhere, and hold nothing."""


def measure(device: str | None = None, dtype: str | None = None, seconds: float = 20.0) -> "Measurement":
    """Measure this machine's roofs: GEMM rate, streaming-read rate, GEMV rates by shape.

    device is "cpu" or "cuda" (default: cuda where there is one); dtype defaults to
    fp32 on a CPU and fp16 on a GPU; seconds bounds the whole run. Raises ValueError
    for a device that is absent, an unknown dtype or seconds not above 0; torch is
    imported here and nowhere else in this module.
    """
    from .probe import measure as run

    return run(device=device, dtype=dtype, seconds=seconds)
