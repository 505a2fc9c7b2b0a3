"""Time per token with a KV cache and without, against the context: predicted from single operations, then measured.

    python -m benchmarks.kv_cache [--quick] [--device cpu|cuda] [--out NAME]

The model has the course model's shape and random weights: what the weights are
costs no time. A run goes in rounds; in each the single operations come first, then
the predictions, then the measured steps (``order`` in the result). Counters of the
model and of the caches are recorded and must equal the cost model's counts. About
two minutes on two cores that do nothing else; --quick (some seconds) checks that
it runs, not how fast.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks import residue
from benchmarks.cases import Case, predict, prepare, step
from benchmarks.roofs import Prober, Roofs, last_level_cache
from benchmarks.rounds import command, judged, one_round, unsteady, warning
from tinyserve import configs, costs, probe
from tinyserve.configs import ModelConfig
from tinyserve.kv_cache import ContiguousCache, GrowingCache
from tinyserve.model import Decoder, build

CODE = (
    "benchmarks/kv_cache.py", "benchmarks/rounds.py", "benchmarks/cases.py", "benchmarks/roofs.py", "benchmarks/residue.py", "tinyserve/kv_cache.py",
    "tinyserve/model.py", "tinyserve/attention.py", "tinyserve/rope.py", "tinyserve/probe.py", "tinyserve/costs/shapes.py",
    "tinyserve/costs/roofline.py", "tinyserve/costs/generation.py",
)
WAYS = {"cache": "decode", "no cache": "prefill"}
"""How a token at a context is made, and the phase whose prediction fits: without a cache each step is a prefill of the whole text."""
ROOFS = {"decode": "read roof", "prefill": "roofline"}


@dataclass(frozen=True)
class Plan:
    """What a run does: contexts of the steps, rounds, one answer to generate, and how the single operations are probed."""

    contexts: tuple[int, ...]
    rounds: int
    prompt: int
    output: int
    pool_bytes: int
    budget: float
    gemm_sizes: tuple[int, ...]
    gemv_shapes: tuple[tuple[int, int], ...]


def plan(device: str, quick: bool) -> Plan:
    """Return the plan for a device."""
    if quick:
        return Plan((4, 8), 2, 5, 3, 2**22, 0.002, (128,), ((256, 256),))
    return Plan((16, 64, 256, 512, 1024), 7, 128, 64, probe.POOL_BYTES[device], 0.03, probe.GEMM_SIZES[device], probe.GEMV_SHAPES[device])


def anew(decoder: Decoder, context: int, device: str) -> Callable[[], Tensor]:
    """Return a call that makes the token at this context without a cache: it runs the whole text."""
    ids = torch.arange(context, device=device).remainder(decoder.config.vocab_size)[None]
    return lambda: decoder(ids)


def step_rows(model: ModelConfig, prober: Prober, run_plan: Plan) -> tuple[list[dict[str, Any]], list[dict[str, float]]]:
    """Predict and measure every step in rounds; return a row for each context and way, and the roofs of every round."""
    decoder = build(model, prober.device, prober.kind)
    keys = [(context, way) for context in run_plan.contexts for way in WAYS]
    cases = [Case(WAYS[way], 1, context) for context, way in keys]
    calls = [
        step(decoder, case, prober.device, prober.kind) if way == "cache" else anew(decoder, case.context, prober.device)
        for case, (_, way) in zip(cases, keys, strict=True)
    ]
    rows: list[dict[str, Any]] = [
        {"context": context, "way": way, "tokens": _tokens(decoder, call)}
        for (context, way), call in zip(keys, calls, strict=True)
    ]
    launches: list[float] = []

    def predict_all(roofs: Roofs) -> list[dict[str, float]]:
        for case in cases:
            prepare(prober, roofs, model, case)
        guesses = [predict(roofs, model, case) for case in cases]
        launches.append(residue.empty_step(model, prober.device, prober.kind, 5)["median"])
        return [
            {"roofs": guess[ROOFS[case.phase]], "own shapes": guess["own shapes"], "and launches": guess["own shapes"] + launches[-1]}
            for case, guess in zip(cases, guesses, strict=True)
        ]

    clock = itertools.count()
    rounds = [one_round(prober, run_plan.gemm_sizes, run_plan.gemv_shapes, predict_all, calls, clock) for _ in range(run_plan.rounds)]
    seen = [
        {"stream": r.roofs.card.bandwidth, "gemm": r.roofs.card.peak(prober.dtype), "best_gemv": r.roofs.best_gemv, "empty step": empty}
        for r, empty in zip(rounds, launches, strict=True)
    ]
    return [row | judged(rounds, i) for i, row in enumerate(rows)], seen


def _tokens(decoder: Decoder, call: Callable[[], Any]) -> int:
    """Return how many tokens one call runs through the model."""
    before = decoder.tokens
    call()
    return decoder.tokens - before


def answer(decoder: Decoder, prompt: int, output: int, cache: ContiguousCache | GrowingCache | None) -> list[int]:
    """Generate greedily: with a cache the prompt once and then single tokens, without one the whole text for every token."""
    ids = list(range(1, prompt + 1))
    new = ids
    device = decoder.embedding.weight.device
    for _ in range(output):
        ids = ids + [int(decoder(torch.tensor([new], device=device), cache=cache)[0, -1].argmax())]
        new = ids if cache is None else ids[-1:]
    return ids[prompt:]


def answer_rows(model: ModelConfig, device: str, dtype: str, run_plan: Plan) -> list[dict[str, Any]]:
    """Generate one answer without a cache, with a preallocated and with a growing one; check the counters against the cost model."""
    decoder, rows = build(model, device, probe.DTYPES[dtype]), []
    appends = [run_plan.prompt] + [1] * (run_plan.output - 1)
    makers: dict[str, Callable[[], Any]] = {
        "no cache": lambda: None,
        "growing": lambda: GrowingCache(model),
        "preallocated": lambda: ContiguousCache(model, 1, run_plan.prompt + run_plan.output, device, probe.DTYPES[dtype]),
    }
    for name, make in makers.items():
        seconds, cache, tokens = [], None, decoder.tokens
        for number in range(4):
            cache, begin = make(), time.perf_counter()
            answer(decoder, run_plan.prompt, run_plan.output, cache)
            if number:
                seconds.append(time.perf_counter() - begin)
        row = {"cache": name, "seconds": seconds, "tokens": (decoder.tokens - tokens) // 4}
        if row["tokens"] != costs.generation_tokens(run_plan.prompt, run_plan.output, cached=cache is not None):
            raise RuntimeError(f"{name}: {row['tokens']} tokens ran, not what the cost model counts")
        if cache is not None:
            row |= {"tokens_appended": cache.tokens_appended, "bytes_copied": cache.bytes_copied}
            if cache.bytes_copied != costs.cache_write_bytes(model, appends, dtype, growing=name == "growing"):
                raise RuntimeError(f"{name}: {cache.bytes_copied} bytes were written, not what the cost model counts")
        rows.append(row)
    return rows


def run(device: str, quick: bool) -> dict[str, Any]:
    """Do the whole run and return its data."""
    begin, run_plan, dtype = time.perf_counter(), plan(device, quick), "fp32" if device == "cpu" else "fp16"
    model = configs.COURSE_DRAFT if quick else configs.COURSE_MODEL
    rows, seen = step_rows(model, Prober(device, dtype, run_plan.pool_bytes, run_plan.budget), run_plan)
    return {
        "device": device, "dtype": dtype, "quick": quick, "cache_bytes": last_level_cache(device),
        "model": asdict(model) | {"streamed_bytes": costs.weight_bytes(model, dtype, resident=False), "kv_bytes": costs.kv_cache_bytes(model, 1, dtype)},
        "roofs": {name: statistics.median(round_[name] for round_ in seen) for name in seen[0]},
        "steps": rows, "unsteady": unsteady(rows),
        "answer": {"prompt": run_plan.prompt, "output": run_plan.output, "runs": answer_rows(model, device, dtype, run_plan)},
        "seconds": time.perf_counter() - begin,
    }


def table(data: dict[str, Any]) -> str:
    """Return the result as text."""
    lines = [f"{'context':>8} {'way':10}{'tokens':>7}{'ms':>9}" + "".join(f"{name:>13}" for name in data["steps"][0]["errors"])]
    for row in data["steps"]:
        errors = "".join(f"{error:>+13.0%}" for error in row["errors"].values())
        lines.append(f"{row['context']:>8} {row['way']:10}{row['tokens']:>7}{1e3 * row['measured']:>9.2f}{errors}")
    for row in data["answer"]["runs"]:
        copied = f", {row['bytes_copied']:,} bytes written" if "bytes_copied" in row else ""
        lines.append(f"{row['cache']:13}{statistics.median(row['seconds']):8.3f} s, {row['tokens']:,} tokens{copied}")
    lines += warning(data)
    return "\n".join([*lines, f"{data['seconds']:.0f} s in all"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and write the result file."""
    return command("kv_cache", __doc__.splitlines()[0], run, table, CODE, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
