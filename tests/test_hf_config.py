"""Keys of config.json that change nothing: transformers computes the same logits with and without them."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers.utils.logging import disable_progress_bar

from tinyserve import checkpoint, hf_config

disable_progress_bar()
IDS = torch.arange(24).reshape(2, 12)
SIZES = {
    "vocab_size": 61, "hidden_size": 32, "intermediate_size": 52, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "bos_token_id": None, "eos_token_id": None,
}
RAW = {**SIZES, "model_type": "llama", "rms_norm_eps": 1e-5}
HARMLESS = {
    "temperature": 0.01, "top_k": 1, "top_p": 0.1, "typical_p": 0.2, "repetition_penalty": 9.0, "do_sample": True, "max_length": 2,
    "min_length": 1, "num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 3.0, "length_penalty": 0.5, "early_stopping": True,
    "no_repeat_ngram_size": 1, "encoder_no_repeat_ngram_size": 1, "bad_words_ids": [[1], [2]], "suppress_tokens": [3, 4],
    "begin_suppress_tokens": [5], "forced_bos_token_id": 6, "forced_eos_token_id": 7, "num_return_sequences": 2,
    "exponential_decay_length_penalty": [1, 2.0], "remove_invalid_values": True, "output_scores": True, "return_dict_in_generate": True,
    "transformers.js_config": {"dtype": "q4", "kv_cache_dtype": {"q4f16": "float16"}}, "auto_map": {}, "prefix": "def ",
    "_attn_implementation_autoset": True, "_commit_hash": "0" * 40, "name_or_path": "elsewhere", "decoder_start_token_id": 8,
    "gradient_checkpointing": True, "tf_legacy_loss": True, "unsloth_version": "2025.1.1", "use_bfloat16": True, "pretraining_tp": 2,
}
"""Each with a value that would show if the forward pass followed it."""


@pytest.fixture(params=[(LlamaConfig, LlamaForCausalLM), (Qwen2Config, Qwen2ForCausalLM)], ids=["llama", "qwen2"])
def folder(request, tmp_path):
    """A random checkpoint as transformers writes it."""
    kind, net = request.param
    torch.manual_seed(0)
    model = net(kind(**SIZES))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def set_keys(folder, keys):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def logits_of(folder):
    """The logits of transformers and those of the decoder."""
    with torch.no_grad():
        theirs = AutoModelForCausalLM.from_pretrained(folder)(IDS).logits
    return theirs, checkpoint.load(folder)(IDS, logits="all")


def test_keys_of_old_exports_change_no_logit(folder):
    theirs, ours = logits_of(folder)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    set_keys(folder, HARMLESS)
    with_keys = logits_of(folder)
    assert torch.equal(with_keys[0], theirs) and torch.equal(with_keys[1], ours)


def test_only_the_keys_tried_here_and_dropped_by_transformers_pass():
    assert hf_config.GENERATION <= set(HARMLESS) & set(GenerationConfig._get_default_generation_params())


@pytest.mark.parametrize("key", HARMLESS)
def test_each_passes_alone(key):
    assert hf_config.parse(RAW | {key: HARMLESS[key]}, "x") == hf_config.parse(RAW, "x")


@pytest.mark.parametrize(
    ("key", "value"), [("auto_map", {"AutoConfig": "x.Y"}), ("attn_temperature", 0.5), ("temperature_scale", 2.0), ("top", 3), ("js_config", {})]
)
def test_others_are_still_refused(key, value):
    with pytest.raises(ValueError, match=f"^{key}="):
        hf_config.parse(RAW | {key: value}, "x")
