"""The drills' answers in Python: each kind of drill as a call of `tinyserve.costs`. The page's script must give the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course.practice.drill_data import CARDS, MODELS, MOES
from tinyserve import costs

Case = dict[str, Any]
_MODELS = {model.name: model for model in MODELS}
_CARDS = {card.name: card for card in CARDS}
_MOES = {moe.name: moe for moe in MOES}


def _streamed(case: Case) -> float:
    return costs.weight_bytes(_MODELS[case["model"]], case["dtype"], resident=False)


def _kv(case: Case) -> float:
    return case["batch"] * costs.kv_cache_bytes(_MODELS[case["model"]], case["tokens"], case["kv"])


def _weights(case: Case) -> float:
    return costs.weight_bytes(_MODELS[case["model"]], case["dtype"])


def _fits(case: Case) -> float:
    plan = costs.memory_plan(
        _MODELS[case["model"]], _CARDS[case["card"]], case["cards"], dtype=case["dtype"], kv_dtype=case["kv"]
    )
    return plan.sequences(case["tokens"])


def _decode(case: Case) -> float:
    return costs.decode_time(
        _MODELS[case["model"]], case["batch"], case["tokens"], _CARDS[case["card"]], case["cards"], kv_dtype=case["kv"], weights=_streamed(case)
    )


def _ttft(case: Case) -> float:
    return costs.prefill_time(
        _MODELS[case["model"]], case["tokens"], _CARDS[case["card"]], case["cards"], weights=_streamed(case), mfu=case["mfu"]
    )


def _crossover(case: Case) -> float:
    return costs.attention_crossover(_MODELS[case["model"]], case["against"], case["causal"])


def _experts(case: Case) -> float:
    moe = _MOES[case["moe"]]
    return costs.experts_touched(moe.n_experts, moe.top_k, case["batch"])


def _speculation(case: Case) -> float:
    return costs.speculative_tokens(case["alpha"], case["gamma"])


def _price(case: Case) -> float:
    return costs.cost_per_million_tokens(case["price"] * case["cards"], case["batch"] / _decode(case))


KINDS: dict[str, Callable[[Case], float]] = {
    "kv": _kv, "weights": _weights, "fits": _fits, "decode": _decode, "ttft": _ttft, "crossover": _crossover, "experts": _experts,
    "speculation": _speculation, "price": _price,
}
"""The nine kinds: name -> answer in base units (bytes, seconds, tokens, experts, dollars) for a case."""


def answer(kind: str, case: Case) -> float:
    """The right answer of a drill. Raises ValueError for an unknown kind, KeyError for a case that lacks a field."""
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not one of {', '.join(KINDS)}")
    return KINDS[kind](case)
