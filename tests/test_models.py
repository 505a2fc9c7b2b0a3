"""The models of the book: their files, their measure, their cards, and the export that writes them."""

import hashlib
import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from course import models, results
from tinyserve import costs
from tinyserve.configs import COURSE_DRAFT, COURSE_MODEL, PROMPT
from tinyserve.kv_cache import ContiguousCache
from tinyserve.model import build
from tinyserve.tokenizer import Tokenizer
from training import corpus, export, train

TOKENIZER = Tokenizer.load(models.FOLDER / "course-model")
TOY = replace(COURSE_DRAFT, n_layers=1, d_model=16, n_heads=1, head_dim=8, d_ff=16)
TEXT = "def f(x):\n    return x  # é😀\n" * 6
HERE = [name for name in models.NAMES if (models.FOLDER / name).is_dir()]


def record(name):
    """What is recorded of a model's training, or None where it has not ended."""
    try:
        return results.load(export.record_name(name))
    except FileNotFoundError:
        return None


def one_by_one(decoder, text, window):
    """Bits of a text, a token at a time through a cache, which is emptied at each window's end."""
    ids, bits = [TOKENIZER.end_id, *TOKENIZER.encode(text)], 0.0
    cache = ContiguousCache(decoder.config, 1, window)
    for i, (before, token) in enumerate(zip(ids, ids[1:], strict=False)):
        if i % window == 0:
            cache.truncate(0)
        logits = decoder(torch.tensor([[before]]), cache=cache)[0, 0].double()
        bits -= logits.log_softmax(-1)[token].item() / math.log(2)
    return bits


@pytest.mark.parametrize("window", [1, 7, 1024])
def test_bits_per_byte_is_the_sum_over_its_tokens(window):
    decoder, texts = build(TOY, std=0.5), [TEXT, "import os\n", ""]
    want = sum(one_by_one(decoder, text, window) for text in texts) / sum(len(text.encode()) for text in texts)
    assert models.bits_per_byte(decoder, TOKENIZER, texts, window) == pytest.approx(want, rel=1e-5)


def test_a_model_that_knows_nothing_needs_the_same_bits_for_every_token():
    decoder = build(TOY, std=1e-9)
    want = len(TOKENIZER.encode(TEXT)) * math.log2(TOKENIZER.vocab_size) / len(TEXT.encode())
    assert models.bits_per_byte(decoder, TOKENIZER, [TEXT]) == pytest.approx(want, rel=1e-5)


def test_bad_input_is_named(monkeypatch, tmp_path):
    decoder = build(TOY)
    for texts, window, says in (([TEXT], 0, "window=0 is below 1"), ([""], 8, "hold no bytes"), ([], 8, "hold no bytes")):
        with pytest.raises(ValueError, match=says):
            models.bits_per_byte(decoder, TOKENIZER, texts, window)
    with pytest.raises(ValueError, match="no end token"):
        models.bits_per_byte(decoder, Tokenizer(TOKENIZER.library), [TEXT])
    with pytest.raises(ValueError, match="name='gpt' is not one of course-model, course-draft"):
        models.folder("gpt")
    monkeypatch.setattr(models, "FOLDER", tmp_path)
    monkeypatch.setattr(models, "HELD_OUT", tmp_path)
    with pytest.raises(FileNotFoundError, match="models/course-draft is missing: .*git checkout models/course-draft"):
        models.load("course-draft")
    with pytest.raises(FileNotFoundError, match="data/heldout/Lib holds no text"):
        models.held_out()


def test_held_out_texts_are_the_manifests():
    manifest = json.loads((models.HELD_OUT.parent / "manifest.json").read_text(encoding="utf-8"))
    texts = models.held_out()
    assert set(texts) == set(manifest) and all(corpus.is_held_out(path) for path in texts)
    for path, text in texts.items():
        raw = text.encode()
        assert manifest[path] == {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    assert sum(entry["bytes"] for entry in manifest.values()) < 2e6
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in (models.HELD_OUT.parent / "LICENSE.txt").read_text(encoding="utf-8")


def test_held_out_texts_keep_their_line_ends(monkeypatch, tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "m.py.txt").write_bytes("é\r\n\n".encode())
    monkeypatch.setattr(models, "HELD_OUT", tmp_path)
    assert models.held_out() == {"p/m.py": "é\r\n\n"}


@pytest.mark.parametrize("name", HERE)
def test_a_model_of_the_book_opens(name):
    decoder, tokenizer = models.load(name)
    config = {"course-model": COURSE_MODEL, "course-draft": COURSE_DRAFT}[name]
    assert replace(decoder.config, source=config.source) == config and tokenizer.vocab_size == config.vocab_size
    assert tokenizer.end_id == 0 and decoder.embedding.weight.dtype == torch.float32
    assert sum(p.numel() for p in decoder.parameters()) == costs.params(config)
    assert tokenizer.encode(PROMPT) == TOKENIZER.encode(PROMPT)
    logits = decoder(torch.tensor([[0, *tokenizer.encode(PROMPT)]]))
    half = models.load(name, torch.bfloat16)[0]
    assert half.embedding.weight.dtype == torch.bfloat16
    assert torch.equal(half.embedding.weight.float(), decoder.embedding.weight)  # it lies there in bf16
    assert logits.isfinite().all()


def test_the_models_are_small_and_the_draft_is_smaller():
    assert costs.params(COURSE_MODEL) <= 11e6 and costs.params(COURSE_DRAFT) <= 0.11 * costs.params(COURSE_MODEL)
    assert sum(f.stat().st_size for f in models.FOLDER.rglob("*") if f.is_file()) <= 25e6


@pytest.mark.parametrize("name", HERE)
def test_a_card_says_what_is_recorded(name):
    said, found = (models.folder(name) / "README.md").read_text(encoding="utf-8"), record(name)
    weights = hashlib.sha256((models.folder(name) / "model.safetensors").read_bytes()).hexdigest()
    if "**Provisional**" in said:
        assert found is None or found["weights_sha256"] != weights
        return
    assert found["weights_sha256"] == weights
    assert said == export.card(name, export.CONFIGS[name], found)
    assert f"**{found['held_out']['bits_per_byte']:.3f} bits per byte**" in said


@pytest.mark.parametrize("name", HERE)
def test_the_recorded_bits_per_byte_are_the_committed_models(name):
    found = record(name)
    if found is None:
        pytest.skip("the training has not ended: nothing is recorded")
    decoder, tokenizer = models.load(name)
    texts, files = models.held_out(), found["held_out"]["files"]
    assert set(files) == set(texts)
    sample = sorted((path for path in files if 2000 < files[path]["bytes"] < 12_000), key=lambda path: hashlib.sha256(path.encode()).digest())[:4]
    for path in sample:
        got = models.bits_per_byte(decoder, tokenizer, [texts[path]], found["held_out"]["window"])
        assert got == pytest.approx(files[path]["bits_per_byte"], rel=0.003)
    size = sum(entry["bytes"] for entry in files.values())
    whole = sum(entry["bytes"] * entry["bits_per_byte"] for entry in files.values()) / size
    assert size == found["held_out"]["bytes"] and whole == pytest.approx(found["held_out"]["bits_per_byte"], rel=1e-4)


def test_the_model_beats_the_draft_on_every_held_out_file():
    both = [record(name) for name in models.NAMES]
    if None in both:
        pytest.skip("the training has not ended: nothing is recorded")
    model, draft = (found["held_out"]["files"] for found in both)
    assert all(model[path]["bits_per_byte"] < draft[path]["bits_per_byte"] for path in model if model[path]["bytes"] > 2000)


@pytest.fixture
def toy_run(monkeypatch, tmp_path):
    """A toy state as a run of python -m training.train saves it, and what export needs beside it."""
    monkeypatch.setitem(export.CONFIGS, "course-draft", TOY)
    monkeypatch.setattr(models, "HELD_OUT", tmp_path / "held")
    (tmp_path / "held").mkdir()
    for i in (1, 2):
        (tmp_path / "held" / f"m{i}.py.txt").write_text(TEXT * i, encoding="utf-8")
    for part in ("library", "tests", "heldout"):
        np.save(tmp_path / f"{part}.npy", np.zeros(9, dtype=np.uint16))

    def write(step):
        plan = train.Plan(4096 * 3)
        with monkeypatch.context() as patch:  # a script pickles its classes as __main__'s
            patch.setattr(train.Plan, "__module__", "__main__")
            patch.setattr(sys.modules["__main__"], "Plan", train.Plan, raising=False)
            state = {"model": build(TOY, std=0.3).state_dict(), "plan": plan, "step": step, "seconds": 61.5, "curve": [{"tokens": 4096.0, "loss": 7.5}]}
            torch.save(state, tmp_path / "course-draft.pt")
        return export.export("course-draft", None, tmp_path / "course-draft", tmp_path / "results", tmp_path)

    return tmp_path, write


def test_a_state_of_a_run_under_way_is_provisional(toy_run):
    folder, write = toy_run
    assert write(2) == "course-draft: 8,192 tokens, provisional"
    assert "**Provisional**" in (folder / "course-draft" / "README.md").read_text(encoding="utf-8")
    assert not (folder / "results").exists()


def test_a_finished_run_is_recorded_and_its_card_filled(toy_run):
    folder, write = toy_run
    said = write(3)
    found = results.load("train_course_draft", folder / "results")
    assert said == f"course-draft: 12,288 tokens, {found['held_out']['bits_per_byte']} bits per byte"
    assert (found["steps"], found["tokens"], found["seconds"], found["plan"]["seed"]) == (3, 12_288, 62, 0)
    assert found["corpus_tokens"] == {"library": 9, "tests": 9, "heldout": 9} and found["curve"][0]["loss"] == 7.5
    decoder = export.checkpoint.load(folder / "course-draft")
    want = models.bits_per_byte(decoder, TOKENIZER, [TEXT, TEXT * 2])
    assert found["held_out"]["bits_per_byte"] == pytest.approx(want, rel=1e-4) and set(found["held_out"]["files"]) == {"m1.py", "m2.py"}
    text = (folder / "course-draft" / "README.md").read_text(encoding="utf-8")
    assert f"**{want:.3f} bits per byte**" in text and "12,288 tokens in 3 steps" in text and "rovisional" not in text
    settings = json.loads((folder / "course-draft" / "config.json").read_text())
    assert settings["eos_token_id"] == settings["bos_token_id"] == 0
    assert "training/train.py" in results.about("train_course_draft", folder / "results")["code"]
    assert sorted(p.name for p in (folder / "course-draft").iterdir()) == [
        "README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    ]


def test_a_missing_state_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.pt does not exist: run `python -m training.train` first"):
        export.read_state(tmp_path / "none.pt")
