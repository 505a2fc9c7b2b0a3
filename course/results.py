"""Results of benchmarks: one JSON file each, benchmarks/results/NAME.json, written and read here alone.

A file holds what was measured (``data``) and what a reader needs to judge it
(``about``): command, commit, sha256 of the timed code, machine, versions,
threads. Never a host name, a user or a path outside the repository.

    results.write("predict_cpu", data, command="python -m benchmarks.predict", code=["tinyserve/model.py"])
    results.load("predict_cpu")["cases"]
    print(results.stale("predict_cpu"))
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks" / "results"
ABOUT_KEYS = ("command", "commit", "date", "code", "machine", "versions", "threads")
NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")


def _path(name: str, folder: Path) -> Path:
    """Return the file of a result; raise ValueError for a name that is not lower_case."""
    if not NAME.fullmatch(name):
        raise ValueError(f"name={name!r} is not lower-case words joined by underscores")
    return folder / f"{name}.json"


def file_hash(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def cpu_name() -> str:
    """Return the processor's name as the operating system gives it."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
        if found:
            return found[1].strip()
    except OSError:
        pass
    return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor() or platform.machine()


def _output(*command: str) -> str:
    """Return what a command prints, or nothing where it is absent or fails."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def machine(device: str = "cpu") -> dict[str, Any]:
    """Describe this machine: cpu, cores this process may use, memory_bytes, system, and gpu with its memory on cuda."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    about = {"cpu": cpu_name(), "cores": cores, "memory_bytes": memory, "system": f"{platform.system()} {platform.machine()}"}
    if device == "cuda":
        import torch

        card = torch.cuda.get_device_properties(0)
        about |= {"gpu": card.name, "gpu_memory_bytes": card.total_memory}
    return about


def _versions() -> dict[str, str]:
    """Return the versions that decide speed."""
    found = {"python": platform.python_version()}
    for package in ("torch", "numpy"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _threads() -> int:
    """Return how many threads torch computes with."""
    import torch

    return torch.get_num_threads()


def write(
    name: str, data: Mapping[str, Any], command: str, code: Sequence[str], device: str = "cpu", folder: Path = FOLDER
) -> Path:
    """Write a result and return its path.

    data: the measurements, every repetition included. code: the timed files,
    relative to the repository. Raises ValueError for a malformed name, a code
    file that is absent or outside the repository, a number that is not finite, and
    data that holds a path of this machine.
    """
    path, hashes = _path(name, folder), {}
    if not code:
        raise ValueError(f"{path.name}: code is empty; name the files that were timed")
    for file in code:
        target = (ROOT / file).resolve()
        if Path(file).is_absolute() or not target.is_relative_to(ROOT) or not target.is_file():
            raise ValueError(f"{path.name}: code file {file!r} is not a file of the repository, by its relative path")
        hashes[file] = file_hash(target)
    about = {
        "command": command, "commit": _output("git", "rev-parse", "--short=12", "HEAD") or "unknown",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "code": hashes,
        "machine": machine(device), "versions": _versions(), "threads": _threads(),
    }
    try:
        text = json.dumps({"about": about, "data": data}, indent=1, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path.name}: data must be finite numbers, text, lists and dicts: {error}") from error
    for private in (str(ROOT), str(Path.home())):
        if private != "/" and private in text:
            raise ValueError(f"{path.name}: holds a path of this machine; write paths relative to the repository")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Lists of numbers on one line: a repetition list should not fill a screen.
    text = re.sub(r"\[\s+([-0-9.e+,\s]+?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _record(name: str, folder: Path) -> dict[str, Any]:
    """Read a whole file; raise FileNotFoundError when there is none, ValueError when it is malformed."""
    path = _path(name, folder)
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.json"))) or "none"
        raise FileNotFoundError(f"benchmarks/results/{path.name} does not exist; there are: {known}")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path.name}: is not JSON: {error}") from error
    if not isinstance(record, dict) or set(record) != {"about", "data"}:
        raise ValueError(f"{path.name}: the top level has not exactly the keys about and data")
    missing = [key for key in ABOUT_KEYS if key not in record["about"]]
    if missing:
        raise ValueError(f"{path.name}: about lacks {', '.join(missing)}")
    return record


def load(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return the data of a result; FileNotFoundError when there is none, ValueError when the file is malformed."""
    return _record(name, folder)["data"]


def about(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return command, commit, date, code hashes, machine, versions and threads of a result; raises as load does."""
    return _record(name, folder)["about"]


def source(name: str, folder: Path = FOLDER) -> str:
    """Say in one line where a result comes from, for a page to print; raises as load does."""
    facts = about(name, folder)
    on = facts["machine"].get("gpu") or f"{facts['machine']['cpu']}, {facts['machine']['cores']} cores"
    return f"{facts['command']} on {on}, {facts['date']}, torch {facts['versions'].get('torch', '-')}, {facts['threads']} threads"


def changed(name: str, folder: Path = FOLDER, root: Path = ROOT) -> list[str]:
    """Return the files of the code that was run which are different now, or gone; raises as load does."""
    code = about(name, folder)["code"]
    return [file for file, old in code.items() if not (root / file).is_file() or file_hash(root / file) != old]


def code_state(name: str, folder: Path = FOLDER, root: Path = ROOT) -> str:
    """Say without a date, for a stored output, whether the code is still the one that was run; raises as load does."""
    files = changed(name, folder, root)
    return f"code changed since: {', '.join(files)}" if files else "unchanged code"


def stale(name: str, folder: Path = FOLDER, root: Path = ROOT) -> str:
    """Say in one sentence whether the timed code has changed since; raises as load does."""
    date, files = about(name, folder)["date"], changed(name, folder, root)
    return f"Changed since it was timed on {date}: {', '.join(files)}." if files else f"The timed code has not changed since {date}."
