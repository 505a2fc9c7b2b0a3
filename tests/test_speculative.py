"""Accepting and replacing drafted tokens: the law by chi-square, verdicts by hand, rows in batches, refusals. The loop: test_speculative_loop.py."""

import math

import pytest
import torch

from tinyserve import costs
from tinyserve.sampling import SamplingParams, draw, probabilities
from tinyserve.speculative import accept, acceptance

P_LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0], [-0.5, 0.5, 1.5, 0.0], [0.3, 0.2, -1.0, 1.0], [1.0, -1.0, 0.5, 0.5]], dtype=torch.float64)
Q_LOGITS = torch.tensor([[0.0, 1.5, 0.5, 0.5], [1.0, 0.5, -0.5, 0.2], [-1.0, 1.0, 0.5, 0.5], [0.2, 0.9, -0.4, 1.2]], dtype=torch.float64)
FILTERS = {
    "plain": SamplingParams(),
    "cooled": SamplingParams(temperature=0.6),
    "top-k": SamplingParams(temperature=1.3, top_k=3),
    "top-p": SamplingParams(top_p=0.8),
    "min-p": SamplingParams(temperature=0.9, min_p=0.2),
}


def chi_square(pairs, law):
    """Chi-square of pairs [n, 2] against their joint law, less its mean, in standard deviations. Impossible pairs fail."""
    vocab = law.shape[-1]
    counts = torch.bincount(pairs[:, 0] * vocab + pairs[:, 1], minlength=vocab**2).double()
    expected = law.flatten() * len(pairs)
    assert not counts[expected == 0].any(), "a pair of probability 0 came out"
    used = expected > 0
    freedom = int(used.sum()) - 1
    return float(((counts - expected)[used] ** 2 / expected[used]).sum() - freedom) / math.sqrt(2 * freedom)


def markov_pairs(p, q, gamma, n=100_000, verdict=accept):
    """The first two tokens behind token 0 of n answers at once: q drafts gamma tokens, p judges; a second token that did not come is drawn from p."""
    u = torch.rand(n, 2 * gamma + 2, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    before, drafted = torch.zeros(n, dtype=torch.long), []
    for i in range(gamma):
        drafted.append(draw(q[before], u[:, i]))
        before = drafted[-1]
    drafted = torch.stack(drafted, dim=1)
    held = torch.cat([torch.zeros(n, 1, dtype=torch.long), drafted], dim=1)
    accepted, token = verdict(drafted, p[held], q[held[:, :-1]], u[:, gamma : 2 * gamma + 1])
    out = torch.cat([drafted, torch.zeros(n, 1, dtype=torch.long)], dim=1).scatter(1, accepted[:, None], token[:, None])
    second = torch.where(accepted == 0, draw(p[out[:, 0]], u[:, -1]), out[:, 1])
    return torch.stack([out[:, 0], second], dim=1), accepted


# --- the law


@pytest.mark.parametrize("params", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize("gamma", [1, 3])
def test_pairs_follow_the_targets_law_whatever_the_filters(params, gamma):
    p, q = probabilities(P_LOGITS, params), probabilities(Q_LOGITS, params)
    pairs, accepted = markov_pairs(p, q, gamma)
    assert chi_square(pairs, p[0][:, None] * p) < 4
    assert float((accepted > 0).double().mean()) == pytest.approx(float(acceptance(p[0], q[0])), abs=0.006)


def test_the_law_holds_for_a_draft_at_another_temperature_and_fewer_are_accepted():
    p, q, same = (probabilities(x, SamplingParams(temperature=t)) for x, t in ((P_LOGITS, 0.5), (P_LOGITS, 1.5), (P_LOGITS, 0.5)))
    pairs, accepted = markov_pairs(p, q, 2)
    assert chi_square(pairs, p[0][:, None] * p) < 4
    assert accepted.double().mean() < markov_pairs(p, same, 2)[1].double().mean() == 2


def _from_p(drafted, p, q, u):
    kept = accept(drafted, p, q, u).accepted
    return kept, draw(p[torch.arange(len(p)), kept], u[:, -1])


def _shifted(drafted, p, q, u):
    return accept(drafted, p.roll(-1, dims=1), q, u)


WRONG = {
    "replaced from p": _from_p,
    "p and q exchanged": lambda drafted, p, q, u: (accept(drafted, torch.cat([q, p[:, -1:]], dim=1), p[:, :-1].clamp(min=1e-9), u)),
    "one row further": _shifted,
    "one number for all": lambda drafted, p, q, u: accept(drafted, p, q, u[:, :1].expand_as(u)),
    "another q than the drafted tokens'": lambda drafted, p, q, u: accept(drafted, p, q.sqrt() / q.sqrt().sum(-1, keepdim=True), u),
}


@pytest.mark.parametrize("verdict", WRONG.values(), ids=WRONG.keys())
def test_the_test_of_the_law_finds_wrong_ways(verdict):
    p, q = probabilities(P_LOGITS, SamplingParams()), probabilities(Q_LOGITS, SamplingParams())
    pairs, _ = markov_pairs(p, q, 2, verdict=verdict)
    assert chi_square(pairs, p[0][:, None] * p) > 50


def test_a_draft_without_a_law_keeps_the_law():
    p = probabilities(P_LOGITS, SamplingParams())
    n = 100_000
    u = torch.rand(n, 3, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    accepted, token = accept(torch.ones(n, 1, dtype=torch.long), p[torch.tensor([0, 1])].expand(n, 2, 4), None, u[:, :2])
    first = torch.where(accepted == 1, 1, token)
    second = torch.where(accepted == 1, token, draw(p[first], u[:, 2]))
    assert chi_square(torch.stack([first, second], dim=1), p[0][:, None] * p) < 4
    assert float(accepted.double().mean()) == pytest.approx(float(p[0, 1]), abs=0.005)


def test_equal_laws_accept_everything():
    p = probabilities(torch.randn(64, 4, 30, generator=torch.Generator().manual_seed(1)), SamplingParams())
    u = torch.rand(64, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    drafted = torch.stack([draw(p[:, i], u[:, i]) for i in range(3)], dim=1)
    assert accept(drafted, p, p[:, :3], u[:, 4:]).accepted.tolist() == [3] * 64


def test_expected_tokens_of_a_round():
    """Places all alike: the count is the formula's."""
    p, q = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.2, 0.4, 0.4]).double()
    n, gamma = 40_000, 5
    u = torch.rand(n, 2 * gamma + 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    drafted = torch.stack([draw(q.expand(n, 3), u[:, i]) for i in range(gamma)], dim=1)
    accepted = accept(drafted, p.expand(n, gamma + 1, 3), q.expand(n, gamma, 3), u[:, gamma:]).accepted
    want = costs.speculative_tokens(float(acceptance(p, q)), gamma)
    assert float(1 + accepted.double().mean()) == pytest.approx(want, rel=0.015)


# --- by hand, and in batches


def one_hot(*ids, vocab=4):
    return torch.nn.functional.one_hot(torch.tensor(ids), vocab).double()


def test_verdicts_by_hand():
    u = torch.tensor([[0.9, 0.9, 0.9]])
    assert accept(torch.tensor([[1, 2]]), one_hot(1, 2, 3)[None], one_hot(1, 2)[None], u) == (2, 3)  # all stay, the bonus comes
    assert accept(torch.tensor([[1, 2]]), one_hot(1, 0, 3)[None], one_hot(1, 2)[None], u) == (1, 0)
    assert accept(torch.tensor([[1, 2]]), one_hot(0, 2, 3)[None], one_hot(1, 2)[None], u) == (0, 0)  # 2 is not looked at
    p, q = torch.tensor([[[0.5, 0.3, 0.2, 0.0]] * 2]), torch.tensor([[[0.2, 0.6, 0.2, 0.0]]])
    assert accept(torch.tensor([[1]]), p, q, torch.tensor([[0.49, 0.6]])) == (1, 1)
    assert accept(torch.tensor([[1]]), p, q, torch.tensor([[0.51, 0.6]])) == (0, 0)
    assert accept(torch.tensor([[1]]), p, None, torch.tensor([[0.31, 0.72]])) == (0, 2)  # [0.5, 0, 0.2]: 0.72 of 0.7 is above 0.5
    assert accept(torch.zeros(1, 0, dtype=torch.long), p[:, :1], None, torch.tensor([[0.6]])) == (0, 1)


def test_a_row_alone_is_the_row_in_a_batch_with_others_that_draft_less():
    generator = torch.Generator().manual_seed(4)
    p, q = (torch.randn(9, n, 6, generator=generator).softmax(-1) for n in (4, 3))
    u, drafted = torch.rand(9, 4, generator=generator, dtype=torch.float64), torch.randint(6, (9, 3), generator=generator)
    lengths = torch.tensor([3, 0, 1, 2, 3, 2, 1, 0, 3])
    accepted, token = accept(drafted, p, q, u, lengths)
    for row, n in enumerate(lengths.tolist()):
        numbers = torch.cat([u[row, :n], u[row, -1:]])[None]
        alone = accept(drafted[row : row + 1, :n], p[row : row + 1, : n + 1], q[row : row + 1, :n], numbers)
        assert alone == (accepted[row], token[row])
    assert (accepted <= lengths).all() and (accepted > 0).any()


def test_what_stands_beyond_lengths_is_not_read():
    p, q, drafted, u = one_hot(1, 2, 3)[None], one_hot(1, 0)[None], torch.tensor([[1, 2]]), torch.full((1, 3), 0.5)
    assert accept(drafted, p, q, u, torch.tensor([1])) == (1, 2)


REFUSED = [
    ({"p": one_hot(1, 2)[None]}, r"p has shape \[1, 2, 4\]; \[1, 3, 4\] fits"),
    ({"q": one_hot(1)[None]}, r"q has shape \[1, 1, 4\]"),
    ({"uniforms": torch.rand(1, 2)}, r"uniforms has shape \[1, 2\]"),
    ({"lengths": torch.tensor([3])}, r"lengths=\[3\] are not all between 0 and gamma=2"),
    ({"lengths": torch.tensor([1, 1])}, r"lengths has shape \[2\]"),
    ({"drafted": torch.tensor([[1, 3]])}, r"row 0, place 1: q gives drafted token 3 no probability"),
    ({"drafted": torch.tensor([1, 2])}, r"drafted \[2\]"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_refusals(change, message):
    good = {"drafted": torch.tensor([[1, 2]]), "p": one_hot(1, 2, 3)[None], "q": one_hot(1, 2)[None], "uniforms": torch.rand(1, 3)}
    _ = accept(**good)
    with pytest.raises(ValueError, match=message):
        accept(**(good | change))


def test_laws_of_different_shapes():
    with pytest.raises(ValueError, match="differ in shape"):
        acceptance(torch.ones(2), torch.ones(3))
