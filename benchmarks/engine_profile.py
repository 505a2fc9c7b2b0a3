"""Where the time of one engine step goes: functions are wrapped in clocks, and each gets the time that those inside it do not take.

The shares come from the medians over wrapped steps; the median step is timed without clocks, in
alternation, and ``overhead`` says how much longer the wrapped ones took.
"""

from __future__ import annotations

import contextlib
import importlib
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch

from benchmarks.engine_arms import new_engine
from benchmarks.engine_workloads import Workload
from tinyserve.engine import Engine
from tinyserve.model import Decoder
from tinyserve.sampling import SamplingParams

PARTS = {
    "linears": ("torch.nn.functional:linear", "tinyserve.packed:PackedLinear.forward"),
    "attention": ("tinyserve.kv_cache:PagedBatch.attend",),
    "gather and write K, V": ("torch:Tensor.index_select", "torch:Tensor.index_copy_"),
    "norms, RoPE, activation": (
        "torch.nn.functional:rms_norm", "torch.nn.functional:silu", "tinyserve.model:apply_rope", "tinyserve.packed:apply_rope", "tinyserve.model:rope_table",
    ),
    "block tables": ("tinyserve.kv_cache:PagedCache.batch",),
    "sampling": ("tinyserve.engine:Engine._choose",),
    "scheduler": ("tinyserve.scheduler:Scheduler.schedule", "tinyserve.scheduler:Scheduler.update", "tinyserve.scheduler:Scheduler.record"),
}
"""What belongs together, as module:function. The rest of a step: embedding, sums of the residual stream, Python between the calls."""


class Clocks:
    """Exclusive seconds by part: a function's time without that of the clocked functions it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    def wrap(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a clock of this part around it."""
        def clocked(*args: Any, **kwargs: Any) -> Any:
            self._inside.append(0.0)
            begin = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                taken = time.perf_counter() - begin
                self.seconds[part] += taken - self._inside.pop()
                if self._inside:
                    self._inside[-1] += taken

        return clocked

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Have every function of PARTS clocked for a while."""
        with contextlib.ExitStack() as stack:
            for part, names in PARTS.items():
                for name in names:
                    owner, attribute = _find(name)
                    own = attribute in vars(owner)
                    function = getattr(owner, attribute)
                    setattr(owner, attribute, self.wrap(part, function))
                    # What the owner only inherits is taken off again, not set.
                    stack.callback(setattr, owner, attribute, function) if own else stack.callback(delattr, owner, attribute)
            yield


def _find(name: str) -> tuple[Any, str]:
    """Return where a module:function lies, and its last name."""
    module, path = name.split(":")
    owner: Any = importlib.import_module(module)
    *outer, last = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, last


def filled(decoder: Decoder, running: int, prompt: int, steps: int) -> Engine:
    """Return an engine in which all requests decode, with enough tokens to go for these steps."""
    vocab = decoder.config.vocab_size
    prompts = torch.randint(1, vocab, (running, prompt), generator=torch.Generator().manual_seed(0)).tolist()
    workload = Workload(prompts, [steps + running + 8] * running, running, "profile")
    engine = new_engine(decoder, workload)
    requests = [engine.add(p, sampling=SamplingParams(temperature=0), max_tokens=n) for p, n in zip(prompts, workload.max_tokens, strict=True)]
    while not all(request.output for request in requests):
        engine.step()
    return engine


def profile(decoder: Decoder, steps: int, prompt: int = 64) -> list[dict[str, Any]]:
    """Return the shares of a decode step with one and with 16 requests running, after a prompt of this many tokens."""
    return [profile_decode(decoder, running, prompt, steps) for running in (1, 16)]


def profile_decode(decoder: Decoder, running: int, prompt: int, steps: int) -> dict[str, Any]:
    """Time decode steps with clocks and without, in turn."""
    engine, plain, wrapped, parts = filled(decoder, running, prompt, 2 * steps), [], [], []
    for _ in range(steps):
        begin = time.perf_counter()
        engine.step()
        plain.append(time.perf_counter() - begin)
        clocks = Clocks()
        with clocks.on():
            begin = time.perf_counter()
            engine.step()
            wrapped.append(time.perf_counter() - begin)
        parts.append({part: clocks.seconds[part] for part in PARTS} | {"rest": wrapped[-1] - sum(clocks.seconds.values())})
    engine.run()
    medians = {part: statistics.median(found[part] for found in parts) for part in parts[0]}
    return {
        "model": decoder.config.name, "step": f"decode of {running}", "running": running, "prompt": prompt,
        "seconds": plain, "median": statistics.median(plain), "overhead": statistics.median(wrapped) / statistics.median(plain) - 1,
        "shares": {part: seconds / sum(medians.values()) for part, seconds in medians.items()}, "parts": parts,
    }
