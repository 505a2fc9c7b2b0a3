"""The corpus: the .py files of CPython 3.11's standard library, split by file.

    python -m training.corpus /path/to/lib/python3.11

writes the held-out files and their hashes to data/heldout, trains the tokenizer
on the rest, and writes both parts as token ids to _build/training.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "_build" / "training"
HELD_OUT = ROOT / "data" / "heldout"
TOKENIZER = ROOT / "models" / "course-model" / "tokenizer.json"
END = "<|endoftext|>"
VOCAB = 2048

SKIPPED_FOLDERS = ("site-packages", "encodings", "__pycache__", "lib2to3/tests/data", "ensurepip", "turtledemo")
"""Installed packages, tables of characters, deliberately broken files."""
LONGEST = 300_000
"""Bytes: longer files are tables or generated text (pydoc_data/topics.py)."""
HELD_OUT_SHARE = 1 / 16
SPLIT_PATTERN = r"(?:\r?\n)+[ \t]*|[ \t]+(?= )| ?[A-Za-z_]+| ?\d| ?[^\sA-Za-z_\d]+|\s"
"""Pre-tokens: line breaks with the next line's indent; a name, one digit or a run of signs, each with a space before it."""


def is_test(name: str) -> bool:
    """Tell whether a file of the library (its path with /) belongs to a test package."""
    return any(part in ("test", "tests", "idle_test") for part in name.split("/")[:-1])


def files(lib: Path) -> dict[str, str]:
    """Return the text of every file that the corpus takes, by its path under lib, sorted; equal texts once.

    Raises FileNotFoundError where lib holds no standard library.
    """
    if not (lib / "inspect.py").is_file():
        raise FileNotFoundError(f"{lib} holds no inspect.py: it is not the folder of a standard library")
    found, seen = {}, set()
    for path in sorted(lib.rglob("*.py")):
        name = path.relative_to(lib).as_posix()
        if any(f"/{folder}/" in f"/{name}" for folder in SKIPPED_FOLDERS) or path.stat().st_size > LONGEST:
            continue
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        digest = hashlib.sha256(text.encode()).hexdigest()
        if text.strip() and digest not in seen:
            seen.add(digest)
            found[name] = text
    return found


def is_held_out(name: str) -> bool:
    """Decide by the hash of a file's path alone whether it is held out; test files never are."""
    first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return not is_test(name) and first < HELD_OUT_SHARE * 2**32


def train_tokenizer(texts: Iterable[str], vocab: int = VOCAB) -> Tokenizer:
    """Return a byte-level BPE of vocab entries; id 0 ends a document. Every byte string can be encoded."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT_PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, texts: Iterable[str]) -> np.ndarray:
    """Return the ids of all texts in a row, each after an END; uint16 [tokens]."""
    end = tokenizer.token_to_id(END)
    ids = [np.array([end, *tokenizer.encode(text).ids], dtype=np.uint16) for text in texts]
    return np.concatenate(ids)


def write_held_out(texts: dict[str, str], lib: Path) -> None:
    """Write the held-out files as they are, Python's licence, and a manifest of sha256 and bytes."""
    manifest = {}
    for name, text in texts.items():
        path = HELD_OUT / "Lib" / f"{name}.txt"  # .txt: it is data, not code of this repository
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        manifest[name] = {"bytes": len(text.encode()), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    (HELD_OUT / "LICENSE.txt").write_bytes((lib / "LICENSE.txt").read_bytes())
    (HELD_OUT / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def main(lib: Path) -> None:
    """Split, train the tokenizer, write data/heldout, the tokenizer and the ids."""
    texts = files(lib)
    held = {name: text for name, text in texts.items() if is_held_out(name)}
    library = {name: text for name, text in texts.items() if name not in held and not is_test(name)}
    tests = {name: text for name, text in texts.items() if is_test(name)}
    write_held_out(held, lib)
    tokenizer = train_tokenizer(library.values())
    TOKENIZER.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(TOKENIZER))
    WORK.mkdir(parents=True, exist_ok=True)
    for part, chosen in (("library", library), ("tests", tests), ("heldout", held)):
        ids = encode(tokenizer, chosen.values())
        np.save(WORK / f"{part}.npy", ids)
        size = sum(len(text.encode()) for text in chosen.values())
        print(f"{part}: {len(chosen)} files, {size:,} bytes, {len(ids):,} tokens, {size / len(ids):.2f} bytes a token")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m training.corpus LIB")
    main(Path(sys.argv[1]))
