"""vLLM as an arm of benchmarks.engine: a child process that stays loaded and answers rounds.

It runs engine_vllm_child.py with a Python of its own (``--vllm PYTHON``). Without
one the arm is absent, and the record says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.child import Child
from benchmarks.engine_workloads import MAX_CONTEXT, Workload

SCRIPT = Path(__file__).with_name("engine_vllm_child.py")
LOAD_LIMIT, ROUND_LIMIT = 1200.0, 300.0
"""Seconds after which a child that does not answer is given up: vLLM compiles when it loads."""


class VllmArm(Child):
    """One loaded vLLM. ``about`` is what it says of itself: versions and seconds to load. Errors as benchmarks.child."""

    name = "vLLM"

    def __init__(self, python: str, model: Path, running: int, threads: int, log: Path) -> None:
        self.settings = {"max_num_seqs": running, "max_model_len": MAX_CONTEXT}
        wanted = json.dumps({"model": str(model), **self.settings})
        super().__init__(python, SCRIPT, [wanted], log, {"OMP_NUM_THREADS": str(threads)}, LOAD_LIMIT)

    def serve(self, workload: Workload, prefix_caching: bool = True) -> dict[str, Any]:
        """Serve a workload and return outputs, seconds, first and done.

        Prefix caching is on, its default. Off means here that each request has a salt of
        its own, under which nothing is ever found.
        """
        n = len(workload.prompts)
        salts = [workload.label] * n if prefix_caching else [f"{workload.label} {i}" for i in range(n)]
        asked = {
            "prompts": workload.prompts, "max_tokens": workload.max_tokens, "salts": salts,
            "arrivals": workload.arrivals, "one_by_one": workload.running == 1,
        }
        return self.ask(asked, ROUND_LIMIT)
