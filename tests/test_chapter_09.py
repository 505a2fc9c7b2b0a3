"""The example of chapter 9: the notebook's own list and functions give exactly these traces, and tinyserve's scheduler the same."""

import json
import random
from pathlib import Path

import pytest

from tinyserve.request import Request
from tinyserve.simulator import Replica, simulate

NOTEBOOK = Path(__file__).parent.parent / "chapters" / "09_continuous_batching.ipynb"

# What the figure shows: a list for each step, a [name, first token, tokens] for each chunk.
STATIC = [
    [["A", 0, 4], ["B", 0, 3], ["C", 0, 2]],
    [["A", 4, 1], ["B", 3, 1], ["C", 2, 1]],
    [["A", 5, 1], ["B", 4, 1]],
    [["B", 5, 1]],
    [["B", 6, 1]],
    [["B", 7, 1]],
    [["B", 8, 1]],
    [["B", 9, 1]],
    [["D", 0, 5], ["E", 0, 2], ["F", 0, 6]],
    [["D", 5, 1], ["E", 2, 1], ["F", 6, 1]],
    [["D", 6, 1], ["E", 3, 1]],
    [["D", 7, 1], ["E", 4, 1]],
    [["E", 5, 1]],
    [["E", 6, 1]],
]
CONTINUOUS = [
    [["A", 0, 4], ["B", 0, 3], ["C", 0, 2]],
    [["A", 4, 1], ["B", 3, 1], ["C", 2, 1]],
    [["A", 5, 1], ["B", 4, 1], ["D", 0, 5]],
    [["B", 5, 1], ["D", 5, 1], ["E", 0, 2]],
    [["B", 6, 1], ["D", 6, 1], ["E", 2, 1]],
    [["B", 7, 1], ["D", 7, 1], ["E", 3, 1]],
    [["B", 8, 1], ["E", 4, 1], ["F", 0, 6]],
    [["B", 9, 1], ["E", 5, 1], ["F", 6, 1]],
    [["E", 6, 1]],
]
# Budget 4, 10 blocks of 2 tokens: E has run 2 + 1 tokens when B's next block is taken from it.
TIGHT = [
    [["A", 0, 4]],
    [["A", 4, 1], ["B", 0, 3]],
    [["A", 5, 1], ["B", 3, 1], ["C", 0, 2]],
]


@pytest.fixture(scope="module")
def page():
    """The names that the notebook's pure-Python cells define: the list, its two traces, the scheduler from scratch."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    chosen = [source for source in sources if "EXAMPLE = [" in source or "class Batcher" in source]
    assert len(chosen) == 2
    names: dict = {}
    for source in chosen:
        exec(compile(source, NOTEBOOK.name, "exec"), names)
    return names


def tinyserve_trace(requests, **limits):
    records: list = []
    replica = Replica(lambda work: 1, prefix_caching=False, trace=records, **limits)
    simulate([(at, Request([1] * prompt, max_tokens=output, request_id=name)) for name, at, prompt, output in requests], [replica])
    assert [record["begin"] for record in records] == list(range(len(records)))
    return [record["chunks"] for record in records]


def test_traces_of_the_figure(page):
    assert page["traces"] == {"static": STATIC, "continuous": CONTINUOUS}


def test_every_token_runs_once(page):
    for trace in page["traces"].values():
        for name, arrival, prompt, output in page["EXAMPLE"]:
            ran = [token for chunks in trace for who, start, n in chunks if who == name for token in range(start, start + n)]
            assert ran == list(range(prompt + output - 1))
            assert min(i for i, chunks in enumerate(trace) for who, *_ in chunks if who == name) >= arrival


def test_scheduler_from_scratch_and_tinyserve_give_the_figure(page):
    assert page["drive"](page["Batcher"](3, 64, 64, 2), page["EXAMPLE"]) == CONTINUOUS
    assert tinyserve_trace(page["EXAMPLE"], num_blocks=64, block_size=2, max_num_seqs=3, max_num_batched_tokens=64) == CONTINUOUS


@pytest.mark.parametrize(("budget", "blocks", "preempted"), [(4, 64, 0), (4, 10, 1), (64, 10, None), (1, 6, None)])
def test_both_schedulers_agree_under_limits(page, budget, blocks, preempted):
    batcher = page["Batcher"](3, budget, blocks, 2)
    trace = page["drive"](batcher, page["EXAMPLE"])
    assert trace == tinyserve_trace(page["EXAMPLE"], num_blocks=blocks, block_size=2, max_num_seqs=3, max_num_batched_tokens=budget)
    assert all(sum(n for *_, n in chunks) <= budget for chunks in trace)
    assert batcher.free == blocks and preempted in (None, len(batcher.preempted))


def test_tight_limits_start_as_the_text_says(page):
    batcher = page["Batcher"](3, 4, 10, 2)
    trace = page["drive"](batcher, page["EXAMPLE"])
    assert trace[:3] == TIGHT and batcher.preempted == ["E"]
    again = [(i, start, n) for i, chunks in enumerate(trace) for who, start, n in chunks if who == "E" and start == 0]
    assert len(again) == 2 and again[1][2] == 3  # the prompt of 2 and the token that it had


def test_both_schedulers_agree_on_random_lists(page):
    stream, preempted = random.Random(9), 0
    for _ in range(150):
        requests = [(f"r{i}", 0, stream.randint(1, 12), stream.randint(1, 12)) for i in range(stream.randint(2, 8))]
        size = stream.randint(1, 4)
        least = max(-(-(prompt + output - 1) // size) for _, _, prompt, output in requests)
        seqs, budget, blocks = stream.randint(1, 5), stream.randint(1, 12), stream.randint(least, 2 * least)
        batcher = page["Batcher"](seqs, budget, blocks, size)
        theirs = tinyserve_trace(requests, num_blocks=blocks, block_size=size, max_num_seqs=seqs, max_num_batched_tokens=budget)
        assert page["drive"](batcher, requests) == theirs
        preempted += bool(batcher.preempted)
    assert preempted > 30


def test_stored_output_is_of_this_list(page, capsys):
    printed = "".join("".join(output.get("text", "")) for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] for output in cell.get("outputs", []))
    for name, trace in page["traces"].items():
        used = sum(map(len, trace))
        assert f"{name}: {len(trace)} steps, {used} of {page['SLOTS'] * len(trace)} slots used" in printed
        page["show"](trace, page["EXAMPLE"])
        assert capsys.readouterr().out in printed
