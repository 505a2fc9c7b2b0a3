"""Quantize a decoder: its matrices alone, or matrices and activations; see what flows into each matrix."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..model import Decoder
from .integers import Stored, absmax

NAMES = ("q", "k", "v", "o", "gate", "up", "down")


def matrices(decoder: Decoder) -> dict[str, nn.Linear]:
    """Return the matrices of all blocks by name, "0.q" to "5.down"; embedding, head and norms are not among them."""
    return {f"{n}.{name}": getattr(block, name) for n, block in enumerate(decoder.blocks) for name in NAMES}


def copied(decoder: Decoder) -> Decoder:
    """Return a copy with weights and counters of its own."""
    return copy.deepcopy(decoder)


@torch.no_grad()
def with_weights(decoder: Decoder, coder: Callable[[Tensor], Stored]) -> tuple[Decoder, int]:
    """Return a copy whose matrices went through the coder and back, and the bytes it would take.

    The arithmetic stays float32: weight only. Bytes: the stored matrices, and all
    other parameters (embedding, norms, a head of its own) in bf16.
    """
    new, taken, within = copied(decoder), 0, 0
    for linear in matrices(new).values():
        stored = coder(linear.weight)
        linear.weight.copy_(stored.dequantize())
        taken, within = taken + stored.nbytes, within + linear.weight.numel()
    rest = sum(p.numel() for p in new.parameters()) - within
    return new, taken + 2 * rest


@dataclass
class Inputs:
    """What flowed into one matrix: the largest and the mean magnitude of each channel [columns], and some rows [n, columns]."""

    largest: Tensor
    mean: Tensor
    rows: Tensor


@torch.no_grad()
def calibrate(decoder: Decoder, batches: Iterable[Tensor], rows: int = 256) -> dict[str, Inputs]:
    """Run token ids [b, n] through the decoder and return what flowed into each matrix, by name.

    rows is how many token positions are kept whole, evenly spread. Raises ValueError
    without any batch, or with rows below 1.
    """
    if rows < 1:
        raise ValueError(f"rows={rows} is below 1")
    seen: dict[str, list[Tensor]] = {name: [] for name in matrices(decoder)}

    def watch(name: str) -> Callable:
        return lambda module, args: seen[name].append(args[0].flatten(0, -2).float())

    hooks = [linear.register_forward_pre_hook(watch(name)) for name, linear in matrices(decoder).items()]
    try:
        for ids in batches:
            decoder(ids)
    finally:
        for hook in hooks:
            hook.remove()
    if not all(seen.values()):
        raise ValueError("batches=[] has no tokens to calibrate with")
    found = {}
    for name, parts in seen.items():
        x = torch.cat(parts)
        picked = torch.linspace(0, len(x) - 1, min(rows, len(x))).long()
        found[name] = Inputs(x.abs().amax(0), x.abs().mean(0), x[picked])
    return found


class Int8Linear(nn.Module):
    """y = x W^T in 8-bit integers: W a scale per row, x a scale per token, or one fixed scale.

    Codes are at most 127, so a sum of 1,040 products stays below 2^24 and float32
    holds it exactly: the result is that of integer arithmetic, scaled once at the
    end. clipped counts the numbers that a fixed scale could not reach. Raises
    ValueError for more columns than that.
    """

    def __init__(self, linear: nn.Linear, scale: float | None = None) -> None:
        super().__init__()
        if linear.in_features * 127**2 >= 2**24:
            raise ValueError(f"{linear.in_features} columns: above 1,040 a float32 sum of codes is not exact")
        stored = absmax(linear.weight, 8, dim=1)
        self.weight, self.row_scale, self.bias = stored.codes.float(), stored.scale.flatten(), linear.bias
        self.scale, self.clipped = scale, 0

    def forward(self, x: Tensor) -> Tensor:
        """[..., columns] -> [..., rows]."""
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 127 if self.scale is None else self.scale
        codes = (x / scale).round()
        if self.scale is not None:
            self.clipped += int((codes.abs() > 127).sum())
            codes = codes.clamp(-127, 127)
        y = F.linear(codes, self.weight) * scale * self.row_scale
        return y if self.bias is None else y + self.bias


def with_int8(decoder: Decoder, inputs: dict[str, Inputs] | None = None) -> Decoder:
    """Return a copy whose matrices multiply in 8-bit integers (W8A8).

    Without inputs each token's activations get their own scale when they come
    (dynamic: nothing to calibrate). With inputs one scale per matrix is fixed
    beforehand, from the largest magnitude seen (static).
    """
    new = copied(decoder)
    for name, linear in matrices(new).items():
        n, attribute = name.split(".")
        scale = None if inputs is None else float(inputs[name].largest.max()) / 127
        setattr(new.blocks[int(n)], attribute, Int8Linear(linear, scale))
    return new
