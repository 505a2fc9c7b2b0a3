"""Sliding-window attention and a cache that stops growing.

A windowed layer lets a token see itself and the window - 1 tokens before it, so
older K and V are never read again and their slots can be used anew. A model may
mix windowed layers with layers that see everything (a hybrid).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .attention import causal_mask, grouped_attention, naive_attention
from .configs import ModelConfig


def window_mask(n_query: int, n_key: int, window: int | None, device: torch.device | str | None = None) -> Tensor:
    """Return the boolean mask [n_query, n_key] of a causal window; True where a query may look.

    The queries are the last n_query of the n_key positions. A token sees itself
    and the window - 1 tokens before it; None is a window without end. Raises
    ValueError for a window below 1 and for sizes that causal_mask refuses.
    """
    allowed = causal_mask(n_query, n_key, device)
    if window is None:
        return allowed
    if window < 1:
        raise ValueError(f"window={window} is below 1")
    return allowed.triu(n_key - n_query - window + 1)


class WindowCache:
    """K and V of a decoder whose layers have windows; layer i keeps at most windows[i] tokens of each sequence.

    None in windows is a layer that sees everything and keeps max_tokens. Position p
    lies in slot p % window: a new token overwrites the one that just left the
    window. K is stored after RoPE, so slots may stand in any order. bytes_copied
    counts the bytes of K and V written into slots. Raises ValueError for a size
    below 1 and for windows that are not one per layer.
    """

    def __init__(
        self, config: ModelConfig, batch: int, max_tokens: int, windows: Sequence[int | None],
        device: str = "cpu", dtype: torch.dtype = torch.float32,
    ) -> None:
        if len(windows) != config.n_layers:
            raise ValueError(f"{len(windows)} windows for n_layers={config.n_layers}")
        for name, value in (("batch", batch), ("max_tokens", max_tokens), *(("window", w) for w in windows if w is not None)):
            if value < 1:
                raise ValueError(f"{name}={value} is below 1")
        slots = [max_tokens if w is None else min(w, max_tokens) for w in windows]
        shapes = [(batch, config.n_kv_heads, count, config.head_dim) for count in slots]
        self.k, self.v = ([torch.zeros(s, device=device, dtype=dtype) for s in shapes] for _ in range(2))
        self.max_tokens, self.windows = max_tokens, list(windows)
        self.length, self.tokens_appended, self.bytes_copied = 0, 0, 0

    @property
    def nbytes(self) -> int:
        """Bytes allocated, filled or not."""
        return sum(tensor.nbytes for tensor in (*self.k, *self.v))

    def _write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Put the new tokens into their slots; of more tokens than slots, the last ones."""
        slots, n = self.k[layer].shape[2], k.shape[2]
        kept = min(n, slots)
        places = torch.arange(self.length + n - kept, self.length + n, device=k.device) % slots
        for store, new in ((self.k[layer], k), (self.v[layer], v)):
            store[:, :, places] = new[:, :, n - kept :]
            self.bytes_copied += new[:, :, n - kept :].nbytes

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store k and v [b, K, n, d_h], return attention [b, H, n, d_h] of q over the window; ValueError for what does not fit."""
        n, held = k.shape[2], self.length
        wanted = (*self.k[layer].shape[:2], n, self.k[layer].shape[3])
        if tuple(k.shape) != wanted:
            raise ValueError(f"k has shape {list(k.shape)}; this cache takes {list(wanted)}")
        if held + n > self.max_tokens:
            raise ValueError(f"{held} tokens held and {n} new ones exceed max_tokens={self.max_tokens}")
        slots = self.k[layer].shape[2]
        if n == 1:  # every slot in use is inside the window once the new token has taken its place
            self._write(layer, k, v)
            filled = min(held + 1, slots)
            return grouped_attention(q, self.k[layer][:, :, :filled], self.v[layer][:, :, :filled])
        order = torch.arange(max(0, held - slots), held, device=k.device) % slots  # old tokens by age, before they are overwritten
        keys, values = (torch.cat((old[:, :, order], new), 2) for old, new in ((self.k[layer], k), (self.v[layer], v)))
        self._write(layer, k, v)
        return naive_attention(q, keys, values, mask=window_mask(n, keys.shape[2], self.windows[layer], k.device))

    def advance(self, n: int) -> None:
        """Count n tokens more of every sequence as held (or as held once)."""
        self.length += n
        self.tokens_appended += n * self.k[0].shape[0]
