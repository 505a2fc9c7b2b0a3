"""Plans and architectures against the printed tables of the facts (3.6, 3.8), to the printed digit.

Memory pools are computed from the bytes that CUDA reports, and sequences are
whole, as the facts' corrections (their section 0.0) ask.
"""

import pytest

from printed import check
from tinyserve import costs, hardware
from tinyserve.configs import LLAMA_3_70B, MODELS

M = LLAMA_3_70B
A100, H100, H200, B200 = hardware.A100_80_SXM, hardware.H100_SXM, hardware.H200, hardware.B200

# 3.6: memory splits, recomputed from memory_bytes, and batches for a TPOT target.
INT4 = costs.quantized_weight_bytes(M)
PLAN_ROWS = [
    # model, card, cards, weights, weights %, KV %, tokens, 4K sequences, 32K sequences
    ("OPT-13B", hardware.A100_40, 1, None, "61", "28", 14_419, 3, 0),
    ("Llama-3-8B", hardware.L4, 1, None, "68", "18", 31_829, 7, 0),
    ("Llama-3-8B", H100, 1, None, "19", "71", 462_925, 113, 14),
    ("Qwen2.5-7B", A100, 1, None, "18", "72", 1_072_577, 261, 32),
    ("Llama-3-70B", A100, 2, None, "83", "7", 37_740, 9, 1),
    ("Llama-3-70B", A100, 4, None, "41", "49", 506_106, 123, 15),
    ("Llama-3-70B", H100, 8, None, "21", "69", 1_442_839, 352, 44),
    ("Llama-3-70B", H200, 2, None, "47", "44", 403_116, 98, 12),
    ("Llama-3-70B", B200, 1, None, "74", "18", 102_460, 25, 3),
    ("Llama-3-70B", A100, 1, INT4, "48", "43", 110_373, 26, 3),
]


@pytest.mark.parametrize("row", PLAN_ROWS, ids=lambda r: f"{r[0]} on {r[2]} {r[1].name}")
def test_memory_plans(row):
    name, card, cards, weights, weights_share, kv_share, tokens, short, long = row
    plan = costs.memory_plan(MODELS[name], card, cards, weights=weights)
    check(100 * plan.weights_share, weights_share)
    check(100 * plan.kv_share, kv_share)
    assert (plan.tokens, plan.sequences(4096), plan.sequences(32768)) == (tokens, short, long)
    assert plan.usable - plan.weights == plan.kv_pool and plan.fits


@pytest.mark.parametrize(("card", "usable"), [(H100, "626"), (A100, "626"), (H200, "1,105")])
def test_usable_memory_of_eight_cards(card, usable):
    plan = costs.memory_plan(M, card, 8, activations=0)
    check(plan.usable / 1e9, usable)


def test_the_interview_question():
    """64 sequences of 32K need 828 GB with the weights: more than eight 80 GB cards; the wrong 485 GB would fit."""
    plan, kv = costs.memory_plan(M, H100, 8, activations=0), costs.kv_cache_bytes(M, 64 * 32_768)
    check((plan.weights + kv) / 1e9, "828")
    assert kv > plan.kv_pool > kv / 2


def test_a_plan_that_does_not_fit():
    plan = costs.memory_plan(M, H100)
    assert not plan.fits and plan.tokens == plan.sequences(4096) == plan.kv_share == 0 > plan.kv_pool


def test_cards_beyond_the_kv_heads_store_copies():
    assert costs.memory_plan(M, H100, 16).bytes_per_token == 2 * costs.kv_cache_bytes(M, 1)
    assert costs.memory_plan(M, H100, 8).bytes_per_token == costs.kv_cache_bytes(M, 1)


def test_stages_and_shared_tokens_avoid_the_copies():
    flat, stages, shared = (costs.memory_plan(M, H100, 16, **o) for o in ({}, {"pipeline_parallel": 2}, {"context_parallel": 2}))
    assert flat.kv_pool == stages.kv_pool == shared.kv_pool
    assert (flat.sequences(32_768), stages.sequences(32_768), shared.sequences(32_768)) == (50, 101, 101)
    assert costs.memory_plan(M, H100, 8, context_parallel=4).bytes_per_token == costs.kv_cache_bytes(M, 1)  # nothing to share
    for options in ({"pipeline_parallel": 3}, {"pipeline_parallel": 0}, {"context_parallel": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            costs.memory_plan(M, H100, 16, **options)


@pytest.mark.parametrize(("tpot", "batch"), [(0.040, 352), (0.030, 255), (0.020, 136), (0.015, 76)])
def test_batch_for_a_tpot(tpot, batch):
    """40 ms is KV-limited: 352 with the bytes CUDA reports (the facts' 324 took 80 GB a card)."""
    assert costs.largest_batch(M, 4096, tpot, H100, 8) == batch
    free = costs.largest_batch(M, 4096, tpot, H100, 8, memory=False)
    assert costs.decode_time(M, free, 4096, H100, 8, mbu=0.6, mfu=0.5) <= tpot
    assert costs.decode_time(M, free + 1, 4096, H100, 8, mbu=0.6, mfu=0.5) > tpot
    assert free == (375 if tpot == 0.040 else batch)


def test_mbu_is_the_share_assumed():
    seconds = costs.decode_time(M, 8, 4096, H100, 8, mbu=0.6)
    moved = costs.decode_bytes(M, 8, 4096)
    assert costs.model_bandwidth_utilization(moved, seconds, H100, 8) == pytest.approx(0.6)


def test_no_batch_is_fast_enough():
    assert costs.largest_batch(M, 4096, 0.001, H100, 8) == 0
    assert costs.largest_batch(M, 4096, 10.0, H100, 1) == 0


@pytest.mark.parametrize(("batch", "head", "gain"), [(1, False, "3.53"), (1, True, "3.67"), (256, False, "1.26")])
def test_int4_weight_only(batch, head, gain):
    weights = costs.quantized_weight_bytes(M, head=head, resident=False)
    check(costs.decode_bytes(M, batch, 4096) / costs.decode_bytes(M, batch, 4096, weights=weights), gain)


@pytest.mark.parametrize(("intensity", "teraflops"), [(1, "2.04"), (8, "16.3"), (153, "312"), (1000, "312")])
def test_the_a100_roofline(intensity, teraflops):
    check(costs.attainable_flops(A100, intensity) / 1e12, teraflops)


# 3.8: encoder-decoder against decoder-only.
E = costs.EncoderDecoderCosts(layers=24, d_model=1024, n=2048, m=256)
ENCDEC_ROWS = [
    (E.params(), 1e6, "705", "604"),
    (E.input_flops(), 1e12, "1.65", "2.89"),
    (E.cross_kv_flops(), 1e12, "0.21", "0.00"),
    (E.output_flops(), 1e12, "0.235", "0.419"),
    (E.step_weight_bytes(), 1e6, "705", "1,208"),
    (E.kv_bytes(), 1e6, "226", "453"),
    (E.follow_up_linear_flops(512), 1e12, "1.55", "0.62"),
]


@pytest.mark.parametrize(("pair", "unit", "both", "alone"), ENCDEC_ROWS)
def test_encoder_decoder(pair, unit, both, alone):
    check(pair.encoder_decoder / unit, both)
    check(pair.decoder_only / unit, alone)
