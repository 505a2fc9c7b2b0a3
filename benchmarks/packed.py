"""What packed matrices give a decode step on a CPU, by the sequences in it. FLOPs and bytes are the same in both: the roofline predicts 1.

    python -m benchmarks.packed [--quick] [--out NAME]

Float32, one thread. In each round both decoders do the same step in turn; a ratio is
formed within a round. Some seconds on a machine that does nothing else.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.cases import measure
from benchmarks.rounds import QUIET, command, quartile_ratio
from tinyserve import configs
from tinyserve.kv_cache import ContiguousCache
from tinyserve.model import Decoder, build
from tinyserve.packed import PackedLinear, packed

CODE = ("benchmarks/packed.py", "benchmarks/cases.py", "tinyserve/packed.py", "tinyserve/model.py", "tinyserve/kv_cache.py", "tinyserve/attention.py", "tinyserve/rope.py")
CONTEXT = 64
"""Tokens of each sequence before the step: short, so that the matrices are most of it."""


def step(decoder: Decoder, batch: int) -> Callable[[], torch.Tensor]:
    """Return a call that decodes one token of each sequence, always at the same context."""
    cache = ContiguousCache(decoder.config, batch, CONTEXT + 1)
    decoder(torch.ones(batch, CONTEXT, dtype=torch.long), cache=cache)
    ids = torch.arange(batch)[:, None]

    def call() -> torch.Tensor:
        cache.truncate(CONTEXT)
        return decoder(ids, cache=cache)[:, -1].argmax(dim=-1)

    return call


def run(device: str, quick: bool) -> dict[str, Any]:
    """Do the whole run and return its data; raise RuntimeError where nothing is packed or the tokens differ."""
    if device != "cpu":
        raise ValueError(f"device={device!r}: only a CPU has this layout")
    begin, threads = time.perf_counter(), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        plain = build(configs.COURSE_DRAFT if quick else configs.COURSE_MODEL, std=0.05)
        fast = packed(plain)
        if not sum(isinstance(module, PackedLinear) for module in fast.modules()) or any(isinstance(m, PackedLinear) for m in plain.modules()):
            raise RuntimeError("the packed decoder has no packed matrix, or the plain one has")
        rows = [_row(plain, fast, batch, 2 if quick else 25) for batch in ((1, 4) if quick else (1, 4, 16, 64))]
    finally:
        torch.set_num_threads(threads)
    return {
        "model": plain.config.name, "dtype": "fp32", "quick": quick, "context": CONTEXT, "rows": rows,
        "unsteady": max(row["spread"] for row in rows), "seconds": time.perf_counter() - begin,
    }


def _row(plain: Decoder, fast: Decoder, batch: int, rounds: int) -> dict[str, Any]:
    """Time both decoders at one batch."""
    calls = [step(plain, batch), step(fast, batch)]
    if not torch.equal(*(call() for call in calls)):
        raise RuntimeError(f"batch {batch}: the packed decoder gives other tokens")
    seconds = dict(zip(("plain", "packed"), measure(calls, "cpu", rounds), strict=True))
    ratios = [a / b for a, b in zip(seconds["plain"], seconds["packed"], strict=True)]
    return {"batch": batch, "seconds": seconds, "ratio": statistics.median(ratios), "spread": quartile_ratio(ratios)}


def table(data: dict[str, Any]) -> str:
    """Return the result as text."""
    lines = [f"{'batch':>6}{'plain ms':>10}{'packed ms':>11}{'times':>7}{'spread':>8}"]
    for row in data["rows"]:
        medians = [1e3 * statistics.median(row["seconds"][kind]) for kind in ("plain", "packed")]
        lines.append(f"{row['batch']:>6}{medians[0]:>10.2f}{medians[1]:>11.2f}{row['ratio']:>7.2f}{row['spread']:>8.2f}")
    if data["unsteady"] > QUIET:
        lines.append("The rounds disagree: something else used this machine. Run it again.")
    return "\n".join([*lines, f"{data['seconds']:.0f} s in all"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and write the result file."""
    return command("packed", __doc__.splitlines()[0], run, table, CODE, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
