"""The readings of a run, under the names they have on vLLM's /metrics; a few come from the card, the start log or the golden prompts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..metrics import percentile, served
from . import real
from .service import Run, Step, serve
from .setup import Setup

SLICES = 30  # in which the running requests are looked at: what a graph of 30 points would show


@dataclass(frozen=True)
class Reading:
    """One number that is read: short name, where it comes from, unit, which side is bad, and the least change that counts.

    limit: a bound that holds by definition instead of one from normal runs.
    """

    name: str
    source: str
    unit: str
    bad: str
    floor: float
    limit: float | None = None


READINGS: dict[str, Reading] = {r.name: r for r in (
    Reading("queue p50", "vllm:request_queue_time_seconds", "s", "high", 0.05),
    Reading("waiting", 'vllm:num_requests_waiting_by_reason{reason="capacity"}', "", "high", 1.0),
    Reading("running", "vllm:num_requests_running", "", "both", 2.0),
    Reading("seats", "vllm:num_requests_running, median, over --max-num-seqs", "%", "high", 0.0, 0.95),
    Reading("KV usage", "vllm:kv_cache_usage_perc", "%", "high", 0.05),
    Reading("prefill p99", "vllm:request_prefill_time_seconds", "s", "high", 0.1),
    Reading("prompt p99", "vllm:request_prompt_tokens", "tokens", "high", 500),
    Reading("front end p50", "vllm:time_to_first_token_seconds - request_queue_time_seconds - request_prefill_time_seconds", "s", "high", 0.01),
    Reading("ITL p50", "vllm:inter_token_latency_seconds", "s", "high", 0.005),
    Reading("ITL p99", "vllm:inter_token_latency_seconds", "s", "high", 0.01),
    Reading("step tokens p99", "log with --enable-logging-iteration-details: context and generation tokens of a step", "tokens", "high", 100),
    Reading("preemptions", "rate(vllm:num_preemptions_total)", "1/s", "high", 0.0, 0.0),
    Reading("TPOT p50", "vllm:request_time_per_output_token_seconds", "s", "high", 0.005),
    Reading("s per sequence", "slope of a decode step's time over vllm:num_requests_running", "s", "high", 5e-5),
    Reading("gain of doubling", "rate(vllm:generation_tokens_total), over that at half the load", "x", "low", 0.0, 1.3),
    Reading("nvidia-smi", "GPU-Util: share of time in which a kernel runs", "%", "low", 0.0, 0.2),
    Reading("gaps", "profiler: share of the steps' time in which no kernel runs", "%", "high", 0.05),
    Reading("MBU", "DCGM DRAM_ACTIVE, or vllm:estimated_read_bytes_per_gpu_total over time and bandwidth, in steps that only decode", "%", "low", 0.05),
    Reading(
        "roofline", "DCGM PIPE_TENSOR_ACTIVE and DRAM_ACTIVE, or vllm:estimated_flops_per_gpu_total and …read_bytes…: the larger share of its peak, step by step",
        "%", "low", 0.05,
    ),
    Reading("prefix hits", "vllm:prefix_cache_hits_total / vllm:prefix_cache_queries_total", "%", "low", 0.2),
    Reading("full requests", 'log "Available KV cache memory", over max_model_len', "x", "low", 0.0, 1.0),
    Reading("bytes outside", "nvidia-smi: memory of the card that nobody took", "GB", "low", 0.0, 0.0),
    Reading("accepted", "vllm:spec_decode_num_accepted_tokens_total / vllm:spec_decode_num_draft_tokens_total", "%", "low", 0.1),
    Reading("golden prompts", "golden prompts whose tokens are the recorded ones", "%", "low", 0.0, 1.0),
    Reading("rejections", "rate(vllm:admission_rejections_total)", "1/s", "high", 0.0, 0.0),
)}
"""Every reading by its short name, in the order of the symptoms' table."""

Readings = dict[str, float | None]


def read(setup: Setup, seed: int = 0) -> Readings:
    """Run the service and return each reading; None for what cannot be read, such as all times of a server that never started.

    A server that runs out of memory while it serves is read up to then: its neighbour comes at the end of the window.
    """
    found: Readings = dict.fromkeys(READINGS)
    found["full requests"] = setup.memory.kv_pool / setup.memory.bytes_per_token / setup.max_model_len
    if found["full requests"] < 1:
        return found
    alpha = real.acceptance(setup.draft, setup.num_speculative_tokens) if setup.draft else None
    run = serve(setup, seed, alpha)
    half = serve(setup.half(), seed, alpha)
    found |= _requests(run) | _scheduler(run) | _card(run)
    found["gain of doubling"] = _generation_rate(run) / _generation_rate(half)
    found["bytes outside"] = setup.outside / 1e9
    found["golden prompts"] = real.golden_share(setup.weights_release, setup.tokenizer_release)
    drafted = sum(r.drafted for r in run.replicas)
    found["accepted"] = sum(r.accepted for r in run.replicas) / drafted if drafted else None
    return found


def _requests(run: Run) -> Readings:
    """What histograms over requests show. Refused requests are in none of them."""
    good = served(run.requests)
    gaps = [gap for r in good for gap in r.itl]
    prefill = [r.token_times[0] - r.scheduled for r in good]
    return {
        "queue p50": percentile([r.queue_time for r in good], 50),
        "prefill p99": percentile(prefill, 99),
        "prompt p99": percentile([len(r.prompt) for r in good], 99),
        "front end p50": percentile([run.delays[r.request_id] for r in good], 50),
        "ITL p50": percentile(gaps, 50), "ITL p99": percentile(gaps, 99),
        "TPOT p50": percentile([r.tpot for r in good if r.tpot is not None], 50),
        "rejections": len(run.refused) / run.window,
        "prefix hits": _ratio(sum(r.pool.hits for r in run.replicas), sum(r.pool.queries for r in run.replicas)),
    }


def _ratio(part: float, whole: float) -> float | None:
    """Return part / whole, None where there is nothing to divide by."""
    return part / whole if whole else None


def _generation_rate(run: Run) -> float:
    """Return the tokens generated a second within the window."""
    return sum(t <= run.window for r in run.requests for t in r.token_times) / run.window


def _at(steps: Sequence[Step], moment: float) -> Step | None:
    """Return the step that runs at this moment, None for an idle engine."""
    return next((s for s in steps if s.begin <= moment < s.begin + s.seconds), None)


def _scheduler(run: Run) -> Readings:
    """What gauges and the step histogram show: gauges as a scrape sees them, at SLICES moments of the window, a replica's mean."""
    moments = [run.window * (i + 0.5) / SLICES for i in range(SLICES)]
    seen = [[_at(replica.steps, moment) for moment in moments] for replica in run.replicas]
    idle = Step(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    columns = [[step or idle for step in column] for column in zip(*seen, strict=True)]
    running = [statistics.fmean(s.running for s in column) for column in columns]
    return {
        "running": statistics.fmean(running), "seats": percentile(running, 50) / run.setup.max_num_seqs,
        "waiting": statistics.fmean(s.waiting for column in columns for s in column),
        "KV usage": max(s.kv_usage for column in columns for s in column),
        "step tokens p99": percentile([s.tokens for s in run.steps], 99),
        "preemptions": sum(r.scheduler.preemptions for r in run.replicas) / run.window,
    }


def _card(run: Run) -> Readings:
    """What the card's counters show. MBU is that of steps that only decode, in the time that they take, gaps included."""
    setup = run.setup
    decodes = [s for s in run.steps if s.tokens == s.decodes * (1 + (setup.num_speculative_tokens if setup.draft else 0))]
    seconds, busy = (sum(s.seconds for s in steps) for steps in (decodes, run.steps))
    bandwidth, peak = (setup.tensor_parallel_size * rate for rate in (setup.card.bandwidth, setup.card.peak()))
    active = sum(min(s.kernels, max(0.0, run.window - s.begin)) for s in run.steps)
    return {
        "gaps": 1 - sum(s.kernels for s in run.steps) / busy,
        "roofline": sum(max(s.computed / peak, s.moved / bandwidth) for s in run.steps) / busy,
        "nvidia-smi": active / run.window / setup.replicas,
        "MBU": sum(s.moved for s in decodes) / seconds / bandwidth if seconds else None,
        "s per sequence": _slope([(s.decodes, s.seconds) for s in decodes]),
    }


def _slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the slope of the least-squares line, None where x does not vary."""
    if len({x for x, _ in points}) < 3:
        return None
    return statistics.linear_regression(*zip(*points, strict=True)).slope

