"""Guessing by n-grams and by a model, and the loop: greedy by comparison, sampling by its law, passes and caches by counting."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyserve.configs import ModelConfig
from tinyserve.kv_cache import ContiguousCache
from tinyserve.model import build
from tinyserve.sampling import Sampler, SamplingParams, probabilities
from tinyserve.speculative import ModelDrafter, NGramDrafter, generate, ngram_draft

CONFIG = ModelConfig("tiny", n_layers=2, d_model=32, n_heads=4, n_kv_heads=2, head_dim=8, d_ff=48, vocab_size=50, rope_theta=1e4)


# --- n-grams


def test_ngrams_by_hand():
    assert ngram_draft([1, 2, 3, 4, 9, 1, 2, 3], 2) == [4, 9]
    assert ngram_draft([1, 2, 3, 4, 9, 2, 3], 3) == [4, 9, 2]  # three tokens never stood before, two did
    assert ngram_draft([5, 3, 7, 7, 3, 8, 8, 3], 2) == [8, 8]  # the later place
    assert ngram_draft([7, 7, 7, 7], 3) == [7]  # three tokens stood at one place only, with one behind them
    assert ngram_draft([7, 7, 7, 7], 3, longest=1) == [7, 7, 7]  # the last place with three tokens behind it
    assert ngram_draft([7, 7, 7], 3, longest=1) == [7, 7]  # no place has three: the first one has most
    assert ngram_draft([1, 2, 3], 4) == ngram_draft([1], 4) == ngram_draft([], 4) == []
    assert ngram_draft([1, 2, 1], 4, shortest=2) == []
    for arguments in ((-1,), (2, 0, 0), (2, 1, 2)):
        with pytest.raises(ValueError, match="not gamma >= 0"):
            ngram_draft([1, 2], *arguments)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.integers(0, 3), max_size=20), st.integers(0, 5))
def test_an_ngram_draft_continues_what_stood_before(ids, gamma):
    found = ngram_draft(ids, gamma)
    assert len(found) <= gamma
    longest = next((n for n in (3, 2, 1) if any(ids[s : s + n] == ids[-n:] for s in range(len(ids) - n))), 0)
    assert bool(found) is bool(longest and gamma)
    assert not found or any(ids[s : s + longest + len(found)] == ids[-longest:] + found for s in range(len(ids) - longest))


# --- the loop


@pytest.fixture(scope="module")
def models():
    """A target, and a draft that is the target with its weights moved a little: they agree often, not always."""
    target, draft, other = (build(CONFIG, dtype=torch.float64, std=0.3, seed=seed) for seed in (0, 0, 1))
    for mine, moved in zip(draft.parameters(), other.parameters()):
        mine.add_(moved, alpha=0.06 if mine.dim() == 2 else 0)
    return target, draft


def plain(model, prompt, n, params=SamplingParams(temperature=0)):
    """n tokens without a draft, one pass for each."""
    cache, sampler, answer, new = ContiguousCache(CONFIG, 1, len(prompt) + n, dtype=torch.float64), Sampler(params), [], prompt
    for _ in range(n):
        answer.append(sampler(model(torch.tensor([new]), cache=cache)[0, -1], seen=prompt + answer))
        new = answer[-1:]
    return answer


PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.mark.parametrize("gamma", [0, 1, 2, 4, 7])
@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_greedy_is_plain_decoding(models, gamma, n):
    target, draft = models
    want = plain(target, PROMPT, n)
    before = target.steps
    for drafter in (draft, NGramDrafter(), target):
        got = generate(target, drafter, PROMPT, gamma, n)
        assert got.tokens == want
        assert got.passes == got.rounds + 1
        assert got.accepted <= got.judged <= got.drafted
        assert n == 1 + got.rounds + got.accepted
    assert target.steps > before
    assert got.passes == 1 + math.ceil((n - 1) / (gamma + 1))  # by itself: all is accepted


def test_greedy_with_a_repetition_penalty_on_both_sides(models):
    target, draft = models
    params = SamplingParams(temperature=0, repetition_penalty=1.3)
    got = generate(target, draft, PROMPT, 3, 30, params)
    assert got.tokens == plain(target, PROMPT, 30, params) != plain(target, PROMPT, 30)
    assert generate(target, target, PROMPT, 3, 29, params).alpha == 1


def test_counters_and_passes(models):
    target, draft = models
    target_steps, target_tokens, draft_steps, draft_tokens = target.steps, target.tokens, draft.steps, draft.tokens
    got = generate(target, draft, PROMPT, 4, 41)
    assert target.steps - target_steps == got.passes < 30
    assert target.tokens - target_tokens == len(PROMPT) + got.rounds + got.drafted  # each round: the last token and the drafted ones
    assert draft.steps - draft_steps == got.drafted
    all_stayed = got.rounds - (got.judged - got.accepted)  # rounds behind which the draft lacks two tokens, not one
    assert draft.tokens - draft_tokens <= len(PROMPT) + got.drafted + all_stayed
    assert 0.4 < got.alpha < 1
    assert got.tokens_per_round == pytest.approx(40 / got.rounds)
    twin = copy.deepcopy(target)
    twin.tokens = 0
    assert generate(target, twin, PROMPT, 4, 41).rounds == 8
    assert twin.tokens == len(PROMPT) + 1 + 3 + 7 * (2 + 3)  # all accepted: it lacks two tokens, then runs three of the four it drafts
    assert generate(target, draft, PROMPT, 4, 1).tokens_per_round == 0 == generate(target, draft, PROMPT, 0, 9).alpha


def test_the_drafts_cache_holds_what_it_ran(models):
    _, draft = models
    drafter = ModelDrafter(draft, SamplingParams(temperature=0), Sampler(SamplingParams(temperature=0)).uniform, 20)
    tokens, q = drafter.propose(PROMPT, 3)
    assert (len(tokens), tuple(q.shape), drafter.cache.length) == (3, (3, 50), 10)
    assert tokens == plain(draft, PROMPT, 3)
    drafter.truncate(11)  # all three stayed: the last one never ran, so nothing goes
    assert drafter.cache.length == 10
    drafter.truncate(8)
    assert drafter.cache.length == 8
    assert drafter.propose([*PROMPT, 7], 2)[0] == plain(draft, [*PROMPT, 7], 2)
    assert drafter.propose([*PROMPT, 7], 0) == ([], None)


def test_stop_ids(models):
    target, draft = models
    text = plain(target, PROMPT, 40)
    stop = text[12]
    got = generate(target, draft, PROMPT, 5, 40, stop_ids=[stop])
    assert got.tokens == text[: text.index(stop) + 1]


@pytest.mark.parametrize("params", [SamplingParams(temperature=0.8, seed=5), SamplingParams(top_p=0.7, seed=5), SamplingParams(top_k=4, seed=5)])
def test_sampling_is_repeatable_and_by_itself_all_is_accepted(models, params):
    target, draft = models
    got = generate(target, draft, PROMPT, 3, 25, params)
    assert got == generate(target, draft, PROMPT, 3, 25, params)
    assert 0 < got.accepted < got.judged
    assert generate(target, target, PROMPT, 3, 25, params).alpha == 1  # the same filters on both sides: the laws are equal


@pytest.mark.parametrize("kind", ["model", "ngram"])
def test_the_loop_follows_the_law(models, kind):
    """Three tokens of many answers, of two possible ones at each place, against the target's own law of them."""
    target, draft = models
    triples, n = [], 250
    for seed in range(n):
        params = SamplingParams(temperature=1.0, top_k=2, seed=seed)
        triples.append(generate(target, draft if kind == "model" else NGramDrafter(), PROMPT, 2, 3, params).tokens)
    params, law = SamplingParams(top_k=2), torch.zeros(50, 50, 50, dtype=torch.float64)
    first = probabilities(target(torch.tensor([PROMPT]))[0, -1], params)
    for a in first.nonzero().flatten().tolist():
        second = probabilities(target(torch.tensor([[*PROMPT, a]]))[0, -1], params)
        for b in second.nonzero().flatten().tolist():
            law[a, b] = first[a] * second[b] * probabilities(target(torch.tensor([[*PROMPT, a, b]]))[0, -1], params)
    triples = torch.tensor(triples)
    index = triples[:, 0] * 2500 + triples[:, 1] * 50 + triples[:, 2]
    counts, expected = torch.bincount(index, minlength=50**3).double(), law.flatten() * n
    assert not counts[expected == 0].any()
    common = expected >= 5
    rest = torch.stack([(counts * ~common).sum(), (expected * ~common).sum()])
    chi2 = ((counts - expected)[common] ** 2 / expected[common]).sum() + (rest[0] - rest[1]) ** 2 / rest[1].clamp(min=1e-9)
    freedom = int(common.sum())
    assert chi2 < freedom + 4 * math.sqrt(2 * freedom)


def test_bad_requests(models):
    target, draft = models
    for prompt, gamma, n in (([], 2, 3), (PROMPT, -1, 3), (PROMPT, 2, 0)):
        with pytest.raises(ValueError, match="not at least 1, 0 and 1"):
            generate(target, draft, prompt, gamma, n)
    other = build(ModelConfig("other", 1, 32, 4, 2, 8, 48, 40, rope_theta=1e4), std=0.3)
    with pytest.raises(ValueError, match="the draft has 40 tokens, the target 50"):
        generate(target, other, PROMPT, 2, 3)
