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

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks import residue
from benchmarks.cases import Case, measure, predict, prepare, step
from benchmarks.roofs import Prober, last_level_cache
from course import results
from tinyserve import configs, costs, probe
from tinyserve.configs import ModelConfig
from tinyserve.kv_cache import ContiguousCache, GrowingCache
from tinyserve.model import Decoder, build

CODE = (
    "benchmarks/kv_cache.py", "benchmarks/cases.py", "benchmarks/roofs.py", "benchmarks/residue.py", "tinyserve/kv_cache.py",
    "tinyserve/model.py", "tinyserve/attention.py", "tinyserve/rope.py", "tinyserve/probe.py", "tinyserve/costs/shapes.py",
    "tinyserve/costs/roofline.py", "tinyserve/costs/generation.py",
)
WAYS = {"cache": "decode", "no cache": "prefill"}
"""How a token at a context is made, and the phase whose prediction fits: without a cache each step is a prefill of the whole text."""
ROOFS = {"decode": "read roof", "prefill": "roofline"}
QUIET = 1.3
"""Quartiles of one step's times, over rounds, further apart than this tell of another job on the machine."""


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


def step_rows(model: ModelConfig, prober: Prober, todo: Plan) -> tuple[list[dict[str, Any]], list[dict[str, float]]]:
    """Predict and measure every step in rounds; return a row for each context and way, and the roofs of every round."""
    decoder = build(model, prober.device, prober.kind)
    keys = [(context, way) for context in todo.contexts for way in WAYS]
    cases = [Case(WAYS[way], 1, context) for context, way in keys]
    calls = [
        step(decoder, case, prober.device, prober.kind) if way == "cache" else anew(decoder, case.context, prober.device)
        for case, (_, way) in zip(cases, keys, strict=True)
    ]
    rows: list[dict[str, Any]] = [
        {"context": context, "way": way, "tokens": _tokens(decoder, call), "predictions": [], "seconds": [], "order": {"predicted": [], "measured": []}}
        for (context, way), call in zip(keys, calls, strict=True)
    ]
    seen, clock = [], 0
    for _ in range(todo.rounds):
        roofs = prober.roofs(todo.gemm_sizes, todo.gemv_shapes)
        for case in cases:
            prepare(prober, roofs, model, case)
        guesses = [predict(roofs, model, case) for case in cases]
        launches = residue.empty_step(model, prober.device, prober.kind, 5)["median"]
        taken = [seconds[0] for seconds in measure(calls, prober.device, 1)]
        seen.append({"stream": roofs.card.bandwidth, "gemm": roofs.card.peak(prober.dtype), "best_gemv": roofs.best_gemv, "empty step": launches})
        for row, case, guess, seconds in zip(rows, cases, guesses, taken, strict=True):
            own = guess["own shapes"]
            row["predictions"].append({"roofs": guess[ROOFS[case.phase]], "own shapes": own, "and launches": own + launches})
            row["seconds"].append(seconds)
            row["order"]["predicted"].append(clock)
            row["order"]["measured"].append(clock + 1)
        clock += 2
    return [judged(row) for row in rows], seen


def _tokens(decoder: Decoder, call: Callable[[], Any]) -> int:
    """Return how many tokens one call runs through the model."""
    before = decoder.tokens
    call()
    return decoder.tokens - before


def judged(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with medians over rounds: predicted and measured seconds, errors (predicted / measured - 1), and the spread of its quartiles."""
    methods = row["predictions"][0]
    low, _, high = statistics.quantiles(row["seconds"], n=4, method="inclusive")
    return row | {
        "predicted": {m: statistics.median(p[m] for p in row["predictions"]) for m in methods},
        "measured": statistics.median(row["seconds"]),
        "errors": {m: statistics.median(p[m] / s for p, s in zip(row["predictions"], row["seconds"], strict=True)) - 1 for m in methods},
        "spread": high / low,
    }


def answer(decoder: Decoder, prompt: int, output: int, cache: ContiguousCache | GrowingCache | None) -> list[int]:
    """Generate greedily: with a cache the prompt once and then single tokens, without one the whole text for every token."""
    ids = list(range(1, prompt + 1))
    new = ids
    device = decoder.embedding.weight.device
    for _ in range(output):
        ids = ids + [int(decoder(torch.tensor([new], device=device), cache=cache)[0, -1].argmax())]
        new = ids if cache is None else ids[-1:]
    return ids[prompt:]


def answer_rows(model: ModelConfig, device: str, dtype: str, todo: Plan) -> list[dict[str, Any]]:
    """Generate one answer without a cache, with a preallocated and with a growing one; check the counters against the cost model."""
    decoder, rows = build(model, device, probe.DTYPES[dtype]), []
    appends = [todo.prompt] + [1] * (todo.output - 1)
    makers: dict[str, Callable[[], Any]] = {
        "no cache": lambda: None,
        "growing": lambda: GrowingCache(model),
        "preallocated": lambda: ContiguousCache(model, 1, todo.prompt + todo.output, device, probe.DTYPES[dtype]),
    }
    for name, make in makers.items():
        seconds, cache, tokens = [], None, decoder.tokens
        for number in range(4):
            cache, begin = make(), time.perf_counter()
            answer(decoder, todo.prompt, todo.output, cache)
            if number:
                seconds.append(time.perf_counter() - begin)
        row = {"cache": name, "seconds": seconds, "tokens": (decoder.tokens - tokens) // 4}
        if row["tokens"] != costs.generation_tokens(todo.prompt, todo.output, cached=cache is not None):
            raise RuntimeError(f"{name}: {row['tokens']} tokens ran, not what the cost model counts")
        if cache is not None:
            row |= {"tokens_appended": cache.tokens_appended, "bytes_copied": cache.bytes_copied}
            if cache.bytes_copied != costs.cache_write_bytes(model, appends, dtype, growing=name == "growing"):
                raise RuntimeError(f"{name}: {cache.bytes_copied} bytes were written, not what the cost model counts")
        rows.append(row)
    return rows


def run(device: str, quick: bool) -> dict[str, Any]:
    """Do the whole run and return its data."""
    begin, todo, dtype = time.perf_counter(), plan(device, quick), "fp32" if device == "cpu" else "fp16"
    model = configs.COURSE_DRAFT if quick else configs.COURSE_MODEL
    rows, seen = step_rows(model, Prober(device, dtype, todo.pool_bytes, todo.budget), todo)
    return {
        "device": device, "dtype": dtype, "quick": quick, "cache_bytes": last_level_cache(device),
        "model": asdict(model) | {"streamed_bytes": costs.weight_bytes(model, dtype, resident=False), "kv_bytes": costs.kv_cache_bytes(model, 1, dtype)},
        "roofs": {name: statistics.median(round_[name] for round_ in seen) for name in seen[0]},
        "steps": rows, "spread": max(row["spread"] for row in rows),
        "answer": {"prompt": todo.prompt, "output": todo.output, "runs": answer_rows(model, device, dtype, todo)},
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
    if data["spread"] > QUIET:
        lines.append(f"Quartiles of one step are {data['spread']:.1f} to 1 apart: something else used this machine. Run it again.")
    return "\n".join([*lines, f"{data['seconds']:.0f} s in all"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and write the result file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kv_cache", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller model and short contexts: checks that it runs")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", default=None, help="name of the result (default: kv_cache_DEVICE; a quick run writes none)")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: no CUDA device is present")
    data = run(options.device, options.quick)
    print(table(data))
    name = options.out or (None if options.quick else f"kv_cache_{options.device}")
    if name:
        command = "python -m benchmarks.kv_cache" + " --quick" * options.quick + f" --device {options.device}"
        print(f"written: {results.write(name, data, command, CODE, options.device).relative_to(results.ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
