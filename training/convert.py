"""Share the KV heads of a trained multi-head model, train it on, and record the held-out loss at every stage.

    python -m training.convert [--tokens 2e6] [--shape sibling]

A multi-head sibling of the book's models is trained on the same corpus, then
converted in several ways, and each result is trained on for the same further
tokens, as is the unconverted model (the control). Rate of the second stage: a
third of the first's peak, falling to zero. State of the first stage is kept in
_build/training, so that a second run starts with the conversions.
"""

from __future__ import annotations

import argparse
import time

import torch

from course import results
from tinyserve import conversion, costs
from tinyserve.configs import ModelConfig
from tinyserve.model import Decoder, build
from training.corpus import VOCAB, WORK
from training.train import Plan, Windows, held_out_loss, initialise, loss_of, optimizers

SHAPES = {
    "sibling": ModelConfig("small sibling", 4, 128, 8, 8, 32, 384, VOCAB, tied_embedding=True, max_context=1024),
    "course": ModelConfig("multi-head course model", 6, 384, 6, 6, 64, 1024, VOCAB, tied_embedding=True, max_context=1024),
}
CASES = {"sibling": ((8, "mean"), (4, "mean"), (2, "mean"), (2, "first"), (1, "mean"), (1, "first")),
         "course": ((6, "mean"), (2, "mean"), (2, "first"), (1, "mean"), (1, "first"))}
STOPS = (0.0, 0.25, 0.5, 1.0)
"""Where the loss is taken, as shares of the second stage."""
HELD_OUT = 120
"""Windows of 512 held-out tokens that a loss is taken over, the same for all."""
CODE = ["training/convert.py", "training/train.py", "tinyserve/conversion.py", "tinyserve/model.py"]


def run(model: Decoder, plan: Plan, factor: float, stops: tuple[float, ...] = (1.0,), log: int = 100) -> list[float]:
    """Train in place by the plan, its rates times factor; return the held-out loss at each stop (0 is before the first step)."""
    found, windows, losses = optimizers(model, plan), Windows(plan), []
    at = {round(stop * plan.steps) for stop in stops}
    for step in range(plan.steps + 1):
        if step in at:
            losses.append(held_out_loss(model, 512, HELD_OUT))
        if step == plan.steps:
            break
        loss = loss_of(model, windows.batch(plan.window))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, rate in zip(found, (plan.muon_rate, plan.adam_rate), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = factor * rate * plan.rate(step)
            optimizer.step()
            optimizer.zero_grad()
        if (step + 1) % log == 0:
            print(model.config.name, step + 1, plan.steps, f"{loss.item():.3f}", flush=True)
    return losses


def base_model(shape: str, plan: Plan) -> tuple[Decoder, float]:
    """Return the multi-head model after the first stage and its held-out loss; trained once, then read from _build/training."""
    path = WORK / f"mha-{shape}.pt"
    model = build(SHAPES[shape]).requires_grad_(True)
    if path.exists():
        state = torch.load(path, weights_only=True)
        if state["tokens"] == plan.tokens:
            model.load_state_dict(state["model"])
            return model, state["loss"]
    initialise(model, plan.seed)
    (loss,) = run(model, plan, 1.0)
    torch.save({"model": model.state_dict(), "tokens": plan.tokens, "loss": loss}, path)
    return model, loss


def main() -> None:
    """Run both stages and write benchmarks/results/gqa_conversion.json."""
    parser = argparse.ArgumentParser(prog="python -m training.convert", description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=float, default=2e6, help="of the first stage")
    parser.add_argument("--further", type=float, default=0.1, help="tokens of the second stage, as a share of the first")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="sibling")
    options = parser.parse_args()
    begin = time.monotonic()
    first = Plan(int(options.tokens))
    second = Plan(int(options.further * options.tokens), warmup=10, decay=0.9, seed=1)
    base, loss = base_model(options.shape, first)
    print(f"{base.config.name}: {costs.params(base.config):,} parameters, held-out loss {loss:.3f}", flush=True)
    cases = []
    for kv_heads, how in CASES[options.shape]:
        model = conversion.convert(base, kv_heads, how).requires_grad_(True)
        losses = [float(f"{x:.5g}") for x in run(model, second, 1 / 3, STOPS)]
        cases.append({"kv_heads": kv_heads, "how": how, "kv_bytes_per_token": costs.kv_cache_bytes(model.config, 1), "losses": losses})
        print(cases[-1], flush=True)
    data = {
        "model": {"name": base.config.name, "layers": base.config.n_layers, "d_model": base.config.d_model, "heads": base.config.n_heads,
                  "head_dim": base.config.head_dim, "params": costs.params(base.config)},
        "tokens": {"first": first.steps * first.step_tokens, "further": second.steps * second.step_tokens},
        "loss": float(f"{loss:.5g}"), "held_out_tokens": 512 * HELD_OUT, "stops": list(STOPS), "cases": cases, "seconds": round(time.monotonic() - begin),
    }
    command = f"python -m training.convert --tokens {options.tokens:g} --further {options.further:g} --shape {options.shape}"
    results.write("gqa_conversion", data, command, CODE)


if __name__ == "__main__":
    main()
