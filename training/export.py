"""Write a trained state as a checkpoint in Hugging Face format, with its model card, and record the run.

    python -m training.export course-model [--state FILE]

A state whose run has ended is measured on the held-out files, and curve, plan and
bits per byte go to benchmarks/results/train_NAME.json. A state of a run under way is
exported as provisional: the card says so, and nothing is recorded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from course import models, results
from tinyserve import checkpoint, costs
from tinyserve.configs import COURSE_DRAFT, COURSE_MODEL, ModelConfig
from tinyserve.model import Decoder
from tinyserve.tokenizer import Tokenizer
from training import corpus, train

CONFIGS = {config.name: config for config in (COURSE_MODEL, COURSE_DRAFT)}
CODE = ["training/corpus.py", "training/train.py", "training/export.py", "tinyserve/model.py", "tinyserve/configs.py"]
WINDOW = 1024
"""Tokens in a window when the held-out files are measured: all that the models were trained for."""


class _Unpickler(pickle.Unpickler):
    """Reads a Plan that a run of ``python -m training.train`` has pickled as ``__main__.Plan``."""

    def find_class(self, module: str, name: str) -> Any:
        """Return training.train.Plan for __main__.Plan, and all else as written."""
        return train.Plan if (module, name) == ("__main__", "Plan") else super().find_class(module, name)


def read_state(path: Path) -> dict[str, Any]:
    """Return a saved state of training.train; raises FileNotFoundError where there is none. Only for files of your own."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: run `python -m training.train` first")
    reader = SimpleNamespace(Unpickler=_Unpickler, load=pickle.load, __name__="pickle")
    return torch.load(path, map_location="cpu", weights_only=False, pickle_module=reader)


def card(name: str, config: ModelConfig, record: Mapping[str, Any] | None, tokens: int = 0) -> str:
    """Return the model card: figures from the record of a finished run; without a record, one that says "provisional"."""
    template = (Path(__file__).parent / "model_card.md").read_text(encoding="utf-8")
    if record is None:
        state = f"**Provisional**: a state of a run under way, after {tokens:,} tokens. No figures are recorded for it."
        trained = f"{tokens:,} tokens so far"
    else:
        plan, held = record["plan"], record["held_out"]
        state = f"Held-out text: **{held['bits_per_byte']:.3f} bits per byte** over {held['bytes']:,} bytes in {len(held['files'])} files."
        trained = (
            f"{record['tokens']:,} tokens in {record['steps']:,} steps of {plan['step_tokens']:,}, "
            f"{record['seconds'] / 60:.0f} minutes of a CPU, seed {plan['seed']}"
        )
    role = {
        "course-model": "It is the model that the chapters measure.",
        "course-draft": "It is the draft for speculative decoding: the same tokenizer, a small part of the work a token.",
    }[name]
    return template.format(
        name=name, parameters=costs.params(config), c=config, state=state, trained=trained, role=role,
        held_out_share=corpus.HELD_OUT_SHARE, library_share=train.LIBRARY_SHARE,
        record="benchmarks/results/" + record_name(name) + ".json", window=WINDOW,
    )


def record_name(name: str) -> str:
    """Return the name under which a model's training is recorded in benchmarks/results."""
    return "train_" + name.replace("-", "_")


def write_folder(decoder: Decoder, folder: Path, tokenizer_file: Path = corpus.TOKENIZER) -> None:
    """Write all of a checkpoint but its card: weights in bf16, configuration, tokenizer, generation defaults."""
    folder.mkdir(parents=True, exist_ok=True)
    if tokenizer_file.resolve() != (folder / "tokenizer.json").resolve():
        shutil.copyfile(tokenizer_file, folder / "tokenizer.json")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": corpus.END, "eos_token": corpus.END,
        "model_max_length": decoder.config.max_context, "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    end = Tokenizer.load(folder).end_id
    checkpoint.save(decoder, folder, torch.bfloat16, end_id=end)
    generation = {"bos_token_id": end, "eos_token_id": end, "do_sample": False}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")


def measure(folder: Path) -> dict[str, Any]:
    """Return the held-out bits per byte of a written checkpoint, in all and by file, computed in float32."""
    decoder, tokenizer = checkpoint.load(folder), Tokenizer.load(folder)
    files, bits, size = {}, 0.0, 0
    for path, text in models.held_out().items():
        found = models.bits_per_byte(decoder, tokenizer, [text], WINDOW)
        length = len(text.encode())
        files[path] = {"bytes": length, "bits_per_byte": float(f"{found:.5g}")}
        bits, size = bits + found * length, size + length
    return {"bits_per_byte": float(f"{bits / size:.5g}"), "bytes": size, "window": WINDOW, "files": files}


def record_of(state: Mapping[str, Any], config: ModelConfig, folder: Path, work: Path = corpus.WORK) -> dict[str, Any]:
    """Return what is recorded of a finished run: sizes, plan, curve, held-out bits per byte, hash of the weights."""
    plan = state["plan"]
    return {
        "model": config.name, "parameters": costs.params(config), "plan": asdict(plan), "steps": state["step"],
        "tokens": state["step"] * plan.step_tokens, "seconds": round(state["seconds"]),
        "corpus_tokens": {part: len(np.load(work / f"{part}.npy", mmap_mode="r")) for part in ("library", "tests", "heldout")},
        "library_share": train.LIBRARY_SHARE, "curve": state["curve"], "held_out": measure(folder),
        "weights_sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
    }


def export(
    name: str, state_file: Path | None = None, folder: Path | None = None, results_folder: Path = results.FOLDER, work: Path = corpus.WORK
) -> str:
    """Write the checkpoint, and the record if the run has ended; return a line that says what was written.

    By default from _build/training/NAME.pt to models/NAME. Raises FileNotFoundError where there is no
    state, RuntimeError where it is of a model of another shape.
    """
    config, folder = CONFIGS[name], folder or models.FOLDER / name
    state = read_state(state_file or work / f"{name}.pt")
    decoder = Decoder(config)
    decoder.load_state_dict(state["model"])
    write_folder(decoder, folder)
    plan, record = state["plan"], None
    tokens = state["step"] * plan.step_tokens
    if state["step"] >= plan.steps:
        record = record_of(state, config, folder, work)
        command = f"python -m training.train {name} --tokens {plan.tokens}"
        results.write(record_name(name), record, command=command, code=CODE, folder=results_folder)
    (folder / "README.md").write_text(card(name, config, record, tokens), encoding="utf-8")
    said = "provisional" if record is None else f"{record['held_out']['bits_per_byte']} bits per byte"
    return f"{name}: {tokens:,} tokens, {said}"


def main() -> None:
    """Export one of the two models."""
    parser = argparse.ArgumentParser(prog="python -m training.export", description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(CONFIGS))
    parser.add_argument("--state", type=Path, help="saved by training.train; by default _build/training/NAME.pt")
    options = parser.parse_args()
    print(export(options.name, options.state))


if __name__ == "__main__":
    main()
