"""How many bytes weights and the KV cache take. Bytes throughout; GB = 10**9, GiB = 2**30."""

from __future__ import annotations

from ..configs import LatentKVConfig, ModelConfig
from .checks import as_int, require_count, require_positive
from .parameters import params, params_by_component, streamed_params

GB = 10**9
GIB = 2**30

DTYPE_BYTES: dict[str, float] = {
    "fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "int4": 0.5,
}
"""Bytes of one number. int4 packs two in a byte; its scales are counted by quantized_weight_bytes."""


def dtype_bytes(dtype: str) -> float:
    """Return the bytes of one number of this dtype; raise ValueError for an unknown name."""
    if dtype not in DTYPE_BYTES:
        raise ValueError(f"dtype={dtype!r} is not one of {', '.join(DTYPE_BYTES)}")
    return DTYPE_BYTES[dtype]


def weight_bytes(model: ModelConfig, dtype: str = "bf16", resident: bool = True) -> int | float:
    """Return the bytes of the weights.

    resident=True: what lies in memory. resident=False: what one step streams,
    which leaves out tables that are looked up (see streamed_params). Raises
    ValueError for an unknown dtype.
    """
    return as_int((params(model) if resident else streamed_params(model)) * dtype_bytes(dtype))


def kv_cache_bytes(
    model: ModelConfig | LatentKVConfig,
    tokens: int,
    dtype: str = "bf16",
    window: int | None = None,
    block: int = 1,
) -> int | float:
    """Return the bytes of the KV cache of one sequence of this many tokens.

    2*L*K*d_h*b per token for MHA, GQA and MQA; L*(d_c + d_R)*b for MLA. A sliding
    window keeps min(tokens, window); a paged cache rounds up to whole blocks.
    Raises ValueError for a negative count, window or block below 1, or an unknown
    dtype.
    """
    kept = require_count("tokens", tokens)
    if window is not None:
        kept = min(kept, require_count("window", window, minimum=1))
    size = require_count("block", block, minimum=1)
    kept = -(-kept // size) * size
    return as_int(kept * model.kv_elements_per_token * dtype_bytes(dtype))


def kv_cache_bytes_per_card(
    model: ModelConfig,
    tokens: int,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    dtype: str = "bf16",
    context_parallel: int = 1,
) -> int | float:
    """Return the KV bytes that the fullest card holds of one sequence of this many tokens.

    Tensor parallelism divides the KV heads; beyond n_kv_heads cards each head is
    stored several times. Pipeline parallelism divides the layers, context
    parallelism the tokens, both rounded up. Raises ValueError for a degree below
    1, for tensor_parallel that neither divides n_kv_heads nor is a multiple of it,
    and for pipeline_parallel above n_layers.
    """
    tp = require_count("tensor_parallel", tensor_parallel, minimum=1)
    pp = require_count("pipeline_parallel", pipeline_parallel, minimum=1)
    cp = require_count("context_parallel", context_parallel, minimum=1)
    heads, layers = model.n_kv_heads, model.n_layers
    if heads % tp and tp % heads:
        raise ValueError(f"tensor_parallel={tp} neither divides n_kv_heads={heads} nor is a multiple of it")
    if pp > layers:
        raise ValueError(f"pipeline_parallel={pp} is above n_layers={layers}")
    kept = -(-require_count("tokens", tokens) // cp)
    share = (heads // min(tp, heads)) * -(-layers // pp)  # of heads * layers
    return as_int(kv_cache_bytes(model, kept, dtype) * share / (heads * layers))


def quantized_weight_bytes(
    model: ModelConfig,
    bits: float = 4,
    group: int = 128,
    group_bytes: float = 4,
    rest_dtype: str = "bf16",
    head: bool = False,
    resident: bool = True,
) -> int | float:
    """Return the bytes of weights quantized in groups, weight only.

    The matrices of the layers (and the head's with head=True) take bits each, and
    group_bytes for every group of weights: by default a 2-byte scale and a 2-byte
    zero point, as GPTQ and AWQ store them. The rest stays in rest_dtype; so does a
    tied head. Raises ValueError for bits, group or group_bytes out of range.
    """
    require_positive("bits", bits)
    require_count("group", group, minimum=1)
    if group_bytes < 0:
        raise ValueError(f"group_bytes={group_bytes!r} is below 0")
    count = params_by_component(model)
    packed = count["attention"] + count["ffn"] + (count["head"] if head else 0)
    total = params(model) if resident else streamed_params(model)
    per_weight = bits / 8 + group_bytes / group
    return as_int(packed * per_weight + (total - packed) * dtype_bytes(rest_dtype))


def quantized_kv_bytes(
    model: ModelConfig | LatentKVConfig, tokens: int, bits: float = 8, group: int = 32, group_bytes: float = 4
) -> int | float:
    """Return the bytes of the KV cache of one sequence whose numbers are coded in groups.

    Each number takes bits, each group of numbers group_bytes: by default a 2-byte
    scale and a 2-byte minimum, as KIVI stores them (arXiv 2402.02750). Tokens not yet
    coded are left out. Raises ValueError for a negative count, or bits, group or
    group_bytes out of range.
    """
    require_positive("bits", bits)
    require_count("group", group, minimum=1)
    if group_bytes < 0:
        raise ValueError(f"group_bytes={group_bytes!r} is below 0")
    numbers = require_count("tokens", tokens) * model.kv_elements_per_token
    return as_int(numbers * (bits / 8 + group_bytes / group))
