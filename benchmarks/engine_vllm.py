"""vLLM as an arm of benchmarks.engine: a child process that stays loaded and answers rounds.

It runs engine_vllm_child.py with a Python of its own (``--vllm PYTHON``), because
vLLM pins its own versions of everything. Without one the arm is absent, and the
record says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.engine_workloads import MAX_CONTEXT, Workload

SCRIPT = Path(__file__).with_name("engine_vllm_child.py")
LOAD_LIMIT, ROUND_LIMIT = 1200.0, 300.0
"""Seconds after which a child that does not answer is given up: vLLM compiles when it loads."""


class Child:
    """One loaded vLLM. ``about`` is what it says of itself: versions and seconds to load.

    Raises RuntimeError, with the end of its log, when it ends or does not answer in time.
    """

    def __init__(self, python: str, model: Path, running: int, threads: int, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log, self.settings = log, {"max_num_seqs": running, "max_model_len": MAX_CONTEXT}
        wanted = json.dumps({"model": str(model), **self.settings})
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        environment.pop("PYTHONPATH", None)  # its packages are its own
        with log.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [python, str(SCRIPT), wanted], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                text=True, env=environment, cwd=log.parent, start_new_session=True,
            )
        self.about = self._reply(LOAD_LIMIT)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child: its input ends, and it has a while to go."""
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._kill()
        self.process.stdout.close()

    def _kill(self) -> None:
        """End the child and the processes it has started: they are a session of their own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _reply(self, limit: float) -> dict[str, Any]:
        """Return the next line the child writes, read as JSON."""
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self._kill()
            end = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
            raise RuntimeError(f"vLLM {'ended' if ready else f'did not answer within {limit:.0f} s'}; its log ends:\n{end}")
        return json.loads(line)

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
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return self._reply(ROUND_LIMIT)
