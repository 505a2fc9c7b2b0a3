"""The engine's named cases: prefix hits, preemption, ends, and its size in lines."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest
import torch
from torch import nn

import tinyserve
from course import models
from tinyserve.configs import ModelConfig
from tinyserve.engine import Engine
from tinyserve.model import build
from tinyserve.request import Request
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
        wanted = positions if isinstance(logits, str) else positions[logits]
        following = [self.script[i] for i in wanted.tolist()]
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
