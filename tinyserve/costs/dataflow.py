"""The table from token to logit: every step's output shape, parameters and FLOPs."""

from __future__ import annotations

from dataclasses import dataclass

from ..configs import ModelConfig
from .flops import head_flops
from .parameters import layer_bias_params, norm_params


@dataclass(frozen=True)
class DataFlowRow:
    """One step of the forward pass.

    params and flops are for one execution and one new token; a row of the layer
    runs repeats times. flops_per_context is what the step adds for each token of
    context. shape is text: batch and new tokens stay symbols.
    """

    step: int
    name: str
    shape: str
    params: int = 0
    flops: int = 0
    flops_per_context: int = 0
    repeats: int = 1
    note: str = ""


def _attention_rows(model: ModelConfig, b: str, n: str) -> list[DataFlowRow]:
    """Return the rows of norm and attention of one layer."""
    d, dh, q, kv, r = model.d_model, model.head_dim, model.q_width, model.kv_width, model.n_layers
    rows = [DataFlowRow(2, "norm", f"[{b}, {n}, {d}]", norm_params(model), repeats=r)]
    for name, width in (("W_q", q), ("W_k", kv), ("W_v", kv)):
        rows.append(DataFlowRow(3, name, f"[{b}, {n}, {width}]", d * width, 2 * d * width, repeats=r))
    heads = f"Q [{b}, {model.n_heads}, {n}, {dh}]; K, V [{b}, {model.n_kv_heads}, {n}, {dh}]"
    rows.append(DataFlowRow(4, "split into heads", heads, repeats=r))
    if model.rope_theta is not None:
        rows.append(DataFlowRow(5, "RoPE on Q and K", heads, repeats=r, note="V is not turned"))
    cache = f"K, V [{b}, {model.n_kv_heads}, t + {n}, {dh}]"
    rows += [
        DataFlowRow(6, "append K, V to the cache", cache, repeats=r),
        DataFlowRow(7, "scores and mask", f"[{b}, {model.n_heads}, {n}, t + {n}]", flops_per_context=2 * q, repeats=r,
                    note=f"each K/V head serves {model.queries_per_kv_head} query heads"),
        DataFlowRow(8, "softmax, sum of V", f"[{b}, {model.n_heads}, {n}, {dh}]", flops_per_context=2 * q, repeats=r),
        DataFlowRow(9, "join heads, W_o, add residual", f"[{b}, {n}, {d}]", q * d, 2 * q * d, repeats=r),
    ]
    return rows


def _ffn_rows(model: ModelConfig, b: str, n: str) -> list[DataFlowRow]:
    """Return the rows of norm and feed-forward of one layer."""
    d, f, r = model.d_model, model.d_ff, model.n_layers
    inward = ("W_gate", "W_up") if model.ffn == "swiglu" else ("W_up",)
    act = "SiLU(gate) * up" if model.ffn == "swiglu" else {"relu": "ReLU", "gelu": "GELU"}[model.ffn]
    rows = [DataFlowRow(10, "norm", f"[{b}, {n}, {d}]", norm_params(model), repeats=r)]
    rows += [DataFlowRow(11, name, f"[{b}, {n}, {f}]", d * f, 2 * d * f, repeats=r) for name in inward]
    rows += [
        DataFlowRow(12, act, f"[{b}, {n}, {f}]", repeats=r),
        DataFlowRow(13, "W_down, add residual", f"[{b}, {n}, {d}]", d * f, 2 * d * f, repeats=r),
    ]
    biases = layer_bias_params(model)
    if biases:
        rows.append(DataFlowRow(13, "biases of the layer", "", biases, repeats=r, note="added in the steps above"))
    return rows


def data_flow(model: ModelConfig, batch: str = "b", new_tokens: str = "n") -> list[DataFlowRow]:
    """Return the steps from token ids to logits, in order.

    batch and new_tokens are the symbols (or numbers as text) the shapes use; t is
    the cached context. sum(row.params * row.repeats) equals params(model);
    sum(row.flops * row.repeats) equals linear_flops_per_token(model).
    """
    b, n, d, table = batch, new_tokens, model.d_model, model.vocab_size * model.d_model
    rows = [
        DataFlowRow(0, "text to ids", f"[{b}, {n}]", note="the tokenizer, on the CPU"),
        DataFlowRow(1, "embedding", f"[{b}, {n}, {d}]", table, note="one row per token is read, not the table"),
    ]
    if model.learned_positions:
        rows.append(DataFlowRow(1, "add learned position", f"[{b}, {n}, {d}]", model.learned_positions * d))
    rows += _attention_rows(model, b, n) + _ffn_rows(model, b, n)
    if model.final_norm:
        rows.append(DataFlowRow(14, "final norm", f"[{b}, {n}, {d}]", norm_params(model)))
    tied = "the embedding's own table" if model.tied_embedding else ""
    rows += [
        DataFlowRow(15, "head", f"[{b}, 1, {model.vocab_size}]", 0 if model.tied_embedding else table,
                    head_flops(model), note=tied or "last position only"),
        DataFlowRow(16, "sample", f"[{b}]"),
    ]
    return rows
