"""Random histories of block pool and scheduler: which are played (tests/play.py plays and checks one), and how many.

    python tests/schedules.py 100000        plays that many, in rounds with seeds of their own
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from play import REAL, Play
from stand_in import Ask, Plan

ROUND = 2000


def often(usual: Any, *others: Any) -> st.SearchStrategy:
    """The usual value more often than all the others together."""
    return st.sampled_from([usual] * (len(others) + 1) + list(others))


ASKS = st.builds(
    Ask, gap=st.sampled_from([0, 0, 0, 1, 3]), base=st.integers(0, 3), length=st.integers(1, 9), tail=st.lists(st.integers(0, 1), max_size=3),
    max_tokens=st.sampled_from([7, 9, 5, 12, 1, 2]), stops=st.sampled_from([False, False, False, True]), priority=often(0, 1, 2), salt=st.sampled_from([None, None, None, 1]),
    abort=st.sampled_from([*[None] * 6, "prefill", 1, 4]), midway=st.booleans(), drafts=st.sampled_from([0, 0, 0, 0, 2, 3]),
)
PLANS = st.builds(
    Plan, num_blocks=st.integers(3, 7), block_size=st.integers(1, 4), max_num_seqs=st.sampled_from([4, 3, 5, 6, 2, 1]), budget=st.sampled_from([6, 9, 12, 5, 4, 3, 2, 1]),
    chunked=st.sampled_from([True, True, True, True, False]), caching=st.sampled_from([True, True, True, True, False]), hashing=often("chain", "constant", "four"), clear=often(None, 3, 9),
    asks=st.lists(ASKS, min_size=5, max_size=8),
)


def explore(modules: Any = REAL, examples: int = ROUND, number: int = 0, shrink: bool = False) -> Counter[str]:
    """Play that many histories of round ``number``; return how many there were, and in how many each event happened.

    The first history that fails raises its AssertionError (or what the modules raised). Round 0 is the tests', and the same for all modules.
    """
    found: Counter[str] = Counter()

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
    )
    @given(plan=PLANS)
    def history(plan: Plan) -> None:
        seen = Play(plan, modules).run()
        found.update({"histories": 1, **seen})

    (seed(number)(history) if number else history)()
    return found


if __name__ == "__main__":
    begin, goal, total = time.perf_counter(), int(sys.argv[1]), Counter()
    for number in range(-(-goal // ROUND)):
        total += explore(number=number, shrink=True)
        print(number, dict(total), f"{time.perf_counter() - begin:.0f} s", flush=True)
