"""Grade a filled lab, for teachers: execute it alone and print its checks as JSON.

    python -m course.grade FILE.ipynb [--stem 01_transformer_block] [--minutes 10]

Exit code 0: all checks ✓. 1: some are not. 2: the file could not be run (the JSON then says why).

The student's set-up and task cells count; harness and checks do not: those are taken from `labs/` of this repository where the lab is known (by --stem, by
the notebook's metadata, or by its file name), and each check runs with a fresh harness. A check cell that the student deleted runs at the end. That
stops edits of the checks and of their results; code that is written to attack the process it runs in needs a sandbox, and this is none.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from course import alone, notebooks
from course.labcells import role

WORDS = {"✓": "right", "✗": "wrong", "…": "not attempted"}
_KEEP = "_kept = dict(globals().get('RESULTS', {}))\n"
_PUT_BACK = "\nRESULTS.update(_kept)\n"


class CannotRun(RuntimeError):
    """The file gives no result; the message says why."""


def stem_of(notebook: NotebookNode, path: Path, root: Path = notebooks.ROOT) -> str | None:
    """The lab that this file is a copy of, or None: by its metadata, else by its name (`Copy of 01_x.ipynb`, `01_x (1).ipynb`)."""
    known = sorted((lab.stem for lab in (root / "labs").glob("*.ipynb")), key=len, reverse=True)
    stated = notebook.metadata.get("course", {}).get("stem")
    return stated if stated in known else next((stem for stem in known if stem in path.stem), None)


def prepared(student: NotebookNode, pristine: NotebookNode | None, harness: str, secret: str) -> tuple[NotebookNode, list[int]]:
    """The notebook to run and the tasks that it reports: the student's cells, with the pristine checks in place of the student's.

    After each check the cell prints `secret` and the result. Without a pristine lab the student's own checks are used.
    """
    source = {cell.metadata["course"]["check"]: cell.source for cell in (pristine or student).cells if role(cell) == "check"}
    if not source:
        raise CannotRun("no check cell: is this a lab?")
    ready = nbformat.v4.new_notebook(metadata={"course": {}})
    run: set[int] = set()
    for cell in student.cells:
        if cell.cell_type != "code":
            continue
        number = _check_number(cell, source)
        if number is not None:
            if number in run:
                continue
            run.add(number)
            ready.cells.append(new_code_cell(_graded(source[number], number, harness, secret)))
        elif role(cell) == "harness":
            ready.cells.append(new_code_cell(harness))
        elif role(cell) not in ("summary", "quiz"):
            ready.cells.append(new_code_cell(cell.source))
    missing = [number for number in source if number not in run]
    ready.cells += [new_code_cell(_graded(source[number], number, harness, secret)) for number in missing]
    return ready, sorted(source)


def _check_number(cell: NotebookNode, source: dict[int, str]) -> int | None:
    """The check that this cell is: by its metadata or, where an editor lost those, by its decorator."""
    number = cell.metadata.get("course", {}).get("check")
    if not isinstance(number, int):
        found = re.search(r"^@check\((\d+)\)\s*$", cell.source, re.MULTILINE)
        number = int(found[1]) if found and role(cell) != "harness" else None
    return number if number in source else None


def _graded(check: str, number: int, harness: str, secret: str) -> str:
    report = f"__import__('builtins').print({secret!r} + __import__('json').dumps(RESULTS.get({number})))"
    return f"{_KEEP}{harness}{_PUT_BACK}{check}\n{report}"


def _run(notebook: NotebookNode, name: str, seconds: float) -> NotebookNode:
    """Execute the notebook alone. Raises CannotRun at the time limit and where the kernel dies."""
    with tempfile.TemporaryDirectory() as scratch:
        path, target = Path(scratch) / name, Path(scratch) / "done" / name
        target.parent.mkdir()
        nbformat.write(notebook, path)
        with alone.environment(path) as (folder, variables):
            command = [sys.executable, "-m", "course.grade", "--worker", str(folder / name), str(target), "--minutes", str(seconds / 60)]
            env = {**notebooks.environment(), **variables}
            done = subprocess.run(command, env=env, cwd=notebooks.ROOT, capture_output=True, text=True, check=False)
        if done.returncode or not target.is_file():
            raise CannotRun(done.stderr.strip().rpartition("\n")[2] or "the kernel died")
        return notebooks.read(target)


def _worker(source: Path, target: Path, seconds: float) -> str | None:
    """Execute in this process's environment; a cell that raises does not stop the rest. Why it could not be run, or None.

    The limit is kept here, where the kernel is ended too, and not by the parent, which would leave the kernel running.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    notebook, end = notebooks.read(source), time.monotonic() + seconds
    client = NotebookClient(notebook, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(source.parent)}})
    client.timeout_func = lambda cell: max(1, round(end - time.monotonic()))
    try:
        client.execute()
    except CellTimeoutError:
        return f"not finished after {seconds:.0f} s"
    except DeadKernelError:
        return "the kernel died"
    nbformat.write(notebook, target)
    return None


def _results(notebook: NotebookNode, secret: str, tasks: Sequence[int]) -> list[dict[str, Any]]:
    found: dict[int, dict[str, str]] = {}
    for cell in notebook.cells:
        number = re.search(rf"{secret}.*RESULTS\.get\((\d+)\)", cell.source)
        text = "".join(output.get("text", "") for output in cell.outputs)
        last = re.findall(rf"{secret}(.*)", text)
        if number and last:
            found[int(number[1])] = json.loads(last[-1]) or {}
    rows = []
    for task in tasks:
        result = found.get(task, {})
        rows.append({"task": task, "result": WORDS.get(result.get("mark", ""), "no result"), "title": result.get("title", ""), "text": result.get("text", "")})
    return rows


def grade(path: Path, stem: str | None = None, root: Path = notebooks.ROOT, seconds: float = 600) -> dict[str, Any]:
    """The checks of a filled lab. Raises FileNotFoundError, ValueError for a file that is no notebook or an unknown stem, CannotRun."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    student = notebooks.read(path)
    stem = stem or stem_of(student, path, root)
    pristine = None
    if stem:
        lab = root / "labs" / f"{stem}.ipynb"
        if not lab.is_file():
            raise ValueError(f"stem {stem!r}: no labs/{stem}.ipynb")
        pristine = notebooks.read(lab)
    secret = secrets.token_hex(16)
    harness = Path(__file__).with_name("check.py").read_text(encoding="utf-8")
    ready, tasks = prepared(student, pristine, harness, secret)
    rows = _results(_run(ready, path.name, seconds), secret, tasks)
    right = sum(row["result"] == "right" for row in rows)
    return {"file": path.name, "lab": stem, "checks_from": "the repository" if stem else "the file itself", "right": right, "tasks": len(rows), "checks": rows}


def main(arguments: Sequence[str] | None = None) -> int | str:
    parser = argparse.ArgumentParser(prog="python -m course.grade", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("path", type=Path, metavar="FILE.ipynb")
    parser.add_argument("target", type=Path, nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--stem", help="which lab this is, where neither its metadata nor its name say")
    parser.add_argument("--minutes", type=float, default=10, help="time limit (default 10)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    seconds = max(1.0, 60 * options.minutes)
    if options.worker:
        return why if (why := _worker(options.path, options.target, seconds)) else 0  # text: Python prints it on stderr, exit code 1
    try:
        report = grade(options.path, options.stem, seconds=seconds)
    except (CannotRun, ValueError, FileNotFoundError) as error:
        print(json.dumps({"file": options.path.name, "error": str(error)}, ensure_ascii=False))
        return 2
    print(json.dumps(report, indent=1, ensure_ascii=False))
    return 0 if report["right"] == report["tasks"] else 1


if __name__ == "__main__":
    sys.exit(main())
