"""Checkpoints: what comes back, and that every model the decoder would get wrong is refused with the reason."""

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tinyserve import hf_config
from tinyserve.checkpoint import load, read_config, save, tensor_names
from tinyserve.configs import COURSE_DRAFT, COURSE_MODEL, Llama3RopeScaling, ModelConfig
from tinyserve.model import build
from tinyserve.rope import apply_rope, frequencies, rope_table

SMALL = ModelConfig("small", 2, 24, 6, 2, 4, 20, 31, max_context=64)
SCALING = Llama3RopeScaling(8.0, 1.0, 4.0, 8192)
IDS = torch.arange(20).reshape(2, 10)
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}


@pytest.fixture
def small(tmp_path):
    """A folder with a whole checkpoint."""
    save(build(SMALL, std=0.3), tmp_path / "small", torch.float32)
    return tmp_path / "small"


def change(folder, **keys):
    """Set keys of config.json; a key of None is written as null, ... takes it away."""
    path = folder / "config.json"
    raw = json.loads(path.read_text()) | keys
    path.write_text(json.dumps({key: value for key, value in raw.items() if value is not ...}))
    return folder


def rewrite(folder, edit):
    """Let edit change the tensors of model.safetensors in place."""
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors")
    return folder


def shard(folder, parts=3):
    """Split model.safetensors over several files, with an index."""
    tensors = load_file(folder / "model.safetensors")
    index = {}
    for i in range(parts):
        names = sorted(tensors)[i::parts]
        save_file({name: tensors[name] for name in names}, folder / f"part-{i}.safetensors")
        index |= dict.fromkeys(names, f"part-{i}.safetensors")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return folder, index


@pytest.mark.parametrize(
    "config",
    [
        SMALL, replace(SMALL, tied_embedding=True), replace(SMALL, bias="qkv", n_kv_heads=6, head_dim=8), replace(SMALL, max_context=None),
        replace(SMALL, rope_theta=500_000.0, norm_eps=1e-6, rope_scaling=SCALING), replace(COURSE_MODEL, source=""), replace(COURSE_DRAFT, source=""),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_what_is_saved_comes_back(tmp_path, config, dtype):
    decoder = build(config, std=0.1).to(dtype)
    save(decoder, tmp_path / config.name, dtype)
    again = load(tmp_path / config.name, dtype=dtype)
    assert again.config == read_config(tmp_path / config.name) == config
    assert not any(p.requires_grad for p in again.parameters()) and not again.training
    for name, weight in decoder.named_parameters():
        assert torch.equal(weight, again.get_parameter(name)) and again.get_parameter(name).dtype == dtype
    assert torch.equal(decoder(IDS), again(IDS))


def test_rope_is_written_where_transformers_4_and_5_look(tmp_path):
    save(build(replace(SMALL, rope_theta=7e5, rope_scaling=SCALING)), tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    assert (raw["rope_theta"], raw["rope_scaling"], raw["rope_parameters"]) == (7e5, LLAMA3, LLAMA3 | {"rope_theta": 7e5})


def test_numbers_are_cast_on_the_way(small):
    decoder = load(small, dtype=torch.bfloat16)
    assert all(torch.equal(p, load(small).get_parameter(n).bfloat16()) for n, p in decoder.named_parameters())
    save(decoder, small)
    assert {t.dtype for t in load_file(small / "model.safetensors").values()} == {torch.bfloat16}


def test_shards_are_one_model(small):
    whole = load(small)(IDS)
    shard(small)
    assert torch.equal(load(small)(IDS), whole)


def test_a_tied_head_may_be_written_again(tmp_path):
    decoder = build(replace(SMALL, tied_embedding=True), std=0.3)
    save(decoder, tmp_path, torch.float32)
    rewrite(tmp_path, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}))
    assert torch.equal(load(tmp_path)(IDS), decoder(IDS))
    rewrite(tmp_path, lambda t: t["lm_head.weight"].mul_(1.01))
    with pytest.raises(ValueError, match="lm_head.weight is not the embedding"):
        load(tmp_path)


def test_frequencies_in_old_files_are_passed_over(small):
    whole = load(small)(IDS)
    rewrite(small, lambda t: t.update({"model.layers.1.self_attn.rotary_emb.inv_freq": torch.ones(2)}))
    assert torch.equal(load(small)(IDS), whole)


@pytest.mark.parametrize(
    ("keys", "field", "value"),
    [
        ({"rope_theta": 7e5, "rope_parameters": ...}, "rope_theta", 7e5),
        ({"rope_theta": ..., "rope_parameters": {"rope_theta": 7e5, "rope_type": "default"}}, "rope_theta", 7e5),
        ({"rope_theta": 10_000, "rope_parameters": {"rope_theta": 1e4}}, "rope_theta", 10_000.0),
        ({"rope_theta": ..., "rope_parameters": ...}, "rope_theta", 10_000.0),
        ({"rope_scaling": LLAMA3, "rope_parameters": ...}, "rope_scaling", SCALING),
        ({"rope_parameters": {**LLAMA3, "rope_theta": 10_000.0}}, "rope_scaling", SCALING),
        ({"rope_scaling": {**LLAMA3, "rope_type": ..., "type": "llama3"}, "rope_parameters": None}, "rope_scaling", SCALING),
        ({"rope_scaling": {}}, "rope_scaling", None),
        ({"head_dim": ...}, "head_dim", 4),
        ({"head_dim": 12}, "head_dim", 12),
        ({"num_key_value_heads": ...}, "n_kv_heads", 6),
        ({"num_key_value_heads": None}, "n_kv_heads", 6),
        ({"tie_word_embeddings": ...}, "tied_embedding", False),
        ({"tie_word_embeddings": True}, "tied_embedding", True),
        ({"max_position_embeddings": ...}, "max_context", None),
        ({"quantization_config": None, "sliding_window": None, "any_other": None}, "bias", "none"),
        ({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}, "bias", "qkv"),
        ({"model_type": "qwen2", "architectures": None, "sliding_window": 4096, "use_sliding_window": False}, "bias", "qkv"),
        ({"layer_types": ["full_attention"] * 2}, "n_layers", 2),
    ],
)
def test_a_configuration_is_understood(small, keys, field, value):
    nested = {k: {x: y for x, y in v.items() if y is not ...} if isinstance(v, dict) else v for k, v in keys.items()}
    assert getattr(read_config(change(small, **nested)), field) == value


REFUSED = [
    ({"model_type": "mistral"}, "model_type='mistral' is not one of llama, qwen2"),
    ({"model_type": ...}, "model_type=None"),
    ({"model_type": ["llama"]}, "model_type="),
    ({"architectures": ["LlamaForSequenceClassification"]}, "architectures=.*LlamaForCausalLM"),
    ({"architectures": ["LlamaForCausalLM", "Other"]}, "architectures="),
    ({"model_type": "qwen2", "architectures": ["LlamaForCausalLM"]}, "architectures="),
    ({"model_type": "qwen2", "architectures": None, "use_sliding_window": True}, "use_sliding_window=True: this decoder is right for False only"),
    ({"model_type": "qwen2", "architectures": None, "num_key_value_heads": ...}, "lacks num_key_value_heads"),
    ({"sliding_window": 4096}, "sliding_window=4096: this decoder is right for null only"),
    ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types="),
    ({"layer_types": 2}, "layer_types=2"),
    ({"hidden_act": "gelu"}, "hidden_act='gelu': this decoder is right for 'silu' only"),
    ({"mlp_bias": True}, "mlp_bias=True: this decoder is right for False only"),
    ({"mlp_bias": 1}, "mlp_bias=1"),
    ({"attention_bias": True}, "attention_bias=True puts a bias on the output matrix"),
    ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_type='yarn'"),
    ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type='linear'"),
    ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type='dynamic'"),
    ({"rope_parameters": {"rope_type": ["llama3"]}}, r"rope_type=\['llama3'\]"),
    ({"rope_scaling": LLAMA3}, "rope_type='llama3' and 'default'"),
    ({"rope_scaling": LLAMA3, "rope_parameters": {**LLAMA3, "factor": 4.0}}, "rope_scaling and rope_parameters differ"),
    ({"rope_scaling": {**LLAMA3, "factor": None}, "rope_parameters": None}, "llama3 RoPE lacks factor"),
    ({"rope_scaling": {**LLAMA3, "factor": 0}, "rope_parameters": None}, "factor=0 is not a finite number above 0"),
    ({"rope_scaling": {**LLAMA3, "low_freq_factor": 4}, "rope_parameters": None}, "high_freq_factor=4.0 is not above low_freq_factor=4"),
    ({"rope_scaling": {**LLAMA3, "attention_factor": 2}, "rope_parameters": None}, "rope parameter attention_factor is unknown"),
    ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "rope parameter full_attention is unknown"),
    ({"rope_parameters": {"factor": 4.0}}, "rope parameter factor is unknown"),
    ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor=0.5: this decoder turns whole heads"),
    ({"rope_parameters": {"rope_theta": 5e5}}, "rope_theta is given as 10000.0 and as 500000.0"),
    ({"rope_parameters": [1]}, "is not an object"),
    ({"rope_theta": 0, "rope_parameters": None}, "rope_theta=0 is not a number above 0"),
    ({"rope_theta": True, "rope_parameters": None}, "rope_theta=True"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
    ({"rope_interleaved": True}, "rope_interleaved=True"),
    ({"use_mrope": True}, "use_mrope=True"),
    ({"quantization_config": {"quant_method": "fp8"}}, "quantization_config=.* null only"),
    ({"attention_multiplier": 0.5}, "attention_multiplier=0.5: this key is unknown here"),
    ({"logits_scaling": 8.0}, "logits_scaling"), ({"embedding_multiplier": 12.0}, "embedding_multiplier"),
    ({"residual_multiplier": 0.2}, "residual_multiplier"), ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
    ({"num_local_experts": 8}, "num_local_experts"), ({"original_max_position_embeddings": 4096}, "original_max_position_embeddings"),
    ({"no_rope_layers": [1, 0]}, "no_rope_layers"), ({"use_qk_norm": False}, "use_qk_norm=False"), ({"auto_map": {"AutoModel": "x.Y"}}, "auto_map"),
    ({"is_encoder_decoder": True}, "is_encoder_decoder=True"),
    ({"tie_word_embeddings": "yes"}, "tie_word_embeddings='yes'"),
    ({"hidden_size": ...}, "lacks hidden_size"), ({"rms_norm_eps": None}, "lacks rms_norm_eps"), ({"vocab_size": ...}, "lacks vocab_size"),
    ({"rms_norm_eps": "small"}, "rms_norm_eps='small' is not a number"),
    ({"hidden_size": 25, "head_dim": None}, "hidden_size=25 is no multiple of num_attention_heads=6"),
    ({"num_key_value_heads": 4}, "num_attention_heads=6 is not a multiple of num_key_value_heads=4"),
    ({"num_hidden_layers": 2.5}, "num_hidden_layers=2.5"), ({"head_dim": 5}, "head_dim=5 is odd"), ({"hidden_size": -24}, "hidden_size=-24"),
    ({"max_position_embeddings": 0}, "max_position_embeddings=0"), ({"intermediate_size": "x"}, "intermediate_size='x'"),
    ({"rope_scaling": {**LLAMA3, "original_max_position_embeddings": 0}, "rope_parameters": None}, "original_max_position_embeddings=0 "),
    ({"d_ff": 3}, "d_ff=3: this key is unknown here"),
]


@pytest.mark.parametrize(("keys", "says"), REFUSED)
def test_a_configuration_is_refused_with_the_reason(small, keys, says):
    with pytest.raises(ValueError, match="small/config.json: .*" + says):
        load(change(small, **keys))


@pytest.mark.parametrize("key", hf_config.FIXED)
@pytest.mark.parametrize("value", [2, 0.5, "other", [0], True])
def test_every_fixed_key_is_held_to_its_values(key, value):
    raw = hf_config.render(SMALL, "float32")
    with pytest.raises(ValueError, match=f"{key}=.*this decoder is right for"):
        hf_config.parse(raw | {key: value}, "x")
    for right in (*hf_config.FIXED[key], None):
        assert hf_config.parse(raw | {key: right}, "x") == replace(SMALL, name="x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=3),
    lambda x: st.lists(x, max_size=2) | st.dictionaries(st.sampled_from(sorted(LLAMA3)), x, max_size=3), max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(hf_config.UNUSED | hf_config.GENERATION | set(hf_config.FIXED) | set(hf_config.SIZES))), JSON)
def test_whatever_a_key_holds_is_read_or_refused(key, value):
    raw = hf_config.render(SMALL, "float32") | {key: value}
    try:
        assert isinstance(hf_config.parse(raw, "x"), ModelConfig)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda t: t.pop("model.layers.1.mlp.up_proj.weight"), "lacks model.layers.1.mlp.up_proj.weight .1 tensors missing, 0 too many"),
        (lambda t: t.pop("lm_head.weight"), "lacks lm_head.weight"),
        (lambda t: t.update({"model.layers.0.self_attn.q_proj.bias": torch.zeros(24)}), "holds model.layers.0.self_attn.q_proj.bias, which"),
        (lambda t: t.update({"model.layers.2.mlp.up_proj.weight": torch.zeros(20, 24)}), "holds model.layers.2"),
        (lambda t: t.update({"model.layers.0.self_attn.q_norm.weight": torch.ones(4)}), "holds .*q_norm"),
        (lambda t: t.update({"model.layers.0.mlp.up_proj.weight_scale": torch.ones(1)}), "holds .*weight_scale"),
        (lambda t: t.update({"model.norm.weight": torch.ones(23)}), r"model.norm.weight has shape \[23\]; config.json asks for \[24\]"),
        (lambda t: t.update({"model.layers.0.mlp.up_proj.weight": torch.zeros(24, 20)}), r"shape \[24, 20\]"),
        (lambda t: t.update({"model.norm.weight": torch.ones(24).to(torch.float8_e4m3fn)}), "model.norm.weight is of dtype F8_E4M3, not one of BF16"),
        (lambda t: t.update({"model.norm.weight": torch.ones(24, dtype=torch.int8)}), "dtype I8"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(small, edit, says):
    with pytest.raises(ValueError, match="small: .*" + says):
        load(rewrite(small, edit))


def test_a_missing_file_is_named(small, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere/config.json does not exist"):
        read_config(tmp_path / "nowhere")
    (small / "model.safetensors").rename(small / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match="small/model.safetensors does not exist"):
        load(small)


def test_an_index_that_disagrees_with_its_files_is_refused(small):
    folder, index = shard(small)
    path = folder / "model.safetensors.index.json"

    def refused(weight_map, says, error=ValueError):
        path.write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(error, match=says):
            load(folder)

    refused({}, "has no weight_map")
    refused(index | {"model.norm.weight": "../other.safetensors"}, "'../other.safetensors' is not a file beside it")
    refused(index | {"model.norm.weight": "part-9.safetensors"}, "part-9.safetensors does not exist", FileNotFoundError)
    wrong = next(name for name in ("part-0.safetensors", "part-1.safetensors") if name != index["model.norm.weight"])
    refused(index | {"model.norm.weight": wrong}, "does not say what its files hold: model.norm.weight is in part")
    refused({k: v for k, v in index.items() if k != "model.norm.weight"}, "model.norm.weight is in part")
    path.write_text("{")
    with pytest.raises(ValueError, match="index.json is not JSON"):
        load(folder)


def test_a_cut_file_and_a_wrong_dtype_are_refused(small):
    path = small / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match="small/model.safetensors is not a whole safetensors file"):
        load(small)
    for dtype in (torch.int8, torch.float8_e5m2):
        with pytest.raises(ValueError, match=f"dtype={dtype} is not one of torch.float64"):
            load(small, dtype=dtype)
        with pytest.raises(ValueError, match=f"dtype={dtype} is not one of torch.float64"):
            save(build(SMALL), small, dtype)
    (small / "config.json").write_text("[1]")
    with pytest.raises(ValueError, match="holds no JSON object"):
        load(small)


def test_every_parameter_has_one_name():
    names = tensor_names(build(replace(SMALL, bias="qkv"), "meta"))
    assert len(set(names.values())) == len(names) == 3 + 2 * 12
    assert names["blocks.1.norm2.weight"] == "model.layers.1.post_attention_layernorm.weight"


def test_llama3_scaling_has_three_bands():
    plain, scaled = frequencies(128, 500_000.0), frequencies(128, 500_000.0, SCALING)
    turns = SCALING.original_max_context * plain / (2 * torch.pi)  # within the original context
    fast, slow = turns > SCALING.high_freq_factor, turns < SCALING.low_freq_factor
    assert torch.equal(scaled[fast], plain[fast]) and torch.equal(scaled[slow], plain[slow] / 8)
    between = ~fast & ~slow
    assert between.sum() > 3 and (scaled[between] < plain[between]).all() and (scaled[between] > plain[between] / 8).all()
    assert (scaled.diff() < 0).all()


def test_one_table_for_all_sequences_or_one_each():
    x = torch.randn(3, 2, 5, 8)
    starts = torch.tensor([0, 4, 90])
    each = apply_rope(x, rope_table(starts[:, None] + torch.arange(5), 8, 1e4, SCALING))
    for i, start in enumerate(starts):
        one = apply_rope(x[i : i + 1], rope_table(start + torch.arange(5), 8, 1e4, SCALING))
        assert torch.equal(each[i : i + 1], one)
