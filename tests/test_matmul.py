"""The cost of one product, against counted FLOPs and the tensors' own bytes."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tinyserve import costs, hardware

SHAPES = [(1, 512, 512), (64, 512, 256), (3, 5, 7), (4096, 4096, 4096)]


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_matmul_flops_and_bytes_are_the_tensors(m, k, n):
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        a, b = torch.empty(m, k, dtype=torch.bfloat16), torch.empty(k, n, dtype=torch.bfloat16)
        c = a @ b
    assert costs.matmul_flops(m, k, n) == counter.get_total_flops()
    assert costs.matmul_bytes(m, k, n) == a.nbytes + b.nbytes + c.nbytes
    assert costs.matmul_intensity(m, k, n, "fp32") == pytest.approx(costs.matmul_intensity(m, k, n) / 2)


def test_the_intensity_of_few_rows_is_the_number_of_rows():
    for rows in (1, 16, 64):
        assert costs.matmul_intensity(rows, 8192, 8192) == pytest.approx(rows, rel=0.02)


@pytest.mark.parametrize(("bad", "words"), [((0, 1, 1), "m=0"), ((1, -2, 1), "k=-2"), ((1, 1, 1.5), "n=1.5")])
def test_a_bad_dimension_is_named(bad, words):
    with pytest.raises(ValueError, match=words):
        costs.matmul_flops(*bad)
    with pytest.raises(ValueError, match=words):
        costs.matmul_bytes(*bad)


def test_memory_levels_get_slower_and_carry_their_source():
    rates = [level.bandwidth for level in hardware.H100_MEMORY_LEVELS if level.bandwidth]
    assert rates == sorted(rates, reverse=True)
    assert all(level.source for level in hardware.H100_MEMORY_LEVELS)
    on_chip = [level for level in hardware.H100_MEMORY_LEVELS if level.shared_by in ("one thread", "one SM", "all SMs")]
    assert sum(level.size for level in on_chip) < 0.002 * hardware.H100_SXM.memory_bytes
