"""Checkpoints in Hugging Face format: ``config.json`` and safetensors, read into a Decoder and written from one.

    decoder = load("models/course-model")
    save(decoder, "copy", dtype=torch.bfloat16)

Read are Llama- and Qwen2-style models, in one file (``model.safetensors``) or in
several (``model.safetensors.index.json`` says which tensor lies where). What the
decoder would compute wrongly is refused: see ``hf_config``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from .configs import ModelConfig
from .hf_config import read_config, read_json, render
from .model import Decoder

__all__ = ["load", "read_config", "save", "tensor_names"]

ONE_FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
READABLE = {"F64", "F32", "F16", "BF16"}
"""Number formats, as safetensors names them, whose values mean themselves; FP8 and whole numbers come with scales."""
CONVERT = (
    "only safetensors is read. transformers converts: AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder); "
    "then copy tokenizer.json and tokenizer_config.json"
)
HEAD = "lm_head.weight"
OUTER = {"embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}
INNER = {
    "norm1": "input_layernorm", "norm2": "post_attention_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj",
    "v": "self_attn.v_proj", "o": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
}
RECOMPUTED = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq")
"""RoPE's frequencies, which old files carry: they follow from the configuration."""


def tensor_names(decoder: Decoder) -> dict[str, str]:
    """Return the Hugging Face name of every parameter, by the decoder's own name."""
    found = {}
    for name, _ in decoder.named_parameters():
        *place, layer, kind = name.split(".")
        if place:
            found[name] = f"model.layers.{place[1]}.{INNER[layer]}.{kind}"
        else:
            found[name] = f"{OUTER[layer]}.{kind}"
    return found


def _files(folder: Path) -> dict[str, Path]:
    """Return the file of every tensor.

    Raises FileNotFoundError naming the file that is missing, ValueError where the index and the files disagree.
    """
    if (folder / ONE_FILE).is_file() or not (folder / INDEX).is_file():
        with _open(folder / ONE_FILE) as file:
            return dict.fromkeys(file.keys(), folder / ONE_FILE)
    index = read_json(folder / INDEX).get("weight_map")
    if not isinstance(index, dict) or not index:
        raise ValueError(f"{folder / INDEX} has no weight_map")
    outside = [name for name in index.values() if not isinstance(name, str) or Path(name).name != name]
    if outside:
        raise ValueError(f"{folder / INDEX}: {outside[0]!r} is not a file beside it")
    held = {}
    for name in sorted(set(index.values())):
        with _open(folder / name) as file:
            held |= dict.fromkeys(file.keys(), name)
    if held != index:
        wrong = sorted(key for key in held.keys() | index.keys() if held.get(key) != index.get(key))
        raise ValueError(f"{folder / INDEX} does not say what its files hold: {wrong[0]} is in {held.get(wrong[0])}")
    return {key: folder / name for key, name in index.items()}


@contextmanager
def _open(path: Path) -> Iterator[safe_open]:
    """Open a safetensors file; FileNotFoundError and ValueError name it."""
    if not path.is_file():
        pickled = sorted(path.parent.glob("pytorch_model*.bin*"))
        hint = f"; {pickled[0].name} is there, but {CONVERT}" if pickled else ""
        raise FileNotFoundError(f"{path} does not exist{hint}")
    try:
        with safe_open(path, "pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from error


def _check_names(wanted: set[str], held: set[str], config: ModelConfig) -> None:
    """Raise ValueError for tensors missing or too many; a tied model may carry its head again."""
    missing = sorted(wanted - held)
    extra = sorted(key for key in held - wanted if not RECOMPUTED.fullmatch(key))
    if config.tied_embedding and HEAD in extra:
        extra.remove(HEAD)
    if missing or extra:
        what = f"lacks {missing[0]}" if missing else f"holds {extra[0]}, which this decoder has no place for"
        raise ValueError(f"{what} ({len(missing)} tensors missing, {len(extra)} too many)")


def _read(path: Path, key: str, shape: tuple[int, ...] | None) -> Tensor:
    """Return one tensor; raise ValueError for another shape and for numbers that cannot be read as they are."""
    with _open(path) as file:
        part = file.get_slice(key)
        if part.get_dtype() not in READABLE:
            raise ValueError(f"{key} is of dtype {part.get_dtype()}, not one of {', '.join(sorted(READABLE))}")
        if shape is not None and tuple(part.get_shape()) != shape:
            raise ValueError(f"{key} has shape {list(part.get_shape())}; config.json asks for {list(shape)}")
        return file.get_tensor(key)


def _check_dtype(dtype: torch.dtype) -> None:
    """Raise ValueError unless dtype is one of floating point of 16 bits at least."""
    taken = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    if dtype not in taken:
        raise ValueError(f"dtype={dtype!r} is not one of {', '.join(map(str, taken))}")


def _check_device(device: str, dtype: torch.dtype) -> None:
    """Raise ValueError unless numbers of this dtype can be put on the device, and read there."""
    try:
        torch.zeros(1, device=device, dtype=dtype).item()
    except (AssertionError, RuntimeError, TypeError) as error:  # torch raises each of them for some device
        reason = re.split(r"\n|\. ", str(error))[0]
        raise ValueError(f"device={device!r} cannot be used for {dtype}: {reason}") from error


def _is_finite(weight: Tensor) -> bool:
    """Tell whether no number is NaN or infinite, in one pass without a copy: NaN, too, reaches smallest and largest."""
    smallest, largest = weight.aminmax()
    return bool(smallest.isfinite() & largest.isfinite())


def load(folder: Path | str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Decoder:
    """Return the decoder of a checkpoint folder, its numbers in dtype on device.

    Raises FileNotFoundError naming a missing file. Raises ValueError, with the
    folder and the reason, for a model that this decoder would run wrongly
    and for tensors that are missing, too many, of another shape or kind of number,
    or not finite (one pass over the weights finds out); for a device that cannot be used.
    """
    folder = Path(folder)
    _check_dtype(dtype)
    _check_device(device, dtype)
    config = read_config(folder)
    with torch.device("meta"):
        decoder = Decoder(config)
    files, names = _files(folder), tensor_names(decoder)
    try:
        _check_names(set(names.values()), set(files), config)
        weights = {}
        for name, parameter in decoder.named_parameters():
            key = names[name]
            raw = _read(files[key], key, tuple(parameter.shape))
            weights[name] = raw.to(device=device, dtype=dtype)
            if not _is_finite(weights[name]):
                raise ValueError(f"{key} holds NaN or infinity" + (f" in {dtype}, not in the file" if _is_finite(raw) else ""))
        if config.tied_embedding and HEAD in files:
            again = _read(files[HEAD], HEAD, None).to(device=device, dtype=dtype)
            if not torch.equal(again, weights["embedding.weight"]):
                raise ValueError(f"tie_word_embeddings=True, but {HEAD} is not the embedding")
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error
    decoder.load_state_dict(weights, assign=True)
    return decoder.requires_grad_(False).eval()


def save(decoder: Decoder, folder: Path | str, dtype: torch.dtype = torch.bfloat16, end_id: int | None = None) -> None:
    """Write config.json and model.safetensors, numbers in dtype, for this loader, transformers and serving engines.

    end_id: the token that ends a text, for engines to stop at. Raises ValueError for a dtype that is not floating point.
    """
    folder = Path(folder)
    _check_dtype(dtype)
    folder.mkdir(parents=True, exist_ok=True)
    names = tensor_names(decoder)
    weights = {names[name]: p.detach().to("cpu", dtype).contiguous() for name, p in decoder.named_parameters()}
    config = render(decoder.config, str(dtype).removeprefix("torch."), end_id)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (folder / ONE_FILE).write_bytes(to_bytes(weights, metadata={"format": "pt"}))
