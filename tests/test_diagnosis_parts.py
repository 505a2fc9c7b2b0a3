"""The parts that the troubleshooting table is made of, each against a number worked out by hand or another way to it."""

import math
from dataclasses import replace

import pytest

from tinyserve import costs, diagnosis
from tinyserve.diagnosis import Normal, Range, Setup, range_of, real, serve
from tinyserve.diagnosis.readings import READINGS, _slope, read
from tinyserve.diagnosis.service import FrontEnd, MeteredReplica, Refusing, draw_requests
from tinyserve.diagnosis.setup import CONTEXT_BYTES, DRAFT_MODEL, EAGER_GAP, GRAPH_GAP, KERNELS
from tinyserve.hardware import A100_40, NVLINK_3
from tinyserve.request import Request, Status
from tinyserve.simulator import Replica, simulate

SMALL = Setup(requests=12)


@pytest.mark.parametrize(("field", "value", "rule"), [
    ("replicas", 0, "below 1"), ("requests", 0, "below 1"), ("rate", 0.0, "above 0"), ("cpu", -1.0, "above 0"), ("kernels", "best", "tuned"),
    ("draft", "good", "matched"), ("stamp", "middle", "front"), ("tokenizer_release", "older", "new"), ("clients", 0, "below 1"),
])
def test_a_setting_that_makes_no_sense_is_refused(field, value, rule):
    with pytest.raises(ValueError, match=f"{field}=.*{rule}"):
        Setup(**{field: value})


def test_the_clock_is_the_roofline_and_a_gap():
    mfu, mbu = KERNELS["tuned"]
    work = [(1, 700)] * 5 + [(300, 100)]
    one = Setup()
    step = costs.step_time(one.model, work, A100_40, mfu=mfu, mbu=mbu)
    assert one.clock()(work) == pytest.approx(step + GRAPH_GAP)
    assert one.clock().kernels(work) == pytest.approx(step)
    assert replace(one, enforce_eager=True).clock()(work) == pytest.approx(step + EAGER_GAP)
    assert one.clock().moved(work) == costs.step_bytes(one.model, work)
    assert one.clock().computed(work) == costs.step_flops(one.model, work)
    two = replace(one, tensor_parallel_size=2)
    both = costs.step_time(one.model, work, A100_40, 2, mfu=mfu, mbu=mbu) + costs.tensor_parallel_time(one.model, 305, 2, NVLINK_3, logits=6)
    assert two.clock().kernels(work) == pytest.approx(both)


def test_a_draft_runs_its_passes_over_the_sequences_that_decode():
    mfu, mbu = KERNELS["tuned"]
    work = [(4, 700), (4, 300), (500, 0)]
    plain, drafted = Setup().clock()(work), Setup(draft="matched").clock()(work)
    one_pass = costs.step_time(DRAFT_MODEL, [(1, 700), (1, 300)], A100_40, mfu=mfu, mbu=mbu) + GRAPH_GAP
    assert drafted - plain == pytest.approx(3 * one_pass)


def test_memory_inside_and_beside_the_budget():
    setup = Setup(gpu_memory_utilization=0.9)
    assert setup.memory.tokens == costs.memory_plan(setup.model, A100_40, utilization=0.9).tokens
    assert setup.outside == pytest.approx(0.1 * A100_40.memory_bytes - CONTEXT_BYTES)
    crowded = replace(setup, neighbour=setup.model)
    assert setup.outside - crowded.outside == pytest.approx(costs.weight_bytes(setup.model))


def test_front_end_is_first_come_first_served():
    setup = Setup(cpu=0.01)
    busy, request = setup.front_end_seconds(0), Request([], request_id=0)
    front = FrontEnd(setup)
    assert [front.hand_on(at, Request([], request_id=i)) for i, at in enumerate((0.0, 0.0, 10.0))] == pytest.approx([busy, 2 * busy, 10 + busy])
    assert front.delays[1] == pytest.approx(2 * busy)
    two = FrontEnd(replace(setup, api_server_count=2))
    assert [two.hand_on(0.0, Request([], request_id=i)) for i in range(3)] == pytest.approx([busy, busy, 2 * busy])
    assert setup.front_end_seconds(1000) > busy and request.arrival is None


def test_refused_requests_end_with_an_error():
    refusing, request = Refusing(), Request([1])
    refusing.scheduler.add(request, 3.0)
    assert (request.status, request.finish_reason, request.arrival) == (Status.FINISHED, "error", 3.0)
    run = serve(Setup(requests=20, burst=30, max_num_queued_reqs=10))
    assert len(run.requests) + len(run.refused) == 50 and run.refused
    assert all(r.finish_reason == "length" for r in run.requests)


def test_a_metered_replica_serves_as_a_plain_one_does():
    def requests():
        return [(i / 4, r) for i, r in zip(range(12), draw_requests(SMALL, 0))]

    metered = MeteredReplica(SMALL)
    plain = Replica(SMALL.clock(), SMALL.memory.tokens // 16, max_num_seqs=256, max_num_batched_tokens=512)
    times = [[r.token_times for r in simulate(requests(), [replica])] for replica in (metered, plain)]
    assert times[0] == times[1]
    assert sum(step.seconds for step in metered.steps) == pytest.approx(plain.busy)
    assert sum(step.tokens for step in metered.steps) == plain.scheduler.tokens
    assert sum(step.decodes for step in metered.steps) == sum(len(times) - 1 for times in times[0])


@pytest.mark.parametrize(("alpha", "tokens"), [(1.0, 4), (0.0, 1)])
def test_alpha_decides_how_many_tokens_a_step_brings(alpha, tokens):
    replica = MeteredReplica(Setup(draft="matched"), alpha)
    request = Request([1] * 20, max_tokens=13, num_draft_tokens=3)
    simulate([(0.0, request)], [replica])
    assert len(replica.steps) == 1 + 12 / tokens
    assert len(request.output) == 13
    assert replica.accepted == alpha * replica.drafted > 0 or alpha == 0 < replica.drafted


def test_half_a_load_is_half_of_rate_or_clients():
    assert (Setup(rate=4.0, requests=70).half().rate, Setup(rate=4.0, requests=70).half().requests) == (2.0, 35)
    assert (Setup(clients=10, requests=40).half().clients, Setup(clients=1).half().clients) == (5, 1)


def test_clients_wait_for_their_answers():
    run = serve(Setup(clients=3, requests=12, think=1.0))
    assert len(run.requests) == 12
    assert max(step.running + step.waiting for step in run.steps) <= 3
    ends = sorted(r.finished for r in run.requests)
    later = sorted(r.arrival for r in run.requests)[3:]
    assert all(at > end + 1.0 for at, end in zip(later, ends))


def test_a_stamp_in_front_shares_nothing():
    def hits(stamp):
        return serve(replace(SMALL, stamp=stamp)).replicas[0].pool.hits

    assert hits("front") == 0
    assert hits("end") > 11 * 512 // 16 / 2


def test_a_server_that_cannot_hold_one_request_does_not_start():
    with pytest.raises(ValueError, match="needs more than"):
        serve(Setup(max_model_len=10**6))
    assert read(Setup(max_model_len=10**6))["full requests"] < 1


def test_ranges_by_hand():
    queue, running, hits = (READINGS[name] for name in ("queue p50", "running", "prefix hits"))
    assert range_of(queue, [1.0, 1.2]).high == pytest.approx(1.2 + 0.25 * 1.1)  # a quarter of the mean is more than the spread
    assert range_of(queue, [1.0, 3.0]) == Range(-math.inf, 5.0)  # the spread is more
    assert range_of(queue, [0.01]).high == pytest.approx(0.06)  # the floor is more
    assert (range_of(running, [10.0]).low, range_of(running, [10.0]).high) == (7.5, 12.5)
    assert range_of(hits, [0.8]) == Range(pytest.approx(0.6), math.inf)
    assert range_of(READINGS["preemptions"], [3.0]) == Range(-math.inf, 0.0)
    with pytest.raises(ValueError, match="no values"):
        range_of(queue, [])
    assert [Range(1, 2).state(x) for x in (0.9, 1, 2, 2.1, None)] == ["low", "normal", "normal", "high", "absent"]
    assert Normal([{"running": 10.0}]).states({"running": 10.0})["queue p50"] == "absent"


def test_slope_of_a_line_and_of_too_few_points():
    assert _slope([(x, 3 * x + 1) for x in range(5)]) == pytest.approx(3)
    assert _slope([(1, 2), (2, 3)]) is None


def test_releases_differ_and_only_whole_ones_answer_right():
    assert real.tokenizer_hash("old") != real.tokenizer_hash("new")
    text = real.PROMPT
    for release in real.RELEASES:
        coder = real.tokenizer(release)
        assert coder.decode(coder.encode(text)) == text and coder.vocab_size <= real.TINY.vocab_size
        assert real.golden_share(release, release) == 1
    assert real.golden_share("old", "new") == real.golden_share("new", "old") == 0


def test_a_stale_draft_is_hardly_ever_right():
    assert real.acceptance("matched", 3) > 0.5
    assert real.acceptance("stale", 3) < 0.1


def test_words():
    assert diagnosis.show_value("queue p50", 1.23456) == "1,235 ms"
    assert diagnosis.show_value("preemptions", 0.0) == "0 per s"
    assert diagnosis.show_value("MBU", 0.456) == "46 %"
    assert diagnosis.show_value("accepted", None) == "-"
    assert diagnosis.show_range("running", Range(5, 20.25)) == "at least 5.00, at most 20.2"
    assert diagnosis.show_range("accepted", None) == "not there"
    assert diagnosis.show_changes({"enforce_eager": True, "max_num_seqs": 8, "prompt": (7000, 8000), "cpu": 0.5}) == (
        "--enforce-eager, --max-num-seqs 8, prompt = 7,000 to 8,000, cpu = 0.5"
    )
    assert diagnosis.show_changes({"enforce_eager": False}) == "no --enforce-eager"
    assert diagnosis.show_row(None) == "nothing is wrong" and diagnosis.show_row(diagnosis.ROWS[3]) == "row 4"
