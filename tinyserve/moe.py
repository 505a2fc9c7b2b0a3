"""A mixture of experts in plain torch: route, compute by expert, count the load, drop what is over capacity.

One layer's feed-forward block only; attention is as in any decoder. Shapes: n
tokens of d numbers, E experts of width f, k experts a token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

SCORES = ("softmax", "sigmoid")


@dataclass(frozen=True)
class Routing:
    """Where n tokens go: experts [n, k] (different in a row), their weights [n, k], and all scores [n, E]."""

    experts: Tensor
    weights: Tensor
    scores: Tensor

    @property
    def n_experts(self) -> int:
        """Experts to choose from."""
        return self.scores.shape[1]

    def load(self, keep: Tensor | None = None) -> Tensor:
        """Count the tokens each expert gets: [E] whole numbers that sum to n * k, or to what keep [n, k] keeps."""
        chosen = self.experts.flatten() if keep is None else self.experts[keep]
        return torch.bincount(chosen, minlength=self.n_experts)


def route(
    x: Tensor, router: Tensor, top_k: int, score: str = "softmax", renormalize: bool = True, bias: Tensor | None = None
) -> Routing:
    """Send each token x [n, d] to the top_k experts by score of x @ router.T; router [E, d].

    renormalize: the k weights of a token sum to 1. bias [E] moves the choice and not
    the weights (DeepSeek-V3, 2412.19437, section 2.1.2). Raises ValueError for top_k
    outside 1 .. E, another score or shapes that do not fit.
    """
    if x.dim() != 2 or router.dim() != 2 or x.shape[1] != router.shape[1]:
        raise ValueError(f"x {list(x.shape)} and router {list(router.shape)} are not [n, d] and [E, d]")
    if not 1 <= top_k <= router.shape[0]:
        raise ValueError(f"top_k={top_k} is not between 1 and {router.shape[0]} experts")
    if score not in SCORES:
        raise ValueError(f"score={score!r} is not one of {', '.join(SCORES)}")
    logits = x @ router.T  # [n, E]
    scores = logits.softmax(-1) if score == "softmax" else logits.sigmoid()
    experts = (scores if bias is None else scores + bias).topk(top_k, dim=-1).indices
    weights = scores.gather(1, experts)
    return Routing(experts, weights / weights.sum(-1, keepdim=True) if renormalize else weights, scores)


class Experts:
    """E feed-forward blocks: gate and up [E, f, d], down [E, d, f].

    rows counts tokens times experts computed; reads counts how often one expert's
    weights were used in a product, which is what a step reads from memory.
    """

    def __init__(self, gate: Tensor, up: Tensor, down: Tensor) -> None:
        if gate.shape != up.shape or down.shape != gate.transpose(1, 2).shape:
            raise ValueError(f"gate {list(gate.shape)}, up {list(up.shape)}, down {list(down.shape)} are not [E, f, d], [E, f, d], [E, d, f]")
        self.gate, self.up, self.down, self.rows, self.reads = gate, up, down, 0, 0

    @classmethod
    def random(cls, n_experts: int, d: int, f: int, seed: int = 0, std: float = 0.2, dtype: torch.dtype = torch.float64) -> Experts:
        """Return experts with normal random weights of this standard deviation."""
        generator = torch.Generator().manual_seed(seed)
        shapes = ((n_experts, f, d), (n_experts, f, d), (n_experts, d, f))
        return cls(*(torch.randn(s, generator=generator, dtype=dtype) * std for s in shapes))

    def __len__(self) -> int:
        return self.gate.shape[0]

    def one(self, expert: int, x: Tensor) -> Tensor:
        """Return expert number `expert` of x [m, d]: down(SiLU(gate x) * up x)."""
        self.rows, self.reads = self.rows + x.shape[0], self.reads + 1
        return F.linear(F.silu(F.linear(x, self.gate[expert])) * F.linear(x, self.up[expert]), self.down[expert])


def moe_loop(x: Tensor, routing: Routing, experts: Experts) -> Tensor:
    """Return the layer's output [n, d], token by token and expert by expert: the definition, and the slow way."""
    out = torch.zeros_like(x)
    for token in range(x.shape[0]):
        for slot, expert in enumerate(routing.experts[token].tolist()):
            out[token] += routing.weights[token, slot] * experts.one(expert, x[token : token + 1])[0]
    return out


def moe_grouped(x: Tensor, routing: Routing, experts: Experts, keep: Tensor | None = None) -> Tensor:
    """Return the same [n, d], each touched expert once: gather its tokens, one product, add the weighted rows back.

    keep [n, k] (see ``within_capacity``): assignments that are False are dropped and add nothing.
    """
    out = torch.zeros_like(x)
    k = routing.experts.shape[1]
    flat = routing.experts.flatten()
    slots = torch.arange(flat.numel()) if keep is None else keep.flatten().nonzero().flatten()
    slots = slots[flat[slots].argsort(stable=True)]  # by expert, and within one in order of arrival
    counts = torch.bincount(flat[slots], minlength=len(experts)).tolist()
    start = 0
    for expert, count in enumerate(counts):
        if count:  # an expert nobody goes to is not read
            mine = slots[start : start + count]
            rows = experts.one(expert, x[mine // k]) * routing.weights.flatten()[mine, None]
            out.index_add_(0, mine // k, rows)
        start += count
    return out


def within_capacity(routing: Routing, capacity: int) -> Tensor:
    """Return keep [n, k]: True for the first `capacity` assignments of each expert, in order of the tokens.

    First choices of all tokens come before second ones, as in GShard (2006.16668,
    algorithm 1). Raises ValueError for a capacity below 1.
    """
    if capacity < 1:
        raise ValueError(f"capacity={capacity} is below 1")
    n, k = routing.experts.shape
    order = routing.experts.T.flatten()  # [k * n]: slot by slot
    place = F.one_hot(order, routing.n_experts).cumsum(0).gather(1, order[:, None])[:, 0]  # 1 for the first to arrive
    return (place <= capacity).view(k, n).T


def balance_loss(routing: Routing) -> Tensor:
    """Return E * sum over experts of (share of assignments) * (mean score): 1 when both are even, up to E when all go to one.

    The shares are counts and carry no gradient; the mean score does. Source: Switch
    Transformers (2101.03961), equations 4 to 6, with assignments / k for more than one expert.
    """
    share = routing.load().to(routing.scores.dtype) / routing.experts.numel()
    return routing.n_experts * (share * routing.scores.mean(0)).sum()


def moved_bias(bias: Tensor, load: Tensor, speed: float) -> Tensor:
    """Return the bias [E] after one step of balancing without a loss: up for experts below the mean load, down above.

    Source: DeepSeek-V3 (2412.19437), section 2.1.2. Raises ValueError for speed not above 0.
    """
    if not speed > 0:
        raise ValueError(f"speed={speed!r} is not above 0")
    mean = load.to(bias.dtype).mean()
    return bias + speed * torch.sign(mean - load)
