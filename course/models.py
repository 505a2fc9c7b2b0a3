"""The two models made for this book, in models/: load them, and measure how well they predict a text.

    decoder, tokenizer = load("course-model")
    bits_per_byte(decoder, tokenizer, [text])
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import torch
from torch.nn import functional as F

from tinyserve import checkpoint
from tinyserve.model import Decoder
from tinyserve.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "models"
HELD_OUT = ROOT / "data" / "heldout" / "Lib"
"""Files of the standard library that no model of the book was trained on."""
NAMES = ("course-model", "course-draft")


def folder(name: str = "course-model") -> Path:
    """Return the folder of a model. Raises ValueError for another name, FileNotFoundError where the folder is missing."""
    if name not in NAMES:
        raise ValueError(f"name={name!r} is not one of {', '.join(NAMES)}")
    path = FOLDER / name
    if not path.is_dir():
        raise FileNotFoundError(
            f"models/{name} is missing: it is part of the book's repository; restore it with `git checkout models/{name}`"
        )
    return path


def load(name: str = "course-model", dtype: torch.dtype = torch.float32) -> tuple[Decoder, Tokenizer]:
    """Return decoder and tokenizer of a model of the book; raises as ``folder`` does, and as ``checkpoint.load``."""
    path = folder(name)
    return checkpoint.load(path, dtype=dtype), Tokenizer.load(path)


def held_out() -> dict[str, str]:
    """Return the held-out texts by their path in the standard library, sorted; FileNotFoundError where there are none."""
    found = {
        path.relative_to(HELD_OUT).as_posix().removesuffix(".txt"): path.read_bytes().decode()
        for path in sorted(HELD_OUT.rglob("*.txt"))
    }
    if not found:
        raise FileNotFoundError("data/heldout/Lib holds no text: it is part of the book's repository")
    return found


def bits_per_byte(decoder: Decoder, tokenizer: Tokenizer, texts: Iterable[str], window: int = 1024) -> float:
    """Return the bits that the model needs for a byte of the texts: what an arithmetic coder driven by it would write.

    Each text stands alone, after one end token, and is cut into windows of that
    many predictions. A token is predicted from those before it in its window and
    the last one before the window. Raises ValueError for a window
    below 1, no bytes at all, or a tokenizer without an end token.
    """
    if window < 1:
        raise ValueError(f"window={window} is below 1")
    if tokenizer.end_id is None:
        raise ValueError("the tokenizer has no end token to begin a text with")
    nats, size = 0.0, 0
    for text in texts:
        size += len(text.encode())
        ids = torch.tensor([tokenizer.end_id, *tokenizer.encode(text)])
        for start in range(0, len(ids) - 1, window):
            part = ids[start : start + window + 1]
            logits = decoder(part[None, :-1], logits="all")[0].float()
            nats += F.cross_entropy(logits, part[1:], reduction="sum").item()
    if not size:
        raise ValueError("the texts hold no bytes")
    return nats / math.log(2) / size
