"""What a prediction by shape leaves out: launches and small operations, and what compiling or a CUDA graph takes away."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.cases import Case, measure, step
from tinyserve import model as decoder
from tinyserve.configs import ModelConfig
from tinyserve.kv_cache import ContiguousCache


class OperationCounter(TorchDispatchMode):
    """Counts the operations torch dispatches; views, which launch nothing, apart."""

    def __init__(self) -> None:
        super().__init__()
        self.launches, self.views = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.is_view:
            self.views += 1
        else:
            self.launches += 1
        return func(*args, **(kwargs or {}))


def count_operations(call: Callable[[], Any]) -> dict[str, int]:
    """Return how many operations one call dispatches: launches and views."""
    with OperationCounter() as counter:
        call()
    return {"launches": counter.launches, "views": counter.views}


def empty_model(model: ModelConfig) -> ModelConfig:
    """Return the same stack with almost nothing to read or compute: its step is launches alone."""
    return replace(model, name="empty", d_model=16, n_heads=2, n_kv_heads=1, head_dim=8, d_ff=16, vocab_size=16)


def empty_step(model: ModelConfig, device: str, dtype: torch.dtype, rounds: int) -> dict[str, Any]:
    """Measure a decode step of the same number of operations on tiny tensors: an estimate of launch overhead, in seconds."""
    call = step(decoder.build(empty_model(model), device, dtype), Case("decode", 1, 2), device, dtype)
    seconds = measure([call], device, rounds)[0]
    return {"operations": count_operations(call), "seconds": seconds, "median": statistics.median(seconds)}


def graphed(call: Callable[[], Any]) -> Callable[[], Any]:
    """Record a call as a CUDA graph and return its replay: one launch for the whole step."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()  # allocations and library handles come before recording
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def variants(model: decoder.Decoder, case: Case, device: str, dtype: torch.dtype, rounds: int) -> dict[str, Any]:
    """Measure one decode step eager, compiled and, on CUDA, as a graph; a compiler that fails is named, not fatal."""
    ids = torch.zeros(case.batch, 1, dtype=torch.long, device=device)
    positions = torch.tensor([case.context - 1], device=device)
    cache = ContiguousCache(model.config, case.batch, case.context, device, dtype)
    cache.length = case.context - 1

    def eager() -> torch.Tensor:
        with torch.no_grad():
            return model.compute(ids, positions, cache)

    compiled_step = torch.compile(model.compute, dynamic=False)

    def compiled() -> torch.Tensor:
        with torch.no_grad():
            return compiled_step(ids, positions, cache)

    calls, notes = {"eager": eager}, {}
    try:
        difference = (compiled() - eager()).abs().max().item()
        calls["compiled"], notes["largest logit difference"] = compiled, difference
    except Exception as error:  # noqa: BLE001 - any failure of the compiler's back end: no C++ compiler, no Triton
        notes["compiled"] = f"not measured: {type(error).__name__}"
    if device == "cuda":
        calls["CUDA graph"] = graphed(eager)
    seconds = dict(zip(calls, measure(list(calls.values()), device, rounds), strict=True))
    return {"seconds": seconds, "median": {k: statistics.median(v) for k, v in seconds.items()}, "notes": notes}
