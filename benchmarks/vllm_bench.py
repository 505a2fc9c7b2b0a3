"""`vllm bench serve`, run again and again by a child process that has imported vLLM once (vllm_bench_child.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.child import Child
from benchmarks.vllm_server import ENVIRONMENT

SCRIPT = Path(__file__).with_name("vllm_bench_child.py")
LIMIT = 600.0


class Bench(Child):
    """The child. ``about`` holds the versions of vllm, torch and python that it runs with. Errors as benchmarks.child."""

    name = "the bench child"

    def __init__(self, python: str, log: Path) -> None:
        super().__init__(python, SCRIPT, [], log, ENVIRONMENT, LIMIT)

    def run(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Run `vllm bench serve` with these arguments and return what it found. Raises RuntimeError when it fails."""
        found = self.ask(list(arguments), LIMIT)
        if "error" in found:
            raise RuntimeError(f"vllm bench serve {' '.join(arguments)}: {found['error']}")
        return found
