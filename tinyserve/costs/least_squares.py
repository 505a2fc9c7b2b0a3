"""Least squares for a handful of unknowns."""

from __future__ import annotations

from itertools import combinations


def solve(matrix: list[list[float]], target: list[float]) -> list[float] | None:
    """Return the x that brings matrix x nearest to the target (rows of numbers, no torch); None where no single one does.

    The normal equations, by elimination with pivots: scale the columns to about 1 first.
    """
    size = len(matrix[0])
    rows = [
        [sum(row[i] * row[j] for row in matrix) for j in range(size)]
        + [sum(row[i] * t for row, t in zip(matrix, target, strict=True))]
        for i in range(size)
    ]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        if abs(rows[i][i]) < 1e-14:
            return None
        for r in range(size):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[i], strict=True)]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def solve_nonnegative(matrix: list[list[float]], target: list[float]) -> list[float]:
    """Return the x of at least 0 that brings matrix x nearest to the target: every set of unknowns is tried, the others at 0."""
    size, best = len(matrix[0]), (sum(t * t for t in target), [0.0] * len(matrix[0]))
    for count in range(1, size + 1):
        for used in combinations(range(size), count):
            found = solve([[row[i] for i in used] for row in matrix], target)
            if found is None or min(found) < 0:
                continue
            values = [0.0] * size
            for i, value in zip(used, found, strict=True):
                values[i] = value
            error = sum((sum(x * v for x, v in zip(row, values, strict=True)) - t) ** 2 for row, t in zip(matrix, target, strict=True))
            best = min(best, (error, values))
    return best[1]
