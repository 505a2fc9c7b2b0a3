"""Execute notebooks in place and print which stored outputs changed.

    python -m course.rerun                       every chapter, lab and solution
    python -m course.rerun chapters/06_kv_cache.ipynb

One thread, a fresh kernel, cells in order; a cell tagged nbval-skip is left as it is. A chapter runs in its own folder; a lab or solution runs
through `course.alone`. A figure that looks the same keeps its stored bytes, so that a rerun leaves no difference in git.
If a cell raises (without the tag raises-exception), the notebook is left untouched and the exit code is 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nbformat import NotebookNode

from course import notebooks, pictures


@contextmanager
def workplace(path: Path, threads: int = 1) -> Iterator[tuple[Path, dict[str, str]]]:
    """The file to execute and the environment variables to do so: a chapter where it lies, a lab or solution alone in an empty folder.

    `course.alone.environment(path)` yields (folder, variables): a new folder that holds a copy of the notebook under its own name, and variables under
    which a kernel refuses the book's packages. Only the kernel refuses them: the process that starts the kernel uses `course` itself.
    """
    env = notebooks.environment(threads)
    if notebooks.kind(path) in ("lab", "solution"):
        from course import alone  # not needed for a chapter

        with alone.environment(path) as (folder, extra):
            yield Path(folder) / path.name, {**env, **extra, **_thread_settings(env)}
    else:
        yield path, env


def _thread_settings(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.endswith("_NUM_THREADS") or name.endswith("_MAXIMUM_THREADS")}


def execute(source: Path, target: Path) -> None:
    """Run every cell of `source` in a new kernel, in the folder of `source`, and write the result to `target`.

    Raises nbclient's CellExecutionError where a cell raises, CellTimeoutError after 120 s in one cell.
    """
    from nbclient import NotebookClient

    notebook = notebooks.read(source)
    client = NotebookClient(
        notebook,
        timeout=notebooks.CELL_TIMEOUT,
        kernel_name="python3",
        resources={"metadata": {"path": str(source.resolve().parent)}},
        record_timing=False,
        coalesce_streams=True,
        skip_cells_with_tag=notebooks.SKIP_TAG,
    )
    client.execute()
    notebooks.write(notebook, target)


def same_output(old: NotebookNode, new: NotebookNode) -> bool:
    """True where two outputs show the same: equal text, pictures equal at low resolution."""
    if old.output_type != new.output_type:
        return False
    if "data" not in old:
        return {k: v for k, v in old.items() if k != "traceback"} == {k: v for k, v in new.items() if k != "traceback"}
    if old.data.keys() != new.data.keys():
        return False
    return all(
        pictures.difference(old.data[mime], new.data[mime]) is None if mime == "image/png" else old.data[mime] == new.data[mime]
        for mime in old.data
    )


def merge(old: NotebookNode, new: NotebookNode) -> list[int]:
    """Give each picture of `new` that looks as in `old` its stored bytes; the positions (from 1) of the cells whose outputs changed."""
    changed = []
    for position, (before, after) in enumerate(zip(old.cells, new.cells, strict=True), start=1):
        if after.cell_type != "code":
            continue
        same = len(before.outputs) == len(after.outputs)
        for old_output, new_output in zip(before.outputs, after.outputs):
            if not same_output(old_output, new_output):
                same = False
            elif "data" in old_output and "image/png" in old_output.data:
                new_output.data["image/png"] = old_output.data["image/png"]
        if not same:
            changed.append(position)
    return changed


def rerun(path: Path, threads: int = 1) -> list[int]:
    """Execute one notebook in place; the positions (from 1) of the cells whose outputs changed. Raises RuntimeError where a cell fails."""
    stored = notebooks.read(path)
    with workplace(path, threads) as (source, env), tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / path.name
        command = [sys.executable, "-m", "course.rerun", "--worker", str(source), str(target)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=notebooks.ROOT)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-4000:] or f"the kernel of {path} ended with {done.returncode}")
        fresh = notebooks.read(target)
    changed = merge(stored, fresh)
    notebooks.write(fresh, path)
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course.rerun", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("paths", nargs="*", help="notebooks or folders; all of the book's without any")
    parser.add_argument("--threads", type=int, default=1, help="threads of the numeric libraries (default 1)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        execute(Path(options.paths[0]), Path(options.paths[1]))
        return 0
    failed = False
    for path in notebooks.find(options.paths):
        name = notebooks.shown(path)
        try:
            changed = rerun(path.resolve(), options.threads)
        except RuntimeError as error:
            failed = True
            print(f"{name}: a cell failed, notebook left as it was\n{error}")
            continue
        print(f"{name}: " + (f"outputs changed in cells {', '.join(map(str, changed))}" if changed else "no output changed"), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
