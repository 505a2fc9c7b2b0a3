"""Mixture-of-experts costs: counts equal published totals and transformers' own models, times follow from bytes."""

import pytest
import torch
import transformers

from tinyserve import configs, costs, hardware

NAMES = {m.name: m for m in configs.MOE_MODELS}


def _hugging_face(model):
    """The same shape as a model of transformers, on the meta device."""
    common = {
        "hidden_size": model.d_model, "num_hidden_layers": model.n_layers, "vocab_size": model.vocab_size,
        "num_experts_per_tok": model.top_k, "num_attention_heads": model.attention.n_heads,
    }
    if model.name.startswith("DeepSeek"):
        latent = model.attention
        make = transformers.DeepseekV2Config if model.name.endswith("V2") else transformers.DeepseekV3Config
        config = make(
            **common, num_key_value_heads=latent.n_heads, q_lora_rank=latent.q_rank, kv_lora_rank=latent.latent_dim,
            qk_rope_head_dim=latent.rope_dim, qk_nope_head_dim=latent.head_dim, v_head_dim=latent.head_dim,
            n_routed_experts=model.n_experts, n_shared_experts=model.n_shared, moe_intermediate_size=model.d_expert,
            first_k_dense_replace=model.n_dense_layers, intermediate_size=model.d_dense,
        )
    elif model.name.startswith("Qwen3"):
        config = transformers.Qwen3MoeConfig(
            **common, num_key_value_heads=model.n_kv_heads, head_dim=model.attention.head_dim,
            num_experts=model.n_experts, moe_intermediate_size=model.d_expert,
        )
    else:
        config = transformers.MixtralConfig(
            **common, num_key_value_heads=model.n_kv_heads, intermediate_size=model.d_expert, num_local_experts=model.n_experts
        )
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize("name", NAMES)
def test_every_number_of_transformers_model_is_counted(name):
    model = _hugging_face(NAMES[name])
    biases = sum(b.numel() for n, b in model.named_buffers() if "correction_bias" in n)
    assert costs.moe_params(NAMES[name]) == sum(p.numel() for p in model.parameters()) + biases


@pytest.mark.parametrize(
    "name, total, active, with_embedding",
    [
        ("Mixtral-8x7B", 47, 13, True), ("DeepSeek-V2", 236, 21, True), ("DeepSeek-V3", 671, 37, False),
        ("Qwen3-30B-A3B", 30.5, 3.3, True), ("Qwen3-235B-A22B", 235, 22, True),
    ],
)
def test_published_totals(name, total, active, with_embedding):
    model = NAMES[name]
    assert costs.moe_params(model) / 1e9 == pytest.approx(total, abs=0.5)
    assert costs.active_params(model, with_embedding) / 1e9 == pytest.approx(active, abs=0.5)


def test_default_shapes_of_transformers_are_ours():
    mixtral, v3 = transformers.MixtralConfig(), transformers.DeepseekV3Config()
    ours = configs.MIXTRAL_8X7B, configs.DEEPSEEK_V3
    assert (mixtral.hidden_size, mixtral.intermediate_size, mixtral.num_local_experts, mixtral.num_experts_per_tok) == (
        ours[0].d_model, ours[0].d_expert, ours[0].n_experts, ours[0].top_k)
    assert (v3.num_hidden_layers, v3.hidden_size, v3.moe_intermediate_size, v3.n_routed_experts, v3.num_experts_per_tok,
            v3.n_shared_experts, v3.first_k_dense_replace, v3.intermediate_size) == (
        ours[1].n_layers, ours[1].d_model, ours[1].d_expert, ours[1].n_experts, ours[1].top_k,
        ours[1].n_shared, ours[1].n_dense_layers, ours[1].d_dense)


def test_latent_caches_agree_with_chapter_7():
    assert costs.kv_cache_bytes(configs.DEEPSEEK_V2_MOE, 10) == costs.kv_cache_bytes(configs.DEEPSEEK_V2, 10)
    per_token = configs.DEEPSEEK_V2_MOE.n_layers * configs.DEEPSEEK_V2_MOE.attention.flops_per_context_token
    assert per_token == costs.latent_attention_flops_per_context_token(configs.DEEPSEEK_V2)


def test_experts_touched():
    found = [round(costs.experts_touched(8, 2, b), 2) for b in (0, 1, 4, 8, 16)]
    assert found == [0, 2, 5.47, 7.2, 7.92]
    assert costs.experts_touched(8, 8, 1) == 8


def test_capacity():
    assert costs.expert_capacity(64, 8, 2, 1.0) == 16 and costs.expert_capacity(64, 8, 2) == 20
    assert costs.expert_capacity(3, 8, 1, 1.0) == 1


def test_flops_are_two_per_active_matrix_entry():
    m = configs.MIXTRAL_8X7B
    layer = 2 * 4096 * 128 * (32 + 8) + 4096 * 8 + 2 * 3 * 4096 * 14336
    assert costs.moe_flops_per_token(m) == 2 * (32 * layer + 32000 * 4096)
    assert costs.moe_decode_flops(m, 3, 100) == 3 * (costs.moe_flops_per_token(m) + 4 * 32 * 32 * 128 * 100)


def test_bytes_read_grow_from_active_to_all():
    m = configs.QWEN3_235B
    assert costs.moe_weight_bytes_read(m, 1) == pytest.approx(2 * costs.active_params(m, embedding=False))
    assert costs.moe_weight_bytes_read(m, 10**5) == pytest.approx(2 * (costs.moe_params(m) - m.vocab_size * m.d_model))


def test_decode_time_is_the_longer_of_reading_and_computing():
    m, card = configs.MIXTRAL_8X7B, hardware.H100_SXM
    read = costs.moe_weight_bytes_read(m, 8) + 8 * costs.kv_cache_bytes(m, 1000)
    assert costs.moe_decode_time(m, 8, 1000, card, 2) == pytest.approx(read / card.bandwidth / 2)
    big = costs.compute_bound_batch(m, card, context=1)
    assert costs.moe_decode_time(m, big, 1, card) == pytest.approx(costs.moe_decode_flops(m, big, 1) / card.peak())
    assert costs.moe_decode_time(m, big - 1, 1, card) > costs.moe_decode_flops(m, big - 1, 1) / card.peak()
    assert costs.rows_per_expert(m, 1) == 1 and costs.rows_per_expert(m, 1000) == pytest.approx(250)


def test_no_batch_computes_longer_than_it_reads_at_a_long_context():
    assert costs.compute_bound_batch(configs.MIXTRAL_8X7B, hardware.H100_SXM, context=32_768) == 2**20


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: costs.experts_touched(8, 9, 1), "top_k=9 is above n_experts=8"),
        (lambda: costs.experts_touched(8, 2, -1), "tokens=-1"),
        (lambda: costs.expert_capacity(8, 8, 2, 0), "factor=0"),
        (lambda: configs.MoEConfig("x", 2, 8, configs.MIXTRAL_8X7B.attention, 8, 4, 5, 9), "top_k=5 is above n_experts=4"),
        (lambda: configs.MoEConfig("x", 2, 8, configs.MIXTRAL_8X7B.attention, 8, 4, 2, 9, n_dense_layers=1), "d_dense=0"),
        (lambda: configs.MoEConfig("x", 2, 8, configs.MIXTRAL_8X7B.attention, 8, 4, 2, 9, n_dense_layers=2), "not below n_layers"),
        (lambda: configs.MoEConfig("x", 2, 8, configs.MIXTRAL_8X7B.attention, 8, 4, 2, 9, n_shared=-1), "n_shared=-1"),
        (lambda: type(configs.MIXTRAL_8X7B.attention)(6, 4, 8), "n_heads=6 is not a multiple"),
    ],
)
def test_wrong_input_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()
