"""Bytes of collectives counted step by step, step times from bytes, schedules from ticks."""

import math
from itertools import combinations

import pytest

from tinyserve import configs, costs, hardware

LINK = hardware.Link("test", 100.0, 2.0, "")
CARD = hardware.H100_SXM


def _ring(cards):
    """Parts (of `cards` equal ones) that each card sends in a ring all-reduce, by doing it."""
    held = [[{c} for _ in range(cards)] for c in range(cards)]  # held[card][part]: whose summands it has
    sent = [0] * cards
    for phase in (0, 1):
        for step in range(cards - 1):
            moves = [(c, (c - step + phase) % cards) for c in range(cards)]
            values = [set(held[c][part]) for c, part in moves]
            for (c, part), value in zip(moves, values):
                held[(c + 1) % cards][part] |= value
                sent[c] += 1
    assert all(len(part) == cards for card in held for part in card)
    return sent


@pytest.mark.parametrize("cards", (2, 3, 4, 8))
def test_a_ring_sends_what_the_formula_says(cards):
    assert all(n / cards == pytest.approx(costs.all_reduce_bytes(1, cards)) for n in _ring(cards))


def test_all_reduce_and_gather():
    assert [costs.all_reduce_bytes(80, n) for n in (1, 2, 4, 8)] == [0, 80, 120, 140]
    assert costs.all_reduce_bytes(80, 4, "one-step") == 240 and costs.all_reduce_bytes(80, 4, "two-step") == 120
    assert costs.all_gather_bytes(80, 4) == 60
    assert costs.all_reduce_time(80, 4, LINK, "ring") == 6 * 2 + 1.2
    assert costs.all_reduce_time(80, 4, LINK, "two-step") == 2 * 2 + 1.2
    assert costs.all_reduce_time(80, 4, LINK, "one-step") == 2 + 2.4 == costs.all_reduce_time(80, 4, LINK)
    assert costs.all_reduce_time(8000, 4, LINK) == 4 + 120
    assert costs.all_reduce_time(80, 1, LINK) == costs.all_gather_time(80, 1, LINK) == 0
    assert costs.all_gather_time(80, 4, LINK) == 2.6


def test_tensor_parallel_step_is_reading_then_talking():
    m, batch, context, n = configs.LLAMA_3_70B, 16, 4096, 8
    step = costs.tensor_parallel_step(m, batch, context, CARD, n, hardware.NVLINK_4)
    assert step.memory == pytest.approx(costs.decode_time(m, batch, context, CARD, n))
    size = batch * 8192 * 2
    want = 160 * costs.all_reduce_time(size, n, hardware.NVLINK_4) + costs.all_gather_time(batch * 128256 * 2, n, hardware.NVLINK_4)
    assert step.communication == pytest.approx(want)
    assert step.total == max(step.memory, step.compute) + step.communication
    sent = costs.tensor_parallel_sent(m, batch, n)
    assert len(sent) == 161 and sent[0] == size * 14 / 8 and sent[-1] == batch * 128256 * 2 * 7 / 8
    alone = costs.tensor_parallel_step(m, batch, context, CARD, 1, hardware.NVLINK_4)
    assert alone.communication == 0 and alone.total == pytest.approx(costs.decode_time(m, batch, context, CARD))


def test_above_the_kv_heads_the_cache_is_copied_and_context_parallel_divides_it():
    m = configs.LLAMA_3_70B
    times = [costs.tensor_parallel_step(m, 64, 32_768, CARD, 16, hardware.NVLINK_4, context_parallel=c).memory for c in (1, 2)]
    kv = costs.kv_cache_bytes(m, 32_768) / 8 * 64 / CARD.bandwidth
    assert times[0] - times[1] == pytest.approx(kv / 2)


def test_where_tensor_parallelism_stops_helping():
    m = configs.LLAMA_3_8B
    best = [costs.best_tensor_parallel(m, 1, 4096, CARD, hardware.NVLINK_4, algorithm=a) for a in ("ring", "best")]
    assert best == [4, 8]
    assert costs.best_tensor_parallel(m, 1, 4096, CARD, hardware.ETHERNET_100, algorithm="ring") == 1


@pytest.mark.parametrize("stages, micro", ((1, 1), (4, 1), (4, 8), (8, 3)))
def test_the_bubble_is_the_idle_share_of_the_schedule(stages, micro):
    plan = costs.pipeline_schedule(stages, micro)
    cells = [x for row in plan for x in row]
    assert cells.count(None) / len(cells) == pytest.approx(costs.pipeline_bubble(stages, micro))
    for stage, row in enumerate(plan):
        assert [x for x in row if x is not None] == list(range(micro))
        assert stage == 0 or all(row[t] is None or plan[stage - 1][t - 1] == row[t] for t in range(1, len(row)))


def test_a_pipeline_does_not_shorten_one_token_but_fills_up():
    m, link = configs.LLAMA_3_70B, hardware.NVLINK_4
    alone = costs.decode_time(m, 8, 4096, CARD)
    one = costs.pipeline_step(m, 8, 4096, CARD, 4, link)
    assert one == pytest.approx(alone + 4 * (link.hop + 8 * 8192 * 2 / link.one_way))
    assert costs.pipeline_step(m, 8, 4096, CARD, 1, link) == pytest.approx(alone)
    tick = costs.pipeline_step(m, 8, 4096, CARD, 4, link, microbatches=4) / 4
    assert tick == pytest.approx(costs.decode_time(m, 2, 4096, CARD) / 4 + link.hop + 2 * 8192 * 2 / link.one_way)
    assert costs.pipeline_step(m, 8, 4096, CARD, 4, link, 8) > 4 * tick  # more micro-batches than stages: all wait in turn


def test_copies_of_a_dispatched_token_by_enumeration():
    m = configs.MoEConfig("tiny", 1, 4, configs.MIXTRAL_8X7B.attention, 4, 8, 3, 16)
    remote, cards = 0, 4
    choices = list(combinations(range(8), 3))
    for choice in choices:
        remote += len({e // 2 for e in choice} - {0})
    assert costs.expert_parallel_sent(m, 1, cards, "int8") / 4 == pytest.approx(remote / len(choices))
    assert costs.expert_parallel_sent(m, 1, cards, "int8", merged=False) / 4 == pytest.approx(3 * 3 / 4)
    assert costs.expert_parallel_sent(m, 5, 1) == 0 == costs.expert_parallel_time(m, 5, 1, LINK)
    sent = costs.expert_parallel_sent(m, 5, 4)
    assert costs.expert_parallel_time(m, 5, 4, LINK) == pytest.approx(2 * (2 + sent / 100))


def test_context_parallel_merging_does_not_depend_on_the_context():
    m = configs.LLAMA_3_70B
    assert costs.context_parallel_sent(m, 2, 4) == 2 * 80 * 64 * 129 * 4 * 3 / 4
    assert costs.context_parallel_sent(m, 2, 1) == 0


def test_links_are_data_sheet_rates_one_way():
    assert hardware.NVLINK_4.one_way == 450e9 and hardware.INFINIBAND_NDR.one_way == 50e9 and hardware.ETHERNET_100.one_way == 12.5e9
    rates = [x.one_way for x in hardware.LINKS]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: costs.all_reduce_bytes(-1, 2), "size=-1 is below 0"),
        (lambda: costs.all_reduce_bytes(1, 0), "cards=0"),
        (lambda: costs.all_reduce_bytes(1, 2, "tree"), "algorithm='tree'"),
        (lambda: costs.tensor_parallel_step(configs.LLAMA_3_70B, 1, 1, CARD, 3, LINK), "cards=3 does not divide n_heads=64"),
        (lambda: costs.pipeline_bubble(0, 1), "stages=0"),
        (lambda: costs.pipeline_step(configs.LLAMA_3_8B, 5, 1, CARD, 2, LINK, 2), "batch=5 is not a multiple"),
        (lambda: costs.pipeline_step(configs.LLAMA_3_8B, 5, 1, CARD, 33, LINK), "stages=33 is above n_layers=32"),
        (lambda: costs.expert_parallel_sent(configs.MIXTRAL_8X7B, 1, 3), "cards=3 does not divide n_experts=8"),
        (lambda: hardware.Link("x", 0, 0, ""), "one_way=0 is not above 0"),
        (lambda: hardware.Link("x", 1, -1, ""), "hop=-1 is below 0"),
    ],
)
def test_wrong_input_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_no_link_makes_a_time_infinite():
    assert all(math.isfinite(costs.tensor_parallel_time(configs.LLAMA_3_8B, 1, 8, link)) for link in hardware.LINKS)
