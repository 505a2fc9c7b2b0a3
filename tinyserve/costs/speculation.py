"""What speculative decoding saves, from three numbers: acceptance rate, tokens drafted, cost of the draft.

Every formula assumes that each drafted token is accepted with the same probability
alpha, whatever came before it (Leviathan, Kalman and Matias 2022, arXiv 2211.17192,
equation 1 and theorems 3.8 and 3.11). Real acceptance varies from place to place, so a
count may differ from these numbers; that it does, and by how much, is worth a look.
"""

from __future__ import annotations

import math
from typing import Any

from ..configs import ModelConfig
from ..hardware import Accelerator
from .checks import require_count
from .flops import forward_flops
from .roofline import roofline_time, step_bytes


def _require_rate(name: str, value: float) -> float:
    """Return value; raise ValueError unless it is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"{name}={value!r} is not a number from 0 to 1")
    return value


def _require_ratio(name: str, value: float) -> float:
    """Return value; raise ValueError unless it is a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError(f"{name}={value!r} is not a finite number of at least 0")
    return value


def speculative_tokens(alpha: float, gamma: int) -> float:
    """Return the expected tokens of one pass of the target: (1 - alpha^(gamma + 1)) / (1 - alpha).

    gamma tokens are drafted, each is accepted with probability alpha as long as all
    before it were, and the pass itself adds one. So it is 1 + alpha + … + alpha^gamma,
    which at alpha = 1 is gamma + 1. Raises ValueError for an alpha outside 0 … 1 or a
    gamma that is no whole number of at least 0.
    """
    _require_rate("alpha", alpha)
    return sum(alpha**i for i in range(require_count("gamma", gamma) + 1))


def speculative_speedup(alpha: float, gamma: int, c: float, verify: float = 1.0) -> float:
    """Return how many times faster tokens come than without a draft: expected tokens / (gamma * c + verify).

    c: time of one pass of the draft over that of one pass of the target for one token.
    verify: time of a pass of the target over gamma + 1 tokens, in the same unit. It is 1
    where reading the weights is all that takes time (the paper's assumption, theorem
    3.8) and nears gamma + 1 where computing does. Raises ValueError as
    speculative_tokens, and for a c below 0 or a verify below 1.
    """
    _require_ratio("c", c)
    if _require_ratio("verify", verify) < 1:
        raise ValueError(f"verify={verify!r} is below 1, the pass over a single token")
    return speculative_tokens(alpha, gamma) / (gamma * c + verify)


def verify_time(
    model: ModelConfig, batch: int, context: int, gamma: int, card: Accelerator, cards: int = 1, dtype: str = "bf16", kv_dtype: str = "bf16", **options: Any
) -> float:
    """Return the roofline time, in seconds, of one verifying step: every sequence runs gamma + 1 tokens and gets as many logits.

    The first of them makes a sequence `context` long, as in decode_time, which this equals at
    gamma = 0. Weights, K and V are read once, however many tokens use them. options are
    roofline_time's mfu and mbu. Raises ValueError for a batch or context below 1, a gamma below 0.
    """
    new = require_count("gamma", gamma) + 1
    cached = require_count("context", context, minimum=1) - 1
    flops = require_count("batch", batch, minimum=1) * forward_flops(model, new, cached, logits="all")
    moved = step_bytes(model, [(new, cached)] * batch, dtype, kv_dtype)
    return roofline_time(flops, moved, card, cards, dtype, **options)


def best_gamma(alpha: float, c: float, most: int = 32) -> int:
    """Return the gamma from 0 to most with the largest speed-up; of equal ones the smallest, 0 meaning no draft.

    Raises ValueError as speculative_speedup, and for a most that is no whole number of at least 0.
    """
    return max(range(require_count("most", most) + 1), key=lambda gamma: speculative_speedup(alpha, gamma, c))


def speculative_operations(alpha: float, gamma: int, c_hat: float) -> float:
    """Return by how many times the FLOPs of a token grow: (gamma * c_hat + gamma + 1) / expected tokens (theorem 3.11).

    c_hat: FLOPs of the draft for a token over those of the target. Raises ValueError as speculative_speedup.
    """
    return (gamma * _require_ratio("c_hat", c_hat) + gamma + 1) / speculative_tokens(alpha, gamma)


def acceptance_from_tokens(tokens: float, gamma: int) -> float:
    """Return the alpha at which one pass yields this many tokens in the mean: the inverse of speculative_tokens.

    By bisection, to 1e-12. Raises ValueError for a gamma below 1, and for tokens outside 1 … gamma + 1.
    """
    require_count("gamma", gamma, minimum=1)
    if isinstance(tokens, bool) or not isinstance(tokens, (int, float)) or not 1 <= tokens <= gamma + 1:
        raise ValueError(f"tokens={tokens!r} is not a number from 1 to gamma + 1 = {gamma + 1}")
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if speculative_tokens(middle, gamma) < tokens else (low, middle)
    return (low + high) / 2
