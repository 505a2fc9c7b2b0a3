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

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import residue
from benchmarks.cases import DECODE_METHODS, PREFILL_METHODS, Case, predict, prepare, sized_model, step
from benchmarks.roofs import Prober, Roofs, last_level_cache
from benchmarks.rounds import command, judged, one_round, unsteady, warning
from tinyserve import costs, probe
from tinyserve.configs import ModelConfig
from tinyserve.model import build

CODE = (
    "benchmarks/predict.py", "benchmarks/rounds.py", "benchmarks/cases.py", "benchmarks/roofs.py", "benchmarks/residue.py",
    "tinyserve/model.py", "tinyserve/kv_cache.py", "tinyserve/attention.py", "tinyserve/rope.py", "tinyserve/probe.py",
    "tinyserve/costs/shapes.py", "tinyserve/costs/roofline.py",
)
Repetitions = dict[str, list[float]]
TIMES_CACHE = 10
"""A model streams at least this many last-level caches in a step, so that its weights are cold."""


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


def run_model(model: ModelConfig, prober: Prober, run_plan: Plan, clock: Iterator[int], repetitions: Repetitions) -> tuple[list[dict[str, Any]], list[Roofs]]:
    """Run the rounds of one model, decode first; return a row for each case, and every round's roofs."""
    decoder, rows, roofs = build(model, prober.device, prober.kind), [], []
    for phase, count in (("decode", run_plan.rounds), ("prefill", run_plan.prefill_rounds)):
        cases = [case for case in run_plan.cases if case.phase == phase]
        calls = [step(decoder, case, prober.device, prober.kind) for case in cases]

        def predict_all(found: Roofs, cases: Sequence[Case] = cases) -> list[dict[str, float]]:
            found.repetitions = repetitions
            for case in cases:
                prepare(prober, found, model, case)
            return [predict(found, model, case) for case in cases]

        rounds = [one_round(prober, run_plan.gemm_sizes, run_plan.gemv_shapes, predict_all, calls, clock) for _ in range(count)]
        roofs += [found.roofs for found in rounds]
        rows += [{"model": model.name, **asdict(case)} | judged(rounds, i) | {"tokens": decoder.tokens} for i, case in enumerate(cases)]
    return rows, roofs


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
        "drift": max(stream) / min(stream) - 1, "unsteady": unsteady([row for row in rows if row["phase"] == "decode"]), "device": device, "dtype": dtype, "quick": quick, "cache_bytes": cache,
        "models": [asdict(m) | {"streamed_bytes": costs.weight_bytes(m, dtype, resident=False)} for m in models],
        "roofs": {
            "stream": statistics.median(stream), "gemm": statistics.median(r.card.peak(dtype) for r in roofs),
            "best_gemv": statistics.median(r.best_gemv for r in roofs),
            "by_round": [{"stream": r.card.bandwidth, "gemm": r.card.peak(dtype), "best_gemv": r.best_gemv} for r in roofs],
            "repetitions": {name: [float(f"{x:.4g}") for x in times] for name, times in repetitions.items()},
        },
        "cases": rows, "median_errors": median_errors(rows), "residue": left, "seconds": time.perf_counter() - begin,
    }


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
    lines += warning(data)
    return "\n".join([*lines, f"\n{data['seconds']:.0f} s in all"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and write the result file."""
    return command("predict", __doc__.splitlines()[0], run, table, CODE, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
