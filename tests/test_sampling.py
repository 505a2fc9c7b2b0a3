"""Every sampling step against its law and against transformers; seeds, batches, ties and refusals."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation import logits_process as hf
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.utils import GenerationMixin

from tinyserve import sampling
from tinyserve.sampling import ORDER, ORDERS, Sampler, SamplingParams, draw, filtered_logits, probabilities, sample

LN2 = math.log(2)
QUIET = settings(derandomize=True, deadline=None, max_examples=100)


def random_logits(rows=8, vocab=300, seed=0, dtype=torch.float64, spread=4.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocab, generator=generator, dtype=dtype) * spread


def kept(logits):
    """Per row the ids above -inf."""
    return [row.isfinite().nonzero().flatten().tolist() for row in logits]


def assert_frequencies(tokens, probs):
    """Chi-square of drawn tokens against the probabilities they should have, below its mean plus 4 standard deviations."""
    expected, counts = probs.double() * len(tokens), torch.bincount(tokens, minlength=len(probs)).double()
    assert not counts[expected == 0].any(), "a token of probability 0 was drawn"
    common = expected >= 5
    expected = torch.cat([expected[common], expected[~common].sum()[None]])
    counts = torch.cat([counts[common], counts[~common].sum()[None]])
    used = expected > 0
    chi2, freedom = ((counts - expected)[used] ** 2 / expected[used]).sum(), int(used.sum()) - 1
    assert chi2 < freedom + 4 * math.sqrt(2 * freedom), (float(chi2), freedom)


# --- each step against its law


@pytest.mark.parametrize("t", [0.3, 0.7, 1.5, 4.0])
def test_temperature_raises_probabilities_to_a_power(t):
    logits = random_logits()
    cooled = logits.softmax(-1) ** (1 / t)
    torch.testing.assert_close(
        sampling.temperature(logits, t).softmax(-1), cooled / cooled.sum(-1, keepdim=True), rtol=1e-9, atol=0
    )
    torch.testing.assert_close(probabilities(logits, SamplingParams(temperature=t)), (logits / t).softmax(-1), rtol=0, atol=0)


def test_temperature_zero_is_no_division():
    with pytest.raises(ValueError, match="temperature=0 is greedy"):
        sampling.temperature(random_logits(), 0)


def test_penalty_divides_positive_and_multiplies_negative_once_per_token():
    logits = torch.tensor([3.0, -3.0, 0.0, 2.0, -2.0])
    out = sampling.repetition_penalty(logits, [0, 1, 2, 0, 1, 0], 1.5)
    assert out.tolist() == [2.0, -4.5, 0.0, 2.0, -2.0]


def test_penalty_takes_ids_or_a_mask():
    logits, ids = random_logits(3, 10), [[1, 1, 2], [], [9]]
    mask = torch.zeros(3, 10, dtype=torch.bool)
    mask[0, [1, 2]] = mask[2, 9] = True
    out = sampling.repetition_penalty(logits, ids, 2.0)
    assert torch.equal(out, sampling.repetition_penalty(logits, mask, 2.0))
    assert torch.equal(out != logits, mask)
    assert torch.equal(out[2], sampling.repetition_penalty(logits[2], torch.tensor([9]), 2.0))


def test_top_k_keeps_exactly_k_and_the_lower_ids_of_a_tie():
    logits = torch.tensor([[1.0, 3.0, 2.0, 3.0, 2.0, 2.0], [0.0] * 6])
    assert kept(sampling.top_k(logits, 3)) == [[1, 2, 3], [0, 1, 2]]
    assert kept(sampling.top_k(logits, 4)) == [[1, 2, 3, 4], [0, 1, 2, 3]]
    assert kept(sampling.top_k(logits, 1)) == [[1], [0]]


def test_top_p_keeps_the_smallest_set_that_reaches_p():
    quarters = torch.zeros(4)  # softmax is exactly 1/4
    assert [len(kept(sampling.top_p(quarters[None], p))[0]) for p in (1e-300, 0.25, 0.26, 0.5, 0.75, 0.76, 1)] == [1, 1, 2, 2, 3, 4, 4]
    assert kept(sampling.top_p(quarters[None], 0.5)) == [[0, 1]], "of a tie the lower ids stay"
    shuffled = torch.tensor([[0.1, 0.4, 0.2, 0.3]], dtype=torch.float64).log()
    assert [kept(sampling.top_p(shuffled, p))[0] for p in (0.39, 0.41, 0.69, 0.71, 0.91)] == [[1], [1, 3], [1, 3], [1, 2, 3], [0, 1, 2, 3]]


def test_min_p_compares_with_the_most_probable():
    logits = torch.tensor([[0.0, -1.0, -2.0, -3.0, 0.0]]) * LN2  # 1, 1/2, 1/4, 1/8, 1 of the largest
    assert [kept(sampling.min_p(logits, p))[0] for p in (0, 0.12, 0.13, 0.26, 0.51, 1)] == [
        [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 4], [0, 1, 4], [0, 4], [0, 4]
    ]  # fmt: skip


def test_a_mask_renormalizes_what_is_left():
    logits, t = random_logits(4, 20), 1.7
    allowed = torch.rand(4, 20, generator=torch.Generator().manual_seed(1)) < 0.4
    p = probabilities(logits, SamplingParams(temperature=t), allowed=allowed)
    free = (logits / t).softmax(-1) * allowed
    torch.testing.assert_close(p, free / free.sum(-1, keepdim=True))
    one = probabilities(logits, SamplingParams(temperature=t), allowed=allowed[0])
    assert (one[:, ~allowed[0]] == 0).all() and (one[:, allowed[0]] > 0).all()


# --- against transformers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("ours", "theirs", "values"),
    [
        (sampling.top_k, hf.TopKLogitsWarper, (1, 2, 17, 299, 300, 500)),
        (sampling.top_p, hf.TopPLogitsWarper, (0.01, 0.3, 0.9, 0.99)),
        (sampling.min_p, hf.MinPLogitsWarper, (0.001, 0.05, 0.3, 1.0)),
        (sampling.temperature, hf.TemperatureLogitsWarper, (0.1, 0.7, 1.9)),
    ],
)
def test_each_filter_equals_transformers(ours, theirs, values, seed, dtype):
    logits = random_logits(seed=seed, dtype=dtype)
    for value in values:
        assert torch.equal(ours(logits, value), theirs(value)(None, logits)), value


@pytest.mark.parametrize("penalty", [0.5, 1.2, 3.0])
def test_penalty_equals_transformers(penalty):
    logits, ids = random_logits(), torch.randint(0, 300, (8, 40), generator=torch.Generator().manual_seed(2))
    assert torch.equal(sampling.repetition_penalty(logits, ids, penalty), hf.RepetitionPenaltyLogitsProcessor(penalty)(ids, logits))


def transformers_chain(params, allowed):
    """The processors in the order in which transformers itself puts them."""
    config = GenerationConfig(
        do_sample=True, temperature=params.temperature, top_k=params.top_k, top_p=params.top_p, min_p=params.min_p,
        repetition_penalty=params.repetition_penalty, num_return_sequences=1, num_beams=1,
    )  # fmt: skip
    config._eos_token_tensor = None
    model = SimpleNamespace(config=SimpleNamespace(is_encoder_decoder=False), _merge_criteria_processor_list=lambda default, custom: default)
    ids = allowed.nonzero().flatten().tolist()
    return GenerationMixin._get_logits_processor(
        model, config, input_ids_seq_length=40, prefix_allowed_tokens_fn=lambda row, seen: ids, logits_processor=hf.LogitsProcessorList()
    )


@pytest.mark.parametrize("t", [0.6, 2.5])
def test_all_steps_together_equal_transformers_in_its_own_order(t):
    params = SamplingParams(temperature=t, top_k=60, top_p=0.9, min_p=0.02, repetition_penalty=1.4)
    logits, ids = random_logits(), torch.randint(0, 300, (8, 40), generator=torch.Generator().manual_seed(3))
    allowed = torch.rand(300, generator=torch.Generator().manual_seed(4)) < 0.7
    chain = transformers_chain(params, allowed)
    assert len(chain) == len(ORDER)
    torch.testing.assert_close(probabilities(logits, params, ids, allowed), chain(ids, logits.clone()).softmax(-1))


# --- orders


def test_the_orders_name_the_same_steps_and_differ():
    assert ORDER == ORDERS["transformers"] and len(set(ORDERS.values())) == 3
    assert {tuple(sorted(order)) for order in ORDERS.values()} == {tuple(sorted(ORDER))}


def test_a_temperature_before_the_filters_widens_them():
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64).log()
    params = SamplingParams(temperature=3.0, top_p=0.79)
    first, last = probabilities(logits, params), probabilities(logits, params, order=ORDERS["llama.cpp"])
    assert (first > 0).sum() == 3 and (last > 0).sum() == 2
    torch.testing.assert_close(last[:2], torch.tensor([0.5, 0.3], dtype=torch.float64) ** (1 / 3) / (0.5 ** (1 / 3) + 0.3 ** (1 / 3)))


def test_min_p_before_top_p_leaves_top_p_less():
    logits = torch.tensor([0.4, 0.3, 0.1, 0.1, 0.1], dtype=torch.float64).log()
    params = SamplingParams(top_p=0.55, min_p=0.5)  # min-p leaves two tokens, and 0.4 / 0.7 > 0.55 > 0.4
    assert (probabilities(logits, params) > 0).sum() == 2
    assert (probabilities(logits, params, order=ORDERS["vllm"]) > 0).sum() == 1


@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(0.01, 1))
@QUIET
def test_min_p_commutes_with_top_k(seed, k, p):
    logits = random_logits(3, 40, seed).round()  # many ties
    assert torch.equal(sampling.top_k(sampling.min_p(logits, p), k), sampling.min_p(sampling.top_k(logits, k), p))


@pytest.mark.parametrize("order", [ORDER[:-1], (*ORDER, "top_k"), (*ORDER[:-1], "typical_p")])
def test_an_order_names_every_step_once(order):
    with pytest.raises(ValueError, match="does not name each of repetition_penalty, allowed,"):
        probabilities(random_logits(), SamplingParams(), order=order)


@pytest.mark.parametrize("name", [*ORDERS, "hf"])
def test_a_name_for_an_order_is_refused_with_where_the_orders_are(name):
    for call in (lambda: probabilities(torch.zeros(4), SamplingParams(), order=name), lambda: Sampler(SamplingParams())(torch.zeros(4), order=name)):
        with pytest.raises(ValueError, match=f"order='{name}' does not name each .* as ORDERS\\['transformers'\\], ORDERS\\['vllm'\\], .* do$"):
            call()


# --- properties

PARAMS = st.builds(
    SamplingParams,
    temperature=st.just(0.0) | st.floats(0.05, 5),
    top_k=st.integers(0, 60),
    top_p=st.floats(0.01, 1),
    min_p=st.floats(0, 1),
    repetition_penalty=st.floats(0.3, 3),
)


@given(st.integers(0, 10**6), PARAMS, st.sampled_from(sorted(ORDERS)), st.booleans())
@QUIET
def test_properties_of_every_distribution(seed, params, engine, ties):
    logits = random_logits(4, 50, seed, torch.float32)
    logits = logits.round() if ties else logits
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 50, (4, 9), generator=generator)
    allowed = torch.rand(4, 50, generator=generator) < 0.5
    allowed[:, 7] = True
    copies = logits.clone(), ids.clone(), allowed.clone()
    p = probabilities(logits, params, ids, allowed, ORDERS[engine])
    assert all(torch.equal(a, b) for a, b in zip((logits, ids, allowed), copies, strict=True)), "an input was changed"
    torch.testing.assert_close(p.sum(-1), torch.ones(4))
    assert (p >= 0).all() and not p[~allowed].any()
    if params.top_k:
        assert ((p > 0).sum(-1) <= params.top_k).all()
    best = sampling.repetition_penalty(logits, ids, params.repetition_penalty).masked_fill(~allowed, -math.inf).argmax(-1)
    top = p.gather(-1, best[:, None]).flatten()
    assert torch.equal(top, p.amax(-1)), "the most probable token always stays the most probable"
    if params.temperature == 0:
        assert torch.equal(top, torch.ones(4))


@given(st.integers(0, 10**6), st.floats(0.05, 0.999), st.floats(0.2, 4))
@QUIET
def test_top_p_is_a_smallest_set(seed, p, t):
    logits = random_logits(4, 50, seed) / t
    probs = logits.softmax(-1)
    stays = sampling.top_p(logits, p).isfinite()
    for row in range(4):
        mass, least = probs[row][stays[row]].sum(), probs[row][stays[row]].min()
        assert mass >= p - 1e-12 and mass - least < p + 1e-12
        assert not (probs[row][~stays[row]] > least).any()


@given(st.integers(0, 10**6), st.integers(1, 60))
@QUIET
def test_top_k_keeps_k_of_the_largest(seed, k):
    logits = random_logits(4, 50, seed).round()
    out = sampling.top_k(logits, k)
    assert (out.isfinite().sum(-1) == min(k, 50)).all()
    order = logits.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    assert kept(out) == [sorted(row) for row in order.tolist()]


@pytest.mark.parametrize(
    "step",
    [
        lambda x: sampling.temperature(x, 0.5),
        lambda x: sampling.top_k(x, 3),
        lambda x: sampling.top_p(x, 0.5),
        lambda x: sampling.min_p(x, 0.5),
        lambda x: sampling.repetition_penalty(x, [[0, 1]] * 8, 2.0),
        lambda x: sampling.allow(x, torch.arange(300) < 5),
        lambda x: sample(x, [Sampler(SamplingParams(temperature=0.5, top_k=3, seed=0))] * 8),
        lambda x: sample(x, [Sampler(SamplingParams(temperature=0))] * 8),
    ],
)
def test_inputs_are_left_alone(step):
    logits = random_logits()
    before = logits.clone()
    step(logits)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype):
    logits = random_logits(dtype=torch.float32).to(dtype)
    params = SamplingParams(temperature=0.7, top_k=50, top_p=0.9, min_p=0.01, repetition_penalty=1.1)
    p = probabilities(logits, params, [[1, 2]] * 8)
    assert p.dtype == torch.float32 and torch.equal(p, probabilities(logits.float(), params, [[1, 2]] * 8))
    for out in (sampling.top_p(logits, 0.9), sampling.min_p(logits, 0.1), sampling.top_k(logits, 0)):
        assert out.dtype == torch.float32


# --- drawing


def test_draw_inverts_the_cumulative_distribution():
    probs = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    almost = math.nextafter(1, 0)
    u = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, almost], dtype=torch.float64)
    assert draw(probs.expand(6, 6), u).tolist() == [1, 1, 3, 3, 4, 4]


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-17, 0.5, 1 - 2**-53]))
@QUIET
def test_draw_never_returns_probability_zero(seed, u):
    probs = sampling.top_k(random_logits(16, 100, seed, torch.float32), 5).softmax(-1)
    tokens = draw(probs, torch.full((16,), u, dtype=torch.float64))
    assert (probs.gather(-1, tokens[:, None]) > 0).all()


def test_draw_survives_a_sum_that_is_not_monotone(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "cumsum", lambda self, dim: torch.tensor([0.5, 0.5 + 1e-12, 1.0], dtype=torch.float64))
    assert draw(torch.tensor([0.5, 0.0, 0.5]), torch.tensor(0.5, dtype=torch.float64)) == 2


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.6, seed=11),
        SamplingParams(temperature=2.0, seed=12),
        SamplingParams(temperature=1.3, top_k=12, seed=13),
        SamplingParams(temperature=0.8, top_p=0.85, seed=14),
        SamplingParams(temperature=1.6, min_p=0.1, seed=15),
        SamplingParams(temperature=1.5, top_k=30, top_p=0.95, min_p=0.01, repetition_penalty=1.3, seed=16),
    ],
)
def test_frequencies_of_20k_draws_follow_the_law(params):
    logits, seen = random_logits(1, 60, dtype=torch.float32, spread=1.5)[0], list(range(0, 60, 3))
    sampler = Sampler(params)  # one stream, 20,000 numbers of it
    tokens = sample(logits.expand(20_000, -1), [sampler] * 20_000, [seen] * 20_000)
    x = logits.double()
    if params.repetition_penalty != 1:
        x[seen] = torch.where(x[seen] > 0, x[seen] / params.repetition_penalty, x[seen] * params.repetition_penalty)
    law = (x / params.temperature).softmax(-1)  # the law, written out a second time
    ranked = law.sort(descending=True)
    if params.top_k:
        law[ranked.indices[params.top_k :]] = 0
    ranked = (law / law.sum()).sort(descending=True)
    law[ranked.indices[ranked.values.cumsum(0) - ranked.values >= params.top_p]] = 0
    law[law < params.min_p * law.max()] = 0
    assert_frequencies(tokens, law / law.sum())


def test_first_tokens_of_neighbouring_seeds_follow_the_law():
    logits, t = random_logits(1, 30, seed=5, spread=1.5)[0], 0.7
    samplers = [Sampler(SamplingParams(temperature=t, seed=seed)) for seed in range(20_000)]
    assert_frequencies(sample(logits.expand(20_000, -1), samplers), (logits / t).softmax(-1))


# --- one stream per request

REQUESTS = [
    SamplingParams(temperature=0.8, seed=1),
    SamplingParams(temperature=0.8, seed=2),
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=1.5, top_k=40, seed=1),
    SamplingParams(temperature=1.2, top_p=0.9, min_p=0.01, seed=3),
    SamplingParams(temperature=0.9, repetition_penalty=1.5, seed=4),
    SamplingParams(temperature=0.8, seed=5),
]


def generate(schedule, steps=12, vocab=257):
    """Tokens of every request; schedule(step, unfinished) gives the rows of each step. Logits depend on request and history."""
    samplers, tokens = [Sampler(params) for params in REQUESTS], [[] for _ in REQUESTS]

    def logits(request):
        seed = hash((request, *tokens[request])) % 2**32
        return random_logits(1, vocab, seed, torch.float32, 2.0)[0]

    for step in range(1000):
        if not (unfinished := [r for r in range(len(REQUESTS)) if len(tokens[r]) < steps]):
            return tokens
        rows = schedule(step, unfinished)
        new = sample(torch.stack([logits(r) for r in rows]), [samplers[r] for r in rows], [tokens[r] for r in rows])
        for r, token in zip(rows, new.tolist(), strict=True):
            tokens[r].append(token)
    raise AssertionError("the schedule starves a request")


def test_the_same_seed_gives_the_same_tokens_in_any_batch():
    alone = generate(lambda step, unfinished: unfinished[:1])
    assert generate(lambda step, unfinished: unfinished) == alone
    assert generate(lambda step, unfinished: unfinished[::-1]) == alone
    assert generate(lambda step, unfinished: unfinished[step % len(unfinished) :][:3]) == alone
    assert alone[0] != alone[1]


def test_a_greedy_row_takes_nothing_from_the_stream():
    logits = random_logits(1, 50)
    sampler, other = Sampler(SamplingParams(temperature=0, seed=3)), Sampler(SamplingParams(seed=3))
    assert sample(logits, [sampler]).item() == logits.argmax() == sampler(logits[0])
    assert torch.equal(sampler.uniform(), other.uniform())


def test_no_seed_is_fresh_and_a_recorded_seed_repeats_it():
    samplers = [Sampler(SamplingParams()) for _ in range(50)]
    assert len({s.seed for s in samplers}) > 45
    again = Sampler(SamplingParams(seed=samplers[0].seed))
    assert samplers[0].uniform() == again.uniform()
    torch.manual_seed(0)  # the global stream has no say, and does not move
    state, sampler = torch.get_rng_state(), Sampler(SamplingParams())
    sampler(random_logits()[0])
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(0)
    assert Sampler(SamplingParams()).seed != sampler.seed


def test_a_batch_of_different_rows_equals_the_rows():
    logits, seen = random_logits(len(REQUESTS), 90), [[r, 3 * r] for r in range(len(REQUESTS))]
    allowed = torch.rand(len(REQUESTS), 90, generator=torch.Generator().manual_seed(8)) < 0.5
    for engine in ORDERS.values():
        together = sample(logits, [Sampler(p) for p in REQUESTS], seen, allowed, engine)
        one_by_one = [Sampler(p)(logits[r], seen[r], allowed[r], engine) for r, p in enumerate(REQUESTS)]
        assert together.tolist() == one_by_one
        for r, params in enumerate(REQUESTS):
            assert probabilities(logits[r], params, seen[r], allowed[r], engine)[one_by_one[r]] > 0
    greedy = sampling.allow(logits, allowed).argmax(-1)
    assert sample(logits, [Sampler(SamplingParams(temperature=0))] * len(REQUESTS), allowed=allowed).tolist() == greedy.tolist()


def test_each_row_is_penalized_for_its_own_tokens():
    samplers = [Sampler(SamplingParams(temperature=0, repetition_penalty=2.0))] * 3
    assert sample(torch.tensor([4.0, 3.0, 2.5]).expand(3, 3), samplers, [[], [0], [0, 1]]).tolist() == [0, 1, 2]


def test_an_empty_batch_is_an_empty_answer():
    assert sample(torch.empty(0, 5), []).shape == (0,)


def test_greedy_takes_the_lower_id_of_a_tie_as_top_1_does():
    logits = torch.tensor([[1.0, 2.0, 2.0], [0.0, 0.0, 0.0]])
    assert sample(logits, [Sampler(SamplingParams(temperature=0))] * 2).tolist() == [1, 0]
    assert sample(logits, [Sampler(SamplingParams(top_k=1))] * 2).tolist() == [1, 0]
    assert probabilities(logits, SamplingParams(temperature=0)).tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_rows_that_are_all_greedy_get_what_they_get_beside_one_that_draws(dtype):
    logits = random_logits(6, 40).to(dtype)
    greedy = [Sampler(SamplingParams(temperature=0, top_k=k, top_p=p)) for k, p in ((0, 1), (3, 1), (0, 0.5), (1, 0.1), (7, 0.9))]
    alone, mixed = sample(logits[:5], greedy), sample(logits, [*greedy, Sampler(SamplingParams(seed=1))])
    assert alone.dtype == torch.long and alone.tolist() == mixed[:5].tolist() == logits[:5].argmax(-1).tolist()
    assert sample(logits[:0], []).dtype == torch.long


@pytest.mark.parametrize(("bad", "top"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_greedy_rows_are_refused_by_number(bad, top):
    logits = random_logits(4, 20)
    logits[2] = bad if bad < 0 else logits[2]
    logits[2, 5] = bad
    with pytest.raises(ValueError, match=f"row 2: the logits have a NaN, a .inf, or nothing above -inf .largest logit: {top}"):
        sample(logits, [Sampler(SamplingParams(temperature=0))] * 4)
    with pytest.raises(ValueError, match="does not name each of"):
        sample(random_logits(4, 20), [Sampler(SamplingParams(temperature=0))] * 4, order=("top_k",))


# --- refusals


@pytest.mark.parametrize(
    ("name", "values", "rule"),
    [
        ("temperature", (-1, 1e-6, math.inf, math.nan, "1", True, None), "0 (greedy) or finite and at least 1e-05"),
        ("top_k", (-1, 1.5, 2.0, True, "3", None), "a whole number of at least 0"),
        ("top_p", (0, -0.1, 1.01, math.nan, "0.9", True, None), "a number above 0 and at most 1"),
        ("min_p", (-0.1, 1.01, math.nan, "0", False, None), "a number from 0 (off) to 1"),
        ("repetition_penalty", (0, -1, math.inf, math.nan, "1", True, None), "a finite number above 0"),
        ("seed", (-1, 2**32, 1.0, "0", True), "a whole number from 0 to 2**32 - 1"),
    ],
)
def test_bad_parameters_say_value_and_rule(name, values, rule):
    for value in values:
        with pytest.raises(ValueError) as error:
            SamplingParams(**{name: value})
        assert f"{name}={value!r} is not {rule}" in str(error.value)
        if name == "repetition_penalty":
            with pytest.raises(ValueError, match=name):
                sampling.repetition_penalty(random_logits(), [[]] * 8, value)
        elif name != "seed":
            with pytest.raises(ValueError, match=name):
                getattr(sampling, name)(random_logits(), value)


def test_bounds_are_allowed():
    SamplingParams(temperature=sampling.MIN_TEMPERATURE, top_k=0, top_p=1, min_p=1, repetition_penalty=0.1, seed=2**32 - 1)
    assert SamplingParams(temperature=0).temperature == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("params", [SamplingParams(temperature=0), SamplingParams(temperature=0.5, top_k=3, top_p=0.9, min_p=0.1)])
def test_bad_logits_name_the_row(bad, params):
    logits = random_logits(4, 20)
    logits[2, 5] = bad
    with pytest.raises(ValueError, match="row 2: the logits have a NaN"):
        probabilities(logits, params)
    logits[2] = -math.inf
    with pytest.raises(ValueError, match="row 2: the logits have a NaN, a .inf, or nothing above -inf .largest logit: -inf"):
        probabilities(logits, params)


def test_an_error_names_the_row_of_the_batch_and_moves_no_stream():
    params = [SamplingParams(seed=r, temperature=1 + r % 2) for r in range(6)]  # two groups: rows 0, 2, 4 and 1, 3, 5
    samplers, logits, allowed = [Sampler(p) for p in params], random_logits(6, 20), torch.ones(6, 20, dtype=torch.bool)
    allowed[3] = False
    with pytest.raises(ValueError, match="row 3: allowed leaves no token"):
        sample(logits, samplers, allowed=allowed)
    assert [s.uniform() for s in samplers] == [Sampler(p).uniform() for p in params]
    logits[5] = math.nan
    with pytest.raises(ValueError, match="row 5: the logits have a NaN"):
        sample(logits, samplers)


def test_a_mask_must_leave_a_token():
    logits = random_logits(3, 6)
    logits[1, :3] = -math.inf
    with pytest.raises(ValueError, match="row 1: allowed leaves no token"):
        probabilities(logits, SamplingParams(), allowed=torch.arange(6) < 3)
    masks_last = ("repetition_penalty", "temperature", "top_k", "top_p", "min_p", "allowed")
    with pytest.raises(ValueError, match="row 0: allowed leaves no token"):
        probabilities(torch.arange(6.0), SamplingParams(top_k=2), allowed=torch.arange(6) < 3, order=masks_last)


@pytest.mark.parametrize(
    "allowed", [torch.ones(8, 300), torch.ones(8, 299, dtype=torch.bool), torch.ones(7, 300, dtype=torch.bool), torch.ones(1, dtype=torch.bool)]
)
def test_a_mask_has_the_shape_of_the_logits(allowed):
    with pytest.raises(ValueError, match="is not a bool mask .vocab. or .8, 300."):
        probabilities(random_logits(), SamplingParams(), allowed=allowed)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_batch_takes_one_mask_for_all_or_one_a_row(rows):
    samplers = [Sampler(SamplingParams(seed=i)) for i in range(2)]
    with pytest.raises(ValueError, match=rf"allowed \[{rows}, 300\] of torch.bool is not a bool mask \[vocab\] or \[2, 300\]"):
        sample(random_logits()[:2], samplers, allowed=torch.ones(rows, 300, dtype=torch.bool))


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (None, "seen is None: a repetition penalty needs"),
        ([[0]] * 7, "seen has ids for 7 rows"),
        ([[0]] * 7 + [[300]], "seen has ids from 300 to 300, outside 0 .. 299"),
        ([[-1]] * 8, "seen has ids from -1 to -1"),
        (torch.ones(300, dtype=torch.bool), "does not have the shape"),
    ],
)
def test_seen_must_fit(seen, words):
    with pytest.raises(ValueError, match=words):
        probabilities(random_logits(), SamplingParams(repetition_penalty=1.2), seen)


def test_a_penalized_row_without_its_seen_is_refused():
    samplers = [Sampler(SamplingParams()), Sampler(SamplingParams(repetition_penalty=1.2))]
    assert sample(random_logits(2), samplers, [None, [1]]).shape == (2,)
    for seen in (None, [[1], None]):
        with pytest.raises(ValueError, match="a repetition penalty needs the tokens"):
            sample(random_logits(2), samplers, seen)


def test_out_of_range_after_the_steps_is_refused():
    with pytest.raises(ValueError, match="row 0: penalty or temperature took the logits out of range"):
        filtered_logits(torch.tensor([3e37, 1.0]), SamplingParams(temperature=1e-3))


@pytest.mark.parametrize("logits", [torch.tensor(1.0), torch.empty(2, 0), torch.ones(2, 3, dtype=torch.long)])
def test_what_cannot_be_logits(logits):
    with pytest.raises(ValueError, match="are not floating point"):
        probabilities(logits, SamplingParams())


def test_one_sampler_per_row():
    with pytest.raises(ValueError, match="1 samplers, seen for 1 rows: not one of each per row"):
        sample(random_logits(2), [Sampler(SamplingParams())])
    with pytest.raises(ValueError, match="seen for 3 rows: not one of each per row"):
        sample(random_logits(2), [Sampler(SamplingParams())] * 2, [[]] * 3)
    with pytest.raises(ValueError, match="not one of each per row"):
        sample(random_logits(2)[0], [Sampler(SamplingParams())] * 300)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_gives_the_tokens_of_the_cpu():
    logits, seen = random_logits(len(REQUESTS), 2048), [[r, 3 * r] for r in range(len(REQUESTS))]
    allowed = torch.rand(len(REQUESTS), 2048, generator=torch.Generator().manual_seed(8)) < 0.5
    cpu, cuda = [Sampler(p) for p in REQUESTS], [Sampler(p) for p in REQUESTS]
    for _ in range(50):
        tokens = sample(logits.cuda(), cuda, seen, allowed.cuda())
        assert tokens.is_cuda and tokens.tolist() == sample(logits, cpu, seen, allowed).tolist()
    ties = logits.round()
    assert torch.equal(sampling.top_k(ties.cuda(), 40).cpu(), sampling.top_k(ties, 40))
    assert torch.equal(sampling.top_p(ties.cuda(), 0.9).cpu(), sampling.top_p(ties, 0.9))
