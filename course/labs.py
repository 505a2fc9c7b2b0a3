"""Labs from solutions: `solutions/NN_name.ipynb` is the one source of `labs/NN_name.ipynb`.

    python -m course.labs [stems]             fill the solutions' generated cells, write the labs, execute what changed
    python -m course.labs --sync [stems]      fill the solutions' generated cells only (harness, summary, quiz, ids)
    python -m course.labs --check [stems]     write nothing; exit code 1 where a solution or lab is not what would be generated

The format, for the author of a solution
========================================
Work in `solutions/NN_name.ipynb`; never touch `labs/`. What a code cell is, its metadata say under "course":

    {"course": {"harness": true}}     exactly one, before the first task. Leave it empty: its source is course/check.py.
    {"course": {"task": 3, "function": "attention"}}
                                      one task. Tasks are numbered 1, 2, 3 … in the order of the cells.
    {"course": {"check": 3}}          its check; the next code cell after the task.
    {"course": {"summary": true}}     exactly one, after the last check. Leave it empty: it becomes `summary(number of tasks)`.
    {"course": {"quiz": true}}        exactly one, the last code cell. Leave it empty: it becomes `%%html` and the chapter's `section: lab` questions.
    nothing                           set-up, demonstrations: the same in the lab. Imports stand in one such cell at the top.

Before a task stands its Markdown: what to write, and why. After the last check: summary, quiz. The link to the solution is added by the generator.
A task cell holds one function or class named in the metadata, with type hints and a docstring that gives shapes and an example:

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        \"""What to write: … q [heads, n, d], k, v [heads, m, d] -> [heads, n, d].

        Example: one key only, so the answer is v, whatever q and k are.
        \"""
        ### BEGIN SOLUTION
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        return torch.softmax(scores, dim=-1) @ v
        ### END SOLUTION

In the lab everything from BEGIN to END is one line, `raise NotImplementedError("task 3")`, as deep as the BEGIN mark. Several marked parts are allowed
(two methods of a class). No line between marks that has 25 characters or more may appear anywhere else in the lab: not in text, docstring or check.

A check cell holds one function without arguments, decorated with its task's number. Its name, underscores read as blanks, is the title in the output. It
calls the task's function by its global name, seeds its own random numbers, and changes no global (counting stand-ins are put back in `finally`):

    @check(3)
    def attention_weighs_the_values():
        torch.manual_seed(0)
        q, k, v = torch.randn(3, 2, 5, 8).unbind(0)
        got = attention(q, k, v)
        close(got, F.scaled_dot_product_attention(q, k, v), "the scores are not divided by √d_k, or by something else")
        that(counter.calls == 1, "the cache is there but never read")

    close(got, want, hint, rtol=1e-4, atol=1e-5, dtype=True)   equal up to rounding. Wrong type (Tensor against ndarray), shape or dtype, None, and NaN where
                                       none is wanted are ✗. dtype=False accepts another dtype of the right values. Lists, tuples, dicts: item by item.
    same(got, want, hint)              equal exactly: whole numbers (3.0 is not 3), booleans (True is not 1), text, arrays, lists, dicts
    has_shape(got, (2, 5, 8), hint)    an array of this shape
    that(condition, hint)              anything else
    raises(ValueError, hint, function, *arguments)    function(*arguments) raises it

The first that fails ends the check: `✗ task 3 · attention weighs the values: <hint>`, below it got against expected. So order the assertions from the most
specific mistake to the whole, and let each hint name the likely mistake. Where type, shape or dtype is wrong, that leads and the hint comes second.
If a check calls the function of an earlier task, an untouched lab says `… waits for task 2`.
Only a check may call a task's function. Any other cell (a figure, a timing) does so below `if after(3):` (or `after(2, 3)`), which prints `…` until that check is ✓.

Mutants stand in `tests/mutants/NN_name.py`; see course/mutants.py.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from course import labcells, notebooks
from course.labcells import BEGIN, END, Rule, role

HARNESS = Path(__file__).with_name("check.py")
LEAK_LENGTH = 25  # characters
HIDDEN = {"cellView": "form", "jupyter": {"source_hidden": True}, "tags": ["hide-input"]}  # folded in Colab, in JupyterLab, on the site
LINK = """<details>
<summary>A solution, for after your own attempt</summary>

Yours may look different: what counts is the checks. [The solved notebook](../solutions/{stem}.ipynb) stands in the folder `solutions`, beside this lab's folder.

</details>"""


class LabError(ValueError):
    """What is wrong with a solution: one line per rule, each with file and cell."""


def lab_html(stem: str) -> str:
    """The quiz at the end of the lab, from the chapter's questions with `section: lab`."""
    from course import quiz  # needs the quiz files' schema, which a test of the generator alone does not

    return quiz.lab_html(stem)


def synced(solution: NotebookNode, stem: str, quiz_html: Callable[[str], str] = lab_html) -> NotebookNode:
    """A copy of the solution with its generated cells filled: harness, summary, quiz; ids from content. Raises LabError where a rule is broken."""
    filled = copy.deepcopy(solution)
    _raise(stem, labcells.problems(filled))
    total = sum(role(cell) == "task" for cell in filled.cells)
    for cell in filled.cells:
        kind = role(cell)
        if kind == "harness":
            cell.source = HARNESS.read_text(encoding="utf-8").rstrip("\n")
            cell.metadata.update(copy.deepcopy(HIDDEN))
        elif kind == "summary":
            cell.source = f"summary({total})"
        elif kind == "quiz":
            cell.source = "%%html\n" + quiz_html(stem).strip("\n")
            cell.metadata.update({**copy.deepcopy(HIDDEN), "tags": ["remove-input"]})
    filled.metadata["course"] = {**filled.metadata.get("course", {}), "stem": stem}
    return _with_ids(filled)


def lab_of(solution: NotebookNode, stem: str) -> NotebookNode:
    """The student notebook of a solution whose generated cells are filled; without outputs. Raises LabError where a line of the solution would leak."""
    lab = copy.deepcopy(solution)
    hidden: list[tuple[int, str]] = []
    for number, cell in enumerate(lab.cells, start=1):
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = [], None
        if role(cell) == "task":
            cell.source, removed = student_source(cell.source, cell.metadata["course"]["task"])
            hidden += [(number, line) for line in removed]
    lab.cells.append(new_markdown_cell(LINK.format(stem=stem), metadata={"course": {"link": True}}))
    _raise(stem, leaks(hidden, lab))
    return _with_ids(lab)


def student_source(source: str, task: int) -> tuple[str, list[str]]:
    """The task's cell with each marked part replaced by one `raise`, and the lines that went."""
    kept: list[str] = []
    removed: list[str] = []
    inside = False
    for line in source.splitlines():
        if line.strip() == BEGIN:
            inside = True
            kept.append(line[: len(line) - len(line.lstrip())] + f'raise NotImplementedError("task {task}")')
        elif line.strip() == END:
            inside = False
        else:
            (removed if inside else kept).append(line)
    return "\n".join(kept), removed


def leaks(hidden: Sequence[tuple[int, str]], lab: NotebookNode) -> list[Rule]:
    """A rule for each line of the solution, of 25 characters or more, that stands in a cell of the lab."""
    found = []
    for number, line in hidden:
        text = line.strip()
        if len(text) < LEAK_LENGTH:
            continue
        for place, cell in enumerate(lab.cells, start=1):
            if role(cell) != "harness" and text in cell.source:
                found.append(Rule(number, f"the solution's line {text!r} leaks: it also stands in cell {place}"))
    return found


def skeleton(notebook: NotebookNode) -> str:
    """Everything but outputs and execution counts, as text: equal text means byte-equal sources and metadata."""
    bare = copy.deepcopy(notebook)
    for cell in bare.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return json.dumps(bare, indent=1, sort_keys=True, ensure_ascii=False)


def _with_ids(notebook: NotebookNode) -> NotebookNode:
    """Give every cell an id from its content, and the notebook the metadata that it has when written."""
    for cell in notebook.cells:
        cell["id"] = ""
    notebooks.write(notebook, io.StringIO())  # type: ignore[arg-type]
    return notebook


def _raise(stem: str, rules: Sequence[Rule]) -> None:
    if rules:
        raise LabError("\n".join(f"solutions/{stem}.ipynb, {rule}" for rule in rules))


def executed(notebook: NotebookNode) -> bool:
    """True where every code cell has run, in order, without an error; but for those tagged nbval-skip, which never run here."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and notebooks.SKIP_TAG not in notebooks.tags(cell)]
    clean = not any(output.output_type == "error" for cell in cells for output in cell.outputs)
    return clean and [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


def _execute(notebook: NotebookNode, target: Path) -> None:
    """Run the notebook alone and store it at `target`, which stays as it is where a cell raises (RuntimeError)."""
    from course import rerun

    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / target.parent.name / target.name  # the folder's name says what kind it is
        place.parent.mkdir()
        notebooks.write(copy.deepcopy(notebook), place)
        rerun.rerun(place)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(place, target)


def differences(stem: str, root: Path = notebooks.ROOT, quiz_html: Callable[[str], str] = lab_html) -> list[str]:
    """What of the solution and lab is not as would be generated; empty where all is. Raises LabError where the solution breaks a rule."""
    source, target = root / "solutions" / f"{stem}.ipynb", root / "labs" / f"{stem}.ipynb"
    solution = notebooks.read(source)
    filled = synced(solution, stem, quiz_html)
    found = [] if skeleton(solution) == skeleton(filled) else [f"solutions/{stem}.ipynb: its generated cells are not current"]
    if not target.exists():
        return [*found, f"labs/{stem}.ipynb: missing"]
    if skeleton(notebooks.read(target)) != skeleton(lab_of(filled, stem)):
        found.append(f"labs/{stem}.ipynb: not what its solution generates")
    return found


def generate(stem: str, root: Path = notebooks.ROOT, quiz_html: Callable[[str], str] = lab_html, sync_only: bool = False) -> list[str]:
    """Write what is not as it should be, and execute it; the files written. Raises LabError for a broken rule, RuntimeError where a cell raises."""
    source, target = root / "solutions" / f"{stem}.ipynb", root / "labs" / f"{stem}.ipynb"
    solution = notebooks.read(source)
    filled = synced(solution, stem, quiz_html)
    written = []
    if skeleton(filled) != skeleton(solution) or (not sync_only and not executed(solution)):
        if sync_only:
            notebooks.write(filled, source)
        else:
            _execute(filled, source)
        written.append(f"solutions/{stem}.ipynb")
    if not sync_only:
        lab = lab_of(filled, stem)
        stored = notebooks.read(target) if target.exists() else None
        if stored is None or skeleton(stored) != skeleton(lab) or not executed(stored):
            _execute(lab, target)
            written.append(f"labs/{stem}.ipynb")
    return written


def stems(root: Path = notebooks.ROOT) -> list[str]:
    return sorted(path.stem for path in (root / "solutions").glob("*.ipynb"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course.labs", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("stems", nargs="*", help="01_transformer_block …; all of them without any")
    parser.add_argument("--sync", action="store_true", help="fill the solutions' generated cells only")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where something is not current")
    options = parser.parse_args(arguments)
    failed = False
    for stem in [Path(stem).stem for stem in options.stems] or stems():
        try:
            if options.check:
                found = differences(stem)
                failed = failed or bool(found)
                print("\n".join(found) or f"{stem}: current")
            else:
                print(f"{stem}: " + (", ".join(generate(stem, sync_only=options.sync)) or "current"))
        except (LabError, RuntimeError, FileNotFoundError) as error:
            failed = True
            print(error)
    orphans = sorted({path.stem for path in (notebooks.ROOT / "labs").glob("*.ipynb")} - set(stems()))
    for stem in orphans:
        failed = True
        print(f"labs/{stem}.ipynb: has no solution")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
