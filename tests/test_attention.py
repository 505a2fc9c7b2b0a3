"""Plain attention against torch's own, and its errors."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tinyserve.attention import causal_mask, naive_attention


def qkv(n=5, m=7, heads=8, kv_heads=2, dh=16):
    torch.manual_seed(0)
    return tuple(torch.randn(2, h, s, dh, dtype=torch.float64) for h, s in ((heads, n), (kv_heads, m), (kv_heads, m)))


@pytest.mark.parametrize("kv_heads", [1, 2, 8])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_equals_torch(kv_heads, causal, scale):
    q, k, v = qkv(kv_heads=kv_heads)
    mask = causal_mask(5, 7) if causal else None
    theirs = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)
    torch.testing.assert_close(naive_attention(q, k, v, causal=causal, scale=scale), theirs)
    torch.testing.assert_close(naive_attention(q, k, v, mask=mask, scale=scale), theirs)


def test_causal_with_a_cache_equals_the_last_rows_of_the_whole():
    q, k, v = qkv(n=7)
    whole = naive_attention(q, k, v, causal=True)
    torch.testing.assert_close(naive_attention(q[:, :, 4:], k, v, causal=True), whole[:, :, 4:])


def test_the_future_does_not_matter():
    q, k, v = qkv(n=7)
    before = naive_attention(q, k, v, causal=True)
    k[:, :, 4:], v[:, :, 4:] = 9.0, 9.0
    torch.testing.assert_close(naive_attention(q, k, v, causal=True)[:, :, :4], before[:, :, :4])


def test_additive_mask_and_causal_combine():
    q, k, v = qkv(n=7)
    bias = torch.randn(7, 7, dtype=torch.float64)
    both = bias.masked_fill(~causal_mask(7, 7), -torch.inf)
    torch.testing.assert_close(naive_attention(q, k, v, mask=bias, causal=True), naive_attention(q, k, v, mask=both))


def test_a_row_without_keys_is_nan():
    q, k, v = qkv(n=7)
    strict = causal_mask(7, 7) & ~torch.eye(7, dtype=torch.bool)
    out = naive_attention(q, k, v, mask=strict)
    assert out[:, :, 0].isnan().all() and not out[:, :, 1:].isnan().any()


def test_causal_mask_rows():
    assert causal_mask(2, 4).tolist() == [[True, True, True, False], [True] * 4]


@pytest.mark.parametrize(("n", "m"), [(0, 3), (4, 3), (-1, 3)])
def test_causal_mask_refuses(n, m):
    with pytest.raises(ValueError, match=f"n_query={n} is not between 1 and n_key={m}"):
        causal_mask(n, m)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda q, k, v: (q[0], k, v), "q has shape"),
        (lambda q, k, v: (q, k, v[:, :, 1:]), "differ in batch, heads or sequence"),
        (lambda q, k, v: (q[..., 1:], k, v), "differ in batch or head_dim"),
        (lambda q, k, v: (q[:, :7], k, v), "n_heads=7 is not a multiple of n_kv_heads=2"),
    ],
)
def test_shapes_that_do_not_fit(change, words):
    with pytest.raises(ValueError, match=words):
        naive_attention(*change(*qkv()))
