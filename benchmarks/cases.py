"""The cases of predict.py: which models and steps, what is predicted for them, how they are measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.roofs import Prober, Roofs, attention_key
from tinyserve import costs
from tinyserve.configs import ModelConfig
from tinyserve.kv_cache import ContiguousCache
from tinyserve.model import Decoder

DECODE_METHODS = ("read roof", "best GEMV", "own shapes")
PREFILL_METHODS = ("roofline", "own shapes")


@dataclass(frozen=True)
class Case:
    """A step to predict: decode of batch sequences at this context, or prefill of one prompt of this many tokens."""

    phase: str
    batch: int
    context: int

    def __post_init__(self) -> None:
        if self.phase not in ("decode", "prefill"):
            raise ValueError(f"phase={self.phase!r} is not one of decode, prefill")
        if self.batch < 1 or self.context < 1 or (self.phase == "prefill" and self.batch != 1):
            raise ValueError(f"batch={self.batch}, context={self.context}: at least 1, and one prompt at a time in prefill")


def sized_model(d_model: int, least_bytes: float, dtype: str, vocab_size: int = 8192) -> ModelConfig:
    """Return a Llama-like config of this width with as few layers as stream at least least_bytes in a step.

    Heads of 64 numbers, a quarter as many K/V heads, d_ff of 2.75 * d_model. Raises
    ValueError unless d_model is a multiple of 256.
    """
    if d_model < 256 or d_model % 256:
        raise ValueError(f"d_model={d_model} is not a positive multiple of 256")
    heads = d_model // 64
    shape = {"n_heads": heads, "n_kv_heads": heads // 4, "head_dim": 64, "d_ff": d_model * 11 // 4, "vocab_size": vocab_size}
    one = ModelConfig("one layer", 1, d_model, **shape)
    layer = costs.layer_params(one) * costs.dtype_bytes(dtype)
    rest = costs.weight_bytes(one, dtype, resident=False) - layer
    layers = max(1, -int(-(least_bytes - rest) // layer))
    return ModelConfig(f"width {d_model}, {layers} layers", layers, d_model, **shape)


def prepare(prober: Prober, roofs: Roofs, model: ModelConfig, case: Case) -> None:
    """Measure the single operations that predicting this case needs and that are not yet there."""
    decode = case.phase == "decode"
    rows = case.batch if decode else case.context
    for shape in costs.layer_matrix_shapes(model):
        prober.add_linear(roofs, rows, shape)
    prober.add_linear(roofs, case.batch, costs.head_shape(model))
    prober.add_attention(roofs, model, case.batch, 1 if decode else case.context, case.context)


def predict(roofs: Roofs, model: ModelConfig, case: Case) -> dict[str, float]:
    """Return the predicted seconds of a case by every method, from single operations alone."""
    dtype, card = roofs.dtype, roofs.card
    seconds = roofs.attention[attention_key(model, case.batch, 1 if case.phase == "decode" else case.context, case.context)]
    if case.phase == "prefill":
        pairs = costs.attention_flops(model, case.context) / model.n_layers
        return {
            "roofline": costs.prefill_time(model, case.context, card, dtype=dtype, kv_dtype=dtype),
            "own shapes": costs.prefill_time_by_shape(
                model, case.context, roofs.flop_rates(model, case.context), pairs / seconds,
                roofs.linear[1, costs.head_shape(model)],
            ),
        }
    moved = costs.decode_bytes(model, case.batch, case.context, dtype, dtype)
    layer_kv = case.batch * costs.kv_cache_bytes(model, case.context, dtype) / model.n_layers
    return {
        "read roof": costs.decode_time(model, case.batch, case.context, card, dtype=dtype, kv_dtype=dtype),
        "best GEMV": moved / roofs.best_gemv,
        "own shapes": costs.decode_time_by_shape(
            model, case.batch, case.context, roofs.byte_rates(model, case.batch), layer_kv / seconds, dtype
        ),
    }


def step(decoder: Decoder, case: Case, device: str, dtype: torch.dtype) -> Callable[[], Any]:
    """Return a call that runs the case once: a decode step writes its K and V in place, a prefill starts anew."""
    generator = torch.Generator().manual_seed(case.batch * 1000 + case.context)
    new = 1 if case.phase == "decode" else case.context
    ids = torch.randint(0, decoder.config.vocab_size, (case.batch, new), generator=generator).to(device)
    cache = ContiguousCache(decoder.config, case.batch, case.context, device, dtype)

    def run() -> torch.Tensor:
        cache.length = case.context - new  # as if so many tokens were held: what they are costs no time
        return decoder(ids, cache=cache)

    return run


def measure(calls: list[Callable[[], Any]], device: str, rounds: int) -> list[list[float]]:
    """Return the seconds of every call in every round; the calls alternate, and one untimed round comes first."""
    seconds: list[list[float]] = [[] for _ in calls]
    for number in range(rounds + 1):
        for call, found in zip(calls, seconds, strict=True):
            before = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            if number:
                found.append(time.perf_counter() - before)
    return seconds
