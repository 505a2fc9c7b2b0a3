"""Predict decode and prefill from this machine's roofs, then measure: how far off is each prediction?

    python -m benchmarks.predict [--quick] [--device cpu|cuda] [--out NAME]

For every case the single operations come first, then the predictions, then the
measured step; ``order`` in the result shows it. No constant is fitted on a step.
The full run takes about four minutes on two cores and wants a machine that does
nothing else; --quick (under 40 s) checks that it runs, not how fast.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
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
    "tinyserve/model.py", "tinyserve/rope.py", "tinyserve/probe.py", "tinyserve/costs/shapes.py", "tinyserve/costs/roofline.py",
)
TIMES_CACHE = 10
"""A model streams at least this many last-level caches in a step, so that its weights are cold."""

QUIET = 0.1
"""A read rate that moves by more than this share between start and end tells of another job on the machine."""


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
    return Plan(widths, least, decode + prefill, pool, 0.4, 9, 5, gemm, gemv, widths[-1])


def run_model(model: ModelConfig, roofs: Roofs, prober: Prober, todo: Plan, clock: list[str]) -> list[dict[str, Any]]:
    """Probe, predict and measure all cases of one model; clock gets a line for every event, in order."""
    rows = []
    for case in todo.cases:
        prepare(prober, roofs, model, case)
        clock.append("probe")
        rows.append({"model": model.name, **asdict(case), "predicted": predict(roofs, model, case)})
        clock.append("predict")
        rows[-1]["order"] = {"predicted": len(clock)}
    decoder = build(model, prober.device, prober.kind)
    for phase, rounds in (("decode", todo.rounds), ("prefill", todo.prefill_rounds)):
        chosen = [(row, case) for row, case in zip(rows, todo.cases, strict=True) if case.phase == phase]
        calls = [step(decoder, case, prober.device, prober.kind) for _, case in chosen]
        for (row, case), seconds in zip(chosen, measure(calls, prober.device, rounds), strict=True):
            clock.append("measure")
            median = statistics.median(seconds)
            row["order"]["measured"] = len(clock)
            row |= {"seconds": seconds, "measured": median}
            row["errors"] = {name: guess / median - 1 for name, guess in row["predicted"].items()}
            row["tokens"] = decoder.tokens
    return rows


def run_residue(model: ModelConfig, prober: Prober, todo: Plan) -> dict[str, Any]:
    """Count a decode step's operations and time an empty one; compile the step where the plan says so."""
    found = {"model": model.name, "empty step": residue.empty_step(model, prober.device, prober.kind, 5 * todo.rounds)}
    if todo.compile_width == model.d_model:
        decoder = build(model, prober.device, prober.kind)
        found["variants"] = residue.variants(decoder, Case("decode", 1, 64), prober.device, prober.kind, todo.rounds)
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
    todo, dtype = plan(device, quick, cache), "fp32" if device == "cpu" else "fp16"
    prober, clock, rows, left = Prober(device, dtype, todo.pool_bytes, todo.budget), ["roofs"], [], []
    roofs = prober.roofs(todo.gemm_sizes, todo.gemv_shapes)
    models = [sized_model(width, todo.least_bytes, dtype) for width in todo.widths]
    for model in models:
        rows += run_model(model, roofs, prober, todo, clock)
        left.append(run_residue(model, prober, todo))
    drift = probe.stream_rate(prober.pool, device, todo.budget).median / roofs.card.bandwidth - 1
    return {
        "drift": drift, "device": device, "dtype": dtype, "quick": quick, "cache_bytes": cache,
        "models": [asdict(m) | {"streamed_bytes": costs.weight_bytes(m, dtype, resident=False)} for m in models],
        "roofs": {
            "stream": roofs.card.bandwidth, "gemm": roofs.card.peak(dtype), "best_gemv": roofs.best_gemv,
            "repetitions": {name: [float(f"{x:.4g}") for x in times] for name, times in roofs.repetitions.items()},
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
    if abs(data["drift"]) > QUIET:
        lines.append(f"\nThe read rate moved by {data['drift']:+.0%} during the run: something else used this machine. Run it again.")
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
