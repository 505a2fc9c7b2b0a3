"""Time of a step as a sum over its weight matrices, each at the rate of its own shape.

A roofline takes one rate for all bytes. A real matrix–vector product reads its
weights at a rate that depends on the shape and on the rows of x (the batch). The
rates are measured beforehand, on matrices that belong to no model; nothing is
fitted on a step that is then predicted. Norms, activations and launches are left
out. All times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..configs import ModelConfig
from .checks import require_count, require_positive
from .flops import attention_flops
from .matmul import matmul_flops
from .memory import dtype_bytes, kv_cache_bytes

Shape = tuple[int, int]
"""Of a weight matrix: (outputs, inputs), as stored by nn.Linear."""


def layer_matrix_shapes(model: ModelConfig) -> dict[Shape, int]:
    """Count the weight matrices of all layers by shape: W_q, W_k, W_v, W_o and the feed-forward block's."""
    d, f, inward = model.d_model, model.d_ff, model.ffn_matrices - 1
    found: dict[Shape, int] = {}
    for shape, count in (
        ((model.q_width, d), 1), ((model.kv_width, d), 2), ((d, model.q_width), 1), ((f, d), inward), ((d, f), 1),
    ):
        found[shape] = found.get(shape, 0) + count * model.n_layers
    return found


def head_shape(model: ModelConfig) -> Shape:
    """Return the shape of the head's matrix, tied or not: (vocab_size, d_model)."""
    return model.vocab_size, model.d_model


def matrix_shapes(model: ModelConfig) -> dict[Shape, int]:
    """Count all matrices one decode step reads by shape: the layers' and the head's."""
    found = layer_matrix_shapes(model)
    found[head_shape(model)] = found.get(head_shape(model), 0) + 1
    return found


def _rate(rates: Mapping[Shape, float], shape: Shape) -> float:
    """Return the rate of a shape; raise ValueError when it is absent or not above 0."""
    if shape not in rates:
        raise ValueError(f"rates has no shape {shape}; it has {', '.join(map(str, rates)) or 'none'}")
    return require_positive(f"rates[{shape}]", rates[shape])


def decode_time_by_shape(
    model: ModelConfig, batch: int, context: int, rates: Mapping[Shape, float], kv_rate: float, dtype: str = "bf16"
) -> float:
    """Return the time of a decode step: sum of matrix bytes / rate(shape), plus KV bytes / kv_rate.

    rates: bytes/s of weights for a product with batch rows; kv_rate: bytes/s at
    which attention reads K and V (same dtype). Raises ValueError for a shape
    without a rate and for a batch or context below 1.
    """
    require_count("batch", batch, minimum=1)
    require_count("context", context, minimum=1)
    size = dtype_bytes(dtype)
    weights = sum(n * rows * cols * size / _rate(rates, (rows, cols)) for (rows, cols), n in matrix_shapes(model).items())
    return weights + batch * kv_cache_bytes(model, context, dtype) / require_positive("kv_rate", kv_rate)


def prefill_time_by_shape(
    model: ModelConfig, new_tokens: int, rates: Mapping[Shape, float], attention_rate: float, head_seconds: float
) -> float:
    """Return the time of one prompt: sum of matrix FLOPs / rate(shape), attention's, and the head's for one row.

    rates: FLOP/s of a product with new_tokens rows; attention_rate: FLOP/s over
    the pairs that the causal mask keeps; head_seconds: reading the head's matrix
    for the last position. Raises ValueError for a shape without a rate and
    new_tokens below 1.
    """
    n = require_count("new_tokens", new_tokens, minimum=1)
    layers = layer_matrix_shapes(model).items()
    linear = sum(count * matmul_flops(n, cols, rows) / _rate(rates, (rows, cols)) for (rows, cols), count in layers)
    attention = attention_flops(model, n) / require_positive("attention_rate", attention_rate)
    return linear + attention + require_positive("head_seconds", head_seconds)
