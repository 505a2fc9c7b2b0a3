"""Block pool and scheduler, proven by histories: tests/schedules.py says which are played, tests/play.py what is checked."""

from __future__ import annotations

import schedules
from play import Play
from schedules import ROUND
from stand_in import Ask, Plan, alone

SHARES = {"preempted": 0.2, "hit": 0.2, "evicted": 0.1, "aborted in a prefill": 0.1, "refused": 0.01, "guessed right": 0.05, "guessed wrong": 0.05}
"""Least part of the histories in which each must happen: idle histories prove nothing."""


def test_two_thousand_histories_keep_every_rule_and_every_output() -> None:
    found = schedules.explore()
    print(dict(found))
    assert found["histories"] >= ROUND
    for event, share in SHARES.items():
        assert found[event] >= share * found["histories"], f"{event}: {found[event]} of {found['histories']}"


def test_the_stand_in_sees_wrong_blocks() -> None:
    """A number changed behind a request's back changes its output."""
    ask = Ask(0, 2, 6, [], 4, stops=False, priority=0, salt=None, abort=None, midway=False)
    play = Play(Plan(4, 4, 2, 9, True, False, "chain", None, [ask]))
    play.arrive(ask)
    play.advance()
    request = play.asked[0][1]
    play.slots[request.block_table[0] * 4 + 1] += 1
    play.advance()
    output, drawn, _ = alone(request.prompt, 4, False, None)
    assert play.drawn[request][0] == drawn[0] and request.output[0] == output[0]
    assert play.drawn[request][1] != drawn[1]
