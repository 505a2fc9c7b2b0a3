"""How many parameters a decoder has, and where they sit.

Counted: every number a checkpoint stores. A tied head has no numbers of its own.
"""

from __future__ import annotations

from ..configs import NORM_VECTORS, ModelConfig


def attention_matrix_params(model: ModelConfig) -> int:
    """Count the weights of W_q, W_k, W_v and W_o in one layer: d*(2*H + 2*K)*d_h."""
    return 2 * model.d_model * (model.q_width + model.kv_width)


def ffn_matrix_params(model: ModelConfig) -> int:
    """Count the weights of one feed-forward block: 3*d*d_ff for SwiGLU, 2*d*d_ff otherwise."""
    return model.ffn_matrices * model.d_model * model.d_ff


def norm_params(model: ModelConfig) -> int:
    """Count the numbers of one norm: d for RMSNorm, 2*d (weight and bias) for LayerNorm."""
    return NORM_VECTORS[model.norm] * model.d_model


def layer_bias_params(model: ModelConfig) -> int:
    """Count the bias numbers of the linear layers in one block (the norms' own are not among them)."""
    qkv = model.q_width + 2 * model.kv_width
    ffn = (model.ffn_matrices - 1) * model.d_ff + model.d_model
    return {"none": 0, "qkv": qkv, "ffn": ffn, "all": qkv + model.d_model + ffn}[model.bias]


def layer_params(model: ModelConfig) -> int:
    """Count one block: its matrices, two norms and biases."""
    return (
        attention_matrix_params(model) + ffn_matrix_params(model) + 2 * norm_params(model) + layer_bias_params(model)
    )


def params_by_component(model: ModelConfig) -> dict[str, int]:
    """Count the whole model's parameters by component.

    Keys: embedding, positions (learned table), attention and ffn (matrices over
    all layers), norms, biases, head (0 when it is the embedding's own table).
    """
    layers = model.n_layers
    table = model.vocab_size * model.d_model
    return {
        "embedding": table,
        "positions": model.learned_positions * model.d_model,
        "attention": layers * attention_matrix_params(model),
        "ffn": layers * ffn_matrix_params(model),
        "norms": (2 * layers + model.final_norm) * norm_params(model),
        "biases": layers * layer_bias_params(model),
        "head": 0 if model.tied_embedding else table,
    }


def params(model: ModelConfig, extras: bool = True) -> int:
    """Count all parameters of the model.

    With extras=False, learned positions and biases are left out: the count many
    tables print (OPT-13B 12.84 B; with them it is 12.85 B).
    """
    count = params_by_component(model)
    left_out = 0 if extras else count["positions"] + count["biases"]
    return sum(count.values()) - left_out


def streamed_params(model: ModelConfig) -> int:
    """Count the parameters that every step reads.

    Tables that are looked up row by row (embedding, learned positions) are not
    read whole. A tied embedding is: it is the head's matrix too.
    """
    count = params_by_component(model)
    gathered = count["positions"] + (0 if model.tied_embedding else count["embedding"])
    return params(model) - gathered
