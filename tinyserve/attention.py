"""Attention, written out. Shapes are [batch, heads, sequence, head_dim] throughout."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def causal_mask(n_query: int, n_key: int, device: torch.device | str | None = None) -> Tensor:
    """Return the boolean causal mask [n_query, n_key]; True where a query may look.

    The queries are the last n_query of the n_key positions, so a query always
    sees itself: query i looks at keys 0 .. n_key - n_query + i. (The is_causal
    flag of torch's scaled_dot_product_attention aligns the first query with the
    first key instead; the two differ whenever a cache is in use.) Raises
    ValueError when n_query is below 1 or above n_key.
    """
    if n_query < 1 or n_query > n_key:
        raise ValueError(f"n_query={n_query} is not between 1 and n_key={n_key}")
    return torch.ones(n_query, n_key, dtype=torch.bool, device=device).tril(n_key - n_query)


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise ValueError unless q, k and v fit together."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 4:
            raise ValueError(f"{name} has shape {list(tensor.shape)}, not [batch, heads, sequence, head_dim]")
    if k.shape[:3] != v.shape[:3]:
        raise ValueError(f"k {list(k.shape)} and v {list(v.shape)} differ in batch, heads or sequence")
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(f"q {list(q.shape)} and k {list(k.shape)} differ in batch or head_dim")
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"n_heads={q.shape[1]} is not a multiple of n_kv_heads={k.shape[1]}")


def naive_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return softmax(q k^T * scale + mask) v, with the whole score matrix in memory.

    q [b, n_heads, n, d_h]; k and v [b, n_kv_heads, m, d_h]; returns
    [b, n_heads, n, d_h]. Query head h reads K/V head h // (n_heads // n_kv_heads).
    scale defaults to 1 / sqrt(d_h). mask is boolean (True: may look) or a number
    to add to the scores, and broadcasts to [b, n_heads, n, m]; with causal=True
    the causal mask is applied as well. A row whose keys are all masked comes out
    as NaN, as in torch's own plain version. Raises ValueError for shapes that do
    not fit. Formula: Vaswani et al. 2017, arXiv 1706.03762, equation 1; sharing
    of heads: Ainslie et al. 2023, arXiv 2305.13245.
    """
    _check_shapes(q, k, v)
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ k.transpose(-2, -1) * scale  # [b, n_heads, n, m]
    if causal:
        allowed = causal_mask(q.shape[2], k.shape[2], device=q.device)
        scores = scores.masked_fill(~allowed, -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(dim=-1) @ v
