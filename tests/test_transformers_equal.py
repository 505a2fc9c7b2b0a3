"""Logits against transformers': random checkpoints of both families, what ``save`` writes, and the models of the book."""

import json
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM,
)
from transformers.utils.logging import disable_progress_bar

from course import models
from tinyserve import checkpoint
from tinyserve.configs import PROMPT, Llama3RopeScaling, ModelConfig
from tinyserve.kv_cache import ContiguousCache
from tinyserve.model import build

disable_progress_bar()
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 24,
}
TOKENS = 40
"""Past LLAMA3's original context: all three of its bands turn differently from plain RoPE."""


def ids_of(vocab, batch=2, tokens=TOKENS, seed=0):
    return torch.randint(0, vocab, (batch, tokens), generator=torch.Generator().manual_seed(seed))


def spread(model, std, seed=0):
    """Weights of this spread, norms and biases away from 1 and 0: every term shows in the logits."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            around = 1.0 if "norm" in name else 0.0
            weight.normal_(mean=around, std=0.3 if weight.dim() == 1 else std, generator=generator)
    return model.eval()


def theirs(family, heads, kv_heads, head_dim, theta, llama3, tied, seed, layers=2, wide=1):
    """A random model of transformers."""
    kind, net = (LlamaConfig, LlamaForCausalLM) if family == "llama" else (Qwen2Config, Qwen2ForCausalLM)
    config = kind(
        vocab_size=61, hidden_size=heads * head_dim * wide, intermediate_size=52, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, max_position_embeddings=96, tie_word_embeddings=tied,
        rope_parameters={"rope_theta": theta, **(LLAMA3 if llama3 else {"rope_type": "default"})},
        bos_token_id=None, eos_token_id=None,
    )
    return spread(net(config), std=max(0.05, config.hidden_size**-0.5), seed=seed)


def in_chunks(decoder, ids, chunks):
    """All logits, through a cache, these many tokens at a time."""
    cache, parts = ContiguousCache(decoder.config, len(ids), ids.shape[1]), []
    for part in ids.split(chunks, dim=1):
        parts.append(decoder(part, cache=cache, logits="all"))
    return torch.cat(parts, dim=1)


def assert_equal(decoder, reference, ids, chunks):
    with torch.no_grad():
        want = reference(ids).logits
    assert want.std() > 0.25
    for got in (decoder(ids, logits="all"), in_chunks(decoder, ids, chunks)):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-4)
    torch.testing.assert_close(decoder(ids), want[:, -1:], rtol=0, atol=1e-4)


@st.composite
def chunkings(draw, total=TOKENS):
    parts, left = [], total
    while left:
        parts.append(draw(st.integers(1, left)))
        left -= parts[-1]
    return parts


@settings(max_examples=50, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # no shrinking: too slow
@given(
    family=st.sampled_from(["llama", "qwen2"]), kv_heads=st.sampled_from([1, 2, 3]), ratio=st.sampled_from([1, 2, 3]),
    head_dim=st.sampled_from([8, 16]), theta=st.sampled_from([100.0, 10_000.0, 1_000_000.0]), llama3=st.booleans(),
    tied=st.booleans(), sharded=st.booleans(), wide=st.sampled_from([1, 2]), chunks=chunkings(), seed=st.integers(0, 99),
)
def test_random_checkpoints(family, kv_heads, ratio, head_dim, theta, llama3, tied, sharded, wide, chunks, seed):
    reference = theirs(family, kv_heads * ratio, kv_heads, head_dim, theta, llama3, tied, seed, wide=wide)
    with tempfile.TemporaryDirectory() as folder:
        reference.save_pretrained(folder, max_shard_size="6KB" if sharded else "1GB")
        assert (Path(folder) / "model.safetensors.index.json").exists() == sharded
        decoder = checkpoint.load(folder)
    config = decoder.config
    assert (config.n_kv_heads, config.queries_per_kv_head, config.tied_embedding) == (kv_heads, ratio, tied)
    assert (config.rope_theta, config.rope_scaling is not None, config.bias == "qkv") == (theta, llama3, family == "qwen2")
    assert_equal(decoder, reference, ids_of(61, seed=seed), chunks)


@pytest.mark.parametrize("llama3", [False, True])
def test_configurations_as_transformers_4_wrote_them(tmp_path, llama3):
    reference = theirs("llama", 4, 2, 8, 5000.0, llama3, False, 3)
    reference.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    raw = json.loads(path.read_text())
    del raw["rope_parameters"], raw["head_dim"], raw["dtype"]
    raw |= {"rope_theta": 5000.0, "rope_scaling": LLAMA3 if llama3 else None, "torch_dtype": "float32"}
    path.write_text(json.dumps(raw))
    assert_equal(checkpoint.load(tmp_path), reference, ids_of(61), [30, 1, 9])


def test_llama3_scaling_shows_in_these_logits():
    plain, scaled = (theirs("llama", 4, 2, 8, 10_000.0, llama3, True, 3) for llama3 in (False, True))
    with torch.no_grad():
        assert (plain(ids_of(61)).logits - scaled(ids_of(61)).logits).abs().max() > 0.1


def test_their_cached_decode_is_ours(tmp_path):
    reference, ids = theirs("qwen2", 6, 2, 8, 10_000.0, True, False, 5), ids_of(61)
    reference.save_pretrained(tmp_path)
    decoder, parts, past = checkpoint.load(tmp_path), [], None
    for part in ids.split([30, 1, 1, 8], dim=1):
        with torch.no_grad():
            out = reference(part, cache=past, use_cache=True)
        past = out.past_key_values
        parts.append(out.logits)
    torch.testing.assert_close(in_chunks(decoder, ids, [7, 33]), torch.cat(parts, 1), rtol=0, atol=1e-4)


@pytest.mark.parametrize("bias", ["none", "qkv"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("scaling", [None, Llama3RopeScaling(4.0, 1.0, 3.0, 16)])
def test_what_we_save_opens_there(tmp_path, bias, tied, scaling):
    config = ModelConfig(
        "small", 2, 48, 6, 2, 8, 40, 61, tied_embedding=tied, rope_theta=300.0, rope_scaling=scaling, norm_eps=1e-3,
        max_context=77, bias=bias,
    )
    decoder, ids = spread(build(config), 0.15), ids_of(61)
    checkpoint.save(decoder, tmp_path / "small", torch.float32, end_id=7)
    reference, said = AutoModelForCausalLM.from_pretrained(tmp_path / "small", output_loading_info=True)
    assert not any(said.values()) and reference.dtype == torch.float32
    assert (reference.config.eos_token_id, reference.config.max_position_embeddings) == (7, 77)
    assert_equal(decoder, reference, ids, [11, 29])
    again = checkpoint.load(tmp_path / "small")
    assert again.config == config and torch.equal(again(ids), decoder(ids))


@pytest.mark.parametrize("name", models.NAMES)
def test_a_model_of_the_book(name):
    if not (models.FOLDER / name).is_dir():
        pytest.skip(f"models/{name} is not here")
    decoder, tokenizer = models.load(name)
    reference = AutoModelForCausalLM.from_pretrained(models.folder(name), dtype=torch.float32).eval()
    library = AutoTokenizer.from_pretrained(models.folder(name))
    texts = [PROMPT, "x = {'é': '中文'}  # 😀\r\n\t\tpass\n\n\n    <|endoftext|>  ", *list(models.held_out().values())[:3]]
    for text in texts:
        ids = tokenizer.encode(text)
        assert library(text).input_ids == ids and library.decode(ids) == tokenizer.decode(ids) == text
    assert library.eos_token_id == library.bos_token_id == tokenizer.end_id == 0
    assert reference.generation_config.eos_token_id == 0
    ids = torch.tensor(tokenizer.encode(texts[2])[:96])[None]
    assert_equal(decoder, reference, ids, [50, 1, 45])
    ids = list(range(tokenizer.vocab_size))
    assert library.decode(ids) == tokenizer.decode(ids)
