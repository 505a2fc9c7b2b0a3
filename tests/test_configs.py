"""Model shapes: validation, derived properties, the prompt."""

from dataclasses import FrozenInstanceError, replace

import pytest

from tinyserve.configs import DEEPSEEK_V2, LLAMA_3_70B, MODELS, PROMPT, LatentKVConfig, ModelConfig

TINY = ModelConfig("tiny", 2, 40, 10, 5, 4, 64, 100)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_kv_heads": 4}, "n_heads=10 is not a multiple of n_kv_heads=4"),
        ({"n_layers": 0}, "n_layers=0 is not a positive whole number"),
        ({"d_model": -8}, "d_model=-8"),
        ({"d_ff": 2.5}, "d_ff=2.5"),
        ({"vocab_size": True}, "vocab_size=True"),
        ({"n_kv_heads": 0}, "n_kv_heads=0"),
        ({"head_dim": 5}, "head_dim=5 is odd"),
        ({"ffn": "maxout"}, "ffn='maxout' is not one of swiglu, relu, gelu"),
        ({"norm": "batch"}, "norm='batch' is not one of rmsnorm, layernorm"),
        ({"bias": "some"}, "bias='some' is not one of none, qkv, ffn, all"),
        ({"norm_eps": 0}, "norm_eps=0 is not above 0"),
        ({"rope_theta": -1.0}, "rope_theta=-1.0 is not above 0"),
        ({"max_context": 0}, "max_context=0"),
        ({"learned_positions": -1}, "learned_positions=-1 is below 0"),
    ],
)
def test_bad_shapes(change, words):
    with pytest.raises(ValueError, match=words):
        replace(TINY, **change)


def test_latent_shape_is_checked():
    with pytest.raises(ValueError, match="latent_dim=0 is not a positive whole number"):
        LatentKVConfig("x", 1, 0, 1)
    assert DEEPSEEK_V2.kv_elements_per_token == 34_560


def test_derived():
    assert (LLAMA_3_70B.queries_per_kv_head, LLAMA_3_70B.q_width, LLAMA_3_70B.kv_width) == (8, 8192, 1024)
    assert LLAMA_3_70B.kv_elements_per_token == 2 * 80 * 1024
    assert replace(TINY, head_dim=5, rope_theta=None).q_width == 50


def test_frozen_and_sourced():
    with pytest.raises(FrozenInstanceError):
        TINY.n_layers = 3
    assert all(model.source for model in MODELS.values()) and DEEPSEEK_V2.source
    assert all(MODELS[name].name == name for name in MODELS)


def test_prompt_is_python_up_to_its_docstring():
    scope = {}
    exec(PROMPT + "    return sum(values) / len(values)\n", scope)
    assert scope["mean"]([1, 2, 6]) == 3
    assert scope["mean"].__doc__ == "Return the average of a list of numbers."
