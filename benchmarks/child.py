"""A child process that stays loaded and answers: a line of JSON in, a line of JSON out.

It runs with a Python of its own, because vLLM pins its own versions of everything.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self


class Child:
    """A script under another Python. ``about`` is the first line it writes: what it says of itself.

    Raises RuntimeError, with the end of its log, when it ends or does not answer within
    the limit (seconds); load_limit is that of the first line.
    """

    name = "the child"

    def __init__(self, python: str, script: Path, arguments: Sequence[str], log: Path, environment: Mapping[str, str], load_limit: float) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # its packages are its own
        with log.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [str(Path(python).absolute()), str(script), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                text=True, env={**inherited, **environment}, cwd=log.parent, start_new_session=True,
            )
        self.about = self._reply(load_limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child: its input ends, and it has a while to go."""
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=60)
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
            raise RuntimeError(f"{self.name} {'ended' if ready else f'did not answer within {limit:.0f} s'}; its log ends:\n{end}")
        return json.loads(line)

    def ask(self, question: object, limit: float) -> dict[str, Any]:
        """Write a question as JSON, and return the answer."""
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self._reply(limit)
