"""A Hugging Face ``config.json`` read into a ModelConfig, or refused; and written.

Every key is either understood, or known not to touch the logits, or refused by
name: a key passed over in silence may be the one that makes every answer wrong.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .configs import Llama3RopeScaling, ModelConfig

FAMILIES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
"""model_type and the one architecture of it that this decoder is."""
SIZES = {
    "num_hidden_layers": "n_layers", "hidden_size": "d_model", "num_attention_heads": "n_heads",
    "intermediate_size": "d_ff", "vocab_size": "vocab_size",
}
KEY_OF_FIELD = {field: key for key, field in SIZES.items()} | {
    "n_kv_heads": "num_key_value_heads", "max_context": "max_position_embeddings", "norm_eps": "rms_norm_eps",
    "original_max_context": "original_max_position_embeddings",
}
FIXED: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",), "mlp_bias": (False,), "partial_rotary_factor": (1.0,), "quantization_config": (),
    "rope_interleaved": (False,), "use_mrope": (False,), "is_encoder_decoder": (False,), "is_decoder": (False,),
    "add_cross_attention": (False,), "tie_encoder_decoder": (False,), "pruned_heads": ({},), "sliding_window": (),
    "use_sliding_window": (False,), "chunk_size_feed_forward": (0,), "cross_attention_hidden_size": (),
    "auto_map": ({},),
}
"""Keys with the values that leave the decoder right; null and absence do so for all."""
UNUSED = {
    "_attn_implementation_autoset", "_commit_hash", "_name_or_path", "architectures", "attention_bias", "attention_dropout",
    "bos_token_id", "decoder_start_token_id", "dtype", "eos_token_id", "finetuning_task", "gradient_checkpointing", "head_dim", "id2label", "initializer_range", "is_llama_config", "label2id", "layer_types",
    "max_position_embeddings", "max_sequence_length", "max_window_layers", "model_type", "name_or_path",
    "num_key_value_heads", "output_attentions", "output_hidden_states", "pad_token_id", "prefix", "pretraining_tp", "problem_type", "return_dict",
    "rms_norm_eps", "rope_parameters", "rope_scaling", "rope_theta", "sep_token_id", "task_specific_params",
    "tf_legacy_loss", "tie_word_embeddings", "tokenizer_class", "torch_dtype", "torchscript", "transformers.js_config",
    "transformers_version", "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache",
}
"""Keys read elsewhere in this file, and keys of training and bookkeeping: nothing here is left to check."""
GENERATION = {
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length", "min_length",
    "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "output_scores", "remove_invalid_values",
    "repetition_penalty", "return_dict_in_generate", "suppress_tokens", "temperature", "top_k", "top_p", "typical_p",
}
"""How text was to be drawn from the logits, written here by transformers up to 4; its release 5 drops these keys unread."""
ROPE_KEYS = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
LLAMA3_KEYS = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; FileNotFoundError names a missing file, ValueError one that holds no object."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no JSON object")
    return found


def _refuse_unknown(raw: Mapping[str, Any]) -> None:
    """Raise ValueError for a key that is not understood, or a value that the decoder does not follow."""
    for key, value in raw.items():
        if value is None or key in UNUSED or key in GENERATION or key in SIZES:
            continue
        if key not in FIXED:
            raise ValueError(f"{key}={value!r}: this key is unknown here and may change the computation")
        if value not in FIXED[key] or isinstance(value, bool) != isinstance(FIXED[key][0], bool):
            right = " or ".join(repr(x) for x in FIXED[key]) or "null"
            raise ValueError(f"{key}={value!r}: this decoder is right for {right} only")


def _family(raw: Mapping[str, Any]) -> str:
    """Return llama or qwen2; raise ValueError for other architectures and for layers that are not plain attention."""
    family = raw.get("model_type")
    if family not in tuple(FAMILIES):  # it may be a list, too
        raise ValueError(f"model_type={family!r} is not one of {', '.join(FAMILIES)}")
    if raw.get("architectures") not in (None, [FAMILIES[family]]):
        raise ValueError(f"architectures={raw['architectures']!r} is not [{FAMILIES[family]!r}]")
    if family == "llama" and raw.get("attention_bias"):
        raise ValueError("attention_bias=True puts a bias on the output matrix too, which this decoder lacks")
    layers = raw.get("layer_types") or []
    if not isinstance(layers, list) or any(kind != "full_attention" for kind in layers):
        raise ValueError(f"layer_types={raw['layer_types']!r}: this decoder has full_attention only")
    return family


def _number(key: str, value: Any) -> float:
    """Return value as a float; raise ValueError unless it is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(f"{key}={value!r} is not a number above 0")
    return float(value)


@contextmanager
def _named_by_keys() -> Iterator[None]:
    """Let a ValueError say the keys of config.json where it says fields of ours."""
    try:
        yield
    except ValueError as error:
        said = re.sub(r"\w+(?==)", lambda word: KEY_OF_FIELD.get(word[0], word[0]), str(error))
        raise ValueError(said) from error


def _rope(raw: Mapping[str, Any]) -> tuple[float, Llama3RopeScaling | None]:
    """Return theta and the scaling, from rope_theta and rope_scaling (transformers 4) or rope_parameters (5)."""
    tables = [raw[key] for key in ("rope_scaling", "rope_parameters") if raw.get(key)]
    if any(not isinstance(table, dict) for table in tables):
        raise ValueError("rope_scaling or rope_parameters is not an object")
    kinds = [table[key] for table in tables for key in ("rope_type", "type") if table.get(key) is not None]
    if any(kind not in ("default", "llama3") or kind != kinds[0] for kind in kinds):
        raise ValueError(f"rope_type={' and '.join(map(repr, kinds))}: this decoder has default or llama3")
    thetas = [x for x in (raw.get("rope_theta"), *(table.get("rope_theta") for table in tables)) if x is not None]
    if any(theta != thetas[0] for theta in thetas):
        raise ValueError(f"rope_theta is given as {' and as '.join(map(repr, thetas))}")
    theta = _number("rope_theta", thetas[0] if thetas else 10_000.0)  # transformers' default
    llama3 = "llama3" in kinds
    for table in tables:
        if table.get("partial_rotary_factor") not in (None, 1.0):
            raise ValueError(f"partial_rotary_factor={table['partial_rotary_factor']!r}: this decoder turns whole heads")
        unknown = set(table) - ROPE_KEYS - (set(LLAMA3_KEYS) if llama3 else set())
        if unknown:
            raise ValueError(f"rope parameter {', '.join(sorted(unknown))} is unknown here and may change the computation")
    if not llama3:
        return theta, None
    tables = [{key: table.get(key) for key in LLAMA3_KEYS} for table in tables]
    missing = [key for key, value in tables[0].items() if value is None]
    if missing or any(table != tables[0] for table in tables):
        raise ValueError(f"llama3 RoPE lacks {', '.join(missing)}" if missing else "rope_scaling and rope_parameters differ")
    with _named_by_keys():
        return theta, Llama3RopeScaling(*tables[0].values())


def parse(raw: Mapping[str, Any], name: str) -> ModelConfig:
    """Return the shape that a config.json describes; raise ValueError, with key and value, for what the decoder would get wrong."""
    family = _family(raw)
    _refuse_unknown({**raw, "sliding_window": raw.get("sliding_window") if family == "llama" else None})
    missing = [key for key in (*SIZES, "rms_norm_eps") if raw.get(key) is None]
    if family == "qwen2" and "num_key_value_heads" not in raw:
        missing.append("num_key_value_heads")  # transformers would take 32 here, whatever the heads
    if missing:
        raise ValueError(f"config.json lacks {', '.join(missing)}")
    sizes = {field: raw[key] for key, field in SIZES.items()}
    kv_heads, head_dim, tied = raw.get("num_key_value_heads"), raw.get("head_dim"), raw.get("tie_word_embeddings")
    if tied not in (None, True, False):
        raise ValueError(f"tie_word_embeddings={tied!r} is neither true nor false")
    if head_dim is None:
        heads, width = sizes["n_heads"], sizes["d_model"]
        if not isinstance(heads, int) or not isinstance(width, int) or heads < 1 or width % heads:
            raise ValueError(f"head_dim is not given and hidden_size={width!r} is no multiple of num_attention_heads={heads!r}")
        head_dim = width // heads
    theta, scaling = _rope(raw)
    with _named_by_keys():
        return ModelConfig(
            name=name, **sizes, n_kv_heads=sizes["n_heads"] if kv_heads is None else kv_heads, head_dim=head_dim,
            tied_embedding=bool(tied), rope_theta=theta, rope_scaling=scaling,
            norm_eps=_number("rms_norm_eps", raw["rms_norm_eps"]), max_context=raw.get("max_position_embeddings"),
            bias="qkv" if family == "qwen2" else "none",
        )


def read_config(folder: Path | str) -> ModelConfig:
    """Return the shape of the checkpoint in a folder, under the folder's name.

    Raises FileNotFoundError where config.json is missing, and ValueError with
    the reason where the decoder would compute something else than the model is.
    """
    path = Path(folder) / "config.json"
    raw = read_json(path)
    try:
        return parse(raw, path.resolve().parent.name)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def render(config: ModelConfig, dtype: str, end_id: int | None = None) -> dict[str, Any]:
    """Return what config.json says of this shape, with RoPE in the places where transformers 4 and 5 look for it."""
    family, scaling = "qwen2" if config.bias == "qkv" else "llama", config.rope_scaling
    rope: dict[str, Any] = {"rope_type": "default"}
    if scaling is not None:
        values = (scaling.factor, scaling.low_freq_factor, scaling.high_freq_factor, scaling.original_max_context)
        rope = {"rope_type": "llama3", **dict(zip(LLAMA3_KEYS, values, strict=True))}
    found = {
        "architectures": [FAMILIES[family]], "model_type": family, "dtype": dtype, "torch_dtype": dtype,
        **{key: getattr(config, field) for key, field in SIZES.items()},
        "num_key_value_heads": config.n_kv_heads, "head_dim": config.head_dim, "hidden_act": "silu",
        "rms_norm_eps": config.norm_eps, "tie_word_embeddings": config.tied_embedding,
        "rope_theta": config.rope_theta, "rope_scaling": None if scaling is None else rope,
        "rope_parameters": {**rope, "rope_theta": config.rope_theta},
        "bos_token_id": end_id, "eos_token_id": end_id, "pad_token_id": None, "use_cache": True,
    }
    if config.max_context is not None:
        found["max_position_embeddings"] = config.max_context
    return found | ({"use_sliding_window": False} if family == "qwen2" else {"attention_bias": False, "mlp_bias": False})
