"""The cost model: parameters, FLOPs, bytes and roofline times. No torch.

This package is the only place where such a formula is written; chapters,
quizzes and figures call it. ``from tinyserve import costs`` gives every name.
"""

from .dataflow import DataFlowRow, data_flow
from .flops import (
    attention_crossover,
    attention_flops,
    attention_flops_per_context_token,
    attention_pairs,
    attention_share,
    flops_by_component,
    forward_flops,
    head_flops,
    layer_linear_flops_per_token,
    linear_flops_per_token,
)
from .memory import DTYPE_BYTES, GB, GIB, dtype_bytes, kv_cache_bytes, weight_bytes
from .parameters import (
    attention_matrix_params,
    ffn_matrix_params,
    layer_bias_params,
    layer_params,
    norm_params,
    params,
    params_by_component,
    streamed_params,
)

__all__ = [
    "DTYPE_BYTES",
    "DataFlowRow",
    "GB",
    "GIB",
    "attention_crossover",
    "attention_flops",
    "attention_flops_per_context_token",
    "attention_matrix_params",
    "attention_pairs",
    "attention_share",
    "data_flow",
    "dtype_bytes",
    "ffn_matrix_params",
    "flops_by_component",
    "forward_flops",
    "head_flops",
    "kv_cache_bytes",
    "layer_bias_params",
    "layer_linear_flops_per_token",
    "layer_params",
    "linear_flops_per_token",
    "norm_params",
    "params",
    "params_by_component",
    "streamed_params",
    "weight_bytes",
]
