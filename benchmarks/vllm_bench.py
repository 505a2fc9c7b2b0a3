"""`vllm bench serve`, run again and again by a child process that has imported vLLM once (vllm_bench_child.py)."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.vllm_server import ENVIRONMENT

SCRIPT = Path(__file__).with_name("vllm_bench_child.py")
LIMIT = 600.0


class Bench:
    """The child. ``about`` holds the versions of vllm, torch and python that it runs with.

    Raises RuntimeError, with the end of its log, when it ends or does not answer within LIMIT.
    """

    def __init__(self, python: str, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with log.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [str(Path(python).absolute()), str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**inherited, **ENVIRONMENT}, cwd=log.parent, start_new_session=True,
            )
        self.about = self._reply()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=30)
        self._kill()
        self.process.stdout.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _reply(self) -> dict[str, Any]:
        ready, _, _ = select.select([self.process.stdout], [], [], LIMIT)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self._kill()
            end = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
            raise RuntimeError(f"the bench child {'ended' if ready else 'did not answer'}; its log ends:\n{end}")
        return json.loads(line)

    def run(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Run `vllm bench serve` with these arguments and return what it found. Raises RuntimeError when it fails."""
        self.process.stdin.write(json.dumps(list(arguments)) + "\n")
        self.process.stdin.flush()
        found = self._reply()
        if "error" in found:
            raise RuntimeError(f"vllm bench serve {' '.join(arguments)}: {found['error']}")
        return found
