"""Encoder-decoder against decoder-only: the formulas against real matrices, and a conversation turn by turn."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tinyserve import costs
from tinyserve.attention import naive_attention

L, D, N, M = 3, 64, 40, 7
SMALL = costs.EncoderDecoderCosts(L, D, N, M)


class Attention(nn.Module):
    """Four square matrices; K and V can come from elsewhere."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))

    def forward(self, x, keys, causal):
        split = [t.unflatten(-1, (4, 16)).transpose(1, 2) for t in (self.q(x), *keys)]
        return self.o(naive_attention(*split, causal=causal).transpose(1, 2).flatten(2))

    def project(self, x):
        return self.k(x), self.v(x)


class Layer(nn.Module):
    def __init__(self, cross):
        super().__init__()
        self.own, self.cross = Attention(), Attention() if cross else None
        self.up, self.down = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)

    def forward(self, x, causal, cross_keys=None):
        x = x + self.own(x, self.own.project(x), causal)
        if self.cross is not None:
            x = x + self.cross(x, cross_keys, False)
        return x + self.down(self.up(x).relu())


def stack(count, cross=False):
    return nn.ModuleList(Layer(cross) for _ in range(count))


def counted(function):
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        result = function()
    return counter.get_total_flops(), result


def size(module):
    return sum(p.numel() for p in module.parameters())


def run(layers, x, causal, keys=None):
    for i, layer in enumerate(layers):
        x = layer(x, causal, keys[i] if keys else None)
    return x


def test_parameters_are_those_of_the_stacks():
    assert SMALL.params().encoder_decoder == size(stack(L)) + size(stack(L, cross=True))
    assert SMALL.params().decoder_only == size(stack(2 * L))


def test_weights_of_a_step_leave_out_what_runs_once_per_input():
    decoder = stack(L, cross=True)
    once = sum(size(layer.cross.k) + size(layer.cross.v) for layer in decoder)
    assert SMALL.step_weight_bytes().encoder_decoder == 2 * (size(decoder) - once)
    assert SMALL.step_weight_bytes().decoder_only == 2 * size(stack(2 * L))


def test_encoder_and_cross_keys_cost_what_a_counter_sees():
    encoder, decoder, x = stack(L), stack(L, cross=True), torch.randn(1, N, D)
    flops, out = counted(lambda: run(encoder, x, causal=False))
    assert flops == SMALL.input_flops().encoder_decoder
    flops, keys = counted(lambda: [layer.cross.project(out) for layer in decoder])
    assert flops == SMALL.cross_kv_flops().encoder_decoder
    flops, _ = counted(lambda: run(decoder, torch.randn(1, M, D), causal=True, keys=keys))
    extra = 4 * L * D * (M * M - M * (M + 1) // 2)  # the counter sees the square of the outputs, the formula its causal half
    assert flops - extra == SMALL.output_flops().encoder_decoder


def test_decoder_only_reads_its_input_with_a_causal_half():
    flops, _ = counted(lambda: run(stack(2 * L), torch.randn(1, N, D), causal=True))
    square = 8 * L * D * N * N
    assert flops - square // 2 == SMALL.input_flops().decoder_only


def test_the_cache_is_k_and_v_of_every_layer():
    decoder, only = stack(L, cross=True), stack(2 * L)
    cross = [t for layer in decoder for t in layer.cross.project(torch.zeros(1, N, D))]
    own = [t for layer in decoder for t in layer.own.project(torch.zeros(1, M, D))]
    assert SMALL.kv_bytes().encoder_decoder == 2 * sum(t.numel() for t in cross + own)
    assert SMALL.kv_bytes().decoder_only == 2 * sum(t.numel() for layer in only for t in layer.own.project(torch.zeros(1, N + M, D)))


def test_a_step_reads_weights_once_and_each_cache():
    one, nine = SMALL.step_bytes(), SMALL.step_bytes(9)
    for name in ("encoder_decoder", "decoder_only"):
        assert getattr(nine, name) - getattr(one, name) == 8 * getattr(SMALL.kv_bytes(), name)
        assert getattr(one, name) == getattr(SMALL.step_weight_bytes(), name) + getattr(SMALL.kv_bytes(), name)


def test_the_documents_example_of_a_step():
    e = costs.EncoderDecoderCosts(24, 1024, 2048, 256)
    weights = e.step_weight_bytes()
    assert (round(weights.encoder_decoder / 1e6), round(weights.decoder_only / 1e6)) == (705, 1208)
    assert weights.encoder_decoder / weights.decoder_only == pytest.approx(14 / 24)


def test_a_first_request_is_the_sum_of_its_parts():
    parts = (SMALL.input_flops(), SMALL.cross_kv_flops(), SMALL.output_flops())
    assert SMALL.request_flops().encoder_decoder == sum(p.encoder_decoder for p in parts)
    assert SMALL.request_flops().decoder_only == sum(p.decoder_only for p in parts)


def test_cached_tokens_are_attended_and_not_read_again():
    held = SMALL.request_flops(cached=100).decoder_only - SMALL.request_flops().decoder_only
    assert held == 8 * L * D * 100 * (N + M)  # every new token, read or written, sees the 100
    whole = costs.EncoderDecoderCosts(L, D, N + 100, M).request_flops().encoder_decoder
    assert SMALL.request_flops(cached=100).encoder_decoder == whole


def test_a_conversation_adds_up_its_turns():
    second = costs.EncoderDecoderCosts(L, D, 5, M)
    both = SMALL.conversation_flops(2, more=5)
    assert both.decoder_only == SMALL.request_flops().decoder_only + second.request_flops(N + M).decoder_only
    assert both.encoder_decoder == SMALL.request_flops().encoder_decoder + second.request_flops(N + M).encoder_decoder
    anew = costs.EncoderDecoderCosts(L, D, N + M + 5, M).request_flops().decoder_only
    assert SMALL.conversation_flops(2, 5, prefix_cache=False).decoder_only == SMALL.request_flops().decoder_only + anew
    assert SMALL.conversation_flops(1, 5) == SMALL.request_flops()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SMALL.step_bytes(0), "batch=0"),
        (lambda: SMALL.request_flops(-1), "cached=-1"),
        (lambda: SMALL.conversation_flops(0, 5), "turns=0"),
        (lambda: SMALL.conversation_flops(1, 0), "more=0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
