"""The metrics of vLLM that this book names, as they stand on /metrics; imported through course.vllm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A metric family on /metrics.

    name: a counter's ends in _total; a histogram is read as name_bucket, name_sum, name_count.
    needs: the flag or environment variable without which it is absent or stays at zero; "" where there is none.
    replaces: its name on dashboards of the 0.6 era, or "". labels: beside model_name and engine.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    needs: str = ""
    replaces: str = ""
    labels: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """Return the names that a query can use."""
        return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count")) if self.kind == "histogram" else (self.name,)


def _counter(name: str, meaning: str, **more: object) -> Metric:
    return Metric(f"vllm:{name}_total", "counter", meaning, **more)  # type: ignore[arg-type]


def _gauge(name: str, meaning: str, **more: object) -> Metric:
    return Metric(f"vllm:{name}", "gauge", meaning, **more)  # type: ignore[arg-type]


def _histogram(name: str, meaning: str, **more: object) -> Metric:
    return Metric(f"vllm:{name}", "histogram", meaning, **more)  # type: ignore[arg-type]


SPECULATION, MFU, BLOCKS = "--speculative-config", "--enable-mfu-metrics", "--kv-cache-metrics"
_ALL = (
    # the scheduler now
    _gauge("num_requests_running", "sequences in the step"),
    _gauge("num_requests_waiting", "requests not yet admitted"),
    _gauge(
        "num_requests_waiting_by_reason", "the same by reason: capacity, or deferred (an adapter, a KV transfer)", labels=("reason",),
    ),
    _gauge("kv_cache_usage_perc", "share of KV blocks in use; 1 is all of them", replaces="vllm:gpu_cache_usage_perc"),
    _gauge("cache_config_info", "always 1; its labels hold block_size, num_gpu_blocks, enable_prefix_caching …"),
    _gauge("engine_sleep_state", "1 for the state the engine is in", labels=("sleep_state",)),
    _gauge("lora_requests_info", "its labels list running and waiting adapters; the value is a time", needs="--enable-lora"),
    # work
    _counter("prompt_tokens", "prompt tokens processed, cached ones included"),
    _counter("prompt_tokens_cached", "prompt tokens whose KV was found"),
    _counter("prompt_tokens_by_source", "prompt tokens by where their KV came from", labels=("source",)),
    _counter("generation_tokens", "tokens generated"),
    _counter("prefix_cache_queries", "prompt tokens looked up in the prefix cache", replaces="vllm:gpu_prefix_cache_queries_total"),
    _counter("prefix_cache_hits", "prompt tokens found there", replaces="vllm:gpu_prefix_cache_hits_total"),
    _counter("external_prefix_cache_queries", "prompt tokens looked up through a KV connector", needs="--kv-transfer-config"),
    _counter("external_prefix_cache_hits", "prompt tokens found through a KV connector", needs="--kv-transfer-config"),
    _counter("num_preemptions", "times a running request lost its KV and went back to the queue"),
    _counter("request_success", "finished requests by reason: stop, length, abort, error …; one whose client left is in none", labels=("finished_reason",)),
    _counter("admission_rejections", "requests refused with HTTP 503, by reason; --max-num-queued-tokens refuses too", needs="--max-num-queued-reqs", labels=("reason",)),
    _counter("corrupted_requests", "requests with NaN in their logits", needs="VLLM_COMPUTE_NANS_IN_LOGITS"),
    # time
    _histogram("time_to_first_token_seconds", "from arrival to the first token"),
    _histogram("inter_token_latency_seconds", "between two tokens of a request", replaces="vllm:time_per_output_token_seconds"),
    _histogram("request_time_per_output_token_seconds", "a request's mean time per output token after the first (TPOT)"),
    _histogram("e2e_request_latency_seconds", "from arrival to the last token"),
    _histogram("request_queue_time_seconds", "waiting to be admitted"),
    _histogram("request_prefill_time_seconds", "from admission to the first token"),
    _histogram("request_decode_time_seconds", "from the first token to the last"),
    _histogram("request_inference_time_seconds", "from admission to the last token"),
    # size
    _histogram("iteration_tokens_total", "new prompt tokens of requests whose first token comes in this step, and generated ones; a histogram in spite of its ending"),
    _histogram("request_prompt_tokens", "prompt tokens of a request"),
    _histogram("request_generation_tokens", "output tokens of a request"),
    _histogram("request_params_max_tokens", "max_tokens that clients asked for"),
    _histogram("request_params_n", "n that clients asked for"),
    _histogram("request_prefill_kv_computed_tokens", "prompt tokens computed, cached ones left out"),
    _histogram("request_num_preemptions", "how often a request was preempted"),
    # only with a flag
    _counter("spec_decode_num_drafts", "drafts verified", needs=SPECULATION),
    _counter("spec_decode_num_draft_tokens", "tokens proposed", needs=SPECULATION),
    _counter("spec_decode_num_accepted_tokens", "tokens accepted", needs=SPECULATION),
    _counter("spec_decode_num_accepted_tokens_per_pos", "tokens accepted by place in the draft", needs=SPECULATION, labels=("position",)),
    _counter("estimated_flops_per_gpu", "estimated FLOPs of a GPU", needs=MFU),
    _counter("estimated_read_bytes_per_gpu", "estimated bytes read by a GPU", needs=MFU),
    _counter("estimated_write_bytes_per_gpu", "estimated bytes written by a GPU", needs=MFU),
    _histogram("kv_block_lifetime_seconds", "from a KV block's allocation to its eviction, sampled", needs=BLOCKS),
    _histogram("kv_block_idle_before_evict_seconds", "idle time before eviction, sampled", needs=BLOCKS),
    _histogram("kv_block_reuse_gap_seconds", "time between two uses of a block, sampled", needs=BLOCKS),
)
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}

GONE_METRICS = {metric.replaces: metric.name for metric in _ALL if metric.replaces} | {"vllm:num_requests_swapped": ""}
"""Names on dashboards of the 0.6 era, and the name that stands in their place; "" where nothing does."""
