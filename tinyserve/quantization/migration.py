"""Rescale channels without changing the function: to plant outliers, to migrate them (SmoothQuant), to protect weights (AWQ).

A norm's gain may be divided by s, channel by channel, if the columns of all
matrices that read it are multiplied by s; so may the rows of "up" and the columns
of "down", because "up" enters the product linearly.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..model import Block, Decoder
from .integers import Stored
from .layers import Inputs, copied

PAIRS = {"norm1": ("q", "k", "v"), "norm2": ("gate", "up"), "up": ("down",)}
"""What writes the channels, and the matrices that read them."""


@torch.no_grad()
def rescale(block: Block, writer: str, s: Tensor) -> None:
    """Divide the channels that the writer writes by s [channels], multiply the readers' columns by it; in place.

    Raises ValueError for another writer, a wrong number of channels or an s not above 0.
    """
    if writer not in PAIRS:
        raise ValueError(f"writer={writer!r} is not one of {', '.join(PAIRS)}")
    source: nn.Module = getattr(block, writer)
    if s.shape != (source.weight.shape[0],) or not (s > 0).all():
        raise ValueError(f"s of shape {list(s.shape)} must hold {source.weight.shape[0]} numbers above 0")
    source.weight.div_(s if source.weight.dim() == 1 else s[:, None])
    for reader in PAIRS[writer]:
        getattr(block, reader).weight.mul_(s)


def plant(decoder: Decoder, channels: list[int], factor: int = 64) -> Decoder:
    """Return a copy that computes the same and has outlier channels behind every norm.

    The gain of these channels grows by factor and the readers' columns shrink by it. A
    power of two moves exponents only, so the logits stay the same to the last bit.
    Raises ValueError for another factor or a channel out of range.
    """
    if factor < 2 or factor & factor - 1:
        raise ValueError(f"factor={factor} is not a power of two above 1")
    d = decoder.config.d_model
    if not channels or not all(0 <= channel < d for channel in channels):
        raise ValueError(f"channels={channels} must be some of 0 to {d - 1}")
    new, s = copied(decoder), torch.ones(d)
    s[channels] = 1 / factor
    for block in new.blocks:
        for writer in ("norm1", "norm2"):
            rescale(block, writer, s)
    return new


@torch.no_grad()
def plant_keys(decoder: Decoder, pair: int, factor: int = 16) -> Decoder:
    """Return a copy that computes the same and has two large channels in every key head: those RoPE turns together.

    Rows pair and pair + d_h / 2 of each key head grow by factor, the same rows of its query
    heads shrink. Raises ValueError for a pair out of range or a factor that is no power of two.
    """
    half = decoder.config.head_dim // 2
    if not 0 <= pair < half:
        raise ValueError(f"pair={pair} is not between 0 and {half - 1}")
    if factor < 2 or factor & factor - 1:
        raise ValueError(f"factor={factor} is not a power of two above 1")
    new = copied(decoder)
    for block in new.blocks:
        for linear, by in ((block.k, factor), (block.q, 1 / factor)):
            for parameter in filter(lambda p: p is not None, (linear.weight, linear.bias)):
                parameter.view(-1, 2, half, *parameter.shape[1:])[:, :, pair].mul_(by)
    return new


def smooth_scales(largest_x: Tensor, largest_w: Tensor, alpha: float = 0.5) -> Tensor:
    """Return SmoothQuant's s_j = max|X_j|^alpha / max|W_j|^(1 - alpha) for each channel.

    Xiao et al. 2022, arXiv 2211.10438, equation 4. Raises ValueError for alpha outside 0 to 1.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha={alpha} is not between 0 and 1")
    return largest_x.clamp(min=1e-5) ** alpha / largest_w.clamp(min=1e-5) ** (1 - alpha)


def smooth(decoder: Decoder, inputs: dict[str, Inputs], alpha: float = 0.5) -> Decoder:
    """Return a copy with activation outliers moved into the weights, behind both norms of every block.

    inputs come from calibrate. With alpha = 0.5 and s as above, channel j of activations
    and weights ends with the same largest magnitude.
    """
    new = copied(decoder)
    for n, block in enumerate(new.blocks):
        for writer in ("norm1", "norm2"):
            readers = PAIRS[writer]
            largest_w = torch.stack([getattr(block, name).weight.abs().amax(0) for name in readers]).amax(0)
            rescale(block, writer, smooth_scales(inputs[f"{n}.{readers[0]}"].largest, largest_w, alpha))
    return new


def output_error(x: Tensor, weight: Tensor, stored: Tensor) -> float:
    """Return ||x W^T - x W_hat^T||^2 over rows x [n, columns]."""
    return float((x @ (weight - stored).T).square().sum())


@torch.no_grad()
def awq(
    decoder: Decoder, inputs: dict[str, Inputs], coder: Callable[[Tensor], Stored], steps: int = 10
) -> tuple[Decoder, dict[str, float]]:
    """Return a copy with the scales that AWQ's search finds folded in, and the exponent chosen per block and writer.

    For each writer s = mean|X_j|^alpha, normalised by sqrt(max s * min s), alpha on a
    grid of 0 to 1; the one with the least output error over the calibration rows wins. alpha = 0
    is plain rounding, so on those rows the search cannot lose. The copy's matrices are
    not yet coded. Lin et al. 2023, arXiv 2306.00978, section 3.2.
    """
    if steps < 1:
        raise ValueError(f"steps={steps} is below 1")
    new, chosen = copied(decoder), {}
    for n, block in enumerate(new.blocks):
        for writer, readers in PAIRS.items():
            found = inputs[f"{n}.{readers[0]}"]
            weights = [getattr(block, name).weight for name in readers]
            best = (float("inf"), 0.0, torch.ones_like(found.mean))
            for alpha in (step / steps for step in range(steps + 1)):
                s = found.mean.clamp(min=1e-5) ** alpha
                s = s / (s.max() * s.min()).sqrt()
                error = sum(output_error(found.rows, w, coder(w * s).dequantize() / s) for w in weights)
                best = min(best, (error, alpha, s), key=lambda item: item[0])
            chosen[f"{n}.{writer}"] = best[1]
            rescale(block, writer, best[2])
    return new, chosen
