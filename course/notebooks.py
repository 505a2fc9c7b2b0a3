"""Find, read and write the book's notebooks, and the environment in which they run: shared by lint, nbcheck and rerun."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"chapters": "chapter", "labs": "lab", "solutions": "solution"}
CELL_TIMEOUT = 120  # seconds
SKIP_TAG = "nbval-skip"

# Every library that splits a float sum over threads, and so changes its last digits.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def kind(path: Path) -> str:
    """chapter, lab or solution by the folder that holds the notebook; "other" elsewhere."""
    return FOLDERS.get(path.resolve().parent.name, "other")


def find(paths: Sequence[str | Path] = (), root: Path = ROOT) -> list[Path]:
    """The notebooks among `paths` (files or folders), or all of the book's in its order: chapters, labs, solutions.

    Raises FileNotFoundError for a path that does not exist, ValueError for a file that is no notebook.
    """
    found: list[Path] = []
    for path in [Path(p) for p in paths] or [root / folder for folder in FOLDERS if (root / folder).is_dir()]:
        if path.is_dir():
            found += sorted(p for p in path.rglob("*.ipynb") if not any(part.startswith(".") for part in p.relative_to(path).parts))
        elif not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        elif path.suffix != ".ipynb":
            raise ValueError(f"{path} is not a notebook (.ipynb)")
        else:
            found.append(path)
    return found


def shown(path: Path, root: Path = ROOT) -> str:
    """The path as messages print it: relative to the repository where it lies inside."""
    full = path.resolve()
    return full.relative_to(root).as_posix() if full.is_relative_to(root) else str(path)


def read(path: Path) -> NotebookNode:
    """The notebook in format 4. Raises FileNotFoundError, or ValueError for a file that is not JSON of a notebook."""
    try:
        return nbformat.read(path, as_version=4)
    except (nbformat.reader.NotJSONError, nbformat.ValidationError, AttributeError, KeyError) as error:
        raise ValueError(f"{path} is not a notebook: {type(error).__name__}") from error


def write(notebook: NotebookNode, path: Path) -> None:
    """Write the notebook without what changes from run to run or machine to machine: times, versions, random cell ids."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    used = {cell.id for cell in notebook.cells if cell.get("id")}
    for cell in notebook.cells:
        if not cell.get("id"):
            cell["id"] = _new_id(cell.source, used)
        for key in ("execution", "ExecuteTime", "collapsed", "scrolled"):
            cell.metadata.pop(key, None)
    nbformat.write(notebook, path)


def _new_id(source: str, used: set[str]) -> str:
    """An id from the cell's text, so that the same notebook always gets the same ids."""
    for copy in range(1 + len(used)):
        candidate = hashlib.sha256(f"{copy}:{source}".encode()).hexdigest()[:8]
        if candidate not in used:
            break
    used.add(candidate)
    return candidate


def tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def environment(threads: int = 1) -> dict[str, str]:
    """The variables for a process that runs notebooks: `threads` for every numeric library, and no plotting backend forced on the kernel.

    Raises ValueError for fewer than one thread.
    """
    if threads < 1:
        raise ValueError(f"threads={threads}: at least 1")
    env = dict(os.environ)
    env.pop("MPLBACKEND", None)  # exported, it silences Jupyter's own backend and every figure is missing
    env.update({name: str(threads) for name in _THREAD_VARIABLES})
    env["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # else the kernel's debugger warns on stderr
    return env
