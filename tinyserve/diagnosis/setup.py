"""One service on paper: its settings, its work, and what both come to in memory and in seconds.

Eleven settings have the names of vLLM's flags. What no data sheet states is an assumption
with a name: compare runs with it, do not read digits from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .. import costs
from ..configs import LLAMA_3_8B, ModelConfig
from ..hardware import A100_40, NVLINK_3, Accelerator

KERNELS = {"tuned": (0.5, 0.6), "fallback": (0.1, 0.12)}
"""ASSUMED shares of the peak FLOP/s and of the bandwidth that kernels reach: chapter 8's plan, and a fifth of it."""
GRAPH_GAP, EAGER_GAP = 2e-3, 20e-3
"""ASSUMED seconds of a step in which no kernel runs: with CUDA graphs, and where the host launches each kernel."""
HANDLE_SECONDS, ENCODE_SECONDS = 3e-3, 2e-6
"""ASSUMED seconds of one front-end core for a request (HTTP, template), and for a token of its prompt (tokenizer)."""
CONTEXT_BYTES = 0.5e9
"""ASSUMED bytes that the driver and the process take on a card beside the server's budget."""
WINDOW_MODEL = replace(LLAMA_3_8B, name="Llama-3.1-8B", max_context=131072, source="the shape of Llama-3-8B; Llama 3.1 stretches its window")
DRAFT_MODEL = replace(LLAMA_3_8B, name="a draft of four such layers", n_layers=4)


@dataclass(frozen=True)
class Setup:
    """Settings and work of a service; the defaults are a healthy one. Lengths in tokens, times in seconds.

    Work: ``requests`` chats at ``rate`` a second, each behind a shared beginning of
    ``shared`` tokens, one in seven with a long text of its own; ``stamp``: a time of day at the
    "front" or the "end" of that beginning. clients: so many, who begin within ``ramp`` seconds,
    each of which sends its next request ``think`` seconds after its answer (None: arrivals do not wait for answers).
    burst: requests that a batch job adds, all at once or over burst_seconds. neighbour: a
    model that another process loads on the card. cpu: cores that each front-end process gets.
    Raises ValueError for a value that makes no sense.
    """

    model: ModelConfig = WINDOW_MODEL
    card: Accelerator = A100_40
    tensor_parallel_size: int = 1
    replicas: int = 1
    gpu_memory_utilization: float = costs.UTILIZATION
    max_model_len: int = 16384
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 512
    max_num_queued_reqs: int | None = None
    enforce_eager: bool = False
    kernels: str = "tuned"
    draft: str | None = None
    num_speculative_tokens: int = 3
    api_server_count: int = 1
    cpu: float = 1.0
    weights_release: str = "old"
    tokenizer_release: str = "old"
    neighbour: ModelConfig | None = None
    requests: int = 70
    rate: float = 4.0
    clients: int | None = None
    think: float = 0.0
    ramp: float = 0.0
    shared: int = 512
    stamp: str = "end"
    prompt: tuple[int, int] = (100, 500)
    long_prompt: tuple[int, int] = (3000, 4000)
    long_share: float = 0.15
    output: tuple[int, int] = (60, 240)
    burst: int = 0
    burst_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("tensor_parallel_size", "replicas", "max_model_len", "num_speculative_tokens", "api_server_count", "requests"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r} is below 1")
        for name in ("rate", "cpu"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)!r} is not above 0")
        choices = {"kernels": tuple(KERNELS), "draft": (None, "matched", "stale"), "stamp": ("front", "end"),
                   "weights_release": ("old", "new"), "tokenizer_release": ("old", "new")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(map(str, allowed))}")
        if self.clients is not None and self.clients < 1:
            raise ValueError(f"clients={self.clients!r} is below 1")

    @cached_property
    def memory(self) -> costs.MemoryPlan:
        """What the server's budget holds: weights, activations, and the KV pool."""
        return costs.memory_plan(self.model, self.card, self.tensor_parallel_size, utilization=self.gpu_memory_utilization)

    @property
    def outside(self) -> float:
        """Bytes of a card that neither the server's budget, nor the driver, nor a neighbour takes; below 0: out of memory."""
        held = CONTEXT_BYTES + (costs.weight_bytes(self.neighbour) if self.neighbour else 0)
        return (1 - self.gpu_memory_utilization) * self.card.memory_bytes - held

    @property
    def gap(self) -> float:
        """Seconds of each step in which no kernel runs."""
        return EAGER_GAP if self.enforce_eager else GRAPH_GAP

    def front_end_seconds(self, prompt: int) -> float:
        """Seconds for which one front-end process is busy with a prompt of so many tokens."""
        return (HANDLE_SECONDS + prompt * ENCODE_SECONDS) / self.cpu

    def clock(self) -> Clock:
        """Return how long steps take."""
        return Clock(self)

    def half(self) -> Setup:
        """The same service with half its work: what the last doubling of the load brought shows beside it."""
        if self.clients is None:
            return replace(self, requests=max(1, self.requests // 2), rate=self.rate / 2, burst=self.burst // 2)
        return replace(self, requests=max(1, self.requests // 2), clients=max(1, self.clients // 2))


class Clock:
    """Seconds of a step: roofline, collectives of tensor parallelism, the draft's passes, and the gap.

    ``kernels(work)`` leaves out the gap; ``moved(work)`` is the bytes of weights, K and V
    that the step reads, ``computed(work)`` its FLOPs.
    """

    def __init__(self, setup: Setup) -> None:
        mfu, mbu = KERNELS[setup.kernels]
        options: dict[str, Any] = {"card": setup.card, "cards": setup.tensor_parallel_size, "mfu": mfu, "mbu": mbu}
        self.gap, self.cards, self.model = setup.gap, setup.tensor_parallel_size, setup.model
        self._target = costs.StepClock(setup.model, **options)
        self._draft = costs.StepClock(DRAFT_MODEL, **options) if setup.draft else None
        self._gamma = setup.num_speculative_tokens
        self._flops = costs.head_flops(setup.model), costs.linear_flops_per_token(setup.model, head=False), costs.attention_flops_per_context_token(setup.model)
        self._weights, self._kv = costs.weight_bytes(setup.model, resident=False), costs.kv_cache_bytes(setup.model, 1)

    def kernels(self, work: costs.clock.Work) -> float:
        """Return the seconds in which kernels run. A draft runs its passes one after another, over the sequences that decode."""
        seconds = self._target(work)
        if self.cards > 1:
            seconds += costs.tensor_parallel_time(self.model, sum(new for new, _ in work), self.cards, NVLINK_3, logits=len(work))
        if self._draft and (decodes := [(1, cached) for new, cached in work if 1 < new <= self._gamma + 1]):
            seconds += self._gamma * (self._draft(decodes) + self.gap)
        return seconds

    def moved(self, work: costs.clock.Work) -> float:
        """Return the bytes that one step reads: streamed weights once, K and V of every token in reach."""
        return self._weights + costs.work_sums(work)[2] * self._kv

    def computed(self, work: costs.clock.Work) -> float:
        """Return the FLOPs of one step."""
        sequences, tokens, _, pairs = costs.work_sums(work)
        return sum(a * b for a, b in zip((sequences, tokens, pairs), self._flops, strict=True))

    def __call__(self, work: costs.clock.Work) -> float:
        """Return the seconds of one step."""
        return self.kernels(work) + self.gap
