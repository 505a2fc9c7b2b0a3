"""What the simulator says a running vLLM will do: probes give the seconds of single steps, costs.fit_clock their prices, the simulator the rest.

The probes run on one setting of the server; every other setting is predicted from them.
"""

from __future__ import annotations

import random
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.vllm_client import Call, measures, run
from benchmarks.vllm_server import NAME, Server
from tinyserve import costs
from tinyserve.request import Request
from tinyserve.simulator import Replica, simulate

VOCABULARY = 2048
PREFILLS = (8, 64, 128, 256, 512, 896)
DECODES = ((1, 32), (1, 768), (4, 32), (8, 256), (16, 32), (16, 512))
"""Probes: prompts alone, in tokens; and (sequences, tokens of each prompt) that decode together."""
DECODED = 24


@dataclass(frozen=True)
class Limits:
    """What the scheduler of an arm may do."""

    max_num_seqs: int
    max_num_batched_tokens: int
    prefix_caching: bool = True


@dataclass(frozen=True)
class Asked:
    """One request of a workload as the server saw it: prompt, output tokens, second of arrival."""

    prompt: Sequence[int]
    output: int
    at: float = 0.0


def made_up(rng: random.Random, count: int) -> list[int]:
    """Return random ids, the end token left out."""
    return [rng.randrange(1, VOCABULARY) for _ in range(count)]


def steps_together(itl: Sequence[Sequence[float]], starts: Sequence[float]) -> list[float]:
    """Return the gaps between tokens of requests that all ran: those after the last request's first token."""
    from_when, gaps = max(starts), []
    for start, own in zip(starts, itl, strict=True):
        at = start
        for gap in own:
            if at >= from_when:
                gaps.append(gap)
            at += gap
    return gaps


def probe(server: Server, repeats: int, seed: int) -> list[dict[str, Any]]:
    """Time single steps on an idle server. Returns rows: work as [(new tokens, cached)], seconds of each repetition."""
    rng, rows = random.Random(seed), []
    for n in PREFILLS:
        answers = [run(server.url, NAME, [Call(made_up(rng, n), 1)])[0] for _ in range(repeats)]
        rows.append({"work": [[n, 0]], "seconds": [a.ttft for a in answers if not a.error]})
    for sequences, context in DECODES:
        seconds = []
        for _ in range(repeats):
            answers = [a for a in run(server.url, NAME, [Call(made_up(rng, context), DECODED)] * sequences) if not a.error]
            gaps = steps_together([a.itl for a in answers], [a.ttft for a in answers])
            seconds += [statistics.median(gaps)] if gaps else []
        rows.append({"work": [[1, context + DECODED // 2]] * sequences, "seconds": seconds})
    return [row for row in rows if row["seconds"]]


def fitted(rows: Sequence[dict[str, Any]]) -> costs.FittedClock:
    """Fit a clock to the medians of the probes."""
    return costs.fit_clock([([(n, cached) for n, cached in row["work"]], statistics.median(row["seconds"])) for row in rows])


def on_paper(
    clock: costs.FittedClock, asked: Sequence[Asked], limits: Limits, num_blocks: int, block_size: int, concurrency: int | None = None,
    targets: dict[str, float] | None = None, warm: Sequence[Asked] = (),
) -> dict[str, float]:
    """Serve a workload in the simulator and return its measures, as vllm_client.measures does.

    With a concurrency, arrivals are ignored: a next request comes when one has ended. warm is served
    before and not measured: it leaves its prompt in the prefix cache.
    """
    requests = [Request(list(a.prompt), max_tokens=a.output) for a in asked]
    replica = Replica(
        clock, num_blocks, block_size, limits.prefix_caching, max_num_seqs=limits.max_num_seqs, max_num_batched_tokens=limits.max_num_batched_tokens,
    )
    simulate([(0.0, Request(list(a.prompt), max_tokens=1)) for a in warm], [replica])
    due: deque[Request] = deque()
    arrivals: Iterable[tuple[float, Request]] = zip((a.at for a in asked), requests, strict=True)
    if concurrency is not None:
        due = deque(requests[concurrency:])
        arrivals = [(0.0, request) for request in requests[:concurrency]]

    def follow(request: Request, now: float) -> list[tuple[float, Request]]:
        return [(now, due.popleft())] if request.finish_reason and due else []

    served = simulate(arrivals, [replica], on_token=follow)
    lists = {
        "ttft": [r.ttft for r in served], "tpot": [r.tpot for r in served if r.tpot is not None], "itl": [gap for r in served for gap in r.itl],
        "e2el": [r.finished - r.arrival for r in served],
    }
    span = max(r.finished for r in served) - min(r.arrival for r in served)
    return measures(lists, sum(len(r.tokens) - len(r.prompt) for r in served), span, 0, targets)


def from_bench(found: dict[str, Any], shared: Sequence[int], rng: random.Random) -> list[Asked]:
    """Return the workload of a run of `vllm bench serve`: its lengths and starts, made-up tokens behind a shared beginning."""
    begin = min(found["start_times"])
    return [
        Asked([*shared, *made_up(rng, max(1, n - len(shared)))], output, start - begin)
        for n, output, start in zip(found["input_lens"], found["output_lens"], found["start_times"], strict=True)
    ]


def bench_measures(found: dict[str, Any], targets: dict[str, float] | None = None) -> dict[str, float]:
    """Return the measures of a run of `vllm bench serve` from its lists. Raises RuntimeError when no request was answered."""
    if found.get("error"):
        raise RuntimeError(f"vllm bench serve: {found['error']}")
    rows = [
        (ttft, itl, tokens) for ttft, itl, tokens, error in
        zip(found["ttfts"], found["itls"], found["output_lens"], found["errors"], strict=True) if not error
    ]
    if not rows:
        raise RuntimeError(f"vllm bench serve: no request was answered: {found['errors'][:1]}")
    several = [(ttft, itl, tokens) for ttft, itl, tokens in rows if tokens > 1]
    lists = {
        "ttft": [row[0] for row in rows], "tpot": [sum(itl) / (tokens - 1) for _, itl, tokens in several],
        "itl": [gap for _, itl, _ in rows for gap in itl], "e2el": [ttft + sum(itl) for ttft, itl, _ in rows],
    }
    return measures(lists, sum(row[2] for row in rows), found["duration"], len(found["errors"]) - len(rows), targets)
