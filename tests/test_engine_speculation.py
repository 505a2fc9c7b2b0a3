"""Speculation inside the engine: the same tokens when greedy, the same law when sampled, whatever shares the batch and the blocks."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from tinyserve.configs import ModelConfig
from tinyserve.drafting import ModelBatchDrafter, NGramBatchDrafter
from tinyserve.engine import Engine
from tinyserve.kv_cache import Uncached
from tinyserve.model import build
from tinyserve.request import Request
from tinyserve.sampling import SamplingParams, probabilities

TARGET = ModelConfig("target", n_layers=2, d_model=32, n_heads=4, n_kv_heads=2, head_dim=8, d_ff=48, vocab_size=60, rope_theta=1e4)
SMALL = replace(TARGET, name="draft", n_layers=1, n_kv_heads=1)
PERFECT = "the target itself"


@pytest.fixture(scope="module")
def target():
    return build(TARGET, std=0.3, seed=1)


def drafter(kind: str, target, num_blocks: int, block_size: int):
    """An n-gram, a small model, or the target as its own draft."""
    if kind == "ngram":
        return NGramBatchDrafter()
    return ModelBatchDrafter(target if kind == PERFECT else build(SMALL, std=0.3, seed=2), num_blocks, block_size)


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    """Prompts of which some share a beginning and some repeat themselves."""
    rng = random.Random(seed)
    head = [rng.randrange(60) for _ in range(8)]
    made = []
    for i in range(count):
        own = [rng.randrange(60) for _ in range(rng.randint(1, 12))]
        made.append([own * 2, head + own, own][i % 3])
    return made


@pytest.mark.parametrize("kind", ["ngram", "model", PERFECT])
@pytest.mark.parametrize(("num_blocks", "block_size", "budget"), [(100, 4, 64), (14, 4, 64), (60, 3, 7)])
def test_greedy_tokens_are_those_of_plain_decoding(target, kind, num_blocks, block_size, budget):
    engine = Engine(target, num_blocks, block_size, max_num_batched_tokens=budget, drafter=drafter(kind, target, num_blocks, block_size), trace=[])
    requests = [engine.add(p, max_tokens=13, num_draft_tokens=i % 5) for i, p in enumerate(prompts(12))]
    engine.run()
    plain = Engine(target, 100, 4).generate(prompts(12), max_tokens=13)
    assert [r.output for r in requests] == [r.output for r in plain]
    counters = engine.counters()
    assert counters["drafted"] > 0 and counters["blocks_in_use"] == 0
    assert all(sum(n for *_, n in step["chunks"]) <= budget for step in engine.scheduler.trace)
    assert (engine.scheduler.preemptions > 0) == (num_blocks == 14)
    assert sum(r.num_accepted_tokens for r in requests) == counters["accepted"]
    assert all(r.num_drafted_tokens == 0 for r in requests if r.num_draft_tokens == 0)
    if kind == PERFECT:
        assert counters["accepted"] == counters["drafted"]


def test_a_perfect_draft_saves_steps_as_counted(target):
    engine = Engine(target, 100, 4, drafter=drafter(PERFECT, target, 100, 4))
    engine.generate([[1, 2, 3]], max_tokens=13, num_draft_tokens=3)
    assert engine.scheduler.steps == 1 + 3  # the prompt's token, then three times 3 + 1


def test_nothing_is_drafted_beyond_max_tokens_and_a_stop_ends_inside_the_drafts(target):
    plain = Engine(target, 100, 4).generate([[5, 6, 7]], max_tokens=12)[0].output
    stop = plain[6]
    first = plain.index(stop)
    engine = Engine(target, 100, 4, drafter=drafter(PERFECT, target, 100, 4))
    request = engine.generate([[5, 6, 7]], max_tokens=12, num_draft_tokens=4, stop_ids=[stop])[0]
    assert request.output == plain[: first + 1] and request.finish_reason == "stop"
    short = Engine(target, 100, 4, drafter=drafter(PERFECT, target, 100, 4)).generate([[5, 6, 7]], max_tokens=2, num_draft_tokens=4)[0]
    assert short.output == plain[:2] and short.num_drafted_tokens == 0


def test_drafts_go_before_anyone_is_preempted_for_them(target):
    engine = Engine(target, 4, 4, drafter=drafter(PERFECT, target, 4, 4), prefix_caching=False)
    requests = engine.generate([[1] * 6, [2] * 6], max_tokens=2, num_draft_tokens=8)
    assert engine.scheduler.preemptions == 0 and all(len(r.output) == 2 for r in requests)


@pytest.mark.parametrize("kind", ["ngram", "model"])
def test_the_law_of_two_sampled_tokens_is_the_target_s(kind):
    config = replace(TARGET, vocab_size=6)
    target, small = build(config, std=0.2, seed=3), build(replace(SMALL, vocab_size=6), std=0.2, seed=4)
    params = [SamplingParams(temperature=0.8, min_p=0.05, seed=seed) for seed in range(2400)]
    prompt = [0, 1, 2, 3, 4, 5, 0]  # whatever comes first, the n-gram has a guess behind it
    engine = Engine(target, 400, 4, max_num_seqs=64, drafter=NGramBatchDrafter() if kind == "ngram" else ModelBatchDrafter(small, 400, 4))
    requests = [engine.add(prompt, sampling=p, max_tokens=3, num_draft_tokens=2) for p in params]
    engine.run()
    seen = torch.zeros(6, 6)
    for request in requests:
        seen[request.output[0], request.output[1]] += 1
    first = probabilities(target(torch.tensor([prompt]))[0, -1], params[0])
    joint = torch.stack([first[i] * probabilities(target(torch.tensor([[*prompt, i]]))[0, -1], params[0]) for i in range(6)])
    assert engine.counters()["accepted"] > 100 and engine.counters()["drafted"] > engine.counters()["accepted"]
    assert seen[joint == 0].sum() == 0
    cells = joint > 0
    expected = joint[cells] * len(requests)
    chi2 = float(((seen[cells] - expected) ** 2 / expected).sum())
    freedom = int(cells.sum()) - 1
    assert chi2 < freedom + 4 * (2 * freedom) ** 0.5, (chi2, freedom)


def test_a_draft_that_fails_costs_guesses_and_no_answer(target):
    small = build(SMALL, std=0.3, seed=2)
    bad = prompts(9)[0][0]
    small.embedding.weight[bad] = float("nan")  # whoever has this token in its text gets NaN from the draft
    plain = Engine(target, 100, 4).generate(prompts(9), max_tokens=9)
    engine = Engine(target, 100, 4, drafter=ModelBatchDrafter(small, 100, 4))
    requests = engine.generate(prompts(9), max_tokens=9, num_draft_tokens=3)
    assert [r.output for r in requests] == [r.output for r in plain]
    assert all(r.finish_reason == "length" for r in requests)
    met, free = ([r for r in requests if in_it(r)] for in_it in (lambda r: bad in r.prompt, lambda r: bad not in r.tokens))
    assert met and free and all(r.num_drafted_tokens == 0 for r in met) and all(r.num_drafted_tokens > 0 for r in free)


def test_drafts_without_a_drafter_are_refused(target):
    engine = Engine(target, 10, 4)
    with pytest.raises(ValueError, match="num_draft_tokens=2 needs an engine with a drafter"):
        engine.add([1], num_draft_tokens=2)
    with pytest.raises(ValueError, match="num_draft_tokens=-1 is not a whole number"):
        engine.submit(Request([1], num_draft_tokens=-1))


def test_the_draft_computes_each_token_once(target):
    small = build(SMALL, std=0.3, seed=2)
    engine = Engine(target, 100, 4, drafter=ModelBatchDrafter(small, 100, 4))
    request = engine.generate([[1, 2, 3, 4, 5]], max_tokens=9, num_draft_tokens=2)[0]
    rounds = engine.scheduler.steps - 1
    # the prompt and its first token once, then of each round the tokens since, and the drafts but the last
    assert small.tokens <= len(request.prompt) + 8 + request.num_drafted_tokens
    assert small.steps == request.num_drafted_tokens and rounds >= 4


def test_uncached_agrees(target):
    """The reference of these tests is itself checked: the engine's greedy tokens are those of a model without a cache."""
    ids = [4, 5, 6]
    for _ in range(5):
        ids.append(int(target(torch.tensor([ids]), cache=Uncached())[0, -1].argmax()))
    assert Engine(target, 10, 4).generate([[4, 5, 6]], max_tokens=5)[0].output == ids[3:]


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_rejected_guess_is_computed_over_also_after_a_step_without_a_draft(kept):
    """The draft's law for a request depends on its tokens alone, not on what it once guessed for it."""
    small = build(SMALL, std=0.3, seed=2)
    drafts, request = ModelBatchDrafter(small, 20, 4), Request([1, 2, 3, 4, 5], sampling=SamplingParams(seed=1))
    request.block_table = list(range(20))
    guesses = drafts.propose([(request, 3)])[request][0]
    request.tokens += [*guesses[:kept], *[(token + 1) % 60 for token in guesses[kept:]], 7]  # three tokens and one more, since that guess
    law = drafts.propose([(request, 1)])[request][1]
    fresh = small(torch.tensor([request.tokens]), cache=Uncached())[0]
    torch.testing.assert_close(law, probabilities(fresh, request.sampling), atol=1e-5, rtol=1e-4)
