"""Accelerator figures and the probe. No timing is asserted, only what was measured and in which form."""

import re

import pytest

from tinyserve import hardware
from tinyserve.hardware import ACCELERATORS, Accelerator

GPUS = [card for card in ACCELERATORS.values() if card is not hardware.LAPTOP_CPU]


def test_the_cards_of_the_book():
    assert list(ACCELERATORS) == ["A100-80 SXM", "A100-80 PCIe", "A100-40 SXM", "H100 SXM", "H100 PCIe", "H200 SXM",
                                  "B200 SXM", "L4", "T4", "laptop CPU (example)"]


@pytest.mark.parametrize("card", ACCELERATORS.values(), ids=list(ACCELERATORS))
def test_every_figure_has_source_and_date(card):
    assert card.source and card.memory_source and re.fullmatch(r"20\d\d", card.date)


@pytest.mark.parametrize("card", GPUS, ids=lambda card: card.name)
def test_a_name_is_not_a_size(card):
    """Each card shows CUDA less than its name in GiB; the 80 GB cards show more than 80 * 10**9 bytes."""
    assert card.memory_bytes < card.named_gb * 2**30
    assert card.memory_bytes > 0.9 * card.named_gb * 10**9


@pytest.mark.parametrize(("card", "gigabytes"), [("H100 SXM", 85.0), ("A100-80 SXM", 85.0), ("H200 SXM", 150.1),
                                                 ("B200 SXM", 191.5)])
def test_memory_bytes(card, gigabytes):
    assert round(ACCELERATORS[card].memory_bytes / 1e9, 1) == gigabytes


# As printed with sparsity, in TFLOP/s; the table keeps the half, without its decimals.
SPARSE = [("H100 SXM", "bf16", 1979), ("H100 SXM", "fp8", 3958), ("H100 PCIe", "bf16", 1513), ("H100 PCIe", "fp8", 3026),
          ("H200 SXM", "bf16", 1979), ("B200 SXM", "bf16", 4500), ("B200 SXM", "fp8", 9000), ("L4", "bf16", 242),
          ("L4", "fp8", 485), ("A100-80 SXM", "bf16", 624)]


@pytest.mark.parametrize(("card", "dtype", "printed"), SPARSE)
def test_rates_with_sparsity_are_halved(card, dtype, printed):
    assert abs(ACCELERATORS[card].peak(dtype) / 1e12 - hardware.dense_from_sparse(printed)) <= 0.5


def test_units_that_cards_lack():
    for card, dtype in (("A100-80 SXM", "fp8"), ("T4", "bf16"), ("T4", "fp8")):
        with pytest.raises(ValueError, match=f"{card} has no '{dtype}' unit; it has"):
            ACCELERATORS[card].peak(dtype)


def test_link_one_way_is_half():
    assert hardware.H100_SXM.link_one_way == 450e9


@pytest.mark.parametrize(
    ("change", "words"),
    [({"peak_flops": {}}, "peak_flops is empty"), ({"peak_flops": {"bf16": 0}}, r"peak_flops\['bf16'\]=0"),
     ({"bandwidth": -1}, "bandwidth=-1"), ({"memory_bytes": 0}, "memory_bytes=0"), ({"link_bandwidth": -2}, "link_bandwidth=-2")],
)
def test_bad_figures(change, words):
    good = dict(name="x", peak_flops={"bf16": 1.0}, bandwidth=1.0, named_gb=1, memory_bytes=1, link="none",
                link_bandwidth=0, source="s", date="2026")
    with pytest.raises(ValueError, match=words):
        Accelerator(**good | change)


def test_the_probe_measures_what_it_is_asked():
    from tinyserve.probe import measure

    found = measure("cpu", seconds=0.5, shapes=((64, 128), (256, 64)), gemm_sizes=(64, 96), pool_bytes=2**20)
    assert (found.device, found.dtype) == ("cpu", "fp32")
    assert list(found.gemm) == [64, 96] and list(found.gemv) == [(64, 128), (256, 64)]
    for rate in (*found.gemm.values(), found.stream, *found.gemv.values()):
        assert 0 < rate.low <= rate.median <= rate.high and rate.repeats >= 3 and rate.spread >= 0
    assert found.ridge == found.peak_flops / found.stream.median


def test_cold_weights_are_all_visited_before_one_returns():
    from tinyserve.probe import time_calls

    seen = []
    time_calls([lambda i=i: seen.append(i) for i in range(4)], "cpu", 0.0, minimum=8)
    assert seen == [0, 1, 2, 3, 0, 1, 2, 3, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [({"device": "tpu"}, "device='tpu' is not one of cpu"), ({"dtype": "int3"}, "dtype='int3' is not one of fp32"),
     ({"seconds": 0}, "seconds=0 is not above 0"), ({"seconds": 99}, "seconds=99")],
)
def test_the_probe_refuses(options, words):
    with pytest.raises(ValueError, match=words):
        hardware.measure(**{"device": "cpu"} | options)


def test_the_probe_refuses_a_shape_that_the_cache_would_hold():
    from tinyserve.probe import measure

    with pytest.raises(ValueError, match="does not fit twice in a pool of 1024 bytes"):
        measure("cpu", seconds=1, shapes=((16, 16),), gemm_sizes=(8,), pool_bytes=1024)
