"""Does the simulator tell what the engine will do? Prices fitted on some workloads, TTFT and ITL predicted on others, then measured.

    python -m benchmarks.simulator [--quick] [--device cpu|cuda] [--out NAME]

In each round the engine serves the workloads of FIT; the seconds of its steps give the
clock's prices. The simulator, with that clock, predicts the workloads of HELD_OUT,
none of whose steps it has seen; then the engine serves them. Rates of arrival are
shares of what the clock says the engine can do. The model has the course model's shape
and random weights. About four minutes on two cores that do nothing else.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.rounds import command, quartile_ratio
from tinyserve import configs, costs, probe
from tinyserve.engine import Engine
from tinyserve.load import open_loop, poisson
from tinyserve.metrics import percentile
from tinyserve.model import Decoder, build
from tinyserve.request import Request
from tinyserve.simulator import Replica, simulate

CODE = (
    "benchmarks/simulator.py", "tinyserve/simulator.py", "tinyserve/scheduler.py", "tinyserve/block_pool.py", "tinyserve/engine.py",
    "tinyserve/kv_cache.py", "tinyserve/model.py", "tinyserve/attention.py", "tinyserve/load.py", "tinyserve/costs/clock.py",
)
LIMITS = {"block_size": 16, "max_num_seqs": 16, "max_num_batched_tokens": 128}
NUM_BLOCKS = 512


@dataclass(frozen=True)
class Workload:
    """Requests: ranges of prompt and output tokens, tokens that all prompts begin with, and the load as a share of what the engine can do.

    load infinite: all at once.
    """

    requests: int
    prompt: tuple[int, int]
    output: tuple[int, int]
    load: float
    shared: int = 0

    def arrivals(self, seed: int, most: float, scale: int = 1) -> list[tuple[float, Request]]:
        """Return (seconds, request), the same for the same seed; most is the requests per second at load 1."""
        rng = random.Random(seed)
        vocab = configs.COURSE_DRAFT.vocab_size
        head = [rng.randrange(vocab) for _ in range(self.shared // scale)]
        requests = [
            Request(
                head + [rng.randrange(vocab) for _ in range(max(1, rng.randint(*self.prompt) // scale))],
                max_tokens=max(2, rng.randint(*self.output) // scale),
            )
            for _ in range(self.requests)
        ]
        rate = self.load * most if self.load != float("inf") else self.load
        return list(zip(poisson(rate, len(requests), seed), requests, strict=True))


FIT = {
    "burst": Workload(24, (8, 160), (8, 64), float("inf")),
    "long prompts": Workload(8, (200, 700), (4, 24), float("inf")),
    "one by one": Workload(8, (16, 64), (16, 48), 0.3),
}
HELD_OUT = {
    "chat at half load": Workload(32, (30, 120), (20, 60), 0.5),
    "shared prefix at 0.8 load": Workload(40, (10, 60), (10, 40), 0.8, shared=320),
    "long among short, all at once": Workload(24, (20, 400), (10, 90), float("inf")),
}


def medians(requests: Sequence[Request]) -> dict[str, float]:
    """Return the median TTFT and the median ITL over all gaps, in seconds."""
    return {"ttft": percentile([r.ttft for r in requests], 50), "itl": percentile([gap for r in requests for gap in r.itl], 50)}


def served(decoder: Decoder, arrivals: list[tuple[float, Request]]) -> tuple[list[Request], list[dict[str, Any]], Engine]:
    """Serve a workload on a fresh engine; return the requests, the trace and the engine."""
    engine = Engine(decoder, NUM_BLOCKS, trace=[], **LIMITS)
    return open_loop(engine, arrivals), engine.scheduler.trace, engine


def steps_of(trace: list[dict[str, Any]]) -> list[tuple[list[tuple[int, int]], float]]:
    """Return work and seconds of every step in a trace but the first, which warms up."""
    return [([(n, start) for _, start, n in step["chunks"]], step["end"] - step["begin"]) for step in trace[1:]]


def simulated(clock: Callable[..., float], arrivals: list[tuple[float, Request]]) -> tuple[list[Request], Replica]:
    """Serve a workload on paper."""
    replica = Replica(clock, NUM_BLOCKS, **LIMITS)
    return simulate(arrivals, [replica]), replica


def capacity(clock: Callable[..., float], workload: Workload, seed: int, scale: int) -> float:
    """Return the requests per second that the clock gives when all come at once."""
    at_once = [(0.0, request) for _, request in workload.arrivals(seed, 1.0, scale)]
    requests, _ = simulated(clock, at_once)
    return len(requests) / max(r.finished for r in requests)


def one_round(decoder: Decoder, number: int, scale: int) -> tuple[costs.FittedClock, list[dict[str, Any]]]:
    """Fit, predict each workload that was held out, then measure it."""
    steps, most = [], 4.0
    for workload in FIT.values():
        _, trace, _ = served(decoder, workload.arrivals(100 + number, most, scale))
        steps += steps_of(trace)
        most = 1 / (statistics.median(seconds for _, seconds in steps) * 30)
    clock, rows = costs.fit_clock(steps), []
    for name, workload in HELD_OUT.items():
        most = capacity(clock, workload, number, scale)
        paper, replica = simulated(clock, workload.arrivals(number, most, scale))
        real, _, engine = served(decoder, workload.arrivals(number, most, scale))
        rows.append({
            "workload": name, "predicted": medians(paper), "measured": medians(real), "rate": workload.load * most if workload.load < 9 else None,
            "model_tokens": {"predicted": replica.scheduler.tokens, "measured": engine.scheduler.tokens},
            "steps": {"predicted": replica.scheduler.steps, "measured": engine.scheduler.steps},
        })
    return clock, rows


def run(device: str, quick: bool) -> dict[str, Any]:
    """Do the whole run and return its data."""
    begin, rounds, scale = time.perf_counter(), 2 if quick else 9, 8 if quick else 1
    model = configs.COURSE_DRAFT if quick else configs.COURSE_MODEL
    decoder = build(model, device, probe.DTYPES["fp32" if device == "cpu" else "fp16"], std=0.05)
    served(decoder, FIT["burst"].arrivals(0, 1.0, 8))  # warms up
    found = [one_round(decoder, number, scale) for number in range(rounds)]
    rows = []
    for i, name in enumerate(HELD_OUT):
        seen = [round_rows[i] for _, round_rows in found]
        ratios = {m: [row["predicted"][m] / row["measured"][m] for row in seen] for m in ("ttft", "itl")}
        rows.append({
            "workload": name, "rounds": seen, "errors": {m: statistics.median(r) - 1 for m, r in ratios.items()},
            "spread": {m: quartile_ratio(r) for m, r in ratios.items()},
        })
    return {
        "device": device, "quick": quick, "model": model.name, "limits": LIMITS | {"num_blocks": NUM_BLOCKS},
        "clocks": [vars(clock) for clock, _ in found], "rows": rows, "threads": torch.get_num_threads(),
        "unsteady": max(value for row in rows for value in row["spread"].values()), "seconds": time.perf_counter() - begin,
    }


def table(data: dict[str, Any]) -> str:
    """Return the result as text."""
    lines = [f"{'workload':32}{'TTFT ms':>9}{'error':>8}{'ITL ms':>9}{'error':>8}"]
    for row in data["rows"]:
        median = {m: statistics.median(r["measured"][m] for r in row["rounds"]) for m in ("ttft", "itl")}
        cells = "".join(f"{1e3 * median[m]:>9.1f}{row['errors'][m]:>+8.0%}" for m in ("ttft", "itl"))
        lines.append(f"{row['workload']:32}{cells}")
    return "\n".join([*lines, f"largest spread of rounds {data['unsteady']:.2f}, {data['seconds']:.0f} s in all"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and write the result file."""
    return command("simulator", __doc__.splitlines()[0], run, table, CODE, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
