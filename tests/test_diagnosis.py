"""Each row of the troubleshooting table: its cause makes its symptom and no other, and its fix takes it away."""

import functools
import re
from dataclasses import replace

import pytest

from course import vllm
from tinyserve import diagnosis
from tinyserve.diagnosis import ROWS, SEEDS, Setup, diagnose, normal_of, questions, read
from tinyserve.diagnosis.tree import TREE, Question
from tinyserve.diagnosis.words import FLAGS

UNSEEN = 6  # a seed that no normal range knows
BY_NUMBER = {row.number: row for row in ROWS}


@functools.cache
def reading(setup):
    return read(setup, UNSEEN)


def faults(row, rows=ROWS, tree=diagnose):
    """What is wrong with a row, in words: nothing for a right one."""
    normal, found = normal_of(row.healthy()), []
    for state, setup, wanted in (("broken", row.broken(), [row.number]), ("fixed", row.fixed(), [])):
        readings = reading(setup)
        first = normal.states(readings)[row.first]
        if (first in ("high", "low")) != (state == "broken"):
            found.append(f"{state}: {row.first} is {first}")
        matching = [other.number for other in rows if other.matches(readings, normal)]
        if matching != wanted:
            found.append(f"{state}: signatures {matching}")
        led = tree(readings, normal)
        if ([led.number] if led else []) != wanted:
            found.append(f"{state}: the tree leads to {led.number if led else None}")
    return found


def test_there_are_seventeen_rows():
    assert [row.number for row in ROWS] == list(range(1, 18))
    assert len({row.symptom for row in ROWS}) == 17


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}")
def test_cause_signature_and_fix(row):
    assert faults(row) == []


@pytest.mark.parametrize("base", sorted({tuple(row.base.items()) for row in ROWS}), ids=str)
def test_a_healthy_service_has_no_symptom(base):
    setup = Setup(**dict(base))
    normal = normal_of(setup)
    for seed in (*SEEDS, UNSEEN):
        readings = read(setup, seed) if seed != UNSEEN else reading(setup)
        assert diagnose(readings, normal) is None
        assert [row.number for row in ROWS if row.matches(readings, normal)] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}")
def test_a_row_without_its_cause_or_its_fix_is_noticed(row):
    assert any(fault.startswith("broken") for fault in faults(replace(row, cause={}, fix={})))
    assert any(fault.startswith("fixed") for fault in faults(replace(row, fix={})))


TURNED = {"high": "normal", "low": "normal", "normal": "high", "normal|low": "high"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}")
def test_a_wrong_signature_is_noticed(row):
    for name, wanted in row.signature.items():
        wrong = replace(row, signature={**row.signature, name: TURNED[wanted]})
        rows = [wrong if other is row else other for other in ROWS]
        assert faults(row, rows), f"{name} {wanted}"
    neighbour = ROWS[row.number % 17]
    assert faults(row, [replace(row, signature=neighbour.signature) if other is row else other for other in ROWS])


@pytest.mark.parametrize(("number", "name", "without"), [
    (1, "seats", 6), (1, "preemptions", 5), (5, "preemptions", 8), (6, "seats", 17), (7, "gaps", 10), (8, "s per sequence", 1),
    (9, "gain of doubling", 15), (9, "running", 11), (9, "waiting", 1), (10, "gaps", 7),
])
def test_which_row_a_condition_keeps_out(number, name, without):
    row = BY_NUMBER[number]
    wider = replace(row, signature={key: value for key, value in row.signature.items() if key != name})
    assert [other.number for other in ROWS if wider.matches(reading(other.broken()), normal_of(other.healthy())) and other is not row].count(without) == 1


def test_slow_kernels_are_not_taken_for_large_k_and_v():
    """At this seed so many requests pile up that each costs more of a step, too; what tells them apart is the roofline."""
    slow, normal = read(BY_NUMBER[10].broken(), 7), normal_of(Setup())
    assert normal.states(slow)["s per sequence"] == normal.states(slow)["KV usage"] == "high"
    assert [row.number for row in ROWS if row.matches(slow, normal)] == [10]


def test_long_prompts_alone_are_no_low_hit_rate():
    long = reading(Setup(long_prompt=(10000, 14000), long_share=0.3, rate=0.5, requests=40))
    normal = normal_of(Setup())
    assert normal.states(long)["prefix hits"] == "low"
    assert not BY_NUMBER[12].matches(long, normal)
    assert diagnose(long, normal) is None or diagnose(long, normal).number != 12


def test_the_symptoms_are_what_their_names_say():
    assert reading(BY_NUMBER[11].broken())["nvidia-smi"] < 0.2
    assert reading(BY_NUMBER[10].broken())["nvidia-smi"] > 0.9
    assert reading(BY_NUMBER[6].broken())["KV usage"] < 0.7
    assert reading(BY_NUMBER[5].broken())["KV usage"] > 0.95
    assert reading(BY_NUMBER[7].broken())["running"] < 3
    with_stale, without, with_matched = (reading(Setup(draft=draft))["TPOT p50"] for draft in ("stale", None, "matched"))
    assert with_matched < without < with_stale
    assert reading(BY_NUMBER[8].broken())["TPOT p50"] > 1.2 * reading(Setup())["TPOT p50"]
    out_of_memory = reading(BY_NUMBER[13].broken())
    assert [name for name, value in out_of_memory.items() if value is not None] == ["full requests"]


def test_only_long_prompts_are_late_in_row_2_and_all_are_in_row_1():
    def late(setup):
        run = diagnosis.serve(setup, UNSEEN)
        prompts = [sorted(r.ttft for r in run.requests if (len(r.prompt) > 2500) == long) for long in (False, True)]
        return [times[len(times) // 2] for times in prompts]

    healthy = late(Setup())
    one, two = (late(BY_NUMBER[number].broken()) for number in (1, 2))
    assert one[0] > 5 * healthy[0] and one[1] > 2 * healthy[1]
    assert two[0] < 1.3 * healthy[0] and two[1] > 1.5 * healthy[1]


def test_fewer_seats_end_preemption_and_make_a_queue():
    tight = reading(replace(BY_NUMBER[5].broken(), max_num_seqs=8))
    assert tight["preemptions"] == 0
    assert diagnose(tight, normal_of(Setup())).number == 6


def test_two_faults_are_found_one_after_the_other():
    both, normal = replace(BY_NUMBER[12].broken(), **BY_NUMBER[4].cause), normal_of(Setup())
    assert diagnose(reading(both), normal).number == 12
    assert diagnose(reading(replace(both, **BY_NUMBER[12].fix)), normal).number == 4
    assert diagnose(reading(replace(both, **BY_NUMBER[12].fix, **BY_NUMBER[4].fix)), normal) is None


def test_the_tree_leads_to_each_row_once():
    assert sorted(question.yes for question in questions()) == [row.number for row in ROWS]
    assert all(question.text.endswith("?") and question.conditions for question in questions())


def test_a_tree_that_asks_for_waiting_first_blames_the_load():
    """The order counts: a queue follows from needless work, too."""
    by_row = {question.yes: question for question in questions()}
    waiting = replace(by_row[1], no=TREE)

    def wrong(readings, normal):
        states, node = normal.states(readings), waiting
        while isinstance(node, Question):
            node = node.yes if node.answer(states) else node.no
        return BY_NUMBER.get(node)

    assert any(faults(row, tree=wrong) for row in ROWS)


def test_metrics_and_flags_are_those_of_the_pinned_vllm():
    names = {name for reading_ in diagnosis.READINGS.values() for name in re.findall(r"vllm:\w+", reading_.source)}
    assert len(names) > 15
    assert names <= set(vllm.METRICS)
    assert {"--" + name.replace("_", "-") for name in FLAGS} <= set(vllm.FLAGS)
    assert FLAGS <= set(Setup.__dataclass_fields__)


def test_a_run_can_be_repeated():
    assert read(BY_NUMBER[5].broken(), 3) == read(BY_NUMBER[5].broken(), 3)
    assert read(Setup(), 3) != read(Setup(), 4)
