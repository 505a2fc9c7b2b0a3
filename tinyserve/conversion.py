"""Give a decoder another number of KV heads: share heads by pooling, or unshare them by repeating.

Works on the weights alone. Pooling changes what the model computes and asks for
further training; repeating changes nothing but the size of the cache.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from .configs import ModelConfig
from .model import Decoder, build

WAYS = ("mean", "first")


def with_kv_heads(config: ModelConfig, n_kv_heads: int) -> ModelConfig:
    """Return the shape with this many KV heads, named after it; ValueError where it does not divide n_heads."""
    return replace(config, name=f"{config.name}, {n_kv_heads} KV heads", n_kv_heads=n_kv_heads)


def pool_heads(weight: Tensor, heads: int, groups: int, how: str = "mean") -> Tensor:
    """Return the rows [groups * d_h, ...] of K's or V's matrix (or bias) [heads * d_h, ...] after sharing.

    Neighbouring heads form a group, as query head h reads KV head h // (H/K).
    "mean" averages a group's heads (Ainslie et al. 2023, arXiv 2305.13245, section
    2.1), "first" keeps its first and drops the rest. Raises ValueError for rows that heads does not
    divide, groups that does not divide heads, and another word.
    """
    if how not in WAYS:
        raise ValueError(f"how={how!r} is not one of {', '.join(WAYS)}")
    if heads < 1 or weight.shape[0] % heads:
        raise ValueError(f"weight has {weight.shape[0]} rows, not a multiple of heads={heads}")
    if groups < 1 or heads % groups:
        raise ValueError(f"heads={heads} is not a multiple of groups={groups}")
    grouped = weight.view(groups, heads // groups, weight.shape[0] // heads, *weight.shape[1:])
    return (grouped.mean(dim=1) if how == "mean" else grouped[:, 0]).flatten(0, 1)


def repeat_heads(weight: Tensor, heads: int, times: int) -> Tensor:
    """Return the rows of K's or V's matrix (or bias) with each head `times` in a row; ValueError as in pool_heads."""
    if heads < 1 or weight.shape[0] % heads or times < 1:
        raise ValueError(f"{weight.shape[0]} rows, heads={heads}, times={times}: heads must divide rows, times be at least 1")
    return weight.view(heads, -1, *weight.shape[1:]).repeat_interleave(times, dim=0).flatten(0, 1)


@torch.no_grad()
def convert(decoder: Decoder, n_kv_heads: int, how: str = "mean") -> Decoder:
    """Return a new decoder with n_kv_heads KV heads; the old one stays as it is.

    Fewer heads are pooled (`how` as in pool_heads), more are repeated, which leaves every logit as it was.
    Raises ValueError for a number that neither divides the old one nor is a multiple of it, or that does not divide n_heads.
    """
    old, new = decoder.config, with_kv_heads(decoder.config, n_kv_heads)
    if old.n_kv_heads % n_kv_heads and n_kv_heads % old.n_kv_heads:
        raise ValueError(f"n_kv_heads={n_kv_heads} neither divides {old.n_kv_heads} nor is a multiple of it")
    weights = dict(decoder.state_dict())
    for name in weights:
        if name.endswith((".k.weight", ".v.weight", ".k.bias", ".v.bias")):
            if n_kv_heads < old.n_kv_heads:
                weights[name] = pool_heads(weights[name], old.n_kv_heads, n_kv_heads, how)
            else:
                weights[name] = repeat_heads(weights[name], old.n_kv_heads, n_kv_heads // old.n_kv_heads)
    first = next(decoder.parameters())
    converted = build(new, device=str(first.device), dtype=first.dtype)
    converted.load_state_dict(weights)
    return converted
