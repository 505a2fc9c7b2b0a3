"""How far a changed model is from its original, on the same tokens: bits per byte, KL of the logits, first choices kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..kv_cache import KVCache
from ..model import Decoder


@dataclass(frozen=True)
class Score:
    """bits per byte; KL(original || changed) in nats a token; share of positions whose most likely token is the original's."""

    bits: float
    kl: float
    same: float


def log_probs(decoder: Decoder, ids: Tensor, cache: Callable[[], KVCache] | None = None, chunk: int = 32) -> Tensor:
    """Return log probabilities [b, n, vocab] of what follows each token of ids [b, n].

    With a cache (a function that makes one) the text runs in chunks, so that each chunk
    reads what the cache has kept of the earlier ones.
    """
    if cache is None:
        return decoder(ids, logits="all").float().log_softmax(-1)
    held = cache()
    parts = [decoder(ids[:, start : start + chunk], cache=held, logits="all") for start in range(0, ids.shape[1], chunk)]
    return torch.cat(parts, dim=1).float().log_softmax(-1)


def score(original: Tensor, changed: Tensor, targets: Tensor, size: int) -> Score:
    """Compare log probabilities [b, n, vocab] on the targets [b, n], which stand for size bytes of text.

    Raises ValueError for shapes that do not fit or a size below 1.
    """
    if original.shape != changed.shape or targets.shape != original.shape[:2]:
        raise ValueError(f"shapes {list(original.shape)}, {list(changed.shape)}, {list(targets.shape)} do not fit")
    if size < 1:
        raise ValueError(f"size={size} is below 1")
    nats = F.nll_loss(changed.flatten(0, 1), targets.flatten(), reduction="sum").item()
    kl = float((original.exp() * (original - changed)).sum(-1).mean())
    same = float((original.argmax(-1) == changed.argmax(-1)).float().mean())
    return Score(nats / math.log(2) / size, kl, same)
