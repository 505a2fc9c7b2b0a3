"""Money, replicas, cold starts and adapters, against sums done by hand."""

from __future__ import annotations

import random

import pytest

from tinyserve import configs, costs, hardware
from tinyserve.request import Request
from tinyserve.simulator import Replica, simulate

M, H100, A100 = configs.LLAMA_3_70B, hardware.H100_SXM, hardware.A100_80_SXM


def test_price_of_a_million_tokens():
    assert costs.cost_per_million_tokens(36, 1000) == pytest.approx(10)  # 3.6 million tokens in an hour of 36
    assert costs.cost_per_million_tokens(36, 1000, load=0.25) == pytest.approx(40)
    assert costs.break_even_throughput(36, 10) == pytest.approx(1000)


def test_at_the_break_even_both_cost_the_same():
    rate = costs.break_even_throughput(24, 0.7)
    assert costs.cost_per_million_tokens(24, rate) == pytest.approx(0.7)


def test_a_request_is_charged_for_its_share_of_the_time():
    times = costs.request_times(M, 4096, 256, H100, 8, batch=64)
    prompt, rest = costs.request_cost(24, M, 4096, 256, H100, 8, batch=64, load=0.5)
    assert prompt == pytest.approx(times.ttft * 24 / 3600 / 0.5)
    assert rest == pytest.approx(times.decode * 24 / 3600 / 0.5)
    assert costs.request_cost(24, M, 4096, 1, H100, 8)[1] == 0


def test_a_mixed_batch_pays_for_its_prompts():
    prompt = costs.prefill_time(M, 2048, H100, 8, mfu=0.5)
    steps = sum(costs.decode_time(M, 64, t, H100, 8, mfu=0.5, mbu=0.6) for t in range(2049, 2048 + 256))
    assert costs.mixed_tpot(M, 2048, 256, H100, 8, batch=64) == pytest.approx((64 * prompt + steps) / 256)


def test_the_mixed_tpot_is_about_the_simulators():
    """A closed loop of 64 clients in the simulator, the same clock: within a tenth."""
    clock, left = costs.StepClock(M, H100, 8, mfu=0.5, mbu=0.6), [Request([i] * 1024, max_tokens=64) for i in range(512)]
    feed = iter(left[64:])

    def answered(request, now):
        if request.finish_reason and (following := next(feed, None)):
            yield now, following

    replica = Replica(clock, 100_000, prefix_caching=False, max_num_seqs=64, max_num_batched_tokens=2048)
    done = simulate([(0.0, r) for r in left[:64]], [replica], on_token=answered)[128:448]
    between = sum(r.e2e for r in done) / len(done) / 64  # the closed loop's time for one request, per token
    assert costs.mixed_tpot(M, 1024, 64, H100, 8, batch=64) == pytest.approx(between, rel=0.1)


def test_the_largest_mixed_batch():
    for tpot in (0.05, 0.1):
        batch = costs.largest_mixed_batch(M, 2048, 256, tpot, H100, 8)
        assert costs.mixed_tpot(M, 2048, 256, H100, 8, batch) <= tpot < costs.mixed_tpot(M, 2048, 256, H100, 8, batch + 1)
    assert costs.largest_mixed_batch(M, 2048, 256, 100.0, H100, 8) == costs.memory_plan(M, H100, 8).sequences(2304)
    assert costs.largest_mixed_batch(M, 2048, 256, 0.001, H100, 8) == 0 == costs.largest_mixed_batch(M, 2048, 256, 1.0, H100)


def test_the_published_card_ratios():
    """Splitwise's Table I: H100 for A100 1.64 times the bandwidth at 2.16 times the price: 1.32 times the cost."""
    assert costs.cost_ratio(2.16, 1.64) == pytest.approx(1.317, abs=0.001)
    assert costs.cost_ratio(2.16, H100.bandwidth / A100.bandwidth) == pytest.approx(1.315, abs=0.001)
    assert costs.cost_ratio(2.16, H100.peak() / A100.peak()) < 1


def test_replicas():
    assert costs.replicas_needed(10, 2, target=1) == 5
    assert costs.replicas_needed(10.1, 2, target=1) == 6
    assert costs.replicas_needed(2.1, 1, target=0.7) == 3  # no fourth from the rounding of 2.1 / 0.7
    assert costs.replicas_needed(10, 2, target=0.5, spare=1) == 11
    assert costs.replica_hours([0, 1, 10], 2, target=1) == 1 + 1 + 5
    assert costs.replica_hours([0, 1, 10], 2, target=1, least=0) == 0 + 1 + 5
    assert costs.replica_hours([0, 1, 10], 2, target=1, spare=1, least=0) == 0 + 2 + 6


def test_cold_start():
    assert costs.cold_start_time(140e9, 2e9, machine=60, image=30, engine=40) == 60 + 30 + 70 + 40
    assert costs.backlog(12, 10, 200) == 400
    assert costs.backlog(9, 10, 200) == 0


@pytest.mark.parametrize(("growth", "seconds", "capacity"), [(0.01, 200, 10), (0.002, 90, 4)])
def test_a_replica_ordered_at_the_threshold_is_ready_in_time(growth, seconds, capacity):
    at = costs.scale_up_at(growth, seconds, capacity)
    assert at * capacity + growth * seconds == pytest.approx(capacity)
    assert costs.scale_up_at(growth, capacity / growth * 2, capacity) == -1


@pytest.mark.parametrize(("share", "confidence"), [(0.01, 0.95), (0.2, 0.5), (0.001, 0.99)])
def test_a_canary_sees_a_fault_with_just_so_many_requests(share, confidence):
    n = costs.requests_to_see(share, confidence)
    assert 1 - (1 - share) ** n >= confidence > 1 - (1 - share) ** (n - 1)
    assert costs.requests_to_see(1.0) == 1


def test_an_adapter_on_each_matrix():
    """Llama-3-8B by hand: W_q and W_o 8,192 in and out together, W_k and W_v 5,120, gate, up and down 18,432."""
    assert costs.lora_params(configs.LLAMA_3_8B, 16) == 16 * 32 * (2 * 8192 + 2 * 5120 + 3 * 18432)
    assert costs.lora_bytes(configs.LLAMA_3_8B, 16, adapters=3) == 3 * 2 * costs.lora_params(configs.LLAMA_3_8B, 16)
    assert costs.lora_params(M, 8) * 2 == costs.lora_params(M, 16)


def test_distinct_adapters_against_draws():
    rng = random.Random(0)
    drawn = sum(len({rng.randrange(20) for _ in range(32)}) for _ in range(4000)) / 4000
    assert costs.distinct_adapters(20, 32) == pytest.approx(drawn, abs=0.1)
    assert costs.distinct_adapters(1, 32) == 1 and costs.distinct_adapters(20, 1) == pytest.approx(1)


@pytest.mark.parametrize(("call", "said"), [
    (lambda: costs.cost_per_million_tokens(0, 1), "price_per_hour=0"),
    (lambda: costs.cost_per_million_tokens(1, -1), "tokens_per_second=-1"),
    (lambda: costs.cost_per_million_tokens(1, 1, load=1.5), "load=1.5 is above 1"),
    (lambda: costs.break_even_throughput(1, 0), "price_per_million=0"),
    (lambda: costs.request_cost(0, M, 1, 1, H100), "price_per_hour=0"),
    (lambda: costs.request_cost(1, M, 1, 1, H100, load=0), "load=0"),
    (lambda: costs.mixed_tpot(M, 1, 1, H100, batch=0), "batch=0"),
    (lambda: costs.largest_mixed_batch(M, 1, 1, 0, H100), "tpot=0"),
    (lambda: costs.cost_ratio(0, 1), "price_ratio=0"),
    (lambda: costs.cost_ratio(1, 0), "speed_ratio=0"),
    (lambda: costs.replicas_needed(0, 1), "rate=0"),
    (lambda: costs.replicas_needed(1, 1, target=0), "target=0"),
    (lambda: costs.replicas_needed(1, 1, spare=-1), "spare=-1"),
    (lambda: costs.replica_hours([1, -2], 1), "rates holds -2, below 0"),
    (lambda: costs.replica_hours([1], 1, least=-1), "least=-1"),
    (lambda: costs.cold_start_time(0, 1), "weights=0"),
    (lambda: costs.cold_start_time(1, 1, engine=-1), "engine=-1 is below 0"),
    (lambda: costs.backlog(1, 0, 1), "capacity=0"),
    (lambda: costs.scale_up_at(0, 1, 1), "growth=0"),
    (lambda: costs.requests_to_see(0), "share=0"),
    (lambda: costs.requests_to_see(0.1, 1), "confidence=1 needs"),
    (lambda: costs.lora_params(M, 0), "rank=0"),
    (lambda: costs.lora_bytes(M, 8, adapters=-1), "adapters=-1"),
    (lambda: costs.distinct_adapters(0, 1), "adapters=0"),
])
def test_bad_input_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()
