"""The engine's named cases: prefix hits, preemption, ends, errors, times, order, and its size in lines."""

from __future__ import annotations

import ast
import io
import math
import tokenize
from pathlib import Path

import pytest
import torch
from torch import nn

import tinyserve
from course import models
from tinyserve.block_pool import BlockPool
from tinyserve.configs import ModelConfig
from tinyserve.engine import Engine
from tinyserve.model import build
from tinyserve.request import Request
from tinyserve.sampling import SamplingParams
from tinyserve.scheduler import Scheduler
from tinyserve.tokenizer import Tokenizer

CONFIG = ModelConfig("small", 2, 32, 4, 2, 8, 48, 40, rope_theta=10_000.0, norm_eps=1e-5, max_context=64)
MODEL = build(CONFIG, std=0.3, seed=3)
PROMPT = [7, 3, 30, 12, 5, 9, 21, 2, 16, 11]


def engine(num_blocks=32, block_size=4, model=MODEL, **options) -> Engine:
    return Engine(model, num_blocks, block_size, **options)


def alone(prompt, **options) -> list[int]:
    """The output of a request that has an engine to itself."""
    return engine().generate([prompt], **options)[0].output


class Clock:
    """A clock that stands still unless it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Scripted(nn.Module):
    """A model whose token behind position i is script[i]. Each step moves the clock by one second for each token."""

    def __init__(self, script, vocab_size=40, clock=None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.config = ModelConfig("scripted", 1, 8, 1, 1, 8, 8, vocab_size, rope_theta=10_000.0)
        self.script, self.clock = script, clock

    def forward(self, ids, positions, cache, logits):
        if self.clock is not None:
            self.clock.now += ids.shape[1]
        following = [self.script[i] for i in positions[logits].tolist()]
        return nn.functional.one_hot(torch.tensor(following, dtype=torch.long), self.config.vocab_size).float()[None]


# prefixes


def test_a_full_hit_still_computes_the_last_token():
    for length, cached in ((8, 4), (9, 8), (4, 0), (5, 4)):
        served = engine()
        first, again = (served.generate([PROMPT[:length]], max_tokens=5)[0] for _ in range(2))
        assert (first.num_cached_tokens, again.num_cached_tokens) == (0, cached)
        assert first.output == again.output == alone(PROMPT[:length], max_tokens=5)
        assert served.counters()["model_tokens"] == 2 * (length + 4) - cached


def test_a_preempted_request_finds_its_own_blocks():
    served = engine(num_blocks=4)
    first, second = served.add(PROMPT[:3], max_tokens=6), served.add(PROMPT[:8][::-1], max_tokens=6)
    served.run()
    assert (first.preemptions, second.preemptions) == (0, 1)
    admitted = second.most_computed_tokens
    assert second.num_cached_tokens == 0 and 0 < second.num_recomputed_tokens <= 4 < admitted  # 8 of its tokens were found
    assert served.counters()["prefix_hits"] == 8
    assert (first.output, second.output) == (alone(PROMPT[:3], max_tokens=6), alone(PROMPT[:8][::-1], max_tokens=6))


def test_two_equal_prompts_in_one_step():
    served = engine()
    requests = served.generate([PROMPT, PROMPT], max_tokens=7)
    assert served.counters()["prefix_hits"] == 0
    assert [request.output for request in requests] == [alone(PROMPT, max_tokens=7)] * 2
    assert served.generate([PROMPT], max_tokens=1)[0].num_cached_tokens == 8
    assert len(served.pool._cached) == len(served.pool._index) == 4  # 16 tokens, once


def test_salts_keep_tenants_apart():
    served = engine()
    found = [served.generate([PROMPT], max_tokens=2, salt=salt)[0].num_cached_tokens for salt in ("a", "b", None, "a", "b", None)]
    assert found == [0, 0, 0, 8, 8, 8]


def test_a_forced_hash_collision_changes_nothing():
    served = engine()
    served.pool._hash = lambda tokens, before, salt: 0
    prompts = [PROMPT, PROMPT[::-1], PROMPT[:4] + PROMPT[::-1], PROMPT]
    for prompt in prompts + prompts:
        assert served.generate([prompt], max_tokens=6)[0].output == alone(prompt, max_tokens=6)
    assert served.pool.hits > 0 and len(served.pool._index) == 1


def test_least_recently_used_blocks_go_first_and_tails_before_heads():
    served = engine(num_blocks=6, block_size=2)
    a, b, c = [1, 2, 3, 4, 5], [11, 12, 13, 14, 15], [21, 22, 23, 24, 25]

    def cached(prompt):
        return 2 * len(served.pool.match(prompt)[0])

    def serve(prompt):
        return served.generate([prompt], max_tokens=1)[0]

    serve(a), serve(b)
    assert (cached(a), cached(b), served.pool.evictions) == (4, 4, 0)
    assert serve(a).num_cached_tokens == 4  # now b is older
    serve(c)  # 3 blocks: 2 are empty, 1 is taken from the tail of b
    assert (cached(a), cached(b), cached(c), served.pool.evictions) == (4, 2, 4, 1)
    served.pool.clear()
    assert (cached(a), cached(b), cached(c), served.pool.num_free) == (0, 0, 0, 6)


def test_without_prefix_caching_nothing_is_found():
    served = engine(prefix_caching=False)
    assert [served.generate([PROMPT], max_tokens=3)[0].num_cached_tokens for _ in range(2)] == [0, 0]
    assert served.counters()["prefix_queries"] == served.counters()["prefix_hits"] == 0


# ends


def test_the_first_token_is_the_end_of_sequence():
    tokenizer = models.load("course-model")[1]
    end = tokenizer.end_id
    scripted = Scripted([9, 9, end, 9, 9, 9], vocab_size=tokenizer.vocab_size)
    request = engine(model=scripted, tokenizer=tokenizer).generate([[1, 2, 3]])[0]
    assert (request.output, request.finish_reason, request.text, request.itl, request.tpot) == ([end], "stop", "", [], None)
    assert request.finished == request.token_times[0]
    goes_on = engine(model=scripted, tokenizer=tokenizer).generate([[1, 2, 3]], max_tokens=3, stop_ids=())[0]
    assert (goes_on.output, goes_on.finish_reason) == ([end, 9, 9], "length")


def test_one_token_needs_no_room_for_itself():
    served = engine(num_blocks=2)
    request = served.generate([PROMPT[:8]], max_tokens=1)[0]
    assert (request.output, request.finish_reason) == (alone(PROMPT[:8], max_tokens=1), "length")
    assert served.counters()["model_tokens"] == 8 and served.counters()["peak_blocks"] == 2


def test_a_prompt_longer_than_the_budget():
    trace = []
    served = engine(max_num_batched_tokens=4, trace=trace)
    request = served.generate([PROMPT], max_tokens=3)[0]
    assert request.output == alone(PROMPT, max_tokens=3)
    assert [record["chunks"][0][1:] for record in trace] == [[0, 4], [4, 4], [8, 2], [10, 1], [11, 1]]


def test_the_smallest_pool():
    assert engine(num_blocks=1, block_size=1).generate([[5]], max_tokens=1)[0].output == alone([5], max_tokens=1)
    requests = engine(num_blocks=1).generate([[5, 6], [7], [5, 6, 8]], max_tokens=2)
    assert [request.output for request in requests] == [alone(prompt, max_tokens=2) for prompt in ([5, 6], [7], [5, 6, 8])]
    assert sum(request.preemptions for request in requests) == 0  # one after the other


def test_abort_in_the_middle_of_a_prompt():
    served = engine(max_num_batched_tokens=5)
    gone, stays = served.add(PROMPT, max_tokens=4), served.add(PROMPT[::-1], max_tokens=4)
    served.step()
    assert gone.num_computed_tokens == 5
    served.abort(gone)
    served.abort(gone)  # nothing more happens
    assert (gone.output, gone.finish_reason, gone.block_table, served.pool.num_in_use) == ([], "abort", [], 0)
    served.run()
    assert stays.output == alone(PROMPT[::-1], max_tokens=4)
    assert served.generate([PROMPT], max_tokens=1)[0].num_cached_tokens == 4  # what it had computed serves others


def test_abort_while_it_waits_and_while_a_step_runs():
    served = engine(max_num_seqs=1)
    first, second, third = (served.add(PROMPT, max_tokens=4) for _ in range(3))
    served.step()
    served.abort(second)
    chunks = served.scheduler.schedule()
    served.abort(first)
    assert served.scheduler.update(chunks, [[5]]) == []
    assert len(first.output) == 1 and served.pool.num_in_use == 0
    served.run()
    assert (second.finish_reason, second.scheduled, third.finish_reason) == ("abort", None, "length")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return models.load("course-model")[1]


def spoken(tokenizer, text, **options) -> Request:
    """A request whose model says the text."""
    script = [*tokenizer.encode(text), *[tokenizer.end_id] * 9]
    served = engine(model=Scripted(script, tokenizer.vocab_size), tokenizer=tokenizer)
    return served.generate([[1]], max_tokens=options.pop("max_tokens", len(script) - 1), **options)[0]


def test_stop_texts_across_token_boundaries(tokenizer):
    text = "return values[0] + other"
    ids = tokenizer.encode(text)
    pieces = [tokenizer.decode([i]) for i in ids]
    assert len(pieces) > 3
    for i in range(len(pieces) - 1):
        stop = pieces[i][-1] + pieces[i + 1][0]
        request = spoken(tokenizer, text, stop=stop)
        assert request.text == text[: text.index(stop)] and request.finish_reason == "stop"
        assert tokenizer.decode(request.output[:-1]).find(stop) < 0 <= tokenizer.decode(request.output).find(stop)
    assert spoken(tokenizer, text, stop=["other", "[0", "values"]).text == "return "
    assert spoken(tokenizer, text, stop="nowhere").text == spoken(tokenizer, text).text == text
    last = spoken(tokenizer, text, stop=pieces[-1], max_tokens=len(ids))
    assert last.finish_reason == "stop" and last.text == text[: text.rindex(pieces[-1])]


def test_the_text_of_a_character_cut_short(tokenizer):
    ids = tokenizer.encode("a中")
    assert len(ids) > 2
    whole, short = spoken(tokenizer, "a中"), spoken(tokenizer, "a中", max_tokens=len(ids) - 1)
    assert (whole.text, short.text, short.finish_reason) == ("a中", tokenizer.decode(ids[:-1]), "length")


# errors


@pytest.mark.parametrize("options, told", [
    ({"prompt": []}, "the prompt is empty"),
    ({"prompt": [1, 40]}, "prompt token 40 is not a token id in 0 .. 39"),
    ({"prompt": [1, -1]}, "prompt token -1"),
    ({"prompt": ["a"]}, "prompt token 'a'"),
    ({"prompt": [1.0]}, "prompt token 1.0"),
    ({"max_tokens": 0}, "max_tokens=0 is not a whole number of at least 1"),
    ({"max_tokens": 2.5}, "max_tokens=2.5"),
    ({"max_tokens": 80}, "exceed the window of 64"),
    ({"max_tokens": 40}, "can never fit: 3 . 40 tokens need 11 blocks, the pool has 8"),
    ({"stop": "x"}, "needs an engine with a tokenizer"),
    ({"stop": [""]}, "is not a list of texts"),
    ({"priority": math.nan}, "priority=nan is not a number"),
    ({"priority": "high"}, "priority='high' is not a number"),
    ({"salt": [1]}, r"salt=\[1\] cannot be hashed"),
    ({"request_id": []}, r"request_id=\[\] cannot be hashed"),
])
def test_a_request_that_cannot_be_served_is_refused_and_others_go_on(options, told):
    served = engine(num_blocks=8, trace=[])
    first = served.add(PROMPT, max_tokens=4)
    served.step()
    with pytest.raises(ValueError, match=told):
        served.add(**({"prompt": [1, 2, 3]} | options))
    served.run()
    assert first.output == alone(PROMPT, max_tokens=4) and served.scheduler.idle


def test_generate_serves_those_that_can_be():
    requests = engine(num_blocks=4).generate([PROMPT, [], [1] * 30, [99], PROMPT[:3]], max_tokens=4)
    assert [request.finish_reason for request in requests] == ["length", "error", "error", "error", "length"]
    assert ["empty" in requests[1].error, "never fit" in requests[2].error, "99" in requests[3].error] == [True] * 3
    assert requests[0].error is None and requests[4].output == alone(PROMPT[:3], max_tokens=4)


def test_a_request_is_added_once():
    served = engine()
    request = served.generate([PROMPT], max_tokens=2)[0]
    refused = served.generate([[]])[0]
    for again in (request, refused):
        with pytest.raises(ValueError, match="has been added before, or has ended"):
            served.scheduler.add(again)
    with pytest.raises(ValueError, match="not been"):
        next(served.stream(Request(PROMPT)))


@pytest.mark.parametrize("limits, told", [
    ({"num_blocks": 0}, "num_blocks=0"), ({"block_size": 0}, "block_size=0"), ({"max_num_seqs": 0}, "max_num_seqs=0"),
    ({"max_num_batched_tokens": 0}, "max_num_batched_tokens=0"), ({"max_num_batched_tokens": 1.5}, "max_num_batched_tokens=1.5"),
])
def test_limits_below_one(limits, told):
    with pytest.raises(ValueError, match=told):
        engine(**limits)


def test_the_pool_refuses_what_would_corrupt_it():
    pool = BlockPool(3, 2)
    held = pool.allocate(2)
    for n in (2, -1):
        with pytest.raises(ValueError, match=f"{n} blocks wanted, 1 are free"):
            pool.allocate(n)
    pool.release(held)
    with pytest.raises(ValueError, match="is released but nobody holds it"):
        pool.release(held)
    with pytest.raises(ValueError, match="only a full block of 2"):
        pool.content([1], None)
    assert pool.num_free == 3


def test_a_nan_ends_its_request_and_no_other():
    broken = build(CONFIG, std=0.3, seed=3)
    broken.embedding.weight[38] = math.nan  # a token that nobody draws here
    bad, long = [38, *PROMPT[:6]], [38, *PROMPT, *PROMPT]
    prompts = [PROMPT, bad, PROMPT[:3], long, PROMPT[::-1], PROMPT[:5]]
    for blocks, budget in ((64, 256), (64, 6), (12, 6), (8, 12)):
        served = engine(blocks, 4, broken, max_num_batched_tokens=budget)
        for _ in range(2):  # the second time in blocks that held NaN
            requests = served.generate(prompts, max_tokens=5)
            for request in requests:
                if 38 in request.prompt:
                    assert (request.finish_reason, request.output) == ("error", []) and "NaN" in request.error
                else:
                    assert request.output == alone(request.prompt, max_tokens=5)
        assert served.pool.num_in_use == 0 and served.scheduler.idle


# streams, times, order


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


# size

PARTS = ("model", "sampling", "kv_cache", "block_pool", "request", "scheduler", "engine")
NO_SOURCE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}


def source_lines(text: str) -> int:
    """Lines with code on them: no blank ones, no comments, no docstrings."""
    tree = ast.parse(text)
    scopes = [node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))]
    # a text that stands as a statement of its own: docstrings, and the notes below constants
    notes = [node for scope in scopes for node in scope.body if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)]
    documented = {line for node in notes for line in range(node.lineno, node.end_lineno + 1)}
    code = {
        line for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in NO_SOURCE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - documented)


def test_source_lines_are_counted_right():
    assert source_lines('"""Doc.\n\nmore\n"""\nx = 1  # one\n\n# none\ny = """two\nlines"""\ndef f():\n    """Doc."""\n    return (\n        1\n    )\n') == 7


def test_the_engine_has_fewer_than_1000_source_lines():
    lines = {name: source_lines((Path(tinyserve.__file__).parent / f"{name}.py").read_text(encoding="utf-8")) for name in PARTS}
    print(lines, sum(lines.values()))
    assert sum(lines.values()) < 1000
