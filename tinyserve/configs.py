"""Shapes of the models that the book computes with. No weights, no torch.

A ModelConfig is a frozen description of a decoder: enough to count its
parameters, FLOPs and bytes (``tinyserve.costs``) or to build it. Each constant
names the paper or the published configuration its numbers come from.
"""

from __future__ import annotations

from dataclasses import dataclass

from .kv_shapes import DEEPSEEK_V2, GEMMA_3_27B, MISTRAL_7B, LatentKVConfig, WindowKVConfig, require_positive
from .moe_shapes import DEEPSEEK_V2_MOE, DEEPSEEK_V3, MIXTRAL_8X7B, MOE_MODELS, QWEN3_30B, QWEN3_235B, MoEConfig

PROMPT = 'def mean(values):\n    """Return the average of a list of numbers."""\n'
"""The one prompt that the whole book follows."""

FFN_MATRICES = {"swiglu": 3, "relu": 2, "gelu": 2}
"""Weight matrices in a feed-forward block: SwiGLU has gate, up and down; the older form up and down."""
NORM_VECTORS = {"rmsnorm": 1, "layernorm": 2}
"""Vectors of d_model numbers in one norm: a weight, and for LayerNorm also a bias."""
BIASES = ("none", "qkv", "ffn", "all")
"""Which linear layers of a block add a bias vector."""


def _require_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless value is one of the allowed words."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(allowed)}")


@dataclass(frozen=True)
class Llama3RopeScaling:
    """How Llama 3.1 stretches RoPE from original_max_context tokens to factor times as many.

    Pairs that turn more than high_freq_factor times within original_max_context
    stay, those that turn less than low_freq_factor times are slowed by factor, those between are mixed
    (``tinyserve.rope``). Raises ValueError for a factor not above 0 and for high_freq_factor not above low_freq_factor.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_context: int

    def __post_init__(self) -> None:
        for field in ("factor", "low_freq_factor", "high_freq_factor"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise ValueError(f"{field}={value!r} is not a finite number above 0")
        if self.high_freq_factor <= self.low_freq_factor:
            raise ValueError(
                f"high_freq_factor={self.high_freq_factor!r} is not above low_freq_factor={self.low_freq_factor!r}"
            )
        require_positive("original_max_context", self.original_max_context)


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a decoder-only Transformer with MHA, GQA or MQA.

    n_layers blocks of width d_model; n_heads query heads and n_kv_heads key and
    value heads of head_dim numbers; a feed-forward block of width d_ff. Raises
    ValueError for a size below 1, for n_heads that n_kv_heads does not divide,
    for an odd head_dim under RoPE, and for an unknown ffn, norm or bias.
    """

    name: str
    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    vocab_size: int
    ffn: str = "swiglu"
    tied_embedding: bool = False
    rope_theta: float | None = 10_000.0
    """Base of RoPE's frequencies; None where positions are not rotary."""
    rope_scaling: Llama3RopeScaling | None = None
    norm: str = "rmsnorm"
    norm_eps: float = 1e-5
    max_context: int | None = None
    """Longest sequence, in tokens, the published model was trained for; None where none is stated."""
    learned_positions: int = 0
    """Rows of the learned position table; 0 where there is none."""
    bias: str = "none"
    final_norm: bool = True
    """False for post-norm stacks, which end in the last block's own norm."""
    source: str = ""

    def __post_init__(self) -> None:
        for field in ("n_layers", "d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff", "vocab_size"):
            require_positive(field, getattr(self, field))
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_heads={self.n_heads} is not a multiple of n_kv_heads={self.n_kv_heads}")
        if self.max_context is not None:
            require_positive("max_context", self.max_context)
        if isinstance(self.learned_positions, bool) or self.learned_positions < 0:
            raise ValueError(f"learned_positions={self.learned_positions!r} is below 0")
        _require_choice("ffn", self.ffn, tuple(FFN_MATRICES))
        _require_choice("norm", self.norm, tuple(NORM_VECTORS))
        _require_choice("bias", self.bias, BIASES)
        if self.norm_eps <= 0:
            raise ValueError(f"norm_eps={self.norm_eps!r} is not above 0")
        if self.rope_theta is not None:
            if self.rope_theta <= 0:
                raise ValueError(f"rope_theta={self.rope_theta!r} is not above 0")
            if self.head_dim % 2:
                raise ValueError(f"head_dim={self.head_dim} is odd: RoPE turns pairs of numbers")
        elif self.rope_scaling is not None:
            raise ValueError("rope_scaling is given, but rope_theta=None: positions are not rotary")

    @property
    def queries_per_kv_head(self) -> int:
        """Query heads that share one key and value head: 1 for MHA, n_heads for MQA."""
        return self.n_heads // self.n_kv_heads

    @property
    def q_width(self) -> int:
        """Width of Q for one token: n_heads * head_dim numbers."""
        return self.n_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of K, and of V, for one token: n_kv_heads * head_dim numbers."""
        return self.n_kv_heads * self.head_dim

    @property
    def kv_elements_per_token(self) -> int:
        """Numbers the cache keeps for one token over all layers: K and V."""
        return 2 * self.n_layers * self.kv_width

    @property
    def ffn_matrices(self) -> int:
        """Weight matrices in one feed-forward block."""
        return FFN_MATRICES[self.ffn]


LLAMA_2_7B = ModelConfig(
    "Llama-2-7B", 32, 4096, 32, 32, 128, 11008, 32000, max_context=4096,
    source="Touvron et al. 2023, arXiv 2307.09288; published config.json",
)
LLAMA_3_8B = ModelConfig(
    "Llama-3-8B", 32, 4096, 32, 8, 128, 14336, 128256, rope_theta=500_000.0, max_context=8192,
    source="Llama team 2024, arXiv 2407.21783, table 3; published config.json",
)
LLAMA_3_70B = ModelConfig(
    "Llama-3-70B", 80, 8192, 64, 8, 128, 28672, 128256, rope_theta=500_000.0, max_context=8192,
    source="Llama team 2024, arXiv 2407.21783, table 3; published config.json",
)
QWEN2_5_7B = ModelConfig(
    "Qwen2.5-7B", 28, 3584, 28, 4, 128, 18944, 152064, rope_theta=1_000_000.0, norm_eps=1e-6,
    max_context=131072, bias="qkv", source="Qwen team 2024, arXiv 2412.15115, table 1; published config.json",
)
LLAMA_1_65B = ModelConfig(
    "LLaMA-1-65B", 80, 8192, 64, 64, 128, 22016, 32000, max_context=2048,
    source="Touvron et al. 2023, arXiv 2302.13971, table 2; published config.json",
)
OPT_13B = ModelConfig(
    "OPT-13B", 40, 5120, 40, 40, 128, 20480, 50272, ffn="relu", tied_embedding=True, rope_theta=None,
    norm="layernorm", max_context=2048, learned_positions=2050, bias="all",
    source="Zhang et al. 2022, arXiv 2205.01068, table 1; published config.json (two position rows are reserved)",
)
GPT_3_175B = ModelConfig(
    "GPT-3-175B", 96, 12288, 96, 96, 128, 49152, 50257, ffn="gelu", tied_embedding=True, rope_theta=None,
    norm="layernorm", max_context=2048, learned_positions=2048, bias="all",
    source="Brown et al. 2020, arXiv 2005.14165, table 2.1; vocabulary and tied head as in GPT-2",
)
TRANSFORMER_BASE = ModelConfig(
    "Transformer base", 6, 512, 8, 8, 64, 2048, 37000, ffn="relu", tied_embedding=True, rope_theta=None,
    norm="layernorm", bias="ffn", final_norm=False,
    source="Vaswani et al. 2017, arXiv 1706.03762, table 3: six layers of self-attention and FFN only; "
    "the published model has two such stacks and cross-attention",
)
DEEPSEEK_67B = ModelConfig(
    "DeepSeek-67B", 95, 8192, 64, 8, 128, 22016, 102400, norm_eps=1e-6, max_context=4096,
    source="DeepSeek-AI 2024, arXiv 2401.02954, table 2; published config.json",
)
GEMMA_2B = ModelConfig(
    "Gemma-2B", 18, 2048, 8, 1, 256, 16384, 256000, tied_embedding=True, norm_eps=1e-6, max_context=8192,
    source="Gemma team 2024, arXiv 2403.08295, table 1 (its gate is GELU: three matrices, as in SwiGLU)",
)
COURSE_MODEL = ModelConfig(
    "course-model", 6, 384, 6, 2, 64, 1024, 2048, tied_embedding=True, max_context=1024,
    source="trained for this book: training/train.py; models/course-model/README.md",
)
COURSE_DRAFT = ModelConfig(
    "course-draft", 4, 128, 2, 1, 64, 384, 2048, tied_embedding=True, max_context=1024,
    source="trained for this book: training/train.py; models/course-draft/README.md",
)

MODELS: dict[str, ModelConfig] = {
    config.name: config
    for config in (
        LLAMA_2_7B, LLAMA_3_8B, LLAMA_3_70B, QWEN2_5_7B, LLAMA_1_65B, OPT_13B, GPT_3_175B, TRANSFORMER_BASE,
    )
}
"""The reference models by name."""
