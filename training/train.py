"""Train a decoder of tinyserve on the corpus.

    python -m training.train course-model [--tokens 14e6]

Muon for the matrices of the blocks, AdamW for the embedding and the norms; bf16
products, float32 weights. The learning rate warms up, stays, and falls to zero
over the last 30 % ("warm-up, stable, decay": Hu et al. 2024, arXiv 2404.06395).
State is saved every few minutes; the same command goes on from there.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tinyserve import costs
from tinyserve.configs import COURSE_DRAFT, COURSE_MODEL, ModelConfig
from tinyserve.kv_cache import Uncached
from tinyserve.model import Decoder
from training.corpus import WORK

SHAPES = {config.name: config for config in (COURSE_MODEL, COURSE_DRAFT)}
LIBRARY_SHARE = 0.6
"""Share of the windows from library modules; the rest comes from their tests, which are twice as long and less worth reading."""
SAVE_SECONDS = 180


@dataclass(frozen=True)
class Plan:
    """One run: tokens in all and in a step, tokens in a window before and while the rate falls, peak rates, seed."""

    tokens: int
    step_tokens: int = 4096
    window: int = 256
    long_window: int = 1024
    muon_rate: float = 0.02
    adam_rate: float = 0.003
    warmup: int = 60
    decay: float = 0.3
    seed: int = 0

    @property
    def steps(self) -> int:
        """Optimizer steps of the run."""
        return max(1, self.tokens // self.step_tokens)

    def window_at(self, step: int) -> int:
        """Return the tokens in a window: short ones are cheaper, long ones at the end teach the far positions."""
        return self.window if step < (1 - self.decay) * self.steps else self.long_window

    def rate(self, step: int) -> float:
        """Return the factor on the learning rates at a step: linear up, flat, linear down to 0."""
        falling = (self.steps - step) / max(1, self.decay * self.steps)
        return min(1.0, (step + 1) / self.warmup, falling)


def initialise(model: Decoder, seed: int) -> None:
    """Normal weights: 0.02 for the embedding, 1/sqrt(inputs) for matrices, those that add to the stream smaller by sqrt(2 * layers)."""
    generator = torch.Generator().manual_seed(seed)
    deep = 1 / math.sqrt(2 * model.config.n_layers)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                std = 0.02 if "embedding" in name else weight.shape[1] ** -0.5
                weight.normal_(std=std * (deep if name.endswith(("o.weight", "down.weight")) else 1), generator=generator)


def fused_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """tinyserve.attention.grouped_attention for a whole window, in one fused operation."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def loss_of(model: Decoder, ids: Tensor) -> Tensor:
    """Return the mean cross-entropy, in nats, of ids [b, n + 1]: each token predicted from those before it."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.compute(ids[:, :-1], torch.arange(ids.shape[1] - 1), Uncached(fused_attention), "all")
    return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())


def optimizers(model: Decoder, plan: Plan) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for the matrices inside the blocks, AdamW for all else."""
    inside = [w for name, w in model.named_parameters() if w.dim() == 2 and "blocks" in name]
    outside = [w for name, w in model.named_parameters() if w.dim() != 2 or "blocks" not in name]
    return [
        torch.optim.Muon(inside, lr=plan.muon_rate, weight_decay=0.05, momentum=0.95),
        torch.optim.AdamW(outside, lr=plan.adam_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]


class Windows:
    """Random windows of the training part: LIBRARY_SHARE from library modules, the rest from tests."""

    def __init__(self, plan: Plan, folder: Path = WORK) -> None:
        self.plan, self.random = plan, np.random.default_rng(plan.seed)
        self.parts = [np.load(folder / f"{part}.npy") for part in ("library", "tests")]

    def batch(self, window: int) -> Tensor:
        """Return ids [step_tokens / window, window + 1]."""
        rows = []
        for _ in range(self.plan.step_tokens // window):
            part = self.parts[int(self.random.random() >= LIBRARY_SHARE)]
            start = self.random.integers(len(part) - window)
            rows.append(part[start : start + window + 1].astype(np.int64))
        return torch.from_numpy(np.stack(rows))


@torch.no_grad()
def held_out_loss(model: Decoder, window: int, limit: int | None = None, folder: Path = WORK) -> float:
    """Return the mean nats per token on the held-out ids, cut into windows [n, window + 1]; limit takes the first windows only."""
    ids = np.load(folder / "heldout.npy").astype(np.int64)
    count = min((len(ids) - 1) // window, limit or 10**9)
    rows = torch.from_numpy(np.stack([ids[i * window : (i + 1) * window + 1] for i in range(count)]))
    return sum(loss_of(model, part).item() * len(part) for part in rows.split(16)) / count


def save(path: Path, model: Decoder, optimizers: list[torch.optim.Optimizer], windows: Windows, state: dict[str, Any]) -> None:
    """Write everything that going on needs, then put it in place in one move."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers],
        "random": windows.random.bit_generator.state, **state,
    }
    torch.save(data, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def train(config: ModelConfig, plan: Plan, path: Path | None = None, log: int = 25, compiled: bool = True) -> tuple[Decoder, list[dict[str, float]]]:
    """Run the plan and return the model and its curve; with a path, go on from the state there and keep it up to date."""
    model = Decoder(config)
    initialise(model, plan.seed)
    found, windows = optimizers(model, plan), Windows(plan)
    step, curve, seconds = 0, [], 0.0
    if path is not None and path.exists():
        state = torch.load(path, weights_only=False)  # our own file
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(found, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        windows.random.bit_generator.state = state["random"]
        step, curve, seconds = state["step"], state["curve"], state["seconds"]
    function = torch.compile(loss_of, dynamic=False) if compiled else loss_of
    losses, saved = [], time.monotonic()
    while step < plan.steps:
        begin = time.monotonic()
        loss = function(model, windows.batch(plan.window_at(step)))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, rate in zip(found, (plan.muon_rate, plan.adam_rate), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * plan.rate(step)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        step, seconds = step + 1, seconds + time.monotonic() - begin
        if step % log == 0 or step == plan.steps:
            point = {"tokens": step * plan.step_tokens, "loss": sum(losses) / len(losses)}
            if step % (10 * log) == 0 or step == plan.steps:
                point["heldout"] = held_out_loss(model, 512, None if step == plan.steps else 48)
            curve.append({key: float(f"{value:.6g}") for key, value in point.items()})
            print(config.name, step, plan.steps, curve[-1], f"{plan.step_tokens * step / seconds:.0f} tok/s", flush=True)
            losses = []
        if path is not None and (time.monotonic() - saved > SAVE_SECONDS or step == plan.steps):
            save(path, model, found, windows, {"step": step, "curve": curve, "seconds": seconds, "plan": plan})
            saved = time.monotonic()
    return model, curve


def main() -> None:
    """Train one of the two course models; the state stays in _build/training for training.export."""
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(SHAPES))
    parser.add_argument("--tokens", type=float, default=10e6)
    parser.add_argument("--adam", type=float, default=0.003)
    parser.add_argument("--muon", type=float, default=0.02)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--state", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = SHAPES[options.name]
    print(f"{config.name}: {costs.params(config):,} parameters")
    plan = Plan(int(options.tokens), muon_rate=options.muon, adam_rate=options.adam)
    train(config, plan, options.state or WORK / f"{config.name}.pt")


if __name__ == "__main__":
    main()
