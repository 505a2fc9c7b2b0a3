"""Greedy tokens of vLLM, transformers and tinyserve are the same in float32: under load, preempted, speculating."""

import json
import random
import urllib.request

import pytest
import torch
from transformers import AutoModelForCausalLM

from benchmarks.vllm_client import Call, run
from benchmarks.vllm_predict import made_up
from benchmarks.vllm_server import NAME
from course import models
from tinyserve.engine import Engine

NEW = 32


@pytest.fixture(scope="module")
def prompts():
    """Eight pieces of held-out text, eight prompts of random ids: their answers hardly repeat."""
    _, tokenizer = models.load()
    texts = [tokenizer.encode(text)[: 20 + 5 * i] for i, text in enumerate(list(models.held_out().values())[:8])]
    rng = random.Random(3)
    return texts + [made_up(rng, 10 + 20 * i) for i in range(8)]


@pytest.fixture(scope="module")
def ours(prompts):
    decoder, _ = models.load()
    engine = Engine(decoder, num_blocks=512)
    return [request.tokens[len(prompt):] for prompt, request in zip(prompts, engine.generate(prompts, max_tokens=NEW), strict=True)]


def outputs(url, prompts):
    answers = run(url, NAME, [Call(prompt, NEW) for prompt in prompts])
    assert not [a.error for a in answers if a.error]
    return [a.tokens for a in answers]


def test_the_answers_are_worth_comparing(ours):
    assert len({tuple(tokens) for tokens in ours}) == len(ours)
    assert sum(len(set(tokens)) for tokens in ours) > 0.4 * len(ours) * NEW


def test_tinyserve_equals_transformers(prompts, ours):
    model = AutoModelForCausalLM.from_pretrained(models.folder(), dtype=torch.float32).eval()
    for prompt, tokens in zip(prompts, ours, strict=True):
        found = model.generate(torch.tensor([prompt]), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0)
        assert found[0, len(prompt):].tolist() == tokens


def test_vllm_equals_tinyserve_all_at_once(plain, prompts, ours):
    assert outputs(plain.url, prompts) == ours
    assert outputs(plain.url, prompts) == ours  # once more, from the prefix cache


def test_log_probabilities_agree(plain, prompts):
    decoder, _ = models.load()
    for prompt in prompts[::4]:
        body = {"model": NAME, "prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": 1, "return_token_ids": True}
        request = urllib.request.Request(f"{plain.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        (choice,) = json.load(urllib.request.urlopen(request, timeout=60))["choices"]
        with torch.no_grad():
            mine = decoder(torch.tensor([prompt]), logits="last").flatten().log_softmax(-1)
        assert choice["logprobs"]["token_logprobs"][0] == pytest.approx(mine[choice["token_ids"][0]].item(), abs=2e-4)


def test_preempted_requests_give_the_same_tokens(tight, prompts, ours):
    before = tight.metrics()["vllm:num_preemptions_total"]
    short = [(prompt, tokens) for prompt, tokens in zip(prompts, ours, strict=True) if len(prompt) <= 120]
    answers = run(tight.url, NAME, [Call(prompt + tokens[:1], NEW - 1) for prompt, tokens in short])
    assert [a.tokens for a in answers] == [tokens[1:] for _, tokens in short]
    run(tight.url, NAME, [Call(prompt, 100) for prompt, _ in short])
    assert tight.metrics()["vllm:num_preemptions_total"] > before


def test_an_adapter_changes_the_tokens(tight, prompts, ours):
    (answer,) = run(tight.url, "noisy", [Call(prompts[0], NEW)])
    assert not answer.error and answer.tokens != ours[0]
