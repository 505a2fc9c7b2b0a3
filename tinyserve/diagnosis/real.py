"""The two readings that no clock can give: which drafted tokens stay, and whether the text is the right one.

Both run the real engine on a model small enough to build in a moment: random weights, but
its tokens are its own, and a draft or a tokenizer that does not belong to it shows.
"""

from __future__ import annotations

import functools
import hashlib

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, trainers

from .. import costs
from ..configs import PROMPT, ModelConfig
from ..drafting import ModelBatchDrafter
from ..engine import Engine
from ..model import Decoder, build
from ..tokenizer import Tokenizer

TINY = ModelConfig("tiny", 2, 64, 4, 2, 16, 128, 320, tied_embedding=True)
RELEASES = {"old": 0, "new": 1}
"""The seed of each release's weights; a release has a tokenizer of its own, too."""
GOLDEN = (PROMPT, "def median(values):\n", "for value in values:\n    total += value\n", "return total / len(values)\n")
_TEXTS = {
    "old": [PROMPT, "def median(values):\n    return sorted(values)[len(values) // 2]\n"] * 4,
    "new": ["for value in values:\n    total += value\nreturn total / len(values)\n", "the average of a list, the median of a list"] * 4,
}
_BLOCKS, _BLOCK = 64, 16


@functools.cache
def weights(release: str) -> Decoder:
    """Return the tiny model of a release."""
    return build(TINY, std=0.15, seed=RELEASES[release])


@functools.cache
def tokenizer(release: str) -> Tokenizer:
    """Return the tokenizer of a release: byte-level BPE of the same size, merged from other texts."""
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator(_TEXTS[release], trainers.BpeTrainer(vocab_size=TINY.vocab_size, initial_alphabet=alphabet, show_progress=False))
    return Tokenizer(library)


def tokenizer_hash(release: str) -> str:
    """Return the beginning of the SHA-256 of what would be tokenizer.json."""
    return hashlib.sha256(tokenizer(release).library.to_str().encode()).hexdigest()[:8]


@functools.cache
def answers(weights_release: str, tokenizer_release: str) -> tuple[tuple[int, ...], ...]:
    """Return the greedy tokens that follow the golden prompts with these weights behind this tokenizer."""
    coder = tokenizer(tokenizer_release)
    engine = Engine(weights(weights_release), _BLOCKS, _BLOCK)
    return tuple(tuple(r.output) for r in engine.generate([coder.encode(text) for text in GOLDEN], max_tokens=12))


def golden_share(weights_release: str, tokenizer_release: str) -> float:
    """Return the share (0 to 1) of golden prompts whose tokens are those recorded when the weights' release was whole."""
    recorded, found = answers(weights_release, weights_release), answers(weights_release, tokenizer_release)
    return sum(a == b for a, b in zip(recorded, found, strict=True)) / len(GOLDEN)


def draft_model(kind: str) -> Decoder:
    """Return a draft for the old release: "matched" has its weights with a little noise, "stale" is made for the new one."""
    draft = build(TINY, std=0.15, seed=RELEASES["old" if kind == "matched" else "new"])
    generator = torch.Generator().manual_seed(7)
    for parameter in draft.parameters():
        if parameter.dim() == 2:
            parameter += 0.004 * torch.randn(parameter.shape, generator=generator)
    return draft


@functools.cache
def acceptance(kind: str, gamma: int) -> float:
    """Return alpha of a draft: from the engine's counters, by the mean of tokens that a round of gamma guesses brings."""
    engine = Engine(weights("old"), _BLOCKS, _BLOCK, drafter=ModelBatchDrafter(draft_model(kind), _BLOCKS, _BLOCK))
    requests = engine.generate([tokenizer("old").encode(text) for text in GOLDEN], max_tokens=1 + 8 * (gamma + 1), num_draft_tokens=gamma)
    rounds = sum(r.num_drafted_tokens for r in requests) / gamma
    return costs.acceptance_from_tokens(1 + sum(r.num_accepted_tokens for r in requests) / rounds, gamma)
