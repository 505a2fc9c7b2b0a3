"""Shapes of mixture-of-experts models, and of the attention each of them has.

Enough to count parameters, FLOPs and bytes (``costs``), not to build them.
``configs`` hands these names on. No weights, no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from .kv_shapes import require_positive


@dataclass(frozen=True)
class GroupedAttentionShape:
    """Grouped-query attention: n_heads query heads, n_kv_heads KV heads of head_dim numbers; qk_norm: a norm for Q and one for K.

    Raises ValueError for a size below 1 and for n_heads that n_kv_heads does not divide.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int
    qk_norm: bool = False

    def __post_init__(self) -> None:
        for field in ("n_heads", "n_kv_heads", "head_dim"):
            require_positive(field, getattr(self, field))
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_heads={self.n_heads} is not a multiple of n_kv_heads={self.n_kv_heads}")

    def matrix_params(self, d_model: int) -> int:
        """Count the entries of one layer's W_q, W_k, W_v and W_o."""
        return 2 * d_model * self.head_dim * (self.n_heads + self.n_kv_heads)

    @property
    def norm_params(self) -> int:
        """Numbers of the norms inside one layer's attention."""
        return 2 * self.head_dim if self.qk_norm else 0

    @property
    def kv_elements(self) -> int:
        """Numbers one layer's cache keeps of a token."""
        return 2 * self.n_kv_heads * self.head_dim

    @property
    def flops_per_context_token(self) -> int:
        """FLOPs that a new token spends on one token of its context in one layer."""
        return 4 * self.n_heads * self.head_dim


@dataclass(frozen=True)
class LatentAttentionShape:
    """Multi-head latent attention (MLA): Q through q_rank numbers, K and V from latent_dim, position in rope_dim.

    head_dim is the part of a query or key without position, and the width of a
    value. One KV head for all, so n_kv_heads is 1. Raises ValueError for a size below 1.
    """

    n_heads: int
    head_dim: int
    q_rank: int
    latent_dim: int
    rope_dim: int
    n_kv_heads = 1

    def __post_init__(self) -> None:
        for field in ("n_heads", "head_dim", "q_rank", "latent_dim", "rope_dim"):
            require_positive(field, getattr(self, field))

    def matrix_params(self, d_model: int) -> int:
        """Count the entries of one layer's matrices: both low-rank paths and W_o. Source: arXiv 2405.04434, section 2.1."""
        heads = self.n_heads
        query = self.q_rank * (d_model + heads * (self.head_dim + self.rope_dim))
        latent = d_model * (self.latent_dim + self.rope_dim) + self.latent_dim * heads * 2 * self.head_dim
        return query + latent + heads * self.head_dim * d_model

    @property
    def norm_params(self) -> int:
        """Numbers of the norms inside one layer's attention: one on each low-rank vector."""
        return self.q_rank + self.latent_dim

    @property
    def kv_elements(self) -> int:
        """Numbers one layer's cache keeps of a token: the latent and the rotary key."""
        return self.latent_dim + self.rope_dim

    @property
    def flops_per_context_token(self) -> int:
        """FLOPs that a new token spends on one token of its context in one layer, in the absorbed form."""
        return self.n_heads * (2 * (self.latent_dim + self.rope_dim) + 2 * self.latent_dim)


@dataclass(frozen=True)
class MoEConfig:
    """Shape of a decoder whose feed-forward blocks are experts, SwiGLU of width d_expert each.

    A token goes to top_k of n_experts routed experts and through all n_shared; the
    first n_dense_layers have one dense block of width d_dense instead. Untied
    embedding and head. router_bias: one number per expert, which only routing uses
    and which published counts may leave out. Raises ValueError for a size below 1,
    top_k above n_experts, n_dense_layers outside 0 .. n_layers - 1 or without d_dense.
    """

    name: str
    n_layers: int
    d_model: int
    attention: GroupedAttentionShape | LatentAttentionShape
    d_expert: int
    n_experts: int
    top_k: int
    vocab_size: int
    n_shared: int = 0
    n_dense_layers: int = 0
    d_dense: int = 0
    router_bias: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        for field in ("n_layers", "d_model", "d_expert", "n_experts", "top_k", "vocab_size"):
            require_positive(field, getattr(self, field))
        if self.top_k > self.n_experts:
            raise ValueError(f"top_k={self.top_k} is above n_experts={self.n_experts}")
        for field in ("n_shared", "n_dense_layers", "d_dense"):
            if isinstance(getattr(self, field), bool) or getattr(self, field) < 0:
                raise ValueError(f"{field}={getattr(self, field)!r} is below 0")
        if self.n_dense_layers >= self.n_layers:
            raise ValueError(f"n_dense_layers={self.n_dense_layers} is not below n_layers={self.n_layers}")
        if self.n_dense_layers and not self.d_dense:
            raise ValueError("d_dense=0, but there are dense layers")

    @property
    def n_moe_layers(self) -> int:
        """Layers that have experts."""
        return self.n_layers - self.n_dense_layers

    @property
    def n_kv_heads(self) -> int:
        """KV heads that cards can share; 1 for MLA."""
        return self.attention.n_kv_heads

    @property
    def kv_elements_per_token(self) -> int:
        """Numbers the cache keeps for one token over all layers."""
        return self.n_layers * self.attention.kv_elements


MIXTRAL_8X7B = MoEConfig(
    "Mixtral-8x7B", 32, 4096, GroupedAttentionShape(32, 8, 128), 14336, 8, 2, 32000,
    source="Jiang et al. 2024, arXiv 2401.04088, table 1; defaults of transformers' MixtralConfig",
)
DEEPSEEK_V2_MOE = MoEConfig(
    "DeepSeek-V2", 60, 5120, LatentAttentionShape(128, 128, 1536, 512, 64), 1536, 160, 6, 102400,
    n_shared=2, n_dense_layers=1, d_dense=12288,
    source="DeepSeek-AI 2024, arXiv 2405.04434, section 3.1.2; published config.json",
)
DEEPSEEK_V3 = MoEConfig(
    "DeepSeek-V3", 61, 7168, LatentAttentionShape(128, 128, 1536, 512, 64), 2048, 256, 8, 129280,
    n_shared=1, n_dense_layers=3, d_dense=18432, router_bias=True,
    source="DeepSeek-AI 2024, arXiv 2412.19437, section 4.2; defaults of transformers' DeepseekV3Config; "
    "without the module that predicts a second token",
)
QWEN3_30B = MoEConfig(
    "Qwen3-30B-A3B", 48, 2048, GroupedAttentionShape(32, 4, 128, qk_norm=True), 768, 128, 8, 151936,
    source="Qwen team 2025, arXiv 2505.09388, table 2; published config.json",
)
QWEN3_235B = MoEConfig(
    "Qwen3-235B-A22B", 94, 4096, GroupedAttentionShape(64, 4, 128, qk_norm=True), 1536, 128, 8, 151936,
    source="Qwen team 2025, arXiv 2505.09388, table 2; published config.json",
)
MOE_MODELS: tuple[MoEConfig, ...] = (MIXTRAL_8X7B, DEEPSEEK_V2_MOE, DEEPSEEK_V3, QWEN3_30B, QWEN3_235B)
"""The mixture-of-experts models of the book."""
