"""The cost model against the printed tables of the facts (0, 3.1 to 3.5), to the printed digit.

Rows that a correction of the facts (their section 0.0) supersedes are tested as corrected.
"""

import math

import pytest

from printed import check
from tinyserve import costs, hardware
from tinyserve.configs import DEEPSEEK_V2, LLAMA_3_70B, MODELS

M = LLAMA_3_70B
A100, H100, H200, B200 = hardware.A100_80_SXM, hardware.H100_SXM, hardware.H200, hardware.B200


# Section 0: the reference models. Counts leave out biases and learned positions, as the table does.
MODEL_ROWS = [
    ("Llama-2-7B", "6.738", "13.5", "512", "66.8"),
    ("Llama-3-8B", "8.030", "16.1", "128", "80.8"),
    ("Qwen2.5-7B", "7.615", "15.2", "56", "87.4"),
    ("Llama-3-70B", "70.554", "141.1", "320", "82.4"),
    ("LLaMA-1-65B", "65.286", "130.6", "2560", "66.8"),
    ("OPT-13B", "12.84", "25.7", "800", "66.7"),
    ("GPT-3-175B", "174.6", "349", "4608", "66.7"),
]


@pytest.mark.parametrize(("name", "billions", "gigabytes", "kib", "ffn"), MODEL_ROWS)
def test_reference_models(name, billions, gigabytes, kib, ffn):
    model = MODELS[name]
    check(costs.params(model, extras=False) / 1e9, billions)
    check(costs.weight_bytes(model) / 1e9, gigabytes)
    check(costs.kv_cache_bytes(model, 1) / 1024, kib)
    check(100 * costs.ffn_matrix_params(model) / costs.layer_params(model), ffn)


@pytest.mark.parametrize(("name", "count"), [("Llama-3-70B", 70_553_706_496), ("Qwen2.5-7B", 7_615_616_512),
                                            ("OPT-13B", 12_853_473_280), ("Llama-3-8B", 8_030_261_248)])
def test_full_counts(name, count):
    assert costs.params(MODELS[name]) == count


# 3.1: token to logit.
FLOW_ROWS = [("embedding", 1_050_673_152, "0.0"), ("W_q", 67_108_864, "134.2"), ("W_k", 8_388_608, "16.8"),
             ("W_v", 8_388_608, "16.8"), ("join heads, W_o, add residual", 67_108_864, "134.2"),
             ("W_gate", 234_881_024, "469.8"), ("W_up", 234_881_024, "469.8"),
             ("W_down, add residual", 234_881_024, "469.8"), ("final norm", 8_192, "0.0"),
             ("head", 1_050_673_152, "2101.3")]


@pytest.mark.parametrize(("name", "count", "megaflops"), FLOW_ROWS)
def test_data_flow_rows(name, count, megaflops):
    row = next(row for row in costs.data_flow(M) if row.name == name)
    assert row.params == count
    check(row.flops / 1e6, megaflops)


def test_data_flow_totals():
    rows = costs.data_flow(M)
    assert costs.params(M) == 70_553_706_496 and costs.layer_params(M) == 855_654_400
    layer = sum(row.params for row in rows if row.repeats == M.n_layers)
    assert layer == 855_654_400
    check(costs.linear_flops_per_token(M) / 1e9, "139.0")
    check(costs.attention_flops_per_context_token(M) / 1e6, "2.62")
    check(sum(r.flops for r in rows if r.step == 3) / 1e6, "167.8")
    check(sum(r.flops for r in rows if r.step == 11) / 1e6, "939.5")
    assert next(r for r in rows if r.name == "scores and mask").flops_per_context == 2 * 64 * 128
    assert [r.shape for r in rows if r.step == 3] == ["[b, n, 8192]", "[b, n, 1024]", "[b, n, 1024]"]
    check(32_768 * M.vocab_size * 2 / 1e9, "8.4")


# 3.2: KV memory.
KV_ROWS = [(4_096, "1.342", "1.25", "0.671"), (32_768, "10.74", "10", "5.37"), (131_072, "42.95", "40", "21.5"),
           (430_600, "141.1", "131.4", "70.5"), (2_097_152, "687.2", "640", "343.6")]


@pytest.mark.parametrize(("tokens", "gigabytes", "gib", "fp8"), KV_ROWS)
def test_kv_memory(tokens, gigabytes, gib, fp8):
    size = costs.kv_cache_bytes(M, tokens)
    check(size / costs.GB, gigabytes)
    check(size / costs.GIB, gib)
    check(costs.kv_cache_bytes(M, tokens, "fp8") / costs.GB, fp8)


def test_kv_variants():
    assert costs.kv_cache_bytes(M, 1) == 327_680
    assert costs.kv_cache_bytes(M, 2_097_152) == 687_194_767_360
    check(costs.kv_cache_bytes(DEEPSEEK_V2, 1) / 1024, "67.5")
    assert costs.kv_cache_bytes(M, 9_000, window=4_096) == costs.kv_cache_bytes(M, 4_096)
    assert costs.kv_cache_bytes(M, 33, block=16) == costs.kv_cache_bytes(M, 48)
    waste = sum(-(-n // 16) * 16 - n for n in range(1, 17)) / 16
    check(waste, "7.5")
    check(100 * waste / 512, "1.5")
    check(100 * (1 - 512 / 2048), "75")
    assert costs.kv_cache_bytes_per_card(M, 262_144, tensor_parallel=8) == 10 * costs.GIB
    assert costs.kv_cache_bytes_per_card(M, 10, 16) == costs.kv_cache_bytes_per_card(M, 10, 8)
    assert costs.kv_cache_bytes_per_card(M, 10, 8, 2) == costs.kv_cache_bytes(M, 10) / 16


# 3.3: one decode step, batch 1. Attention and KV are left out there (context 0).
STEP_ROWS = [
    (A100, "153", 2, "0.446", "68.2", "153", "0.65", "14.7"),
    (H100, "295", 2, "0.141", "41.5", "295", "0.34", "24.1"),
    (H200, "206", 2, "0.141", "29.0", "206", "0.49", "34.5"),
    (B200, "281", 1, "0.062", "17.4", "281", "0.36", "57.6"),
]


@pytest.mark.parametrize(("card", "ridge", "cards", "compute", "memory", "ratio", "mfu", "rate"), STEP_ROWS,
                         ids=lambda v: getattr(v, "name", None))
def test_one_decode_step(card, ridge, cards, compute, memory, ratio, mfu, rate):
    flops, moved = costs.linear_flops_per_token(M), costs.weight_bytes(M, resident=False)
    check(moved / 1e9, "139.0")
    check(costs.ridge(card), ridge)
    assert costs.min_cards(costs.weight_bytes(M), card) == cards
    check(1e3 * costs.roofline_time(flops, 0, card), compute)
    seconds = costs.roofline_time(flops, moved, card)
    check(1e3 * seconds, memory)
    check(seconds / costs.roofline_time(flops, 0, card), ratio)
    check(100 * costs.model_flops_utilization(flops, seconds, card), mfu)
    check(1 / seconds, rate)
    assert costs.model_bandwidth_utilization(moved, seconds, card) == pytest.approx(1)


def test_h100_pcie_ridge():
    check(costs.ridge(hardware.H100_PCIE), "378")


# 3.4: batched decode at 4,096 on eight cards: milliseconds, MFU in %, tokens/s for each card.
BATCH_ROWS = [
    (1, "1.3", "1.1",
     ("8.60", "0.7", "116"), ("5.24", "0.4", "191"),
     ("3.65", "0.5", "274"), ("2.19", "0.4", "456")),
    (8, "11", "8.0",
     ("9.18", "5.2", "871"), ("5.59", "2.7", "1,432"),
     ("3.90", "3.9", "2,052"), ("2.34", "2.8", "3,419")),
    (32, "43", "26.3",
     ("11.15", "17", "2,869"), ("6.79", "8.9", "4,713"),
     ("4.74", "13", "6,753"), ("2.84", "9.4", "11,255")),
    (64, "86", "42.6",
     ("13.79", "28", "4,642"), ("8.39", "14", "7,626"),
     ("5.86", "21", "10,927"), ("3.51", "15", "18,212")),
    (128, "172", "61.7",
     ("19.05", "40", "6,718"), ("11.60", "21", "11,037"),
     ("8.09", "30", "15,814"), ("4.86", "22", "26,357")),
    (256, "344", "79.4",
     ("29.59", "52", "8,653"), ("18.01", "27", "14,216"),
     ("12.57", "39", "20,370"), ("7.54", "28", "33,949")),
]


@pytest.mark.parametrize(("batch", "kv", "intensity", "a100", "h100", "h200", "b200"), BATCH_ROWS)
def test_batched_decode(batch, kv, intensity, a100, h100, h200, b200):
    check(batch * costs.kv_cache_bytes(M, 4096) / 1e9, kv)
    check(costs.decode_intensity(M, batch, 4096), intensity)
    for card, (milliseconds, mfu, rate) in zip((A100, H100, H200, B200), (a100, h100, h200, b200), strict=True):
        seconds = costs.decode_time(M, batch, 4096, card, 8)
        check(1e3 * seconds, milliseconds)
        check(100 * costs.model_flops_utilization(costs.decode_flops(M, batch, 4096), seconds, card, 8), mfu)
        check(batch / seconds, rate)


@pytest.mark.parametrize(("card", "limit"), [(A100, "2,925"), (H100, "1,477"), (H200, "2,142"), (B200, "1,552")])
def test_context_limit(card, limit):
    context = costs.compute_bound_context_limit(M, card)
    check(context, limit)
    assert costs.decode_intensity_limit(M, math.floor(context)) >= costs.ridge(card)
    assert costs.decode_intensity_limit(M, math.ceil(context)) < costs.ridge(card)
    assert costs.decode_intensity(M, 10**6, math.ceil(context)) < costs.ridge(card)


def test_decode_intensities():
    check(costs.decode_intensity_limit(M, 4096), "111.6")
    assert costs.attention_intensity(M) == 8


@pytest.mark.parametrize(("context", "streamed", "resident"), [(1024, "414", "421"), (4096, "104", "105"),
                                                              (8192, "52", "53"), (32768, "13", "13")])
def test_kv_knee(context, streamed, resident):
    check(costs.kv_equals_weights_batch(M, context), streamed)
    check(costs.kv_equals_weights_batch(M, context, resident=True), resident)


# 3.5: prefill.
def test_prefill_at_4096():
    flops = costs.forward_flops(M, 4096)
    parts = costs.flops_by_component(M, 4096)
    check((parts["projections"] + parts["ffn"]) / 1e12, "560.8")
    check(parts["scores"] / 1e12, "22.0")
    check(flops / 1e12, "582.7")
    check(flops / costs.weight_bytes(M, resident=False), "4,192")
    check(flops / costs.weight_bytes(M), "4,130")
    check(flops / costs.decode_flops(M, 1, 4096), "3,892")


PREFILL_ROWS = [(A100, 1, "1868", "3.7", "114.7"), (H100, 1, "589", "1.18", "69.8"), (B200, 1, "259", "0.518", "29.2"),
                (A100, 8, "233", "0.467", "14.3"), (H100, 8, "74", "0.147", "8.7"), (B200, 8, "32", "0.065", "3.7")]


@pytest.mark.parametrize(("card", "cards", "peak", "half", "decode"), PREFILL_ROWS)
def test_prefill_times(card, cards, peak, half, decode):
    check(1e3 * costs.prefill_time(M, 4096, card, cards), peak)
    check(costs.prefill_time(M, 4096, card, cards, mfu=0.5), half)
    check(1e3 * costs.decode_time(M, 1, 4096, card, cards, mbu=0.6), decode)


@pytest.mark.parametrize(("n", "linear", "attention", "share"), [
    (1024, "140", "1.4", "1.0"), (4096, "561", "22.0", "3.8"), (8192, "1,122", "88.0", "7.3"),
    (32768, "4,486", "1,407", "23.9"), (131072, "17,944", "22,518", "55.7")])
def test_attention_share(n, linear, attention, share):
    check(n * costs.linear_flops_per_token(M, head=False) / 1e12, linear)
    check(costs.attention_flops(M, n) / 1e12, attention)
    check(100 * costs.attention_share(M, n), share)


@pytest.mark.parametrize(("name", "ffn", "linear"), [
    ("Llama-3-70B", 86_016, 104_448), ("Llama-3-8B", 43_008, 53_248), ("Llama-2-7B", 33_024, 49_408),
    ("Qwen2.5-7B", 56_832, 65_024), ("GPT-3-175B", 98_304, 147_456), ("Transformer base", 4_096, 6_144)])
def test_crossovers(name, ffn, linear):
    model = MODELS[name]
    assert costs.attention_crossover(model) == ffn
    assert costs.attention_crossover(model, "linear") == linear
    assert costs.attention_crossover(model, causal=False) == ffn / 2
    parts = costs.flops_by_component(model, ffn)
    assert parts["scores"] == pytest.approx(parts["ffn"], rel=2 / ffn)


SHARE_ROWS = [(128, 1024, "0.009", "0.1", "5.4"), (512, 512, "0.018", "0.4", "18.8"), (1024, 256, "0.036", "1.6", "47.0"),
              (4096, 256, "0.147", "6.2", "72.3"), (8192, 512, "0.306", "6.4", "66.1"), (32768, 200, "1.49", "44.6", "90"),
              (131072, 100, "10.2", "90.1", None)]


@pytest.mark.parametrize(("prompt", "output", "ttft", "lone", "shared"), SHARE_ROWS)
def test_prefill_share(prompt, output, ttft, lone, shared):
    """The facts print 4 ms and 2.8 % in the first row (compute alone; the weights take longer), 46.9 and 44.5 %."""
    times = costs.request_times(M, prompt, output, H100, 8)
    check(times.ttft, ttft)
    check(100 * times.prefill_share, lone)
    if shared:
        check(100 * costs.request_times(M, prompt, output, H100, 8, batch=64).prefill_share, shared)


def test_batch_64_at_32k_does_not_fit():
    assert costs.memory_plan(M, H100, 8).sequences(32_768) < 64
