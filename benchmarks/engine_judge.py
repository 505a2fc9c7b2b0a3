"""Rounds of benchmarks.engine, and what they say: ratios within a round, their median and spread; predictions made before each round."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.engine_arms import Arms, Served
from benchmarks.engine_workloads import ALONE, BARE, ENGINE, ENGINE_OFF, MODELS, STATIC, VLLM, Case, Workload, draw
from benchmarks.rounds import Round, judged, quartile_ratio
from tinyserve import costs
from tinyserve.metrics import percentile

Found = dict[str, Served]
TARGETS = (
    # what, other arm, does it hold for this case, least median ratio
    ("tiny model against one by one", ALONE, lambda c: c.model == "random-5M", 3.5),
    ("equal lengths, batch 1, against generate", ALONE, lambda c: c.running == 1, 1.2),
    ("equal lengths, batch 16, against generate", STATIC, lambda c: c.running == 16 and not c.mixed, 1.05),
    ("mixed lengths, against static batches", STATIC, lambda c: c.mixed and c.load is None, 2.0),
    ("against a bare loop of the same decoder", BARE, lambda c: True, 0.9),
    ("against vLLM: aim", VLLM, lambda c: c.load is None and not c.shared, 1.0),
    ("against vLLM: least at batch 16", VLLM, lambda c: c.load is None and not c.shared and c.running == 16, 0.75),
)
PREDICTED_WITHIN = 0.15
"""How far the gain of prefix caching may lie from the one predicted from tokens."""


def agreeing(reference: Served, found: Served) -> int:
    """Return how many requests have the reference's tokens, all of them."""
    return sum(a == b for a, b in zip(reference.outputs, found.outputs, strict=True))


def one_round(arms: Arms, names: Sequence[str], workload: Workload) -> Found:
    """Serve a workload with every arm, in this order; raise RuntimeError for an arm that gives too few or too many tokens."""
    found = {name: arms.serve(name, workload) for name in names}
    for name, served in found.items():
        if [len(ids) for ids in served.outputs] != workload.max_tokens:
            raise RuntimeError(f"{name}, {workload.label}: the outputs do not have the lengths that were asked for")
    return found


def rotated(names: Sequence[str], number: int) -> list[str]:
    """Return the arms beginning with another one each round: none is always the one after the slowest."""
    k = number % len(names)
    return [*names[k:], *names[:k]]


def latencies(workload: Workload, served: Served) -> dict[str, float]:
    """Return mean, median and 90th percentile of end-to-end seconds, and of those to the first token where the arm knows them."""
    arrivals, kinds = workload.arrivals or [0.0] * len(served.done), {"e2e": served.done, "ttft": served.first}
    found = {}
    for kind, ends in kinds.items():
        if ends:
            taken = [end - at for end, at in zip(ends, arrivals, strict=True)]
            found |= {f"{kind}_mean": statistics.mean(taken)} | {f"{kind}_p{p}": percentile(taken, p) for p in (50, 90)}
    return found


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Return a ratio's rounds, their median, and their upper quartile over the lower."""
    return {"rounds": list(values), "median": statistics.median(values), "spread": quartile_ratio(values)}


def ratios(case: Case, workloads: Sequence[Workload], rounds: Sequence[Found]) -> dict[str, dict[str, Any]]:
    """Return how many times the engine is faster than each other arm, round by round.

    By seconds for all; with arrivals over time by mean end-to-end latency, since the
    arrivals, not the arm, decide when the last request comes.
    """
    def cost(workload: Workload, served: Served) -> float:
        return served.seconds if case.load is None else latencies(workload, served)["e2e_mean"]

    others = [name for name in rounds[0] if name != ENGINE]
    pairs = list(zip(workloads, rounds, strict=True))
    return {name: summary([cost(w, found[name]) / cost(w, found[ENGINE]) for w, found in pairs]) for name in others}


def arm_row(name: str, workloads: Sequence[Workload], rounds: Sequence[Found], reference: str) -> dict[str, Any]:
    """Return one arm's repetitions."""
    served = [found[name] for found in rounds]
    tokens = [sum(map(len, s.outputs)) for s in served]
    speeds = [n / s.seconds for n, s in zip(tokens, served, strict=True)]
    row = {
        "seconds": [s.seconds for s in served], "output_tokens": tokens, "tokens_per_second": statistics.median(speeds),
        "agree": [agreeing(found[reference], found[name]) for found in rounds],
        "latency": [latencies(w, s) for w, s in zip(workloads, served, strict=True)],
    }
    if served[0].model_tokens is not None:
        row["model_tokens"] = [s.model_tokens for s in served]
    if served[0].counters:
        row["counters"] = [s.counters for s in served]
    return row


def run_case(case: Case, arms: Arms, count: int, clock: Iterator[int], rate: float | None = None) -> dict[str, Any]:
    """Warm every arm up, run the rounds, return the case's row."""
    names = [name for name in case.arms if arms.has(name)]
    warm = draw(case, -1, rate)
    warm = warm if case.shared else warm.cut()
    counted = one_round(arms, names, warm)
    guess = gains(case, warm, counted) if case.shared else {}
    workloads, rounds, orders, predictions = [draw(case, i, rate) for i in range(count)], [], [], []
    for i, workload in enumerate(workloads):
        before = next(clock)
        orders.append(rotated(names, i))
        rounds.append(one_round(arms, orders[-1], workload))
        if case.shared:
            predictions.append(prediction(guess, before, rounds[-1], next(clock)))
    row = {
        "case": case.name, "model": case.model, "requests": case.requests, "running": case.running, "mixed": case.mixed,
        "prompt": case.prompt, "output": case.output, "shared": case.shared, "load": case.load, "rate": rate,
        "distinct": _distinct(rounds[0][case.arms[0]]), "orders": orders,
        "arms": {name: arm_row(name, workloads, rounds, case.arms[0]) for name in names},
        "ratios": ratios(case, workloads, rounds),
    }
    return row | ({"gain": judged(predictions, 0)} if case.shared else {})


def _distinct(served: Served) -> float:
    """Return the share of distinct tokens within an output: outputs that loop say little about agreement."""
    return statistics.mean(len(set(ids)) / len(ids) for ids in served.outputs)


def gains(case: Case, workload: Workload, found: Found) -> dict[str, float]:
    """Predict how many times prefix caching is faster, from the tokens counted in an untimed round.

    "tokens" counts each alike; "attention" weighs it by its FLOPs, which grow with its position.
    """
    model = MODELS[case.model]

    def flops(served: Served) -> int:
        rows = zip(workload.prompts, workload.max_tokens, served.cached, strict=True)
        return sum(costs.forward_flops(model, len(p) + n - 1 - c, c) for p, n, c in rows)

    off, on = found[ENGINE_OFF], found[ENGINE]
    return {"tokens": off.model_tokens / on.model_tokens, "attention": flops(off) / flops(on)}


def prediction(guess: dict[str, float], before: int, found: Found, after: int) -> Round:
    """Return a round of the gain: predicted, measured. Raises RuntimeError where the engine ran other tokens than the prediction counts."""
    off, on = found[ENGINE_OFF], found[ENGINE]
    if guess["tokens"] != off.model_tokens / on.model_tokens:
        raise RuntimeError(f"prefix caching saved a factor {off.model_tokens / on.model_tokens} of the tokens, not {guess['tokens']}")
    return Round(None, [guess], [off.seconds / on.seconds], {"predicted": before, "measured": after})


def targets(cases: Sequence[tuple[Case, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return every target with what was found and whether it is met; one whose arm was absent has found and met None."""
    rows = []
    for (what, arm, holds, least), (case, row) in itertools.product(TARGETS, cases):
        if arm in case.arms and holds(case):
            found = row["ratios"][arm]["median"] if arm in row["ratios"] else None
            rows.append({"what": what, "case": case.name, "arm": arm, "least": least, "found": found, "met": None if found is None else found >= least})
    for case, row in cases:
        if case.shared:
            error = row["gain"]["errors"]["tokens"]
            rows.append({"what": "gain of prefix caching against tokens", "case": case.name, "arm": ENGINE_OFF,
                         "within": PREDICTED_WITHIN, "found": error, "met": abs(error) <= PREDICTED_WITHIN})
    return rows


def unsteady(rows: Sequence[dict[str, Any]]) -> float:
    """Return the upper quartile, over all ratios, of their spread: one disturbed ratio says nothing about the others."""
    return statistics.quantiles([r["spread"] for row in rows for r in row["ratios"].values()], n=4, method="inclusive")[2]
