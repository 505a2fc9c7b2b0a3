"""A small scaling study: a handful of sizes, each trained on two to four numbers of tokens.

    python -m training.scaling

One thread, about a quarter of an hour. Every run is a whole one, with its own
warm-up and its own fall of the rate (a curve read off in the middle of a longer
run sits too high). All runs share the rates, the batch and the window of one plan:
none was tuned for its size. Three runs stand beside the grid: two repeat one with
other seeds, so that the record says how far chance alone moves a loss, and one
repeats one with the rate of the course model, to say how far a rate does.

Writes benchmarks/results/train_scaling.json; needs the ids that training.corpus writes.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from course import results
from tinyserve import costs
from tinyserve.configs import ModelConfig
from training import train
from training.corpus import HELD_OUT, VOCAB, WORK

STEP_TOKENS, WINDOW, WARMUP = 2048, 256, 20
K = 2**10
TOKENS = (128 * K, 256 * K, 512 * K, 1024 * K, 2048 * K)
GRID = {  # (layers, width): tokens; small models get more, so that runs of equal compute exist
    (2, 32): TOKENS[1:],
    (2, 64): TOKENS[1:4],
    (2, 96): TOKENS[:3],
    (3, 128): TOKENS[:3],
    (3, 192): TOKENS[:3],
}
ADAM_RATE = 0.02
"""Best of 0.003, 0.01 and 0.02 in single runs of the smallest and the larger widths."""
REPEATED, SEEDS = (2, 64, 512 * K), (1, 2)
"""The run that is repeated with other seeds."""
OTHER_RATE = (2, 32, 256 * K, 0, 0.003)
"""The run that is repeated with the course model's rate."""
CODE = ["training/scaling.py", "training/train.py", "training/corpus.py", "tinyserve/model.py"]


@dataclass(frozen=True)
class Run:
    """One training run of the study."""

    layers: int
    width: int
    tokens: int
    seed: int = 0
    adam_rate: float = ADAM_RATE

    @property
    def config(self) -> ModelConfig:
        """The decoder: heads of 32, as many for K and V as for Q, SwiGLU of about 8/3 of the width."""
        heads = self.width // 32
        ffn = 32 * math.ceil(self.width * 8 / 3 / 32)
        return ModelConfig(
            f"width-{self.width}", self.layers, self.width, heads, heads, 32, ffn, VOCAB, tied_embedding=True, max_context=512
        )

    @property
    def plan(self) -> train.Plan:
        """The plan: short windows to the end; Muon's rate as for the course model."""
        return train.Plan(
            self.tokens, STEP_TOKENS, WINDOW, WINDOW, adam_rate=self.adam_rate, warmup=WARMUP, seed=self.seed
        )


def grid() -> list[Run]:
    """Return the runs, the cheap ones first, those beside the grid last."""
    runs = [Run(*shape, tokens) for shape, budgets in GRID.items() for tokens in budgets]
    return runs + [Run(*REPEATED, seed) for seed in SEEDS] + [Run(*OTHER_RATE)]


def bytes_per_token() -> float:
    """Return the held-out bytes over the held-out ids, the ends of the files included."""
    manifest = json.loads((HELD_OUT / "manifest.json").read_text(encoding="utf-8"))
    return sum(entry["bytes"] for entry in manifest.values()) / len(np.load(WORK / "heldout.npy"))


def measure(run: Run, rate: float) -> dict[str, Any]:
    """Train one run and return its row; rate is the bytes per token of the held-out text."""
    config = run.config
    model, curve = train.train(config, run.plan, log=run.plan.steps, compiled=False)
    loss = curve[-1]["heldout"]  # at the last step over all held-out windows
    trained = run.plan.steps * STEP_TOKENS
    parts = costs.params_by_component(config)
    return {
        "layers": run.layers, "width": run.width, "seed": run.seed, "adam_rate": run.adam_rate,
        "tokens": trained, "steps": run.plan.steps,
        "params": costs.params(config), "non_embedding_params": costs.params(config) - parts["embedding"],
        "train_flops": 3 * trained * costs.forward_flops(config, WINDOW, logits="all") // WINDOW,
        "heldout_nats_per_token": loss, "heldout_bits_per_byte": float(f"{loss / math.log(2) / rate:.6g}"),
    }


def main() -> None:
    """Run the whole grid on one thread and record it."""
    torch.set_num_threads(1)
    rate, rows = bytes_per_token(), []
    for run in grid():
        rows.append(measure(run, rate))
        print(rows[-1], flush=True)
    data = {
        "vocab": VOCAB, "step_tokens": STEP_TOKENS, "window": WINDOW, "warmup_steps": WARMUP, "adam_rate": ADAM_RATE,
        "heldout_bytes_per_token": float(f"{rate:.6g}"), "runs": rows,
    }
    results.write("train_scaling", data, "python -m training.scaling", CODE)


if __name__ == "__main__":
    main()
