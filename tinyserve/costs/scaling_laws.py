"""Scaling laws: the loss of a trained model as a function of its parameters N and training tokens D.

    L(N, D) = E + A / N**alpha + B / D**beta        nats per token

Form, closed optimum and Huber fit on log losses: Hoffmann et al. 2022 (arXiv
2203.15556), section 3.3. A law is a fit to one family of models on one data set
with one tokenizer; none of its five constants carries over to another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .checks import require_positive

FLOPS_PER_PARAM_AND_TOKEN = 6
"""Training: 2 forward, 4 backward; attention's scores are left out."""
SERVING_FLOPS_PER_PARAM_AND_TOKEN = 2


def training_flops(params: float, tokens: float) -> float:
    """Return 6*N*D, the usual estimate of a training run; raises ValueError for a value not above 0."""
    return FLOPS_PER_PARAM_AND_TOKEN * require_positive("params", params) * require_positive("tokens", tokens)


@dataclass(frozen=True)
class OptimalPoint:
    """Where a budget is spent best: parameters, training tokens, and the loss that the law gives there."""

    params: float
    tokens: float
    loss: float


@dataclass(frozen=True)
class ScalingLaw:
    """The five constants; floor is E. Raises ValueError for a negative one or an exponent not above 0."""

    floor: float
    a: float
    b: float
    alpha: float
    beta: float
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("floor", "a", "b"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name}={getattr(self, name)!r} is not a finite number of at least 0")
        require_positive("alpha", self.alpha)
        require_positive("beta", self.beta)

    def size_term(self, params: float) -> float:
        """Return A / N**alpha: what more parameters could still save."""
        return self.a / require_positive("params", params) ** self.alpha

    def data_term(self, tokens: float) -> float:
        """Return B / D**beta: what more tokens could still save."""
        return self.b / require_positive("tokens", tokens) ** self.beta

    def loss(self, params: float, tokens: float) -> float:
        """Return L(N, D) in nats per token."""
        return self.floor + self.size_term(params) + self.data_term(tokens)

    @property
    def exponents(self) -> tuple[float, float]:
        """N_opt ~ C**first and D_opt ~ C**second; they add up to 1."""
        return self.beta / (self.alpha + self.beta), self.alpha / (self.alpha + self.beta)

    def optimal(self, flops: float) -> OptimalPoint:
        """Return the best N and D with 6*N*D = flops, in closed form (equation 4 of the paper)."""
        pairs = require_positive("flops", flops) / FLOPS_PER_PARAM_AND_TOKEN
        require_positive("a", self.a)
        require_positive("b", self.b)
        g = (self.alpha * self.a / (self.beta * self.b)) ** (1 / (self.alpha + self.beta))
        params = g * pairs ** self.exponents[0]
        return OptimalPoint(params, pairs / params, self.loss(params, pairs / params))

    def optimal_by_search(self, flops: float) -> OptimalPoint:
        """Return the same point as optimal, found by looking: the lowest loss along 6*N*D = flops."""
        pairs = require_positive("flops", flops) / FLOPS_PER_PARAM_AND_TOKEN
        params = math.exp(lowest(lambda x: self.loss(math.exp(x), pairs / math.exp(x)), 0.0, math.log(pairs)))
        return OptimalPoint(params, pairs / params, self.loss(params, pairs / params))

    def tokens_for(self, params: float, loss: float) -> float:
        """Return the training tokens with which N parameters reach a loss; infinity where they never do."""
        left = require_positive("loss", loss) - self.floor - self.size_term(params)
        return (self.b / left) ** (1 / self.beta) if left > 0 else math.inf

    def lifetime_flops(self, params: float, loss: float, served_tokens: float) -> float:
        """Return the FLOPs of training N parameters down to a loss and running served_tokens through them.

        6*N*D + 2*N*T (Sardana et al. 2023, arXiv 2401.00448); infinity where N never reaches the loss.
        """
        if not served_tokens >= 0:
            raise ValueError(f"served_tokens={served_tokens!r} is below 0")
        tokens = self.tokens_for(params, loss)
        return params * (FLOPS_PER_PARAM_AND_TOKEN * tokens + SERVING_FLOPS_PER_PARAM_AND_TOKEN * served_tokens)

    def cheapest(self, loss: float, served_tokens: float = 0) -> OptimalPoint:
        """Return the size and tokens that reach a loss for the fewest FLOPs, serving included.

        Raises ValueError for a loss that no size reaches.
        """
        if not require_positive("loss", loss) > self.floor:
            raise ValueError(f"loss={loss!r} is not above the floor {self.floor!r}; no size reaches it")
        least = math.log((self.a / (loss - self.floor)) ** (1 / self.alpha))  # the size that needs endless tokens
        at = lowest(lambda x: math.log(self.lifetime_flops(math.exp(x), loss, served_tokens)), least + 1e-9, least + 20)
        return OptimalPoint(math.exp(at), self.tokens_for(math.exp(at), loss), loss)


CHINCHILLA = ScalingLaw(1.69, 406.4, 410.7, 0.34, 0.28, "Hoffmann et al. 2022, equation 10, as printed (rounded)")
CHINCHILLA_REFIT = ScalingLaw(
    1.8172, 482.01, 2085.43, 0.3478, 0.3658, "Besiroglu et al. 2024, arXiv 2404.10102, from points read off the paper's figure"
)


def lowest(function: Callable[[float], float], low: float, high: float, steps: int = 200) -> float:
    """Return where a function with one valley is lowest between low and high (golden-section search)."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(steps):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return (low + high) / 2
