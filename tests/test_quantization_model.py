"""Quantized decoders: K and V, integer products, channels rescaled without changing the function, GPTQ, scores."""

import dataclasses
import math

import pytest
import torch

from tinyserve import configs, costs, quantization as q
from tinyserve.model import build

CONFIG = dataclasses.replace(
    configs.LLAMA_3_8B, name="tiny", n_layers=2, d_model=64, n_heads=4, n_kv_heads=2, head_dim=16, d_ff=128, vocab_size=96, tied_embedding=True
)


@pytest.fixture(scope="module")
def decoder():
    return build(CONFIG, std=0.15, seed=1)


@pytest.fixture(scope="module")
def ids():
    return torch.randint(0, 96, (2, 80), generator=torch.Generator().manual_seed(2))


@pytest.fixture(scope="module")
def inputs(decoder, ids):
    return q.calibrate(decoder, [ids], rows=100)


def logits(decoder, ids, **options):
    return q.log_probs(decoder, ids, **options)


def test_weights_go_through_the_coder_and_bytes_are_counted(decoder):
    new, taken = q.with_weights(decoder, lambda w: q.int4(w, 32))
    assert taken == costs.quantized_weight_bytes(CONFIG, 4, group=32)
    for name, linear in q.matrices(new).items():
        assert torch.equal(linear.weight, q.int4(q.matrices(decoder)[name].weight, 32).dequantize())
    assert torch.equal(new.embedding.weight, decoder.embedding.weight) and len(q.matrices(new)) == 14


def test_int8_products_are_those_of_integers(decoder, ids):
    linear, x = decoder.blocks[0].down, torch.randn(5, 128)
    scale = x.abs().amax(-1, keepdim=True) / 127
    stored = q.absmax(linear.weight, 8, dim=1)
    whole = (x / scale).round().to(torch.int64) @ stored.codes.to(torch.int64).T
    assert torch.equal(q.Int8Linear(linear)(x), whole.float() * scale * stored.scale.flatten())
    with pytest.raises(ValueError, match="1100 columns"):
        q.Int8Linear(torch.nn.Linear(1100, 4))
    assert (q.with_int8(decoder)(ids) - decoder(ids)).abs().mean() < 0.05 * decoder(ids).std()


def test_static_scales_clip_what_calibration_did_not_show(decoder, ids, inputs):
    right, narrow = q.with_int8(decoder, inputs), q.with_int8(decoder, q.calibrate(decoder, [torch.zeros(1, 2, dtype=torch.long)]))
    errors = []
    for model in (right, narrow):
        errors.append((model(ids) - decoder(ids)).abs().mean())
        model.clipped = sum(m.clipped for m in model.modules() if isinstance(m, q.Int8Linear))
    assert errors[0] < errors[1] and right.clipped < narrow.clipped and narrow.clipped > 0


def test_calibration_reports_what_flows_in(decoder, ids, inputs):
    x = decoder.blocks[0].norm1(decoder.embedding(ids)).flatten(0, 1)
    assert torch.allclose(inputs["0.q"].largest, x.abs().amax(0)) and torch.allclose(inputs["0.q"].mean, x.abs().mean(0))
    assert inputs["1.down"].rows.shape == (100, 128) and torch.equal(inputs["0.q"].rows, inputs["0.v"].rows)
    assert not any(m._forward_pre_hooks for m in decoder.modules())
    with pytest.raises(ValueError, match="no tokens"):
        q.calibrate(decoder, [])
    with pytest.raises(ValueError, match="rows=0"):
        q.calibrate(decoder, [ids], rows=0)


def test_planting_changes_no_bit_of_the_logits_and_makes_outliers(decoder, ids):
    planted = q.plant(decoder, [3, 40], 64)
    assert torch.equal(planted(ids, logits="all"), decoder(ids, logits="all"))
    found = q.calibrate(planted, [ids])
    for name in ("0.q", "1.k", "1.gate"):
        assert set(found[name].largest.topk(2).indices.tolist()) == {3, 40}
    keys = q.plant_keys(decoder, 5, 16)
    assert torch.equal(keys(ids, logits="all"), decoder(ids, logits="all")) and not torch.equal(keys.blocks[0].k.weight, decoder.blocks[0].k.weight)


def test_smoothing_keeps_the_function_levels_the_channels_and_undoes_outliers(decoder, ids):
    planted = q.plant(decoder, [3, 40], 64)
    found = q.calibrate(planted, [ids])
    smoothed = q.smooth(planted, found)
    want = logits(decoder, ids)
    assert torch.allclose(logits(smoothed, ids), want, atol=1e-4)
    after = q.calibrate(smoothed, [ids])["0.q"].largest
    w = torch.stack([q.matrices(smoothed)[f"0.{n}"].weight.abs().amax(0) for n in "qkv"]).amax(0)
    assert torch.allclose(after, w, rtol=1e-3)
    rough, level = ((logits(q.with_int8(m), ids) - want).abs().mean() for m in (planted, smoothed))
    assert rough > 5 * level


def test_rescale_of_up_and_down_keeps_the_function(decoder, ids):
    new = q.layers.copied(decoder)
    q.rescale(new.blocks[1], "up", torch.rand(128) + 0.5)
    assert torch.allclose(logits(new, ids), logits(decoder, ids), atol=1e-4)


def test_awq_keeps_the_function_and_never_loses_on_its_own_rows(decoder, ids):
    planted = q.plant(decoder, [3, 40], 64)
    found = q.calibrate(planted, [ids])

    def coder(w):
        return q.int4(w, 64)

    scaled, chosen = q.awq(planted, found, coder, steps=4)
    assert torch.allclose(logits(scaled, ids), logits(decoder, ids), atol=1e-4)
    assert set(chosen) == {f"{n}.{w}" for n in range(2) for w in q.migration.PAIRS} and max(chosen.values()) > 0
    plain, better = ((logits(q.with_weights(m, coder)[0], ids) - logits(decoder, ids)).abs().mean() for m in (planted, scaled))
    assert better < plain


def test_gptq_beats_rounding_on_its_rows_and_moves_further_from_the_weights():
    torch.manual_seed(3)
    weight, mix = torch.randn(48, 64), torch.randn(64, 64) * 0.3 + torch.eye(64)
    x, fresh = (torch.randn(n, 64) @ mix for n in (800, 500))
    plain, fed = q.int4(weight, 32).dequantize(), q.gptq(weight, x, 32).dequantize()
    for rows in (x, fresh):
        assert q.output_error(rows, weight, fed) < 0.8 * q.output_error(rows, weight, plain)
    assert (weight - fed).square().sum() > (weight - plain).square().sum()
    white = q.gptq(weight, torch.eye(64) * 8, 32)  # unrelated channels: nothing to make up for
    assert torch.allclose(white.dequantize(), plain)
    assert white.nbytes == q.int4(weight, 32).nbytes


def test_a_cache_of_codes_counts_bytes_and_is_exact_until_a_group_is_full(decoder, ids):
    want = logits(decoder, ids)
    made = []

    def cache(name="int8", group=32):
        made.append(q.QuantizedCache(CONFIG, *q.CODERS[name], group=group))
        return made[-1]

    assert torch.allclose(logits(decoder, ids, cache=lambda: cache(group=100), chunk=16), want, atol=1e-4)
    assert made[-1].tokens_coded == 0 and made[-1].length == 80
    errors = {}
    for name in ("int8", "fp8", "int4", "int2"):
        errors[name] = float((logits(decoder, ids, cache=lambda n=name: cache(n), chunk=16) - want).abs().mean())
        assert made[-1].tokens_coded == 2 * 64 and made[-1].rest[0][0].shape[2] == 16
    assert 0 < errors["int8"] < errors["int4"] < errors["int2"] and errors["int8"] < errors["fp8"]
    per_group = (32 * 16 * 2 / 8 + 4 * 16) + (32 * 16 * 2 / 8 + 4 * 32)  # keys: 16 channels with scale and minimum; values: 32 tokens
    assert made[-1].nbytes == 2 * 2 * 2 * 2 * per_group + 2 * 2 * 2 * 2 * 16 * 16 * 2
    with pytest.raises(ValueError, match="group=0"):
        q.QuantizedCache(CONFIG, *q.CODERS["int8"], group=0)


def test_keys_with_large_channels_need_a_scale_per_channel(decoder, ids):
    planted, want = q.plant_keys(decoder, 5, 16), logits(decoder, ids)
    errors = [
        (logits(planted, ids, cache=lambda n=name: q.QuantizedCache(CONFIG, *q.CODERS[n], group=16), chunk=16) - want).abs().mean()
        for name in ("int2", "int2, keys per token")
    ]
    assert 1.5 * errors[0] < errors[1]


def test_scores(decoder, ids):
    want = logits(decoder, ids[:, :-1])
    same = q.score(want, want, ids[:, 1:], 300)
    assert (same.kl, same.same) == (0, 1)
    assert same.bits == pytest.approx(-want.gather(-1, ids[:, 1:, None]).sum().item() / math.log(2) / 300)
    other = q.score(want, logits(q.with_weights(decoder, lambda w: q.absmax(w, 2))[0], ids[:, :-1]), ids[:, 1:], 300)
    assert other.kl > 0.01 and other.same < 1


def test_kl_is_taken_under_the_original():
    original, changed = torch.tensor([[[0.5, 0.5]]]).log(), torch.tensor([[[0.9, 0.1]]]).log()
    found = q.score(original, changed, torch.zeros(1, 1, dtype=torch.long), 1)
    assert found.kl == pytest.approx(0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1))
    assert found.bits == pytest.approx(-math.log2(0.9))


@pytest.mark.parametrize("name", ["int8", "int4", "int2"])
def test_keys_share_a_scale_along_tokens_and_values_along_channels(name):
    key, value = q.CODERS[name]
    stored_key, stored_value = key(torch.randn(2, 3, 16, 8)), value(torch.randn(2, 3, 16, 8))
    assert (stored_key.scale.shape, stored_value.scale.shape) == ((2, 3, 1, 8), (2, 3, 16, 1))


def test_bytes_of_coded_k_and_v():
    model = configs.LLAMA_3_70B
    assert costs.quantized_kv_bytes(model, 100, 8, group_bytes=0) == costs.kv_cache_bytes(model, 100, "fp8")
    assert costs.quantized_kv_bytes(model, 1, 2, group=32) == 2 * 80 * 8 * 128 * (2 / 8 + 4 / 32)
    for bad in ({"bits": 0}, {"group": 0}, {"group_bytes": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(bad))}="):
            costs.quantized_kv_bytes(model, 1, **bad)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d, i: q.plant(d, [3], 6), "factor=6"),
        (lambda d, i: q.plant(d, [64]), "channels="),
        (lambda d, i: q.plant_keys(d, 8), "pair=8"),
        (lambda d, i: q.plant_keys(d, 2, 3), "factor=3"),
        (lambda d, i: q.rescale(d.blocks[0], "o", torch.ones(64)), "writer='o'"),
        (lambda d, i: q.rescale(d.blocks[0], "norm1", torch.zeros(64)), "above 0"),
        (lambda d, i: q.smooth(d, i, 1.5), "alpha=1.5"),
        (lambda d, i: q.awq(d, i, q.int4, steps=0), "steps=0"),
        (lambda d, i: q.gptq(torch.ones(2, 8), torch.ones(3, 4), 4), r"\[3, 4\]"),
        (lambda d, i: q.gptq(torch.ones(2, 8), torch.ones(3, 8), 3), "group=3"),
        (lambda d, i: q.gptq(torch.ones(2, 8), torch.ones(3, 8), 4, damp=0), "damp=0"),
        (lambda d, i: q.score(torch.ones(1, 2, 3), torch.ones(1, 2, 4), torch.ones(1, 2), 3), "do not fit"),
        (lambda d, i: q.score(torch.ones(1, 2, 3), torch.ones(1, 2, 3), torch.ones(1, 2), 0), "size=0"),
    ],
)
def test_bad_input_is_refused_with_value_and_rule(call, words, decoder, inputs):
    with pytest.raises(ValueError, match=words):
        call(decoder, inputs)
