"""Greedy tokens of the engine against transformers: each request as if it were alone there, whatever shares its batch and its blocks."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import dataclass

import pytest
import torch
from test_transformers_equal import theirs

from tinyserve import checkpoint
from tinyserve.engine import Engine
from tinyserve.request import Request, Status

VOCAB, CASES = 61, 40
KINDS = {"llama": ("llama", 4, 2, 8, 10_000.0, True, False, 1), "qwen2": ("qwen2", 6, 2, 8, 5000.0, False, False, 2)}
"""Arguments of test_transformers_equal.theirs; weights with a spread of at least 0.05."""


@dataclass
class Pair:
    """A model there, the same model here, and what the one there has said so far."""

    reference: torch.nn.Module
    decoder: torch.nn.Module
    said: dict[tuple[int, ...], list[int]]

    def alone(self, prompt: list[int], tokens: int) -> list[int]:
        """What transformers' generate says after the prompt, greedily; asked once for the longest needed."""
        known = self.said.get(tuple(prompt), [])
        if len(known) < tokens:
            with torch.no_grad():
                ids = torch.tensor([prompt])
                out = self.reference.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens, pad_token_id=0)
            known = self.said[tuple(prompt)] = out[0, len(prompt) :].tolist()
        return known[:tokens]


@pytest.fixture(scope="module", params=KINDS)
def pair(request) -> Pair:
    reference = theirs(*KINDS[request.param])
    assert all(weight.std() >= 0.05 for weight in reference.parameters() if weight.dim() == 2)
    assert next(reference.parameters()).dtype == torch.float32
    with tempfile.TemporaryDirectory() as folder:
        reference.save_pretrained(folder)
        return Pair(reference, checkpoint.load(folder), {})


def prompts(rng: random.Random, size: int) -> list[list[int]]:
    """Prompts of lengths around the bounds of blocks, some with a beginning in common, some the same."""
    heads = [[rng.randrange(VOCAB) for _ in range(24)] for _ in range(2)]
    found = []
    for _ in range(rng.randint(5, 8)):
        length = max(1, size * rng.randint(1, max(1, 16 // size)) + rng.choice([-1, 0, 0, 1]))
        shared = rng.choice([0, 0, size, 2 * size, length])
        head = rng.choice(heads)[: min(shared, length)]
        found.append(head + [rng.randrange(VOCAB) for _ in range(length - len(head))])
    return found


def play(pair: Pair, seed: int) -> Counter[str]:
    """One engine, requests at random times; every output is compared. Return what happened."""
    rng, seen = random.Random(seed), Counter()
    size = rng.choice([1, 2, 3, 4, 8, 16])
    asked = [(prompt, rng.choice([1, 2, 9, 16, 20])) for prompt in prompts(rng, size)]
    least = max(-(-(len(prompt) + tokens - 1) // size) for prompt, tokens in asked)
    budget = rng.choice([1, 3, 7, size, 16, 64])
    engine = Engine(
        pair.decoder, least + rng.choice([0, 0, 0, 1, 9 * least]), size, rng.choice([1, 3, 4, 5, 6]), budget,
        prefix_caching=rng.random() < 0.8, chunked=budget < 64 or rng.random() < 0.5,
    )
    requests: list[Request] = []
    while asked or not engine.scheduler.idle:
        while asked and (rng.random() < 0.7 or engine.scheduler.idle):
            prompt, tokens = asked.pop(0)
            requests.append(engine.add(prompt, max_tokens=tokens, priority=rng.choice([0, 0, 0, 1])))
        running = [request for request in requests if request.status is not Status.FINISHED]
        if running and rng.random() < 0.02:
            gone = rng.choice(running)
            seen["aborted in a prompt"] += 0 < gone.num_computed_tokens < len(gone.prompt)
            engine.abort(gone)
        before = {request: request.num_computed_tokens for request in running}
        engine.step()
        seen["prompt in parts"] += any(before.get(r, 0) < r.num_computed_tokens < len(r.prompt) for r in running)
    for request in requests:
        want = pair.alone(request.prompt, request.max_tokens)
        if request.finish_reason == "abort":
            assert request.output == want[: len(request.output)]
        else:
            assert (request.output, request.finish_reason) == (want, "length"), f"seed {seed}, {request}"
        seen["boundary"] += len(request.prompt) % size == 0
        seen["aborted"] += request.finish_reason == "abort"
        seen["readmitted with a hit"] += request.preemptions > 0 and request.num_recomputed_tokens < request.most_computed_tokens
    counted = engine.counters()
    seen["preempted"], seen["hit"], seen["evicted"] = counted["preemptions"], counted["prefix_hits"], counted["evictions"]
    assert counted["blocks_in_use"] == 0 and engine.cache.tokens_appended == counted["model_tokens"]
    return Counter({name: 1 for name, times in seen.items() if times})


def test_every_request_says_what_it_says_alone_in_transformers(pair):
    happened: Counter[str] = Counter()
    for seed in range(CASES):
        happened += play(pair, seed)
    print(dict(happened))
    for event, least in {
        "preempted": 8, "hit": 8, "evicted": 6, "aborted": 6, "aborted in a prompt": 2, "prompt in parts": 8, "boundary": 20, "readmitted with a hit": 3,
    }.items():
        assert happened[event] >= least, f"{event}: in {happened[event]} of {CASES} cases"


def test_an_end_of_sequence_stops_both(pair):
    prompt = prompts(random.Random(5), 4)[0]
    full = pair.alone(prompt, 12)
    end = full[4]
    ids = torch.tensor([prompt])
    with torch.no_grad():
        out = pair.reference.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12, eos_token_id=end, pad_token_id=0)
    request = Engine(pair.decoder, 16, 4).generate([prompt], max_tokens=12, stop_ids=[end])[0]
    assert request.output == out[0, len(prompt) :].tolist() == full[: full.index(end) + 1]
    assert request.finish_reason == "stop"


def test_the_outputs_depend_on_the_prompts(pair):
    """Greedy tokens of a model that hardly moves would prove nothing."""
    said = [tuple(pair.alone(prompt, 12)) for seed in range(4) for prompt in prompts(random.Random(seed), 4) if len(prompt) > 2]
    assert len(set(said)) > len(said) // 2 and sum(len(set(tokens)) for tokens in said) / len(said) > 4
