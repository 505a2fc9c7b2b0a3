"""Fit the five constants of a scaling law to a handful of runs, by least squares.

Hoffmann et al. 2022 (arXiv 2203.15556, section 3.3) minimise a Huber loss of the
difference of log losses. This fit takes the square of the relative error, which is
nearly the same for small errors, and gives outliers more say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .checks import require_positive
from .least_squares import solve_nonnegative
from .scaling_laws import ScalingLaw

Run = tuple[float, float, float]
"""Parameters, training tokens, final loss in nats per token."""
FEWEST_RUNS = 5
EXPONENTS = (0.02, 2.0)
"""The range that is searched for alpha and beta."""


def relative_error(law: ScalingLaw, runs: Sequence[Run]) -> float:
    """Return the root of the mean square of L(N, D) / loss - 1 over the runs."""
    return math.sqrt(sum((law.loss(n, d) / loss - 1) ** 2 for n, d, loss in runs) / len(_checked(runs, 1)))


def fit_scaling_law(runs: Sequence[Run], floor: float | None = None) -> ScalingLaw:
    """Return the law with the smallest relative_error; with a floor, the best one with that E.

    For given exponents the law is linear in E, A and B, so these come from a linear
    least-squares fit that lets none fall below 0; the exponents are searched on a grid
    that zooms in. Raises ValueError for fewer than five runs, for runs of one size or of
    one number of tokens, and for a floor below 0 or not below the lowest loss.
    """
    runs = _checked(runs, FEWEST_RUNS)
    for name, column in (("size", 0), ("number of tokens", 1)):
        if len({run[column] for run in runs}) < 2:
            raise ValueError(f"all runs have one {name}; the law needs two at least")
    if floor is not None and not 0 <= floor < min(loss for _, _, loss in runs):
        raise ValueError(f"floor={floor!r} is not between 0 and the lowest loss of the runs")
    low, high = (math.log(x) for x in EXPONENTS)
    alpha = beta = (low + high) / 2
    width, points = (high - low) / 2, 12
    for _ in range(9):
        grid = [(i / points - 1) * width for i in range(2 * points + 1)]
        candidates = [(a, b) for a in (alpha + x for x in grid) for b in (beta + x for x in grid)]
        inside = [(a, b) for a, b in candidates if low <= a <= high and low <= b <= high]
        alpha, beta = min(inside, key=lambda pair: _solve(runs, math.exp(pair[0]), math.exp(pair[1]), floor)[0])
        width, points = width / 3, 4
    error, law = _solve(runs, math.exp(alpha), math.exp(beta), floor)
    return law


def _checked(runs: Sequence[Run], fewest: int) -> list[Run]:
    """Return the runs as a list; raise ValueError for too few or for a value not above 0."""
    if len(runs) < fewest:
        raise ValueError(f"{len(runs)} runs; {fewest} at least")
    for run in runs:
        for name, value in zip(("params", "tokens", "loss"), run, strict=True):
            require_positive(name, value)
    return list(runs)


def _solve(runs: list[Run], alpha: float, beta: float, floor: float | None) -> tuple[float, ScalingLaw]:
    """Return the summed squared relative error and the law of the best E, A, B for these exponents."""
    n0, d0 = (math.exp(sum(math.log(run[i]) for run in runs) / len(runs)) for i in (0, 1))  # keeps the columns near 1
    rows = [(1 / loss, (n / n0) ** -alpha / loss, (d / d0) ** -beta / loss) for n, d, loss in runs]
    given = 0.0 if floor is None else floor
    columns = rows if floor is None else [row[1:] for row in rows]
    values = solve_nonnegative([list(row) for row in columns], [1 - given * row[0] for row in rows])
    e, a, b = values if floor is None else (given, *values)
    error = sum((e * x + a * y + b * z - 1) ** 2 for x, y, z in rows)
    return error, ScalingLaw(e, a * n0**alpha, b * d0**beta, alpha, beta, f"least squares over {len(runs)} runs")
