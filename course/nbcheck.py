"""Run every notebook again and compare its outputs with the stored ones.

    python -m course.nbcheck                     chapters, labs and solutions
    python -m course.nbcheck --labs              labs and solutions only
    python -m course.nbcheck --threads 2         the same outputs with two threads?
    python -m course.nbcheck chapters/06_kv_cache.ipynb

nbval does the comparing, with pictures through `course.nbval_plugin`: one thread, 120 s a cell, two notebooks at a time. Notebooks whose metadata say
{"course": {"serial": true}} time things: they run one by one after the others. Chapters run where they lie. A lab or solution runs through
`course.alone.environment(path)`, which yields a folder that holds nothing but a copy of the notebook, and the variables under which a
*kernel* refuses the book's packages and every connection off loopback; pytest itself still uses `course`.
The run fails if the number of cells that were compared is not what the notebooks hold.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from course import notebooks, rerun
from course.nbval_plugin import COUNT_FILE

WORKERS = 2  # notebooks at a time; a process each, because a lab has variables of its own


def is_serial(path: Path) -> bool:
    return bool(notebooks.read(path).metadata.get("course", {}).get("serial", False))


def expected(path: Path) -> Counter[str]:
    """How many code cells of the notebook are to be compared, to be run with their output ignored, and to be skipped."""
    counts: Counter[str] = Counter()
    for cell in notebooks.read(path).cells:
        if cell.cell_type == "code":
            tags = notebooks.tags(cell)
            counts["skipped" if notebooks.SKIP_TAG in tags else "ignored" if "nbval-ignore-output" in tags else "compared"] += 1
    return counts


def command(file: Path) -> list[str]:
    """The pytest call for one notebook. Its configuration is none of the repository's: this call says all there is."""
    call = [sys.executable, "-m", "pytest", "--nbval", "-p", "course.nbval_plugin", "-q", "--no-header", "-p", "no:cacheprovider"]
    call += ["-c", os.devnull, f"--rootdir={file.parent}", f"--nbval-cell-timeout={notebooks.CELL_TIMEOUT}", "--color=no"]
    return call + [str(file)]


def _run(file: Path, env: dict[str, str]) -> tuple[bool, str]:
    done = subprocess.run(command(file), env=env, cwd=notebooks.ROOT, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode == 0, done.stdout


def _report(name: str, result: tuple[bool, str]) -> bool:
    passed, output = result
    print(f"{name}: {'ok' if passed else 'FAILED'}" + ("" if passed else f"\n{output}"), flush=True)
    return passed


def _measured(count_file: Path) -> Counter[tuple[str, str]]:
    lines = [json.loads(line) for line in count_file.read_text(encoding="utf-8").splitlines()]
    return Counter((line["file"], line["verdict"]) for line in lines)


def check(paths: Sequence[Path], threads: int = 1) -> bool:
    """Run nbval on the notebooks and print a closing count; False where an output differs or a cell was not compared."""
    with ExitStack() as stack:
        count_file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "counts.jsonl"
        count_file.touch()
        ran_as: dict[Path, Path] = {}
        together: list[tuple[Path, dict[str, str]]] = []
        serial: list[tuple[Path, dict[str, str]]] = []
        for path in paths:
            file, env = stack.enter_context(rerun.workplace(path.resolve(), threads))
            ran_as[path] = file.resolve()
            (serial if is_serial(path) else together).append((ran_as[path], {**env, COUNT_FILE: str(count_file)}))
        names = {file: notebooks.shown(path) for path, file in ran_as.items()}
        with ThreadPoolExecutor(WORKERS) as pool:  # each thread waits for one pytest
            passed = [_report(names[file], result) for (file, _), result in zip(together, pool.map(lambda job: _run(*job), together))]
        passed += [_report(names[file], _run(file, env)) for file, env in serial]
        measured = _measured(count_file)
    return _closing_count(ran_as, measured) and all(passed)


def _closing_count(ran_as: dict[Path, Path], measured: Counter[tuple[str, str]]) -> bool:
    """Print what was compared; False where it is not what the notebooks hold, or nothing at all."""
    total: Counter[str] = Counter()
    complete = True
    for path, file in ran_as.items():
        want = expected(path)
        got = Counter({verdict: measured[str(file), verdict] for verdict in ("compared", "ignored", "skipped")})
        total += got
        if +got != +want:
            complete = False
            print(f"{notebooks.shown(path)}: {got['compared']} of {want['compared']} cells compared and equal, {got['ignored']} of {want['ignored']} run with output ignored")
    print(f"nbcheck: {len(ran_as)} notebooks, {total['compared']} cells compared and equal, {total['ignored']} run with output ignored, {total['skipped']} skipped")
    if not ran_as or not total["compared"]:
        print("nbcheck: nothing was compared")
        return False
    return complete


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course.nbcheck", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("paths", nargs="*", help="notebooks or folders; all of the book's without any")
    parser.add_argument("--threads", type=int, default=1, help="threads of the numeric libraries (default 1)")
    parser.add_argument("--labs", action="store_true", help="labs and solutions only")
    options = parser.parse_args(arguments)
    paths = notebooks.find(options.paths)
    if options.labs:
        paths = [path for path in paths if notebooks.kind(path) in ("lab", "solution")]
    return 0 if check(paths, options.threads) else 1


if __name__ == "__main__":
    sys.exit(main())
