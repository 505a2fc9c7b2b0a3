"""The simulator is the engine without the model: same steps, exact times, two halves of a disaggregated request."""

from __future__ import annotations

import random

import pytest

from tinyserve import costs
from tinyserve.configs import LLAMA_3_70B, ModelConfig
from tinyserve.engine import Engine
from tinyserve.hardware import H100_SXM
from tinyserve.load import poisson
from tinyserve.metrics import summarize
from tinyserve.model import build
from tinyserve.request import Request
from tinyserve.simulator import Replica, RoundRobin, disaggregated, least_loaded, longest_prefix, simulate

TINY = ModelConfig("tiny", n_layers=1, d_model=16, n_heads=2, n_kv_heads=1, head_dim=8, d_ff=16, vocab_size=50, rope_theta=1e4)


def unit_clock(work) -> float:
    """A step takes one second, whatever it does."""
    return 1.0


def token_clock(work) -> float:
    """A step takes a second for every new token."""
    return float(sum(new for new, _ in work))


@pytest.mark.parametrize("limits", [
    {"num_blocks": 60, "max_num_seqs": 8, "max_num_batched_tokens": 32},
    {"num_blocks": 9, "max_num_seqs": 8, "max_num_batched_tokens": 11},  # preempts
])
def test_engine_and_simulator_take_the_same_steps(limits):
    rng = random.Random(3)
    shared = [rng.randrange(50) for _ in range(9)]
    prompts = [shared[: rng.choice([0, 9])] + [rng.randrange(50) for _ in range(rng.randint(1, 14))] for _ in range(12)]
    engine_trace, paper_trace = [], []
    blocks = limits.pop("num_blocks")
    engine = Engine(build(TINY, std=0.3), blocks, block_size=4, trace=engine_trace, **limits)
    done = [engine.add(p, max_tokens=9, request_id=i) for i, p in enumerate(prompts)]
    engine.run()
    said = {r.request_id: r.output for r in done}
    replica = Replica(
        unit_clock, blocks, 4, trace=paper_trace, **limits,
        next_token=lambda r: said[r.request_id][r.num_output_tokens],
    )
    simulate([(0.0, Request(p, max_tokens=9, request_id=i)) for i, p in enumerate(prompts)], [replica])
    for key in ("blocks", "waiting", "events"):
        assert [step[key] for step in engine_trace] == [step[key] for step in paper_trace]
    assert [sorted(step["chunks"]) for step in engine_trace] == [sorted(step["chunks"]) for step in paper_trace]
    assert engine.scheduler.preemptions == replica.scheduler.preemptions
    assert (blocks == 9) == (replica.scheduler.preemptions > 0)
    assert set(engine_trace[0]) == set(paper_trace[0])


def test_times_of_one_request_are_the_clock_s():
    request = Request([1, 2, 3, 4, 5], max_tokens=3)
    replica = Replica(token_clock, 4, 4, max_num_batched_tokens=3)
    simulate([(10.0, request)], [replica])
    assert replica.busy == 7.0
    assert request.queue_time == 0.0  # 3 tokens, then 2, then one at a time
    assert request.token_times == [15.0, 16.0, 17.0]
    assert (request.ttft, request.itl, request.tpot, request.e2e) == (5.0, [1.0, 1.0], 1.0, 7.0)


def test_a_request_is_seen_at_the_end_of_the_step_it_comes_in():
    early, late = Request([1] * 4, max_tokens=1), Request([2], max_tokens=1)
    simulate([(0.0, early), (1.0, late)], [Replica(token_clock, 4, 4)])
    assert early.finished == 4.0
    assert (late.scheduled, late.queue_time, late.finished) == (4.0, 3.0, 5.0)


def test_requests_of_one_moment_share_a_step():
    requests = [Request([i], max_tokens=1) for i in range(3)]
    simulate([(0.0, r) for r in requests], [Replica(unit_clock, 4, 4)])
    assert [r.finished for r in requests] == [1.0, 1.0, 1.0]


def test_a_clock_of_costs_gives_the_roofline_s_times():
    clock = costs.StepClock(LLAMA_3_70B, H100_SXM, cards=8)
    request = Request(list(range(1000)), max_tokens=2)
    simulate([(0.0, request)], [Replica(clock, 100, max_num_batched_tokens=2048)])
    assert request.ttft == pytest.approx(costs.prefill_time(LLAMA_3_70B, 1000, H100_SXM, 8))
    assert request.itl == [pytest.approx(costs.decode_time(LLAMA_3_70B, 1, 1001, H100_SXM, 8))]


def test_on_token_can_send_the_next_turn():
    first = Request([1, 2], max_tokens=2)

    def answer(request, now):
        if request is first and request.finished is not None:
            yield now + 5.0, Request([*request.tokens, 9], max_tokens=1)

    served = simulate([(0.0, first)], [Replica(unit_clock, 8, 2)], on_token=answer)
    assert [r.arrival for r in served] == [0.0, 7.0]
    assert served[1].num_cached_tokens == 2  # [1, 2]; the last token of the first turn was never computed


def test_routers():
    replicas = [Replica(unit_clock, 50, 4) for _ in range(3)]
    rounds = RoundRobin()
    assert [rounds(Request([1]), replicas) for _ in range(4)] == [*replicas, replicas[0]]
    replicas[0].scheduler.add(Request([1] * 30, max_tokens=5))
    assert replicas[0].load == 34  # the last token drawn is never run
    replicas[0].start(0.0)
    replicas[0].end()
    assert replicas[0].load == 4  # the prompt is done
    replicas[0].scheduler.add(Request([1] * 30, max_tokens=5))
    replicas[1].scheduler.add(Request([1] * 3, max_tokens=5))
    assert least_loaded(Request([1]), replicas) is replicas[2]
    warm = Request([7] * 12, max_tokens=1)
    simulate([(0.0, warm)], [replicas[2]])
    replicas[2].scheduler.add(Request([1] * 2, max_tokens=9))  # 10 tokens of work, 12 cached
    assert least_loaded(Request([7] * 13), replicas) is replicas[1]
    assert longest_prefix(Request([7] * 13), replicas) is replicas[2]


def test_disaggregated_halves_add_up():
    whole, single = Request([1] * 6, max_tokens=4), Request([2] * 2, max_tokens=1)
    prefill, decode = Replica(token_clock, 20, 4), Replica(unit_clock, 20, 4)
    done = disaggregated([(0.0, whole), (0.0, single)], [prefill], [decode], transfer=lambda tokens: tokens / 2)
    assert done == [whole, single]
    assert whole.ttft == single.ttft == 8.0  # both prompts in one step
    assert single.finish_reason == "length" and len(single.output) == 1
    assert whole.token_times == [8.0, 12.0, 13.0, 14.0]  # 3 s of transfer, then a second each
    assert len(whole.output) == 4 and whole.finish_reason == "length" and whole.e2e == 14.0
    assert prefill.scheduler.tokens == 8 and decode.scheduler.tokens == 3  # nothing of the prompt is computed twice
    assert prefill.pool.num_in_use == decode.pool.num_in_use == 0


def test_what_was_transferred_is_computed_after_a_preemption():
    requests = [Request([i] * 7, max_tokens=10) for i in range(3)]
    decode = Replica(unit_clock, 5, 4, prefix_caching=False, trace=[])
    disaggregated([(0.0, r) for r in requests], [Replica(unit_clock, 20, 4)], [decode], transfer=lambda tokens: 0.0)
    assert decode.scheduler.preemptions > 0
    assert all(len(r.output) == 10 for r in requests)
    preempted, again = set(), []
    for step in decode.scheduler.trace:
        again += [start for name, start, _ in step["chunks"] if name in preempted]
        preempted -= {name for name, *_ in step["chunks"]}
        preempted |= {event[1] for event in step["events"] if event[0] == "preempt"}
    assert again and set(again) == {0}  # what was transferred is gone with the blocks


def test_never_fits_is_an_error():
    with pytest.raises(ValueError, match="can never fit"):
        simulate([(0.0, Request([1] * 20))], [Replica(unit_clock, 2, 4)])


def test_a_thousand_requests_at_70b():
    rng = random.Random(0)
    requests = [Request([rng.randrange(10**6) for _ in range(rng.randint(100, 600))], max_tokens=rng.randint(5, 60)) for _ in range(1000)]
    clock = costs.StepClock(LLAMA_3_70B, H100_SXM, 8, mfu=0.5, mbu=0.7)
    replica = Replica(clock, 20_000, max_num_seqs=256, max_num_batched_tokens=2048)
    found = summarize(simulate(zip(poisson(20, 1000), requests), [replica]))
    assert found.failed == 0 and found.output_tokens == sum(r.max_tokens for r in requests)
    assert found.itl_p50 >= clock([(1, 100)])
    assert replica.pool.num_in_use == 0 and replica.busy <= found.seconds + 1e-9
