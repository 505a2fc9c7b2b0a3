"""Numbers in few bits: bounds, codes from their bits against torch's own types, packing, bad input."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyserve import quantization as q

WAYS = [{}, {"dim": 1}, {"dim": 0}, {"dim": 1, "group": 32}]


def spread(seed: int, shift: float = 0.0) -> torch.Tensor:
    """Return [64, 128] random numbers whose rows differ widely in size."""
    torch.manual_seed(seed)
    return torch.randn(64, 128) * torch.rand(64, 1).mul(6).exp() + shift


def error_in_scales(x: torch.Tensor, stored: q.Integers) -> float:
    """Return the largest |x - x_hat| over the scale that belongs to it."""
    scale = stored.scale.expand(stored.codes.shape).reshape(x.shape)
    return float(((x.double() - stored.dequantize().double()).abs() / scale).max())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_integers_err_by_half_a_scale(bits, way):
    for seed in range(3):
        x = spread(seed, shift=seed)
        assert error_in_scales(x, q.absmax(x, bits, **way)) <= 0.5001
        assert error_in_scales(x, q.affine(x, bits, **way)) <= 0.5001


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-6e4, 6e4, width=32), min_size=1, max_size=20), st.integers(2, 8))
def test_the_bound_holds_for_any_numbers(numbers, bits):
    x = torch.tensor(numbers)
    for stored in (q.absmax(x, bits), q.affine(x, bits)):
        slack = 1e-6 * float(x.abs().max())
        assert float((x - stored.dequantize()).abs().max()) <= 0.5 * float(stored.scale.max()) + slack


def test_affine_keeps_zero_exactly_and_a_minimum_serves_numbers_far_from_zero():
    x = spread(0).abs()
    x[:, 5] = 0
    assert (q.affine(x, 4, dim=1).dequantize()[:, 5] == 0).all()
    far = 100 + torch.rand(8, 64)
    whole, kept = (q.affine(far, 2, dim=1, exact_zero=zero) for zero in (True, False))
    assert (far - whole.dequantize()).abs().max() > 5 * (far - kept.dequantize()).abs().max()
    assert (far - kept.dequantize()).abs().max() <= kept.scale.max() / 2 + 2**-11 * 101


def test_constant_and_zero_rows_come_back():
    for x in (torch.zeros(2, 64), torch.full((2, 64), 5.0), torch.full((2, 64), -5.0)):
        for stored in (q.absmax(x, 8, dim=1), q.affine(x, 4, dim=1), q.affine(x, 4, dim=1, exact_zero=False), q.int4(x, 32), q.nvfp4(x), q.mxfp4(x), q.fp8(x)):
            assert torch.allclose(stored.dequantize(), x, rtol=0.3)


def test_bytes_count_codes_scales_and_zero_points():
    x = spread(1)
    assert q.absmax(x).nbytes == 64 * 128 + 2
    assert q.absmax(x, dim=1).nbytes == 64 * 128 + 2 * 64
    assert q.affine(x, 2, dim=1, group=32).nbytes == 64 * 128 // 4 + 4 * 64 * 4
    assert q.int4(x, 64).nbytes == 64 * 64 + 4 * 64 * 2 == q.int4(x, 64).packed.nbytes + 4 * 64 * 2
    assert q.fp8(x, dim=1).nbytes == 64 * 128 + 4 * 64
    assert q.mxfp4(x).nbytes == 64 * 64 + 64 * 4
    assert q.nvfp4(x).nbytes == 64 * 64 + 64 * 8 + 4


def test_smaller_groups_err_less():
    x = spread(2)
    errors = [float((x - q.int4(x, group).dequantize()).square().sum()) for group in (16, 32, 64, 128)]
    assert errors == sorted(errors)


def test_packing_is_lossless_and_in_the_stated_order():
    codes = torch.arange(16, dtype=torch.uint8).repeat(4, 2)
    assert torch.equal(q.unpack4(q.pack4(codes)), codes)
    assert q.pack4(torch.tensor([[3, 10]])).item() == 3 + 16 * 10
    x = spread(3)
    assert torch.equal(q.int4(x, 32).dequantize(), q.affine(x, 4, dim=1, group=32).dequantize())


@pytest.mark.parametrize(("form", "dtype"), [(q.E4M3, torch.float8_e4m3fn), (q.E5M2, torch.float8_e5m2)])
def test_fp8_equals_torch_code_by_code(form, dtype):
    ours, theirs = form.values(), torch.arange(256, dtype=torch.uint8).view(dtype).float()
    assert torch.equal(ours.isnan(), theirs.isnan())
    assert torch.equal(ours.nan_to_num(nan=0.0), theirs.nan_to_num(nan=0.0))
    finite = ours[ours.isfinite()].sort().values
    torch.manual_seed(0)
    x = torch.cat([torch.randn(4000) * size for size in (1e-5, 1e-2, 1, 50)] + [finite, (finite[1:] + finite[:-1]) / 2])  # ties too
    x = x.clamp(-form.max, form.max)
    assert torch.equal(form.encode(x), x.to(dtype).view(torch.uint8))


def test_fp8_limits_and_saturation():
    assert (q.E4M3.max, q.E4M3.smallest) == (448, 2**-9)
    assert (q.E5M2.max, q.E5M2.smallest) == (57344, 2**-16)
    assert sum(map(math.isnan, map(q.E4M3.decode, range(256)))) == 2 and sum(map(math.isinf, map(q.E5M2.decode, range(256)))) == 2
    assert q.E4M3.round(torch.tensor([1e9, -math.inf, 449.0])).tolist() == [448, -448, 448]
    assert q.E5M2.round(torch.tensor([1e9, -6e4])).tolist() == [57344, -57344]


@pytest.mark.parametrize("form", [q.E4M3, q.E5M2])
def test_fp8_errs_by_half_a_step_of_its_mantissa(form):
    x = spread(4)
    stored = q.fp8(x, form, dim=1)
    normal = x.abs() >= 2.0 ** (1 - form.bias) * stored.scale
    relative = ((x - stored.dequantize()).abs() / x.abs())[normal]
    half = 2.0 ** -(form.mantissa + 1)
    assert 0.98 * half < relative.max() * (1 + half) <= 1.0001 * half  # worst in the middle above a power of two


def test_fp4_grid_and_block_scales():
    assert q.E2M1.values()[:8].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    x = spread(5)
    mx, nv = q.mxfp4(x), q.nvfp4(x)
    assert torch.equal(torch.frexp(mx.scale).mantissa, torch.full_like(mx.scale, 0.5))  # powers of two
    top = (x.unflatten(-1, (-1, 32)).abs().amax(-1, keepdim=True) / mx.scale)
    assert 4 <= top.min() and top.max() < 8
    assert torch.equal(q.E4M3.round(nv.scale), nv.scale) and nv.scale.max() == 448
    for stored, block in ((mx, 32), (nv, 16)):
        gap = (x - stored.dequantize()).abs().unflatten(-1, (-1, block))
        bound = 2 if stored is mx else 1.0 + 6 / 16  # saturation to 6 from below 8; half the gap 4..6 and the rounded scale
        outer = 1.0 if stored.outer is None else stored.outer
        assert (gap <= bound * stored.scale * outer + 2 * q.E4M3.smallest * 6 * outer).all()
        values = q.unpack_fp4(q.pack_fp4(stored)).unflatten(-1, (-1, block)) * stored.scale * outer
        assert torch.equal(values.flatten(-2), stored.dequantize())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: q.absmax(torch.ones(4), 9), "bits=9"),
        (lambda: q.affine(torch.tensor([1.0, math.nan])), "finite"),
        (lambda: q.absmax(torch.empty(0)), "numbers"),
        (lambda: q.absmax(torch.full((2,), 1e9)), "65504"),
        (lambda: q.absmax(torch.ones(2, 30), dim=1, group=16), "group=16"),
        (lambda: q.absmax(torch.ones(2, 32), group=16), "dim"),
        (lambda: q.pack4(torch.tensor([16, 0])), "16"),
        (lambda: q.pack4(torch.tensor([1, 2, 3])), "n=3"),
        (lambda: q.int4(torch.ones(8)), r"\[8\]"),
        (lambda: q.E4M3.decode(256), "code=256"),
        (lambda: q.E4M3.encode(torch.tensor([math.nan])), "NaN"),
        (lambda: q.fp8(torch.tensor([math.inf])), "finite"),
        (lambda: q.mxfp4(torch.ones(2, 40)), "block=32"),
        (lambda: q.nvfp4(torch.full((1, 16), math.inf)), "finite"),
        (lambda: q.pack_fp4(q.fp8(torch.ones(2, 2))), "E4M3"),
    ],
)
def test_bad_input_is_refused_with_value_and_rule(call, words):
    with pytest.raises(ValueError, match=words):
        call()
