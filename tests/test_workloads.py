"""Workloads: the same from the same seed, and each turn begins with all that was said before."""

from __future__ import annotations

import pytest

from tinyserve import workloads
from tinyserve.simulator import Replica, simulate
from tinyserve.workloads import Turn, Workload


def served(workload: Workload, clock=lambda work: 0.01):
    replica = Replica(clock, 20_000, max_num_seqs=64, max_num_batched_tokens=4096)
    return simulate(workload.arrivals, [replica], on_token=workload.on_token), replica


@pytest.mark.parametrize("make", [workloads.chat, workloads.few_shot, workloads.agents])
def test_a_seed_gives_one_workload(make):
    first, again, other = make(seed=3), make(seed=3), make(seed=4)
    assert first.sessions == again.sessions and first.sessions != other.sessions
    assert [at for at, _ in first.arrivals] == [at for at, _ in again.arrivals]
    assert all(at <= later for (at, _), (later, _) in zip(first.arrivals, first.arrivals[1:]))


def test_every_turn_is_served_and_begins_with_the_one_before():
    workload = workloads.chat(12, turns=4, seed=1)
    requests, replica = served(workload)
    assert len(requests) == workload.turns
    known = {request.request_id: request for request in requests}
    for number, request in known.items():
        session, turn = divmod(number, 1000)
        new = workload.sessions[session][turn]
        assert tuple(request.prompt[-len(new.tokens) :]) == new.tokens and len(request.output) == new.answer
        if turn:
            before = known[number - 1]
            assert request.prompt[: len(before.tokens)] == before.tokens
            assert request.arrival == pytest.approx(before.finished + new.pause)
            assert request.num_cached_tokens == (len(before.tokens) - 1) // 16 * 16
    assert replica.pool.evictions == 0


def test_the_draw_does_not_depend_on_the_speed():
    slow, fast = (served(workloads.agents(5, steps=4), lambda work, s=s: s)[0] for s in (0.5, 0.001))
    assert {r.request_id: r.tokens for r in slow} == {r.request_id: r.tokens for r in fast}


def test_lengths_have_their_means():
    turns = [turn for session in workloads.chat(2000, turns=5, system=1, message=80, answer=200).sessions for turn in session]
    assert len(turns) / 2000 == pytest.approx(5, rel=0.06)
    assert sum(len(turn.tokens) for turn in turns) / len(turns) == pytest.approx(80, rel=0.05)
    assert sum(turn.answer for turn in turns) / len(turns) == pytest.approx(200, rel=0.05)


def test_a_stamp_changes_with_the_time_and_stands_in_front_once():
    turns = [Turn((1, 2), 3, 50.0), Turn((5,), 2, 50.0), Turn((6,), 2, 50.0)]
    requests, _ = served(Workload([turns], [30.0], stamp_every=60))
    assert [r.prompt[0] - workloads.VOCABULARY for r in requests] == [0, 1, 2]
    assert requests[1].prompt[1:] == [*requests[0].tokens[1:], 5]
    assert requests[2].prompt[1:] == [*requests[1].tokens[1:], 6]


@pytest.mark.parametrize("make", [workloads.chat, workloads.agents])
def test_without_a_pause_the_next_turn_comes_at_once(make):
    assert {turn.pause for session in make(5, pause=0).sessions for turn in session} == {0.0}


def test_tenants_do_not_share():
    both, apart = served(workloads.few_shot(60, tasks=1))[1], served(workloads.few_shot(60, tasks=1, tenants=60))[1]
    assert both.pool.hits > 0 and apart.pool.hits == 0


@pytest.mark.parametrize(("call", "said"), [
    (lambda: Workload([[Turn((1,), 1, 0)]], []), "1 sessions and 0 starts"),
    (lambda: Workload([[]], [0.0]), "a session has 0 turns"),
    (lambda: Workload([[Turn((1,), 1, 0)]], [0.0], stamp_every=0), "stamp_every=0 is not above 0"),
    (lambda: Workload([[Turn((1,), 1, 0)]], [0.0], tenants=-1), "tenants=-1 is below 0"),
    (lambda: workloads.chat(pause=-5), "pause=-5 is below 0"),
    (lambda: workloads.agents(pause=-5), "pause=-5 is below 0"),
    (lambda: workloads.chat(0), "sessions=0 is below 1"),
    (lambda: workloads.chat(1, rate=0), "rate=0 is not above 0"),
    (lambda: workloads.few_shot(tasks=0), "tasks=0 is below 1"),
    (lambda: workloads.agents(steps=0), "steps=0 is below 1"),
])
def test_bad_input_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()
