"""The arms of benchmarks.engine: each serves a workload and says what it gave, how long it took and how many tokens it ran.

All compute in float32 with the threads torch has here (vLLM: in its own process).
All are greedy, stop at no end token, and take and give ids.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from benchmarks.engine_vllm import VllmArm
from benchmarks.engine_workloads import ALONE, BARE, ENGINE, ENGINE_OFF, STATIC, VLLM, VLLM_OFF, Workload
from tinyserve import checkpoint
from tinyserve.engine import Engine
from tinyserve.kv_cache import ContiguousCache
from tinyserve.load import open_loop
from tinyserve.model import Decoder
from tinyserve.packed import packed
from tinyserve.request import Request
from tinyserve.sampling import SamplingParams

BLOCK_SIZE = 16


@dataclass
class Served:
    """What an arm gave: ids by request, seconds of all, each request's first token and end after the start, tokens through the model."""

    outputs: list[list[int]]
    seconds: float
    done: list[float]
    first: list[float] = field(default_factory=list)
    model_tokens: int | None = None
    cached: list[int] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)


def hugging_face(folder: Path) -> PreTrainedModel:
    """Return transformers' model of a checkpoint, in float32, which no token ends."""
    disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def _generate(model: PreTrainedModel, prompts: list[list[int]], max_tokens: list[int]) -> list[list[int]]:
    """Run one padded batch to its longest output; return what each request asked for."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    found = model.generate(ids, attention_mask=mask, max_new_tokens=max(max_tokens), do_sample=False)
    return [row[:n] for row, n in zip(found[:, width:].tolist(), max_tokens, strict=True)]


def generate(model: PreTrainedModel, workload: Workload, batch: int) -> Served:
    """Serve static batches with transformers, padded on the left: take what has arrived, at most batch, run it to the end, take the next."""
    outputs: list[list[int]] = []
    done: list[float] = []
    tokens, begin, n = 0, time.perf_counter(), len(workload.prompts)
    while len(outputs) < n:
        i, now = len(outputs), time.perf_counter() - begin
        arrived = n if workload.arrivals is None else sum(at <= now for at in workload.arrivals)
        if arrived == i:
            time.sleep(workload.arrivals[i] - now)
            continue
        some = slice(i, min(i + batch, arrived))
        prompts, wanted = workload.prompts[some], workload.max_tokens[some]
        outputs += _generate(model, prompts, wanted)
        done += [time.perf_counter() - begin] * len(prompts)
        tokens += len(prompts) * (max(map(len, prompts)) + max(wanted) - 1)
    return Served(outputs, time.perf_counter() - begin, done, model_tokens=tokens)


def bare_loop(decoder: Decoder, workload: Workload) -> Served:
    """Serve full batches of equal lengths with the decoder and a contiguous cache: no scheduler, no blocks, no requests."""
    outputs, done, before, begin = [], [], decoder.tokens, time.perf_counter()
    for i in range(0, len(workload.prompts), workload.running):
        ids, count = torch.tensor(workload.prompts[i : i + workload.running]), workload.max_tokens[i]
        cache = ContiguousCache(decoder.config, len(ids), ids.shape[1] + count)
        found = []
        for _ in range(count):
            ids = decoder(ids, cache=cache)[:, -1].argmax(dim=-1, keepdim=True)
            found.append(ids)
        outputs += torch.cat(found, dim=1).tolist()
        done += [time.perf_counter() - begin] * len(ids)
    return Served(outputs, time.perf_counter() - begin, done, model_tokens=decoder.tokens - before)


def new_engine(decoder: Decoder, workload: Workload, prefix_caching: bool = True) -> Engine:
    """Return an engine with the workload's budget and an empty pool, large enough that nothing is preempted."""
    blocks = (workload.running + 1) * -(-workload.longest // BLOCK_SIZE)
    return Engine(decoder, blocks, BLOCK_SIZE, workload.running, workload.budget, prefix_caching)


def tiny_engine(decoder: Decoder, workload: Workload, prefix_caching: bool = True) -> Served:
    """Serve with the book's engine. Between two steps, what has arrived is submitted."""
    engine, greedy = new_engine(decoder, workload, prefix_caching), SamplingParams(temperature=0)
    begin = time.perf_counter()
    requests = [Request(p, sampling=greedy, max_tokens=n) for p, n in zip(workload.prompts, workload.max_tokens, strict=True)]
    open_loop(engine, zip(workload.arrivals or [0.0] * len(requests), requests, strict=True))
    return _served(engine, requests, begin, time.perf_counter() - begin)


def _served(engine: Engine, requests: list[Request], begin: float, seconds: float) -> Served:
    """Collect what the engine's requests know; raise RuntimeError for one that did not end at its length."""
    wrong = [r for r in requests if r.finish_reason != "length"]
    if wrong:
        raise RuntimeError(f"{wrong[0]!r} did not run to its length: {wrong[0].error}")
    counters = engine.counters()
    if counters["preemptions"] or counters["blocks_in_use"]:
        raise RuntimeError(f"the engine preempted or kept blocks: {counters}")
    return Served(
        [r.output for r in requests], seconds, [r.token_times[-1] - begin for r in requests],
        [r.token_times[0] - begin for r in requests], counters["model_tokens"], [r.num_cached_tokens for r in requests], counters,
    )


@dataclass
class Arms:
    """Everything loaded for one model; ``serve`` runs an arm by its name."""

    decoder: Decoder
    reference: PreTrainedModel
    vllm: VllmArm | None

    @classmethod
    def of(cls, folder: Path, vllm: VllmArm | None) -> Arms:
        """Load a checkpoint for every arm."""
        return cls(packed(checkpoint.load(folder)), hugging_face(folder), vllm)

    def has(self, arm: str) -> bool:
        """Return whether the arm can run here."""
        return self.vllm is not None or arm not in (VLLM, VLLM_OFF)

    def serve(self, arm: str, workload: Workload) -> Served:
        """Run one arm; garbage is collected before, not during. Raises KeyError for an unknown arm."""
        ways: dict[str, Callable[[], Any]] = {
            ALONE: lambda: generate(self.reference, workload, 1),
            STATIC: lambda: generate(self.reference, workload, workload.running),
            BARE: lambda: bare_loop(self.decoder, workload),
            ENGINE: lambda: tiny_engine(self.decoder, workload),
            ENGINE_OFF: lambda: tiny_engine(self.decoder, workload, prefix_caching=False),
            VLLM: lambda: Served(**self.vllm.serve(workload)),
            VLLM_OFF: lambda: Served(**self.vllm.serve(workload, prefix_caching=False)),
        }
        gc.collect()
        return ways[arm]()
