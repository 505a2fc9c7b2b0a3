"""Costs of questions about long documents."""

import math

import pytest

from tinyserve import configs, costs, hardware
from tinyserve.costs import long_context as lc

M, H100 = configs.LLAMA_3_70B, hardware.H100_SXM


@pytest.mark.parametrize(("tokens", "cached"), [(4096, 0), (32768, 0), (131072, 0), (2048, 100_000)])
def test_the_two_parts_are_the_prefill_time(tokens, cached):
    linear, quadratic = lc.prefill_parts(M, tokens, H100, 8, cached)
    assert linear + quadratic == pytest.approx(costs.prefill_time(M, tokens, H100, 8, cached, mfu=0.5))
    assert quadratic == pytest.approx(4 * 80 * 8192 * (tokens * cached + tokens * (tokens + 1) / 2) / (8 * 989e12 * 0.5))


def test_the_parts_grow_as_they_are_called():
    short, long = lc.prefill_parts(M, 16384, H100, 8), lc.prefill_parts(M, 32768, H100, 8)
    assert long[0] / short[0] == pytest.approx(2, rel=1e-4) and long[1] / short[1] == pytest.approx(4, rel=1e-3)


def test_the_documents_figures():
    once, each = lc.document_flops(M, 131072, 200, "cached")
    assert (once / 1e12, each / 1e12) == (pytest.approx(40462, rel=1e-4), pytest.approx(96.15, rel=1e-3))
    assert lc.document_flops(M, 131072, 200, "retrieved", 3896)[1] / 1e12 == pytest.approx(582.7, rel=1e-3)
    nothing, each = lc.document_flops(M, 131072, 200, "stuffed")
    assert nothing == 0 and each == costs.forward_flops(M, 131272)
    assert each > once  # a stuffed question is never cheaper than the document alone


def test_a_cached_document_and_its_question_are_the_stuffed_prompt():
    once, each = lc.document_flops(M, 1000, 50, "cached")
    # the head works on the last position of each pass, hence twice against once
    assert once + each == lc.document_flops(M, 1000, 50, "stuffed")[1] + 2 * M.d_model * M.vocab_size


def test_break_even_is_where_the_sums_meet():
    q = lc.break_even_questions(100, 1, 5)
    assert q == 25 and 100 + 25 * 1 == 25 * 5
    assert lc.per_question(100, 1, q) == 5
    assert lc.break_even_questions(100, 5, 5) == math.inf
    assert lc.break_even_questions(0, 1, 5) == 0
    assert lc.break_even_questions(10, 5, 5, other_once=20) == 0
    assert lc.break_even_questions(0, 10, 1, other_once=100) == math.inf  # cheaper for 11 questions, dearer from then on
    assert lc.break_even_questions(100, 1, 5, other_once=60) == 10


def test_answer_times_without_a_prefix_are_request_times():
    ours, theirs = lc.answer_times(M, 500, 0, 20, H100, 8), costs.request_times(M, 500, 20, H100, 8)
    assert (ours.ttft, ours.decode) == (theirs.ttft, pytest.approx(theirs.decode))
    cached = lc.answer_times(M, 200, 131072, 20, H100, 8)
    assert cached.ttft < lc.answer_times(M, 131272, 0, 20, H100, 8).ttft / 100
    assert cached.decode == pytest.approx(lc.answer_times(M, 131272, 0, 20, H100, 8).decode)
    assert lc.answer_times(M, 500, 0, 20, H100, 8, batch=4).decode > ours.decode


def test_kv_adds_its_bytes_to_a_step():
    added = costs.decode_time(M, 1, 131072, H100, 8, mbu=0.6) - costs.decode_time(M, 1, 1, H100, 8, mbu=0.6)
    assert lc.kv_step_seconds(M, 131071, H100, 8) == pytest.approx(added)
    assert lc.kv_step_seconds(M, 131072, H100, 8, kv_dtype="fp8") == pytest.approx(lc.kv_step_seconds(M, 131072, H100, 8) / 2)


def test_a_question_adds_its_arithmetic_and_its_k_and_v():
    alone = lc.question_seconds(M, 200, 131072, 1, H100, 8)
    assert alone == pytest.approx(sum(lc.prefill_parts(M, 200, H100, 8, 131072)))
    read = sum(lc.kv_step_seconds(M, 131072 + 200 + i, H100, 8) for i in (1, 2, 3))
    assert lc.question_seconds(M, 200, 131072, 4, H100, 8) == pytest.approx(alone + read)
    shared = lc.question_seconds(M, 200, 131072, 4, H100, 8, sharing=4) - alone
    assert shared == pytest.approx(read - 3 * lc.kv_step_seconds(M, 131072, H100, 8) * 3 / 4)


def test_routing_pays_both_for_what_it_routes():
    assert lc.routed_tokens(1000, 100_000, 0) == 1000
    assert lc.routed_tokens(1000, 100_000, 1) == 101_000
    assert lc.routed_tokens(1000, 100_000, 0.25) == 26_000


def test_all_passages_are_found_less_often_than_one():
    assert lc.needed_share(0.9, 1) == 0.9 and lc.needed_share(0.5, 3) == 0.125


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: lc.per_question(1, 1, 0), "questions=0 is not above 0"),
        (lambda: lc.break_even_questions(-1, 0, 0), "an amount is below 0"),
        (lambda: lc.document_flops(M, 1000, 10, "guessed"), "way='guessed' is not one of stuffed, cached, retrieved"),
        (lambda: lc.document_flops(M, 1000, 10, "retrieved"), "passages=0 is not a whole number"),
        (lambda: lc.document_flops(M, 0, 10, "stuffed"), "document=0 is not a whole number"),
        (lambda: lc.answer_times(M, 10, 0, 0, H100), "output=0 is not a whole number"),
        (lambda: lc.kv_step_seconds(M, 0, H100), "context=0 is not a whole number"),
        (lambda: lc.routed_tokens(10, 10, 1.5), "share=1.5 is not between 0 and 1"),
        (lambda: lc.question_seconds(M, 10, 10, 10, H100, sharing=0.5), "sharing=0.5 is below 1"),
        (lambda: lc.needed_share(0.5, 0), "passages=0 is not a whole number"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()
