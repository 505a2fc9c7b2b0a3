"""What stretched RoPE does to the course model beyond its window: python -m benchmarks.rope_scaling

Two parts of some minutes each; ``--part`` runs one of them and keeps the record's other one.

Loss: the first 4,096 predictions of every held-out file that has so many, in bits per
token, by place in the file. Beside the methods stands "slide": the plain model that
sees only the last window, moved on by half a window at a time.
Copy: a piece of random tokens, other text, the same piece again. What the model saves
on the second piece, against the same place without the first, says whether it uses what
lies so far back. Both are the same on every run up to the last digits of a float.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course import models, results
from tinyserve.model import Decoder
from tinyserve.rope_scaling import Stretch, stretch, token_bits

LENGTH, BUCKET, PIECE = 4096, 512, 48
CASES: tuple[tuple[str, float], ...] = (("none", 1.0), ("linear", 4.0), ("ntk", 2.0), ("ntk", 4.0), ("yarn", 2.0), ("yarn", 4.0))
COPY_CASES: tuple[tuple[str, float], ...] = (("none", 1.0), ("ntk", 4.0), ("yarn", 4.0))
DISTANCES = (256, 768, 1536, 2560, 3584)
CODE = ["benchmarks/rope_scaling.py", "tinyserve/rope_scaling.py", "tinyserve/rope.py", "tinyserve/model.py"]


def name(method: str, factor: float) -> str:
    """Return a case's name in the record: none, linear 4, …"""
    return method if method == "none" else f"{method} {factor:g}"


def stretches(decoder: Decoder, cases: Sequence[tuple[str, float]] = CASES) -> dict[str, Stretch]:
    """Return the Stretch of every case for this decoder, trained on windows of its config's max_context."""
    c = decoder.config
    return {name(m, f): stretch(m, c.head_dim, c.rope_theta, f, c.max_context) for m, f in cases}


def buckets(bits: Tensor, size: int = BUCKET) -> list[float]:
    """Return the mean of every size tokens, rounded to four digits behind the point."""
    return [round(float(part.mean()), 4) for part in bits.split(size)]


def slide(decoder: Decoder, ids: Tensor, how: Stretch, window: int) -> Tensor:
    """Return the bits of each token but the first, when the model never sees more than window tokens.

    The window moves by half of itself; each token is counted where it has the most before it.
    """
    found, half = token_bits(decoder, ids[: window + 1], how), window // 2
    start = half
    while len(found) < len(ids) - 1:
        bits = token_bits(decoder, ids[start : start + window + 1], how)
        found = torch.cat((found, bits[len(found) - start :]))
        start += half
    return found


def loss(decoder: Decoder, texts: Mapping[str, Tensor], length: int = LENGTH, bucket: int = BUCKET) -> dict[str, Any]:
    """Return {case: {file: bits per token of each bucket}} over the first length predictions of each text."""
    ways, window = stretches(decoder), decoder.config.max_context
    found: dict[str, Any] = {case: {} for case in (*ways, "slide")}
    for file, ids in texts.items():
        part = ids[: length + 1]
        for case, how in ways.items():
            found[case][file] = buckets(token_bits(decoder, part, how), bucket)
        found["slide"][file] = buckets(slide(decoder, part, ways["none"], window), bucket)
    return found


def copy(
    decoder: Decoder, filler: Sequence[int], distances: Sequence[int] = DISTANCES, piece: int = PIECE, seeds: int = 2
) -> dict[str, list[float]]:
    """Return {case: bits per token saved on a repeated piece, at each distance}, the mean over seeds."""
    ways, found = stretches(decoder, COPY_CASES), {}
    vocabulary = decoder.config.vocab_size
    for case, how in ways.items():
        found[case] = []
        for distance in distances:
            saved = 0.0
            for seed in range(seeds):
                rng = random.Random(seed)
                needle = [rng.randrange(1, vocabulary) for _ in range(piece)]
                other = [rng.randrange(1, vocabulary) for _ in range(piece)]
                between = list(filler[: distance - piece])
                last = []
                for first in (other, needle):
                    ids = torch.tensor([filler[0], *first, *between, *needle])
                    last.append(token_bits(decoder, ids, how)[-piece + 1 :].mean().item())  # its first token cannot be foreseen
                saved += (last[0] - last[1]) / seeds
            found[case].append(round(saved, 3))
    return found


def main() -> None:
    """Run what is asked for and write benchmarks/results/rope_scaling.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("loss", "copy", "both"), default="both")
    part = parser.parse_args().part
    decoder, tokenizer = models.load()
    encoded = {file: torch.tensor([tokenizer.end_id, *tokenizer.encode(text)]) for file, text in models.held_out().items()}
    texts = {file: ids for file, ids in encoded.items() if len(ids) > LENGTH}
    filler = max(texts.values(), key=len).tolist()
    old = {} if part == "both" else results.load("rope_scaling")
    data = {
        "window": decoder.config.max_context, "length": LENGTH, "bucket": BUCKET,
        "loss": old["loss"] if part == "copy" else loss(decoder, texts),
        "copy": old["copy"] if part == "loss" else {"distances": list(DISTANCES), "piece": PIECE, "saved": copy(decoder, filler)},
    }
    print(results.write("rope_scaling", data, command="python -m benchmarks.rope_scaling", code=CODE).name)


if __name__ == "__main__":
    main()
