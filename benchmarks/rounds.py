"""A round of a benchmark: probe single operations, predict every step, then time each step once. And what many rounds say.

A machine whose speed drifts moves both sides of a round; so an error is the median
over rounds of predicted / measured - 1, and its spread tells how far rounds agree.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.cases import measure
from benchmarks.roofs import Prober, Roofs
from course import results

QUIET = 1.3
"""Where a quarter of the steps have quartiles further apart than this, other jobs ran on the machine."""
Prediction = dict[str, float]


@dataclass(frozen=True)
class Round:
    """What a round found: roofs, seconds predicted by method and measured for every step, and the clock at both."""

    roofs: Roofs
    predicted: list[Prediction]
    seconds: list[float]
    order: dict[str, int]


def one_round(
    prober: Prober, gemm_sizes: Sequence[int], gemv_shapes: Sequence[tuple[int, int]],
    predict_all: Callable[[Roofs], list[Prediction]], calls: Sequence[Callable[[], Any]], clock: Iterator[int],
) -> Round:
    """Probe, let predict_all predict every step from the roofs (and from what else it probes), then time each call once."""
    roofs = prober.roofs(gemm_sizes, gemv_shapes)
    predicted = predict_all(roofs)
    order = {"predicted": next(clock)}
    seconds = [taken[0] for taken in measure(list(calls), prober.device, 1)]
    order["measured"] = next(clock)
    return Round(roofs, predicted, seconds, order)


def quartile_ratio(values: Sequence[float]) -> float:
    """Return the upper quartile over the lower one; 1 for a single value."""
    if len(values) < 2:
        return 1.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high / low


def judged(rounds: Sequence[Round], step: int) -> dict[str, Any]:
    """Return a step's predictions, seconds and order by round, their medians, and for each method error and spread over the rounds."""
    predictions, seconds = [r.predicted[step] for r in rounds], [r.seconds[step] for r in rounds]
    ratios = {m: [guess[m] / taken for guess, taken in zip(predictions, seconds, strict=True)] for m in predictions[0]}
    return {
        "predictions": predictions, "seconds": seconds,
        "order": {kind: [r.order[kind] for r in rounds] for kind in ("predicted", "measured")},
        "predicted": {m: statistics.median(guess[m] for guess in predictions) for m in ratios},
        "measured": statistics.median(seconds),
        "errors": {m: statistics.median(values) - 1 for m, values in ratios.items()},
        "spread": {m: quartile_ratio(values) for m, values in ratios.items()},
    }


def unsteady(rows: Sequence[dict[str, Any]]) -> float:
    """Return the upper quartile, over the steps, of their spread by own shapes: one disturbed step says nothing about the others."""
    return statistics.quantiles([row["spread"]["own shapes"] for row in rows], n=4, method="inclusive")[2]


def warning(data: dict[str, Any]) -> list[str]:
    """Return a line for a run whose rounds disagree, else none."""
    if data["unsteady"] <= QUIET:
        return []
    return [f"\nFor a quarter of the steps the quartiles of the error lie {data['unsteady']:.2f} to 1 apart or more: something else used this machine. Run it again."]


def command(
    name: str, about: str, run: Callable[[str, bool], dict[str, Any]], table: Callable[[dict[str, Any]], str], code: Sequence[str],
    arguments: Sequence[str] | None,
) -> int:
    """Be the command line of benchmarks.NAME: run, print the table, write the result file."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    parser.add_argument("--quick", action="store_true", help="tiny models: checks that it runs")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", default=None, help=f"name of the result (default: {name}_DEVICE; a quick run writes none)")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: no CUDA device is present")
    data = run(options.device, options.quick)
    print(table(data))
    result = options.out or (None if options.quick else f"{name}_{options.device}")
    if result:
        line = f"python -m benchmarks.{name}" + " --quick" * options.quick + f" --device {options.device}"
        print(f"written: {results.write(result, data, line, code, options.device).relative_to(results.ROOT)}")
    return 0
