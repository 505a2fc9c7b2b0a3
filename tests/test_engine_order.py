"""The engine's named cases: streams, times by a known clock, order, seeds, counters and the trace."""

from __future__ import annotations

import math

from test_engine import PROMPT, Clock, Scripted, alone, engine

from tinyserve.block_pool import BlockPool
from tinyserve.request import Request
from tinyserve.sampling import SamplingParams
from tinyserve.scheduler import Scheduler


def test_a_stream_yields_tokens_as_they_come():
    served = engine()
    other, request = served.add(PROMPT, max_tokens=9), served.add(PROMPT[:4], max_tokens=5)
    got = []
    for token in served.stream(request):
        got.append(token)
        assert got == request.output and len(other.output) == len(got)
    assert got == alone(PROMPT[:4], max_tokens=5) and len(other.output) == 5
    assert list(served.stream(request)) == got  # one that has ended, from the beginning
    assert list(served.stream(other)) == alone(PROMPT, max_tokens=9)


def test_a_stream_ends_with_an_abort():
    served = engine()
    request, got = served.add(PROMPT, max_tokens=9), []
    for token in served.stream(request):
        got.append(token)
        if len(got) == 3:
            served.abort(request)
    assert got == alone(PROMPT, max_tokens=3) and request.finish_reason == "abort"


def test_times_by_a_clock_that_is_known():
    """A step takes as many seconds as it has tokens: 4 + (1 + 3) + (1 + 1) …"""
    clock = Clock()
    served = engine(model=Scripted([5] * 40, clock=clock), clock=clock, max_num_batched_tokens=4)
    clock.now = 100.0
    first = served.add([1, 2, 3, 4], max_tokens=4)
    clock.now = 101.5
    second = served.add([6, 7, 8], max_tokens=3)
    served.run()  # steps at 101.5, 105.5, 109.5, 111.5, 113.5
    assert (first.arrival, first.scheduled, first.token_times) == (100.0, 101.5, [105.5, 109.5, 111.5, 113.5])
    assert (first.queue_time, first.ttft, first.itl, first.tpot, first.e2e) == (1.5, 5.5, [4.0, 2.0, 2.0], 8 / 3, 13.5)
    assert (second.queue_time, second.ttft, second.itl, second.tpot, second.e2e) == (4.0, 8.0, [2.0, 2.0], 2.0, 12.0)


def test_no_times_before_there_are_any():
    request = Request(PROMPT)
    assert (request.queue_time, request.ttft, request.itl, request.tpot, request.e2e) == (None, None, [], None, None)


def order(scheduler: Scheduler) -> list[Request]:
    """Run to the end; return the requests in the order of their first token."""
    seen: list[Request] = []
    while not scheduler.idle:
        chunks = scheduler.schedule()
        seen += [r for r in scheduler.update(chunks, [[1] if chunk.samples else [] for chunk in chunks]) if r not in seen]
    return seen


def test_the_order_is_that_of_arrival_not_of_making():
    scheduler = Scheduler(BlockPool(8, 4), max_num_seqs=1)
    a, b, c = (Request([1], max_tokens=2) for _ in range(3))
    for request in (b, c, a):
        scheduler.add(request)
    assert order(scheduler) == [b, c, a]


def test_the_lower_priority_number_goes_first():
    scheduler = Scheduler(BlockPool(8, 4), max_num_seqs=1)
    asked = [Request([1], max_tokens=2, priority=priority) for priority in (2, 1, 1, 0.5, math.inf, -1)]
    for request in asked:
        scheduler.add(request)
    assert [request.priority for request in order(scheduler)] == [-1, 0.5, 1, 1, 2, math.inf]
    assert asked[1].number < asked[2].number


def test_an_urgent_request_takes_blocks_from_others():
    served = engine(num_blocks=6, max_num_batched_tokens=6)
    later = served.add(PROMPT[:8], max_tokens=8, priority=1)
    served.step(), served.step()
    urgent = served.add(PROMPT[::-1], max_tokens=8, priority=0)
    served.run()
    assert (later.preemptions >= 1, urgent.preemptions) == (True, 0) and urgent.finished < later.finished
    assert (later.output, urgent.output) == (alone(PROMPT[:8], max_tokens=8), alone(PROMPT[::-1], max_tokens=8))


def test_nobody_waits_for_ever_though_short_requests_keep_coming():
    """First come, first served: 200 short ones behind a long one that needs the whole pool."""
    scheduler = Scheduler(BlockPool(6, 2), max_num_seqs=4, max_num_batched_tokens=3)
    for _ in range(3):
        scheduler.add(Request([1, 2], max_tokens=3))
    long = Request([3] * 6, max_tokens=7)
    scheduler.add(long)
    for step in range(200):
        scheduler.add(Request([step, 1], max_tokens=2))
        chunks = scheduler.schedule()
        scheduler.update(chunks, [[1] if chunk.samples else [] for chunk in chunks])
    assert long.finish_reason == "length" and long.finished is not None


# seeds


def test_a_seed_means_the_same_tokens_whatever_the_batch():
    sampling = [SamplingParams(temperature=1.5, seed=seed) for seed in (1, 2, 3)] + [SamplingParams(temperature=0.9, top_k=9, top_p=0.8, seed=1)]
    want = [engine().generate([PROMPT[: 4 + i]], sampling=params, max_tokens=8)[0].output for i, params in enumerate(sampling)]
    assert want[0] != want[1]
    for served in (engine(), engine(num_blocks=8, max_num_batched_tokens=5), engine(max_num_seqs=2, prefix_caching=False)):
        requests = [served.add(PROMPT[: 4 + i], sampling=params, max_tokens=8) for i, params in enumerate(sampling)]
        served.add(PROMPT, sampling=SamplingParams(temperature=1.0), max_tokens=3)
        served.run()
        assert [request.output for request in requests] == want
    assert requests[0].sampler.seed == 1


# what is counted


def test_counters():
    served = engine(num_blocks=12)
    served.generate([PROMPT, PROMPT[:4]], max_tokens=3)
    served.generate([PROMPT], max_tokens=1)
    counted = served.counters()
    token = 2 * 2 * 2 * 8 * 4  # K and V, layers, heads, numbers, bytes
    want = {"steps": 4, "model_tokens": 14 + 2 * 2 + 2, "preemptions": 0, "blocks_in_use": 0, "peak_blocks": 5, "evictions": 0,
            "prefix_queries": 4 * (2 + 0 + 2), "prefix_hits": 8, "bytes_copied": 20 * token}
    assert {name: counted[name] for name in want} == want
    assert counted["bytes_gathered"] >= counted["bytes_copied"]


def test_the_trace():
    clock, trace = Clock(), []
    served = engine(6, 2, Scripted([5] * 40, clock=clock), clock=clock, trace=trace, max_num_batched_tokens=4)
    served.add([1, 2, 3, 4, 5], max_tokens=2, request_id="a")
    gone = served.add([6, 7], max_tokens=4, request_id="b")
    served.step(), served.step()
    served.abort(gone)
    served.run()
    assert trace == [
        {"step": 1, "begin": 0.0, "end": 4.0, "chunks": [["a", 0, 4]], "blocks": {"a": 2}, "waiting": ["b"],
         "events": [["arrive", "a"], ["arrive", "b"], ["admit", "a", 0]]},
        {"step": 2, "begin": 4.0, "end": 7.0, "chunks": [["a", 4, 1], ["b", 0, 2]], "blocks": {"a": 3, "b": 1}, "waiting": [],
         "events": [["admit", "b", 0]]},
        {"step": 3, "begin": 7.0, "end": 8.0, "chunks": [["a", 5, 1]], "blocks": {}, "waiting": [],
         "events": [["finish", "b", "abort"], ["finish", "a", "length"]]},
    ]
