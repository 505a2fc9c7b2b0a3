"""Waste of blocks, sharing, and the break-even of a slower tier, against sums done by hand and counts."""

from __future__ import annotations

import pytest

from tinyserve import configs, costs, hardware
from tinyserve.block_pool import BlockPool


def test_waste_of_the_last_block():
    assert [costs.block_waste(n, 16) for n in (0, 1, 15, 16, 17)] == [0, 15, 1, 0, 15]
    assert sum(costs.block_waste(n, 16) for n in range(1, 1601)) / 1600 == costs.mean_block_waste(16) == 7.5
    assert costs.mean_block_waste(1) == 0
    assert costs.useful_share([10, 30], 16) == 40 / 48
    pool = BlockPool(100, 16)
    assert all(pool.blocks_for(n) * 16 - n == costs.block_waste(n, 16) for n in range(100))


def test_samples_share_full_blocks_of_the_prompt():
    # 40 tokens are two full blocks and a half; with 24 more each sample ends with 4 blocks, 2 of them shared by 3.
    assert costs.shared_samples_saving(40, 24, 3, 16) == (3 * 4 - (2 + 3 * 2)) / (3 * 4)
    assert costs.shared_samples_saving(40, 24, 1, 16) == 0 == costs.shared_samples_saving(15, 9, 4, 16)


def test_at_the_break_even_rate_both_take_as_long():
    model, card = configs.LLAMA_3_70B, hardware.H100_SXM
    rate = costs.break_even_rate(model, 4096, card, 8, mfu=0.5)
    assert costs.read_back_time(model, 4096, rate) == pytest.approx(costs.prefill_time(model, 4096, card, 8, mfu=0.5))
    assert costs.read_back_time(model, 1, 327_680, hop=0.5) == 1.5
    assert rate > costs.break_even_rate(model, 65_536, card, 8, mfu=0.5)  # attention makes long prompts dearer to compute


@pytest.mark.parametrize(("call", "said"), [
    (lambda: costs.block_waste(-1, 16), "tokens=-1"),
    (lambda: costs.block_waste(1, 0), "block_size=0"),
    (lambda: costs.mean_block_waste(0), "block_size=0"),
    (lambda: costs.useful_share([], 16), "tokens=0"),
    (lambda: costs.shared_samples_saving(1, 1, 0, 16), "samples=0"),
    (lambda: costs.shared_samples_saving(40, 0, 4, 16), "answer=0"),
    (lambda: costs.shared_samples_saving(40, -10, 4, 16), "answer=-10"),
    (lambda: costs.read_back_time(configs.LLAMA_3_8B, 1, 0), "rate=0"),
    (lambda: costs.break_even_rate(configs.LLAMA_3_8B, 0, hardware.H100_SXM), "tokens=0"),
])
def test_bad_input_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()
