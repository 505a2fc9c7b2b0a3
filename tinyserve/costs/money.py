"""What serving costs: price per token, replicas, cold starts, and many adapters on one base model.

Prices are the caller's, in whatever currency; none is written here. Rates are per
second, prices per hour, as cards are rented.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..configs import ModelConfig
from ..hardware import Accelerator
from .checks import require_count, require_fraction, require_positive
from .experts import experts_touched
from .memory import dtype_bytes
from .serving import memory_plan, request_times
from .shapes import layer_matrix_shapes

HOUR = 3600
MILLION = 10**6


def cost_per_million_tokens(price_per_hour: float, tokens_per_second: float, load: float = 1.0) -> float:
    """Return the price of 10^6 tokens: price per hour / (3600 * tokens/s * load) * 10^6.

    price_per_hour: of everything that runs. tokens_per_second: at the latency target,
    with all of it busy. load: mean over the day of what is used of that (0 to 1). Raises
    ValueError for a price or rate not above 0 and a load outside (0, 1].
    """
    used = require_positive("tokens_per_second", tokens_per_second) * require_fraction("load", load)
    return require_positive("price_per_hour", price_per_hour) / (HOUR * used) * MILLION


def break_even_throughput(price_per_hour: float, price_per_million: float) -> float:
    """Return the mean tokens/s above which cards by the hour cost less than tokens at this price per 10^6.

    Raises ValueError for a price not above 0.
    """
    return require_positive("price_per_hour", price_per_hour) * MILLION / (HOUR * require_positive("price_per_million", price_per_million))


def request_cost(
    price_per_hour: float, model: ModelConfig, prompt: int, output: int, card: Accelerator, cards: int = 1,
    batch: int = 1, mfu: float = 0.5, mbu: float = 0.6, load: float = 1.0,
) -> tuple[float, float]:
    """Return the price of a request's prompt and of its other tokens, from request_times' shares of the cards' time.

    price_per_hour: of all cards together. The prompt is charged alone, each decode step is
    shared by batch requests. Raises ValueError as request_times and cost_per_million_tokens.
    """
    times = request_times(model, prompt, output, card, cards, batch, mfu, mbu)
    second = require_positive("price_per_hour", price_per_hour) / HOUR / require_fraction("load", load)
    return times.ttft * second, times.decode * second


def mixed_tpot(
    model: ModelConfig, prompt: int, output: int, card: Accelerator, cards: int = 1, batch: int = 1, mfu: float = 0.5, mbu: float = 0.6
) -> float:
    """Return the mean seconds between two tokens of a sequence when batch sequences of one shape run and each that ends is replaced.

    While a sequence gets its output tokens, the cards also run one prompt for each of the batch:
    batch * (its share of the decode steps + its prompt) / output. Nothing waits, and no overhead
    but that in mfu and mbu. Raises ValueError as request_times.
    """
    times = request_times(model, prompt, output, card, cards, batch, mfu, mbu)
    return batch * (times.ttft + times.decode) / output


def largest_mixed_batch(model: ModelConfig, prompt: int, output: int, tpot: float, card: Accelerator, cards: int = 1, mfu: float = 0.5, mbu: float = 0.6) -> int:
    """Return the largest batch whose mixed_tpot is at most tpot seconds and whose sequences fit the pool of memory_plan; 0 for none.

    batch / mixed_tpot are then the output tokens per second of all. Raises ValueError for tpot not above 0, and as request_times.
    """
    require_positive("tpot", tpot)
    low, high = 0, memory_plan(model, card, cards).sequences(prompt + output)
    while low < high:  # mixed_tpot grows with the batch
        middle = (low + high + 1) // 2
        low, high = (middle, high) if mixed_tpot(model, prompt, output, card, cards, middle, mfu, mbu) <= tpot else (low, middle - 1)
    return low


def cost_ratio(price_ratio: float, speed_ratio: float) -> float:
    """Return the price of the same work on another card: how many times dearer it is / how many times faster.

    Below 1 the other card is cheaper for this work. Raises ValueError for a ratio not above 0.
    """
    return require_positive("price_ratio", price_ratio) / require_positive("speed_ratio", speed_ratio)


def replicas_needed(rate: float, per_replica: float, target: float = 0.7, spare: int = 0) -> int:
    """Return how many replicas serve rate (1/s) when each serves per_replica at its objective: ceil(rate / (target * per_replica)) + spare.

    target: share of per_replica to plan with; the rest is for bursts. spare: replicas
    that may fail. Raises ValueError for a rate not above 0, target outside (0, 1] or spare below 0.
    """
    planned = require_positive("per_replica", per_replica) * require_fraction("target", target)
    return math.ceil(require_positive("rate", rate) / planned - 1e-9) + require_count("spare", spare)


def replica_hours(rates: Sequence[float], per_replica: float, target: float = 0.7, spare: int = 0, least: int = 1) -> int:
    """Return the replica-hours when each hour has replicas_needed of its own rate, never below least.

    rates: requests/s of each hour, 0 allowed. least=0 lets an hour without a request have no replica (spare included).
    Raises ValueError as replicas_needed, and for least or a rate below 0.
    """
    require_count("least", least)
    if bad := [rate for rate in rates if not rate >= 0]:
        raise ValueError(f"rates holds {bad[0]!r}, below 0")
    return sum(max(least, replicas_needed(rate, per_replica, target, spare) if rate else 0) for rate in rates)


def cold_start_time(weights: float, read_rate: float, machine: float = 0.0, image: float = 0.0, engine: float = 0.0) -> float:
    """Return the seconds from the order for a replica to its first answer: machine + image + weights / read_rate + engine.

    weights in bytes, read_rate in bytes/s of the slowest way from store to cards. machine: until
    there is one; image: pulling it; engine: from weights in memory to ready (compiling, capturing, profiling).
    Raises ValueError for a size or rate not above 0 and a time below 0.
    """
    for name, seconds in (("machine", machine), ("image", image), ("engine", engine)):
        if not seconds >= 0:
            raise ValueError(f"{name}={seconds!r} is below 0")
    return machine + image + require_positive("weights", weights) / require_positive("read_rate", read_rate) + engine


def backlog(rate: float, capacity: float, seconds: float) -> float:
    """Return the requests that pile up while rate (1/s) meets a smaller capacity (1/s) for so many seconds; 0 where it is enough."""
    return max(0.0, require_positive("rate", rate) - require_positive("capacity", capacity)) * require_positive("seconds", seconds)


def scale_up_at(growth: float, cold_start: float, capacity: float) -> float:
    """Return the share of capacity at which to order a replica, so that it is ready when the rest is used up: 1 - growth * cold_start / capacity.

    growth: by how much the rate (1/s) rises in a second. Below 0 no threshold is early
    enough: keep a replica warm. Raises ValueError for an argument not above 0.
    """
    risen = require_positive("growth", growth) * require_positive("cold_start", cold_start)
    return 1 - risen / require_positive("capacity", capacity)


def requests_to_see(share: float, confidence: float = 0.95) -> int:
    """Return how many requests a canary needs to show a fault that hits this share of them at least once: ln(1 - confidence) / ln(1 - share), rounded up.

    Independent requests. Raises ValueError for a share outside (0, 1] and a confidence outside (0, 1).
    """
    if require_fraction("confidence", confidence) == 1:
        raise ValueError("confidence=1 needs endless requests")
    return 1 if require_fraction("share", share) == 1 else math.ceil(math.log(1 - confidence) / math.log(1 - share))


def lora_params(model: ModelConfig, rank: int) -> int:
    """Count the parameters of a LoRA adapter on every matrix of the layers: rank * (inputs + outputs) each.

    Hu et al. 2021, arXiv 2106.09685, section 4.1. Raises ValueError for a rank below 1.
    """
    require_count("rank", rank, minimum=1)
    return sum(rank * (out + into) * count for (out, into), count in layer_matrix_shapes(model).items())


def lora_bytes(model: ModelConfig, rank: int, adapters: int = 1, dtype: str = "bf16") -> float:
    """Return the bytes of so many adapters of one rank."""
    return require_count("adapters", adapters) * lora_params(model, rank) * dtype_bytes(dtype)


def distinct_adapters(adapters: int, batch: int) -> float:
    """Return how many of the adapters a batch needs on average, each request choosing evenly: as experts with top-1, n * (1 - (1 - 1/n)^batch)."""
    return experts_touched(require_count("adapters", adapters, minimum=1), 1, require_count("batch", batch, minimum=1))
