"""What models that share K and V in other ways keep of a token: a latent vector (MLA), or a window of tokens.

Enough to count the bytes of their caches and the FLOPs of reading them, not to
build them. ``configs`` hands these names on. No weights, no torch.
"""

from __future__ import annotations

from dataclasses import dataclass


def require_positive(name: str, value: object) -> None:
    """Raise ValueError unless value is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}={value!r} is not a positive whole number")


@dataclass(frozen=True)
class LatentKVConfig:
    """What multi-head latent attention (MLA) keeps of a token, per layer.

    One latent vector of latent_dim numbers stands for all keys and values, and
    rope_dim numbers carry the position. n_heads query heads of head_dim numbers
    (without the rotary part) read it. Raises ValueError for a size below 1.
    """

    name: str
    n_layers: int
    latent_dim: int
    rope_dim: int
    n_heads: int = 1
    head_dim: int = 1
    source: str = ""

    def __post_init__(self) -> None:
        for field in ("n_layers", "latent_dim", "rope_dim", "n_heads", "head_dim"):
            require_positive(field, getattr(self, field))

    @property
    def kv_elements_per_token(self) -> int:
        """Numbers the cache keeps for one token over all layers: latent and rotary key."""
        return self.n_layers * (self.latent_dim + self.rope_dim)


@dataclass(frozen=True)
class WindowKVConfig:
    """What a model with sliding windows keeps: n_full_layers layers keep every token, the others the last `window`.

    n_kv_heads heads of K and of V with head_dim numbers in each layer. Raises
    ValueError for a size below 1 and for n_full_layers outside 0 .. n_layers.
    """

    name: str
    n_layers: int
    n_full_layers: int
    n_kv_heads: int
    head_dim: int
    window: int
    n_heads: int
    source: str = ""

    def __post_init__(self) -> None:
        for field in ("n_layers", "n_kv_heads", "head_dim", "window", "n_heads"):
            require_positive(field, getattr(self, field))
        if isinstance(self.n_full_layers, bool) or not 0 <= self.n_full_layers <= self.n_layers:
            raise ValueError(f"n_full_layers={self.n_full_layers!r} is not between 0 and n_layers={self.n_layers}")

    @property
    def kv_elements_per_token(self) -> int:
        """Numbers one token takes over all layers while it is inside the window."""
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim


DEEPSEEK_V2 = LatentKVConfig(
    "DeepSeek-V2", 60, 512, 64, 128, 128, source="DeepSeek-AI 2024, arXiv 2405.04434, section 3.1.2"
)
MISTRAL_7B = WindowKVConfig(
    "Mistral-7B", 32, 0, 8, 128, 4096, 32,
    source="Jiang et al. 2023, arXiv 2310.06825, table 1; version 0.1 (later versions have no window)",
)
GEMMA_3_27B = WindowKVConfig(
    "Gemma-3-27B", 62, 10, 16, 128, 1024, 32,
    source="Gemma team 2025, arXiv 2503.19786: five windowed layers to one full; published config.json",
)
