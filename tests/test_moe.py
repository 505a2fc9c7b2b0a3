"""A mixture of experts: grouped equals the loop, work is counted, capacity and balance do what they say."""

import pytest
import torch

from tinyserve import moe
from tinyserve.costs import expert_capacity, experts_touched

N, D, F, E, K = 40, 16, 24, 8, 2


@pytest.fixture
def layer():
    generator = torch.Generator().manual_seed(3)
    x, router = (torch.randn(n, D, generator=generator, dtype=torch.float64) for n in (N, E))
    return x, router, moe.Experts.random(E, D, F)


@pytest.mark.parametrize("top_k", (1, 2, 5, 8))
@pytest.mark.parametrize("renormalize", (True, False))
def test_grouped_equals_the_loop_and_reads_each_expert_once(layer, top_k, renormalize):
    x, router, experts = layer
    routing = moe.route(x, router, top_k, renormalize=renormalize)
    want = moe.moe_loop(x, routing, experts)
    assert (experts.rows, experts.reads) == (N * top_k, N * top_k)
    experts.rows = experts.reads = 0
    assert torch.allclose(moe.moe_grouped(x, routing, experts), want, rtol=0, atol=1e-12)
    assert experts.rows == N * top_k and experts.reads == (routing.load() > 0).sum() <= E


def test_an_expert_that_nobody_goes_to_is_not_read(layer):
    x, router, experts = layer
    moe.moe_grouped(x[:1], moe.route(x[:1], router, K), experts)
    assert (experts.rows, experts.reads) == (K, K)


def test_one_expert_of_one_is_a_dense_block(layer):
    x, router, _ = layer
    dense = moe.Experts.random(1, D, F)
    routing = moe.route(x, router[:1], 1)
    assert torch.allclose(moe.moe_grouped(x, routing, dense), dense.one(0, x))


def test_route_picks_the_highest_scores_and_weighs_by_them(layer):
    x, router, _ = layer
    routing = moe.route(x, router, K)
    logits = x @ router.T
    assert torch.equal(routing.experts, logits.topk(K).indices)
    assert torch.allclose(routing.weights, logits.topk(K).values.softmax(-1))  # softmax of the chosen = renormalised softmax
    assert torch.allclose(moe.route(x, router, K, renormalize=False).weights, logits.softmax(-1).topk(K).values)
    sigmoid = moe.route(x, router, K, score="sigmoid", renormalize=False)
    assert torch.allclose(sigmoid.weights, logits.topk(K).values.sigmoid())


def test_a_bias_moves_the_choice_and_not_the_weights(layer):
    x, router, _ = layer
    bias = torch.zeros(E, dtype=torch.float64)
    bias[3] = 10
    routing = moe.route(x, router, K, score="sigmoid", renormalize=False, bias=bias)
    assert (routing.experts[:, 0] == 3).all()
    assert torch.allclose(routing.weights[:, 0], (x @ router[3]).sigmoid())


def test_load_counts_assignments(layer):
    x, router, _ = layer
    routing = moe.route(x, router, K)
    load = routing.load()
    assert load.sum() == N * K and load.tolist() == [(routing.experts == e).sum().item() for e in range(E)]


def test_capacity_keeps_the_first_and_first_choices_before_second(layer):
    x, router, experts = layer
    routing = moe.route(x, router, K)
    capacity = expert_capacity(N, E, K, 1.0)
    keep = moe.within_capacity(routing, capacity)
    assert routing.load(keep).max() <= capacity and routing.load(keep).tolist() == [min(n, capacity) for n in routing.load().tolist()]
    out = moe.moe_grouped(x, routing, experts, keep)
    dropped = ~keep
    assert dropped.any() and experts.rows == keep.sum()
    want = moe.moe_loop(x, moe.Routing(routing.experts, routing.weights * keep, routing.scores), experts)
    assert torch.allclose(out, want, rtol=0, atol=1e-12)
    same = moe.Routing(torch.tensor([[0, 1], [1, 0], [0, 1]]), torch.ones(3, 2), torch.ones(3, 2))
    assert moe.within_capacity(same, 2).tolist() == [[True, True], [True, False], [True, False]]


def test_nothing_is_dropped_at_full_capacity(layer):
    x, router, _ = layer
    assert moe.within_capacity(moe.route(x, router, K), N).all()


def test_balance_loss_is_one_when_even_and_e_when_all_go_to_one():
    even = moe.Routing(torch.arange(8)[:, None], torch.ones(8, 1), torch.full((8, 8), 1 / 8))
    assert moe.balance_loss(even).item() == pytest.approx(1)
    pairs = moe.Routing(torch.stack((torch.arange(8), torch.arange(8).roll(1)), 1), torch.ones(8, 2), torch.full((8, 8), 1 / 8))
    assert moe.balance_loss(pairs).item() == pytest.approx(1)
    scores = torch.zeros(8, 8)
    scores[:, 5] = 1
    one = moe.Routing(torch.full((8, 1), 5), torch.ones(8, 1), scores)
    assert moe.balance_loss(one).item() == pytest.approx(8)


def test_balance_loss_has_a_gradient_that_evens_the_load(layer):
    x, router, _ = layer
    router = (router + 3 * (torch.arange(E)[:, None] == 2) * x.mean(0) / x.mean(0).norm() ** 2).requires_grad_()
    optimizer, first = torch.optim.SGD([router], lr=1.0), None
    for _ in range(150):
        routing = moe.route(x, router, K)
        first = routing.load().max() if first is None else first
        optimizer.zero_grad()
        moe.balance_loss(routing).backward()
        optimizer.step()
    assert moe.route(x, router, K).load().max() < first


def test_bias_balances_without_a_loss(layer):
    x, router, _ = layer
    bias = torch.zeros(E, dtype=torch.float64)
    first = moe.route(x, router, K, score="sigmoid").load().max()
    for _ in range(300):
        bias = moe.moved_bias(bias, moe.route(x, router, K, score="sigmoid", bias=bias).load(), 0.01)
    assert moe.route(x, router, K, score="sigmoid", bias=bias).load().max() < first
    assert moe.moved_bias(torch.zeros(3), torch.tensor([1, 2, 3]), 0.5).tolist() == [0.5, 0, -0.5]


def test_touched_experts_are_as_many_as_the_formula_expects():
    generator = torch.Generator().manual_seed(0)
    for batch in (1, 4, 8, 16):
        scores = torch.rand(4_000 * batch, E, generator=generator)
        chosen = scores.topk(K).indices.view(4_000, batch * K)
        mean = sum(len(set(row)) for row in chosen.tolist()) / 4_000
        assert mean == pytest.approx(experts_touched(E, K, batch), abs=0.05)


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: moe.route(torch.ones(3, 4), torch.ones(5, 4), 6), "top_k=6 is not between 1 and 5"),
        (lambda: moe.route(torch.ones(3, 4), torch.ones(5, 3), 1), r"not \[n, d\]"),
        (lambda: moe.route(torch.ones(3, 4), torch.ones(5, 4), 1, score="tanh"), "score='tanh'"),
        (lambda: moe.Experts(torch.ones(2, 3, 4), torch.ones(2, 3, 4), torch.ones(2, 3, 4)), r"not \[E, f, d\]"),
        (lambda: moe.within_capacity(moe.route(torch.ones(3, 4), torch.ones(5, 4), 1), 0), "capacity=0 is below 1"),
        (lambda: moe.moved_bias(torch.zeros(2), torch.ones(2), 0), "speed=0 is not above 0"),
    ],
)
def test_wrong_input_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()
