"""Predict decode and prefill from this machine's roofs, then measure: how far off is each prediction?

    python -m benchmarks.predict [--quick] [--device cpu|cuda] [--out NAME]

A run goes in rounds. In each the single operations come first, then the
predictions, then the measured steps; ``order`` in the result shows it. A machine
whose speed drifts moves both sides of a round, and the error of a case is the
median over rounds. No constant is fitted on a step. The full run takes about five
minutes on two cores and wants a machine that does nothing else; --quick (under
40 s) checks that it runs, not how fast.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks import residue
from benchmarks.cases import DECODE_METHODS, PREFILL_METHODS, Case, measure, predict, prepare, sized_model, step
from benchmarks.roofs import Prober, Roofs, last_level_cache
from course import results
from tinyserve import costs, probe
from tinyserve.configs import ModelConfig
from tinyserve.model import build

CODE = (
    "benchmarks/predict.py", "benchmarks/cases.py", "benchmarks/roofs.py", "benchmarks/residue.py",
    "tinyserve/model.py", "tinyserve/kv_cache.py", "tinyserve/attention.py", "tinyserve/rope.py", "tinyserve/probe.py", "tinyserve/costs/shapes.py", "tinyserve/costs/roofline.py",
)
Clock = Iterator[int]
Repetitions = dict[str, list[float]]
TIMES_CACHE = 10
"""A model streams at least this many last-level caches in a step, so that its weights are cold."""

QUIET = 1.3
"""Quartiles of a decode step's predicted / measured, over rounds, further apart than this tell of another job on the machine."""


@dataclass(frozen=True)
class Plan:
    """What a run does: models by width, cases, seconds for each single operation, rounds for each step."""

    widths: tuple[int, ...]
    least_bytes: float
    cases: tuple[Case, ...]
    pool_bytes: int
    budget: float
    rounds: int
    prefill_rounds: int
    gemm_sizes: tuple[int, ...]
    gemv_shapes: tuple[tuple[int, int], ...]
    compile_width: int | None


def plan(device: str, quick: bool, cache: int) -> Plan:
    """Return the plan for a device; quick uses models that fit in a cache, so its errors mean nothing."""
    if quick:
        cases = (Case("decode", 1, 32), Case("decode", 2, 64), Case("prefill", 1, 16))
        return Plan((256,), 8e6, cases, 2**26, 0.02, 3, 2, (256,), ((256, 256), (512, 256)), None)
    decode = tuple(Case("decode", b, t) for b, t in ((1, 16), (1, 1024), (1, 4096), (4, 256), (4, 2048), (16, 512)))
    prefill = tuple(Case("prefill", 1, n) for n in (64, 256, 512))
    gemv, gemm = probe.GEMV_SHAPES[device], probe.GEMM_SIZES[device]
    widths = (1024, 1536, 2048) if device == "cpu" else (2048, 4096, 8192)
    least = TIMES_CACHE * cache if device == "cpu" else max(TIMES_CACHE * cache, 4e9)
    pool = probe.POOL_BYTES[device]
    return Plan(widths, least, decode + prefill, pool, 0.05, 9, 5, gemm, gemv, widths[-1])


def one_round(
    model: ModelConfig, cases: Sequence[Case], calls: Sequence[Callable[[], Any]], prober: Prober, run_plan: Plan, repetitions: Repetitions
) -> tuple[Roofs, list[dict[str, float]], list[float]]:
    """Probe all that the cases need, predict every case, then time every step once; return roofs, predictions, seconds."""
    roofs = prober.roofs(run_plan.gemm_sizes, run_plan.gemv_shapes)
    roofs.repetitions = repetitions
    for case in cases:
        prepare(prober, roofs, model, case)
    predicted = [predict(roofs, model, case) for case in cases]
    return roofs, predicted, [seconds[0] for seconds in measure(list(calls), prober.device, 1)]


def run_model(model: ModelConfig, prober: Prober, run_plan: Plan, clock: Clock, repetitions: Repetitions) -> tuple[list[dict[str, Any]], list[Roofs]]:
    """Run the rounds of one model, decode first; clock counts the events, in order. Return a row for each case, and every round's roofs."""
    decoder, rows, found = build(model, prober.device, prober.kind), [], []
    for phase, rounds in (("decode", run_plan.rounds), ("prefill", run_plan.prefill_rounds)):
        cases = [case for case in run_plan.cases if case.phase == phase]
        calls = [step(decoder, case, prober.device, prober.kind) for case in cases]
        new: list[dict[str, Any]] = [
            {"model": model.name, **asdict(case), "predictions": [], "seconds": [], "order": {"predicted": [], "measured": []}} for case in cases
        ]
        for _ in range(rounds):
            roofs, predicted, seconds = one_round(model, cases, calls, prober, run_plan, repetitions)
            found.append(roofs)
            for kind in ("predicted", "measured"):
                for row in new:
                    row["order"][kind].append(next(clock))
            for row, guess, taken in zip(new, predicted, seconds, strict=True):
                row["predictions"].append(guess)
                row["seconds"].append(taken)
        rows += [judged(row) | {"tokens": decoder.tokens} for row in new]
    return rows, found


def judged(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with its medians: predicted and measured seconds, and the error of each method, a median over rounds of predicted / measured - 1."""
    methods = row["predictions"][0]
    ratios = {m: [guess[m] / taken for guess, taken in zip(row["predictions"], row["seconds"], strict=True)] for m in methods}
    return row | {
        "predicted": {m: statistics.median(guess[m] for guess in row["predictions"]) for m in methods},
        "measured": statistics.median(row["seconds"]),
        "errors": {m: statistics.median(values) - 1 for m, values in ratios.items()},
        "spread": {m: _quartile_ratio(values) for m, values in ratios.items()},
    }


def _quartile_ratio(values: Sequence[float]) -> float:
    """Return the upper quartile over the lower one; 1 for a single value."""
    if len(values) < 2:
        return 1.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high / low


def run_residue(model: ModelConfig, prober: Prober, run_plan: Plan) -> dict[str, Any]:
    """Count a decode step's operations and time an empty one; compile the step where the plan says so."""
    found = {"model": model.name, "empty step": residue.empty_step(model, prober.device, prober.kind, 5 * run_plan.rounds)}
    if run_plan.compile_width == model.d_model:
        decoder = build(model, prober.device, prober.kind)
        found["variants"] = residue.variants(decoder, Case("decode", 1, 64), prober.device, prober.kind, run_plan.rounds)
    return found


def median_errors(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the median of |predicted / measured - 1| over the cases, by phase and method."""
    found: dict[str, dict[str, float]] = {}
    for phase, methods in (("decode", DECODE_METHODS), ("prefill", PREFILL_METHODS)):
        chosen = [row["errors"] for row in rows if row["phase"] == phase]
        if chosen:
            found[phase] = {name: statistics.median(abs(row[name]) for row in chosen) for name in methods}
    return found


def run(device: str, quick: bool) -> dict[str, Any]:
    """Do the whole run and return its data."""
    begin, cache = time.perf_counter(), last_level_cache(device)
    run_plan, dtype = plan(device, quick, cache), "fp32" if device == "cpu" else "fp16"
    prober, clock = Prober(device, dtype, run_plan.pool_bytes, run_plan.budget), itertools.count()
    models = [sized_model(width, run_plan.least_bytes, dtype) for width in run_plan.widths]
    rows, roofs, left, repetitions = [], [], [], {}
    for model in models:
        new, found = run_model(model, prober, run_plan, clock, repetitions)
        rows, roofs = rows + new, roofs + found
        left.append(run_residue(model, prober, run_plan))
    stream = [r.card.bandwidth for r in roofs]
    return {
        "drift": max(stream) / min(stream) - 1, "device": device, "dtype": dtype, "quick": quick, "cache_bytes": cache,
        "models": [asdict(m) | {"streamed_bytes": costs.weight_bytes(m, dtype, resident=False)} for m in models],
        "roofs": {
            "stream": statistics.median(stream), "gemm": statistics.median(r.card.peak(dtype) for r in roofs),
            "best_gemv": statistics.median(r.best_gemv for r in roofs),
            "by_round": [{"stream": r.card.bandwidth, "gemm": r.card.peak(dtype), "best_gemv": r.best_gemv} for r in roofs],
            "repetitions": {name: [float(f"{x:.4g}") for x in times] for name, times in repetitions.items()},
        },
        "cases": rows, "median_errors": median_errors(rows), "residue": left, "seconds": time.perf_counter() - begin,
    }


def unsteady(rows: Sequence[dict[str, Any]]) -> float:
    """Return the largest quartile ratio, over rounds, of predicted / measured by own shapes among the decode steps."""
    return max(row["spread"]["own shapes"] for row in rows if row["phase"] == "decode")


def table(data: dict[str, Any]) -> str:
    """Return the cases and the ladder of errors as text."""
    lines = [f"read {data['roofs']['stream'] / 1e9:.1f} GB/s, best GEMV {data['roofs']['best_gemv'] / 1e9:.1f} GB/s, "
             f"GEMM {data['roofs']['gemm'] / 1e9:.0f} GFLOP/s"]
    for phase, methods in (("decode", DECODE_METHODS), ("prefill", PREFILL_METHODS)):
        lines.append(f"\n{phase:<26}{'batch':>6}{'tokens':>7}{'ms':>9}" + "".join(f"{name:>12}" for name in methods))
        for row in (r for r in data["cases"] if r["phase"] == phase):
            errors = "".join(f"{row['errors'][name]:>+12.1%}" for name in methods)
            lines.append(f"{row['model']:<26}{row['batch']:>6}{row['context']:>7}{row['measured'] * 1e3:>9.1f}{errors}")
        ladder = data["median_errors"][phase]
        lines.append(f"{'median of the absolute errors':<48}" + "".join(f"{ladder[name]:>12.1%}" for name in methods))
    for item in data["residue"]:
        empty = item["empty step"]
        lines.append(f"\n{item['model']}: {empty['operations']['launches']} operations a step, empty {empty['median'] * 1e3:.2f} ms")
        for name, seconds in item.get("variants", {}).get("median", {}).items():
            lines.append(f"  {name:<12}{seconds * 1e3:9.2f} ms")
    if unsteady(data["cases"]) > QUIET:
        lines.append(f"\nQuartiles of one step's error lie {unsteady(data['cases']):.2f} to 1 apart: something else used this machine. Run it again.")
    return "\n".join([*lines, f"\n{data['seconds']:.0f} s in all"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and write the result file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predict", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny models: checks that it runs")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", default=None, help="name of the result (default: predict_DEVICE; a quick run writes none)")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: no CUDA device is present")
    data = run(options.device, options.quick)
    print(table(data))
    name = options.out or (None if options.quick else f"predict_{options.device}")
    if name:
        command = "python -m benchmarks.predict" + " --quick" * options.quick + f" --device {options.device}"
        print(f"written: {results.write(name, data, command, CODE, options.device).relative_to(results.ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
