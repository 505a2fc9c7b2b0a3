"""The seventeen rows: symptom, the reading to look at first, a cause that makes it, the signature by which it is known, and the fix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..configs import GEMMA_2B
from .normal import Normal
from .setup import WINDOW_MODEL, Setup

NO_GROUPS = replace(WINDOW_MODEL, name="the same with a KV head for each query head", n_kv_heads=WINDOW_MODEL.n_heads)


@dataclass(frozen=True)
class Row:
    """A row of the table. cause and fix are changes of a Setup; the fix comes on top of the cause.

    signature: reading -> the states in which it may be, all of which must hold. base: what the healthy
    service has that the row needs (speculation, for one). why: one sentence.
    """

    number: int
    symptom: str
    first: str
    cause: Mapping[str, Any]
    signature: Mapping[str, str]
    fix: Mapping[str, Any]
    why: str
    base: Mapping[str, Any] = field(default_factory=dict)

    def healthy(self) -> Setup:
        """The service before anything went wrong."""
        return replace(Setup(), **self.base)

    def broken(self) -> Setup:
        """The service with the cause."""
        return replace(self.healthy(), **self.cause)

    def fixed(self) -> Setup:
        """The service with the cause and the fix."""
        return replace(self.broken(), **self.fix)

    def matches(self, readings: Mapping[str, float | None], normal: Normal) -> bool:
        """Say whether the readings have this row's signature."""
        states = normal.states(readings)
        return all(states[name] in wanted.split("|") for name, wanted in self.signature.items())


NOT_HIGH = "normal|low"

ROWS: tuple[Row, ...] = (
    Row(1, "TTFT up, all requests", "queue p50", {"rate": 24.0, "requests": 150},
        {"queue p50": "high", "waiting": "high", "seats": "normal", "roofline": "normal", "preemptions": "normal", "rejections": "normal"},
        {"replicas": 6}, "more arrives than the steps can take: the queue grows as long as that lasts"),
    Row(2, "TTFT up, long prompts only", "prefill p99", {"long_prompt": (7000, 8000), "long_share": 0.1, "rate": 2.5},
        {"prefill p99": "high", "prompt p99": "high", "queue p50": "normal"},
        {"tensor_parallel_size": 2}, "a prompt's FLOPs grow with its length"),
    Row(3, "TTFT up, queue and prefill flat", "front end p50", {"cpu": 0.02},
        {"front end p50": "high"},
        {"cpu": 1.0}, "the tokenizer's process gets a fiftieth of a core"),
    Row(4, "ITL p99 spikes, median fine", "ITL p99", {"max_num_batched_tokens": 8192},
        {"ITL p99": "high", "ITL p50": "normal", "step tokens p99": "high"},
        {"max_num_batched_tokens": 512}, "whole prompts share steps with decodes"),
    Row(5, "Latency saw-tooth, work repeated", "preemptions", {"gpu_memory_utilization": 0.465, "output": (100, 320)},
        {"preemptions": "high", "KV usage": "high"},
        {"tensor_parallel_size": 2}, "the pool is full, and whoever came last is computed again"),
    Row(6, "Requests wait while KV is free", "waiting", {"max_num_seqs": 8},
        {"waiting": "high", "seats": "high", "KV usage": NOT_HIGH},
        {"max_num_seqs": 256}, "all seats are taken, though the pool has room"),
    Row(7, "TPOT high at low load", "MBU", {"enforce_eager": True, "rate": 0.3, "requests": 20},
        {"roofline": "low", "gaps": "high"},
        {"enforce_eager": False}, "the card waits for the host to launch kernels"),
    Row(8, "TPOT grows with load", "s per sequence", {"model": NO_GROUPS},
        {"s per sequence": "high", "KV usage": "high", "roofline": "normal", "preemptions": "normal"},
        {"model": WINDOW_MODEL}, "each sequence adds its K and V to the bytes of a step, four times as many without groups"),
    Row(9, "tokens/s flat while load rises", "gain of doubling",
        {"clients": 400, "requests": 520, "ramp": 1.0, "api_server_count": 8, "max_num_seqs": 512, "shared": 4, "prompt": (4, 8), "long_share": 0.0, "output": (50, 90)},
        {"gain of doubling": "low", "running": "high", "waiting": "normal"},
        {"replicas": 6}, "the step is bound by arithmetic: twice the sequences take twice the time"),
    Row(10, "nvidia-smi 100 %, throughput poor", "roofline", {"kernels": "fallback", "rate": 1.5},
        {"roofline": "low", "gaps": "normal", "nvidia-smi": "normal"},
        {"kernels": "tuned"}, "kernels run all the time, and reach a fifth of what tuned ones do"),
    Row(11, "nvidia-smi below 20 %", "nvidia-smi", {"clients": 1, "think": 12.0, "requests": 16},
        {"nvidia-smi": "low", "running": "low", "roofline": "normal"},
        {"clients": 12, "think": 0.0, "requests": 70}, "one client that waits for its answers: nothing to do"),
    Row(12, "Low prefix-hit rate", "prefix hits", {"stamp": "front"},
        {"prefix hits": "low", "prompt p99": "normal"},
        {"stamp": "end"}, "a time of day stands before the text that all share"),
    Row(13, "Out of memory at start", "full requests", {"max_model_len": 131072, "gpu_memory_utilization": 0.8},
        {"full requests": "low"},
        {"max_model_len": 16384}, "not one request of the full window fits the pool"),
    Row(14, "Out of memory at run time", "bytes outside", {"neighbour": GEMMA_2B},
        {"bytes outside": "low"},
        {"gpu_memory_utilization": 0.85}, "another process wants more than the budget leaves"),
    Row(15, "Speculation slows things down", "accepted", {"draft": "stale"},
        {"accepted": "low"},
        {"draft": "matched"}, "the draft was made for other weights", base={"draft": "matched"}),
    Row(16, "Wrong text after a rollback", "golden prompts", {"tokenizer_release": "new"},
        {"golden prompts": "low"},
        {"tokenizer_release": "old"}, "weights were rolled back, the tokenizer was not"),
    Row(17, "Rejections", "rejections", {"max_num_queued_reqs": 48, "burst": 60},
        {"rejections": "high"},
        {"burst_seconds": 60.0}, "a batch job sends all it has at once, and the queue has a limit"),
)
