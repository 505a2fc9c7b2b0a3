"""vLLM's offline engine behind a pipe: a script for the Python that has vLLM. It needs nothing of this repository.

    PYTHON benchmarks/engine_vllm_child.py '{"model": "folder", "max_num_seqs": 16, "max_model_len": 1024}'

It loads once, then answers one line of JSON with one line of JSON until its input
ends. So the rounds of a benchmark alternate between engines that all stay loaded.

    {"prompts": [[ids]], "max_tokens": [n], "salts": [text], "arrivals": [seconds] | null, "one_by_one": bool}
    {"outputs": [[ids]], "seconds": s, "first": [s], "done": [s]}

first and done are seconds after the start of the round, as the client sees them.
Greedy, without stop at an end token, ids in and ids out: no text is made.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

SETTINGS = {
    "HF_HUB_OFFLINE": "1", "VLLM_TARGET_DEVICE": "cpu", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "DO_NOT_TRACK": "1",
}
"""Needed here: without the KV space (GiB) vLLM asks for most of the memory. Speed is left at its defaults."""


def load(wanted: dict[str, Any]) -> Any:
    """Return vLLM's LLM for a checkpoint, in float32; prefix caching, chunked prefill and compilation as vLLM has them by default."""
    from vllm import LLM

    return LLM(dtype="float32", skip_tokenizer_init=True, **wanted)


def at_once(llm: Any, prompts: list[dict[str, Any]], params: list[Any], one_by_one: bool) -> dict[str, Any]:
    """Serve all prompts at once, or each after the one before."""
    begin = time.perf_counter()
    groups = [([p], [s]) for p, s in zip(prompts, params, strict=True)] if one_by_one else [(prompts, params)]
    outputs, done = [], []
    for some, theirs in groups:
        outputs += [list(found.outputs[0].token_ids) for found in llm.generate(some, theirs, use_tqdm=False)]
        done += [time.perf_counter() - begin] * len(some)
    return {"outputs": outputs, "seconds": time.perf_counter() - begin, "first": [], "done": done}


def arriving(llm: Any, prompts: list[dict[str, Any]], params: list[Any], arrivals: list[float]) -> dict[str, Any]:
    """Serve prompts that arrive at these seconds; between two steps, what has arrived is added."""
    engine, n = llm.llm_engine, len(prompts)
    outputs: list[list[int]] = [[] for _ in range(n)]
    first, done, added = [0.0] * n, [0.0] * n, 0
    begin = time.perf_counter()
    while added < n or engine.has_unfinished_requests():
        now = time.perf_counter() - begin
        while added < n and arrivals[added] <= now:
            engine.add_request(f"{begin}-{added}", prompts[added], params[added])
            added += 1
        if not engine.has_unfinished_requests():
            time.sleep(max(0.0, arrivals[added] - now))
            continue
        for found in engine.step():
            i, now = int(found.request_id.split("-")[1]), time.perf_counter() - begin
            outputs[i] = list(found.outputs[0].token_ids)
            first[i] = first[i] or now
            done[i] = now if found.finished else done[i]
    return {"outputs": outputs, "seconds": time.perf_counter() - begin, "first": first, "done": done}


def answer(llm: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Serve one round."""
    from vllm import SamplingParams

    params = [SamplingParams(temperature=0.0, max_tokens=n, ignore_eos=True, detokenize=False) for n in asked["max_tokens"]]
    prompts = [{"prompt_token_ids": ids, "cache_salt": salt} for ids, salt in zip(asked["prompts"], asked["salts"], strict=True)]
    if asked["arrivals"] is None:
        return at_once(llm, prompts, params, asked["one_by_one"])
    return arriving(llm, prompts, params, asked["arrivals"])


def main() -> None:
    """Load, say so, answer."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what vLLM prints goes to stderr: the pipe carries replies alone
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    begin = time.perf_counter()
    llm = load(json.loads(sys.argv[1]))
    import torch
    import vllm

    def reply(found: dict[str, Any]) -> None:
        replies.write(json.dumps(found) + "\n")
        replies.flush()

    reply({"vllm": vllm.__version__, "torch": torch.__version__, "load_seconds": time.perf_counter() - begin})
    for line in sys.stdin:
        reply(answer(llm, json.loads(line)))


if __name__ == "__main__":
    main()
