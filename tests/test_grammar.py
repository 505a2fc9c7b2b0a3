"""Patterns against Python's re, and the masks against their definition."""

import random
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tinyserve.grammar import FINISHED, TokenMasks, compile_pattern

SINGLE = [bytes([i]) for i in range(256)]
END = 256
VOCABULARY = [*SINGLE, b"<end>", b"ab", b"abc", b"12", b'": ', b'{"', b"", b"ba"]
PATTERNS = [
    "abc", "a|bc|", "(ab)*", "a+b?", "a{2,3}", "a{3}", "a{2,}", "[a-c]+[^a-c ]", "\\d+(\\.\\d{1,2})?", ".*", "[]x]+", "[a\\-b]", "(a|ab)(c|bcd)",
    '\\{"n": (0|[1-9]\\d*)\\}', "(a*b|c)*", "x\\n\\ty", "é|ü+", "()", "<end>x?", "[ab]*a[ab]{2}",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_equals_re(pattern):
    ours, theirs = compile_pattern(pattern), re.compile(pattern.replace(".", "[ -~]") if pattern == ".*" else pattern)
    alphabet, rng = 'abcdx01.{}"n: ]-éü\n\t', random.Random(0)
    texts = {"", "ab", "aab", "x\n\ty", '{"n": 10}', '{"n": 01}', "é", "üü", "12.34", "12.345", "abcd", "a-"}
    texts |= {"".join(rng.choices(alphabet[: rng.randint(1, len(alphabet))], k=rng.randint(0, 6))) for _ in range(3000)}
    texts |= {"<end>", ""}
    assert any(theirs.fullmatch(text) for text in texts)
    for text in sorted(texts):
        if pattern.startswith("[a-c]+[^") and not text.isascii():
            continue  # [^…] is printable ASCII here
        assert ours.matches(text.encode()) == bool(theirs.fullmatch(text)), text


@pytest.mark.parametrize(
    ("pattern", "rule"),
    [("(a", "without its )"), ("a)", "without its ("), ("*a", "nothing before"), ("[ab", "ends too early"), ("a{2", "whole numbers"), ("a{3,2}", "must rise"),
     ("a{999}", "must rise"), ("\\w", "not one of"), ("[é]", "ASCII only"), ("a\\", "ends too early"), ("[b-a]", "backwards"), ("[^ -~]", "matches no text")],
)
def test_bad_patterns_are_refused(pattern, rule):
    with pytest.raises(ValueError, match=re.escape(rule)):
        compile_pattern(pattern)


def test_dead_ends_are_gone():
    automaton = compile_pattern("ab(c|[^ -~])|x[^ -~]")
    assert automaton.step(0, b"x") is None
    assert automaton.matches(b"abc")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_mask_is_its_definition(pattern):
    automaton = compile_pattern(pattern)
    masks = TokenMasks(automaton, VOCABULARY, END)
    for state in range(len(automaton.next)):
        want = [token != END and bool(data) and automaton.step(state, data) is not None for token, data in enumerate(VOCABULARY)]
        want[END] = automaton.accepting[state]
        assert masks.allowed(state).tolist() == want
        assert masks.allowed(state).any()  # never stuck
    assert masks.built == len(automaton.next)


@given(st.sampled_from(PATTERNS), st.integers(0, 2**32 - 1))
def test_any_walk_through_the_masks_matches(pattern, seed):
    masks, rng = TokenMasks(compile_pattern(pattern), VOCABULARY, END), random.Random(seed)
    state, text = 0, b""
    for _ in range(200):
        token = rng.choice(masks.allowed(state).nonzero()[:, 0].tolist())
        if masks.automaton.accepting[state] and rng.random() < 0.2:
            token = END
        state = masks.advance(state, token)
        if state == FINISHED:
            break
        text += VOCABULARY[token]
        assert masks.automaton.step(0, text) == state
    if state == FINISHED:
        assert masks.automaton.matches(text)


def test_misuse_is_refused():
    masks = TokenMasks(compile_pattern("ab"), VOCABULARY, END)
    with pytest.raises(ValueError, match="token=99 is not allowed in state 0"):
        masks.advance(0, 99)
    for token in (-len(VOCABULARY) + ord("a"), len(VOCABULARY)):
        with pytest.raises(ValueError, match=f"token={token} "):
            masks.advance(0, token)
    with pytest.raises(ValueError, match="token=256"):
        masks.advance(0, END)
    state = masks.advance(masks.advance(0, VOCABULARY.index(b"ab")), END)
    assert state == FINISHED
    with pytest.raises(ValueError, match="finished"):
        masks.allowed(state)
    with pytest.raises(ValueError, match="end_id=300"):
        TokenMasks(compile_pattern("a"), VOCABULARY, 300)


def test_masks_are_kept():
    masks = TokenMasks(compile_pattern("(ab)*"), VOCABULARY, END)
    assert masks.allowed(0) is masks.allowed(0)
    assert masks.allowed(0).dtype == torch.bool
    assert masks.built == 1
