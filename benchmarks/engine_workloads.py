"""What benchmarks.engine serves: models, cases, and the requests of each round.

Every round draws new prompts, the same for all arms: a prompt that comes back
would be found in an engine's prefix cache. The lengths are the same set in every
round, in another order: rounds differ in luck, not in work.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from tinyserve import checkpoint
from tinyserve.configs import COURSE_MODEL, ModelConfig
from tinyserve.load import poisson
from tinyserve.model import build

STD = 0.05
"""Spread of random weights. At the usual 0.02 a small model's greedy tokens barely move when something is wrong."""
MAX_CONTEXT = 1024
RANDOM_MODELS = {  # heads are untied: a tied random model repeats its input
    "random-5M": ModelConfig("random-5M", 4, 256, 4, 2, 64, 704, 4096, max_context=MAX_CONTEXT),
    "random-57M": ModelConfig("random-57M", 7, 768, 12, 4, 64, 2048, 8192, max_context=MAX_CONTEXT),
    "random-mini": ModelConfig("random-mini", 2, 128, 2, 1, 64, 256, 512, max_context=MAX_CONTEXT),
}
MODELS = RANDOM_MODELS | {COURSE_MODEL.name: COURSE_MODEL}

ALONE, STATIC, BARE, ENGINE, VLLM = "generate one by one", "generate static", "bare loop", "engine", "vllm"
ENGINE_OFF, VLLM_OFF = "engine, prefix caching off", "vllm, prefix caching off"


@dataclass(frozen=True)
class Case:
    """Requests for a model, and who serves them. The first arm is the reference for the tokens.

    prompt and output are means, in tokens; shared is a prefix that all prompts begin
    with, beside prompt. running: how many are served at once. load: Poisson arrivals
    at this share of what the engine served in case ``after``; None: all at once.
    budget: the engine's max_num_batched_tokens.
    """

    name: str
    model: str
    arms: tuple[str, ...]
    requests: int
    running: int
    prompt: int
    output: int
    mixed: bool = False
    shared: int = 0
    load: float | None = None
    after: str = ""
    budget: int = 256

    def __post_init__(self) -> None:
        if BARE in self.arms and (self.mixed or self.requests % self.running):
            raise ValueError(f"case {self.name}: the bare loop takes full batches of equal lengths only")
        if (self.load is None) != (not self.after):
            raise ValueError(f"case {self.name}: load={self.load} and after={self.after!r} belong together")


@dataclass(frozen=True)
class Workload:
    """The requests of one round. arrivals are seconds after its start; None: all there at the start, in this order."""

    prompts: list[list[int]]
    max_tokens: list[int]
    running: int
    label: str
    arrivals: list[float] | None = None
    budget: int = 256

    @property
    def longest(self) -> int:
        """Tokens of the longest request, prompt and output."""
        return max(len(p) + n for p, n in zip(self.prompts, self.max_tokens, strict=True))

    def cut(self) -> Workload:
        """Return a short form, for a warm-up: as many requests as run at once, few tokens each."""
        n = self.running
        return replace(self, prompts=self.prompts[:n], max_tokens=[min(m, 4) for m in self.max_tokens[:n]], arrivals=None)


def lengths(mean: int, n: int, kind: str) -> list[int]:
    """Return n lengths of this mean in rising order: "equal", "uniform" from half to one and a half, or "exponential".

    They are quantiles, not draws; at least 1 each. Raises ValueError for another kind.
    """
    shares = [(i + 0.5) / n for i in range(n)]
    if kind == "equal":
        return [mean] * n
    if kind == "uniform":
        return [max(1, round(mean * (0.5 + share))) for share in shares]
    if kind == "exponential":
        return [max(1, round(-mean * math.log(1 - share))) for share in shares]
    raise ValueError(f"kind={kind!r} is not one of equal, uniform, exponential")


def draw(case: Case, number: int, rate: float | None = None) -> Workload:
    """Return the workload of a round. rate: mean arrivals a second, for a case with a load."""
    if (rate is None) != (case.load is None):
        raise ValueError(f"case {case.name}: rate={rate}, load={case.load}: both or neither")
    luck = random.Random(f"{case.name} {number}")
    vocab = MODELS[case.model].vocab_size

    def ids(n: int) -> list[int]:
        return [luck.randrange(1, vocab) for _ in range(n)]

    prompt_lengths = lengths(case.prompt, case.requests, "uniform" if case.mixed else "equal")
    max_tokens = lengths(case.output, case.requests, "exponential" if case.mixed else "equal")
    luck.shuffle(prompt_lengths)
    luck.shuffle(max_tokens)
    shared = ids(case.shared)
    prompts = [shared + ids(n) for n in prompt_lengths]
    arrivals = None if rate is None else poisson(rate, case.requests, seed=luck.randrange(2**32))
    return Workload(prompts, max_tokens, case.running, f"{case.name} {number}", arrivals, case.budget)


def folder_of(name: str, root: Path) -> Path:
    """Return the checkpoint folder of a model below the repository root; a random model is written there."""
    if name not in RANDOM_MODELS:
        return root / "models" / name
    folder = root / "_build" / "engine" / name
    checkpoint.save(build(RANDOM_MODELS[name], std=STD), folder, dtype=torch.float32)
    return folder

