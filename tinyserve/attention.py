"""Attention, written out. Shapes are [batch, heads, sequence, head_dim] throughout."""

from __future__ import annotations

import math
from dataclasses import dataclass

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


def grouped_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return causal attention [b, H, n, d_h] of q [b, H, n, d_h] on k and v [b, K, t, d_h].

    The H/K query heads of a group are rows of one product: K and V are not
    repeated. The queries are the last n of the t positions.
    """
    b, heads, n, d_h = q.shape
    kv_heads, t = k.shape[1], k.shape[2]
    rows = q.reshape(b, kv_heads, heads // kv_heads * n, d_h)
    scores = rows @ k.transpose(-2, -1) / math.sqrt(d_h)  # [b, K, H/K * n, t]
    if n > 1:  # one query sees everything
        unseen = torch.ones(n, t, dtype=torch.bool, device=q.device).triu(t - n + 1)
        scores = scores.view(b, heads, n, t).masked_fill(unseen, -math.inf).view(scores.shape)
    return (scores.softmax(dim=-1) @ v).view(b, heads, n, d_h)


def paged_attention(q: Tensor, kv: Tensor, blocks: Tensor, unseen: Tensor) -> Tensor:
    """Return attention [r * n, H, d_h] of r requests with n queries each, whose K and V lie in blocks.

    q [H, r * n, d_h], request after request; kv [2 * K, num_blocks, block_size * d_h],
    the pool of one layer, K before V; blocks [r * m] names m blocks of each request in
    order; unseen [K * r, H/K * n, m * block_size] (or 1 for H/K * n, when n is 1) is -inf
    where a query may not look, the future and what is behind a request's end, else 0.
    The blocks are gathered into one copy; a GPU kernel reads them in place. Kwon et al.
    2023, arXiv 2309.06180, section 4.1.
    """
    (heads, _, d_h), (lanes, _, t) = q.shape, unseen.shape
    kv_heads = kv.shape[0] // 2
    k, v = kv.index_select(1, blocks).view(2, lanes, t, d_h).unbind()
    rows = q.view(kv_heads, heads // kv_heads, lanes // kv_heads, -1, d_h).transpose(1, 2)  # [K, r, H/K, n, d_h]
    rows = rows.reshape(lanes, -1, d_h)  # the H/K query heads of a group are rows of one product
    scores = torch.baddbmm(unseen, rows, k.transpose(1, 2), alpha=1 / math.sqrt(d_h))  # product, scale and mask in one pass
    found = torch.bmm(scores.softmax(dim=-1), v).view(kv_heads, lanes // kv_heads, heads // kv_heads, -1, d_h)
    return found.permute(1, 3, 0, 2, 4).reshape(-1, heads, d_h)  # heads side by side in memory, as the next product wants them


@dataclass
class TileCounter:
    """What tiled_attention did, summed over batch and query heads (and over calls, until you make a new one).

    read and written are elements that cross between the large slow memory
    ("HBM") and the small fast one ("SRAM"); rescaled are the multiplications that
    move the running output to a new maximum.
    """

    computed: int = 0
    skipped: int = 0
    read: int = 0
    written: int = 0
    rescaled: int = 0

    @property
    def moved(self) -> int:
        """Elements read plus elements written."""
        return self.read + self.written


def _one_query_block(
    q: Tensor, k: Tensor, v: Tensor, starts: range, block_k: int, last_key: Tensor | None, counter: TileCounter
) -> Tensor:
    """Return softmax(q k^T) v for one block of scaled queries [b, h, rows, d_h], one tile of keys after the other.

    last_key [rows] is the last key each row may see; None without a mask.
    """
    lanes, rows, width = q.shape[0] * q.shape[1], q.shape[2], v.shape[3]
    top = q.new_full((*q.shape[:3], 1), -math.inf)  # largest score so far
    total = torch.zeros_like(top)  # sum of exp(score - top) so far
    out = q.new_zeros(*q.shape[:3], width)
    for start in starts:
        k_tile, v_tile = k[:, :, start : start + block_k], v[:, :, start : start + block_k]
        counter.read += lanes * k_tile.shape[2] * (q.shape[3] + width)
        scores = q @ k_tile.transpose(-2, -1)
        if last_key is not None:
            keys = torch.arange(start, start + k_tile.shape[2], device=q.device)
            scores = scores.masked_fill(keys > last_key[:, None], -math.inf)
        new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        weights = (scores - new_top).exp()
        old = (top - new_top).exp()  # 0 at the first tile, where top is -inf
        total = total * old + weights.sum(dim=-1, keepdim=True)
        out = out * old + weights @ v_tile
        top = new_top
        counter.computed += lanes
        counter.rescaled += lanes * rows * width
    return out / total


def tiled_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    block_q: int = 64,
    block_k: int = 64,
    causal: bool = False,
    counter: TileCounter | None = None,
    scale: float | None = None,
) -> Tensor:
    """Return what naive_attention returns, with never more than block_q x block_k scores of a head at a time.

    q [b, n_heads, n, d_h]; k and v [b, n_kv_heads, m, d_h]; returns
    [b, n_heads, n, d_h]. Blocks need not divide n or m. With causal=True tiles
    that lie wholly above the diagonal are not computed; the queries are the last n
    of the m positions, as in causal_mask. counter collects what was done: each
    block of queries is read once and its output written once; a tile reads its K
    and V for every query head. Raises ValueError for shapes that do not fit, for
    a block below 1, no key, and for causal with n > m. Online softmax: Milakov
    and Gimelshein 2018, arXiv 1805.02867; tiles: Dao et al. 2022, arXiv
    2205.14135; queries in the outer loop: Dao 2023, arXiv 2307.08691.
    """
    _check_shapes(q, k, v)
    for name, block in (("block_q", block_q), ("block_k", block_k)):
        if block < 1:
            raise ValueError(f"{name}={block} is below 1")
    n, m = q.shape[2], k.shape[2]
    if n < 1 or m < 1:
        raise ValueError(f"n={n} queries and m={m} keys: both must be at least 1")
    if causal and n > m:
        raise ValueError(f"causal with n={n} queries and m={m} keys: n must not exceed m")
    counter = TileCounter() if counter is None else counter
    lanes = q.shape[0] * q.shape[1]
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    q = q * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    blocks = []
    for first in range(0, n, block_q):
        q_block = q[:, :, first : first + block_q]
        rows = torch.arange(first, first + q_block.shape[2], device=q.device)
        visible = m - n + int(rows[-1]) + 1 if causal else m
        starts, tiles = range(0, visible, block_k), -(-m // block_k)
        counter.read += q_block.numel()
        counter.skipped += lanes * (tiles - len(starts))
        last_key = rows + m - n if causal else None
        blocks.append(_one_query_block(q_block, k, v, starts, block_k, last_key, counter))
        counter.written += blocks[-1].numel()
    return torch.cat(blocks, dim=2)
