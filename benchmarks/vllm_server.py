"""`vllm serve` as a child process on loopback: start it with flags, wait until it answers, read /metrics, end it.

    with Server(".venv-engines/bin/python", models.folder(), ["--max-num-seqs", "16"], log) as server:
        server.metrics()["vllm:num_requests_running"]

Float32, eager, no usage statistics, no network but loopback; one GiB for the KV pool, without which vLLM on a CPU takes
most of the memory. Linux only.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

NAME = "course-model"
"""The name under which a server's clients know the model."""
COMMON = ("--served-model-name", NAME, "--dtype", "float32", "--enforce-eager", "--host", "127.0.0.1")
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1", "VLLM_TARGET_DEVICE": "cpu", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1", "PROMETHEUS_DISABLE_CREATED_SERIES": "True",
}
START_LIMIT = 300.0
"""Seconds after which a server that does not answer is given up."""
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$")


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def parse_metrics(text: str) -> dict[str, float]:
    """Return the sum over labels of every sample in the text format of /metrics; buckets are left out, NaN counts 0."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match and not match[1].endswith("_bucket"):
            value = float(match[3])
            found[match[1]] = found.get(match[1], 0.0) + (0.0 if math.isnan(value) else value)
    return found


class Server:
    """One running `vllm serve`. ``url`` is its address, ``start_seconds`` what it took until it answered.

    Raises RuntimeError, with the end of its log, when it ends or does not answer within START_LIMIT.
    """

    def __init__(
        self, python: str | Path, model: Path, flags: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, wait: bool = True,
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.port, self.log, self.flags = free_port(), log, list(flags)
        self.url = f"http://127.0.0.1:{self.port}"
        executable = Path(python).absolute().with_name("vllm")
        command = [str(executable), "serve", str(model), *COMMON, *flags, "--port", str(self.port)]
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._begin = time.perf_counter()
        with log.open("w", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=log.parent,
                env={**inherited, **ENVIRONMENT, **(environment or {})}, start_new_session=True,
            )
        self.start_seconds = math.nan
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until /health answers 200."""
        while not self._healthy():
            if self.process.poll() is not None or time.perf_counter() - self._begin > START_LIMIT:
                ended = self.process.poll() is not None
                self.close()
                end = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
                raise RuntimeError(f"vllm serve {'ended' if ended else f'did not answer within {START_LIMIT:.0f} s'}; its log ends:\n{end}")
            time.sleep(0.5)
        self.start_seconds = time.perf_counter() - self._begin

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, path: str) -> str:
        """Return the text of a path, such as /metrics."""
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read().decode()

    def metrics(self) -> dict[str, float]:
        """Return the value of every sample on /metrics, summed over its labels."""
        return parse_metrics(self.read("/metrics"))

    def memory_bytes(self) -> int:
        """Return the resident memory of the server's processes: proportional set size where Linux tells it."""
        group, total = os.getpgid(self.process.pid), 0
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                if os.getpgid(int(folder.name)) == group:
                    match = re.search(r"^Pss:\s+(\d+) kB", (folder / "smaps_rollup").read_text(), re.M)
                    total += int(match[1]) * 1024 if match else 0
        return total

    def close(self) -> None:
        """End the server and the processes that it started, which are a session of their own."""
        for sign, patience in ((signal.SIGTERM, 30), (signal.SIGKILL, 10)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=patience)
                break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # what outlived its parent
