"""Does a check reject the mistakes it is there to catch? Wrong answers, named and generated, put in place of a solution.

    python -m course.mutants [--survivors] [stems]      counts per task; with the ids of the generated ones that got ✓

`tests/mutants/NN_name.py` belongs to `solutions/NN_name.ipynb` and holds three things:

    from course.mutants import Alternative, Mutant

    MUTANTS = [
        # a change of the solution's cell: each `old` must stand there exactly once; or a list of such pairs
        Mutant(task=2, name="no scale", replace=(" / q.shape[-1] ** 0.5", ""), hint="not divided"),
        # or a cell of its own, run in the notebook's namespace after the solution's: the imports and the other tasks' answers are there
        Mutant(task=2, name="returns nothing", code='''def attention(q, k, v):\\n    pass\\n''', hint="return missing"),
    ]                    # hint: a regular expression that the lines below ✗ must match: the hint should name the mistake
    ALTERNATIVES = [     # two right answers in another style for each task; these must get ✓
        Alternative(task=2, name="einsum", code='''def attention(q, k, v): ...'''),
    ]
    EQUIVALENT = {       # generated mutants that get ✓ because they are right answers too: id -> reason. Ids: --survivors prints them
        "2: scores = q @ k.mT -> scores = q @ k.swapaxes(-1, -2)": "swapping two axes is symmetric",
    }

Generated mutants come from the solution's syntax tree (course/mutate.py), and at least 90 % of them must get ✗; each survivor is listed under EQUIVALENT
with its reason, and an id that stands there but did not survive is an error. A mutant that runs longer than 10 s counts as rejected.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import re
import sys
import time
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from course import labs, notebooks
from course.labcells import problems, role
from course.mutate import changes

SHARE = 90  # per cent of the generated mutants, at least, must be rejected
_PATIENCE = 10  # seconds that a mutant may take


@dataclass(frozen=True)
class Mutant:
    """A named wrong answer: a change of the solution's cell, or a cell of its own. Raises ValueError for neither or both."""

    task: int
    name: str
    hint: str
    code: str = ""
    replace: tuple[str, str] | Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        if bool(self.code) == bool(self.replace):
            raise ValueError(f"mutant {self.name!r}: either code or replace")

    def source(self, solution: str) -> str:
        """The cell to run in place of the solution's. Raises ValueError where `old` does not stand there exactly once."""
        pairs = [self.replace] if self.replace and isinstance(self.replace[0], str) else self.replace
        for old, new in pairs:  # type: ignore[misc]
            if solution.count(old) != 1:
                raise ValueError(f"mutant {self.name!r}: {old!r} stands {solution.count(old)} times in the solution of task {self.task}, not once")
            solution = solution.replace(old, new)
        return self.code or solution


@dataclass(frozen=True)
class Alternative:
    """A right answer in another style."""

    task: int
    name: str
    code: str


@dataclass(frozen=True)
class Wrongs:
    """What `tests/mutants/NN_name.py` holds."""

    mutants: Sequence[Mutant] = ()
    alternatives: Sequence[Alternative] = ()
    equivalent: Mapping[str, str] = field(default_factory=dict)


def wrongs(stem: str, root: Path = notebooks.ROOT) -> Wrongs:
    """The wrong and right answers of a lab. Raises FileNotFoundError, or ValueError where the file lacks a list."""
    path = root / "tests" / "mutants" / f"{stem}.py"
    if not path.is_file():
        raise FileNotFoundError(f"tests/mutants/{stem}.py: a lab needs its mutants")
    spec = importlib.util.spec_from_file_location(f"mutants_{stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    missing = [name for name in ("MUTANTS", "ALTERNATIVES", "EQUIVALENT") if not hasattr(module, name)]
    if missing:
        raise ValueError(f"tests/mutants/{stem}.py: no {', '.join(missing)}")
    return Wrongs(module.MUTANTS, module.ALTERNATIVES, module.EQUIVALENT)


class Bench:
    """A solution, run up to its last task; then one task's cell at a time is replaced and its check run again."""

    def __init__(self, notebook: NotebookNode, stem: str) -> None:
        """Run set-up, tasks and checks. Raises LabError for a broken rule, ValueError where a check of the solution is not ✓."""
        broken = problems(notebook)
        if broken:
            raise labs.LabError("\n".join(f"solutions/{stem}.ipynb, {rule}" for rule in broken))
        self.stem = stem
        self.tasks: dict[int, str] = {}
        self.functions: dict[int, str] = {}
        module = types.ModuleType(f"lab_{stem}")
        sys.modules[module.__name__] = module  # a dataclass in the notebook looks its module up
        self.space: dict[str, Any] = module.__dict__
        self._run(labs.HARNESS.read_text(encoding="utf-8"), "harness")
        for place, cell in enumerate(notebook.cells, start=1):
            kind = role(cell)
            if cell.cell_type != "code" or kind in ("harness", "summary", "quiz") or not _is_python(cell.source):
                continue
            if kind == "task":
                self.tasks[cell.metadata["course"]["task"]] = cell.source
                self.functions[cell.metadata["course"]["task"]] = cell.metadata["course"]["function"]
            before = {name: self.space.get(name) for name in self.functions.values()}
            if kind == "check":
                self.space["RESULTS"].clear()  # so that a cell below `if after(…):` does not run
            self._run(cell.source, f"cell {place}")
            if kind == "check":
                self._solution_is_right(cell.metadata["course"]["check"], before)
        self.space["RESULTS"].clear()

    def _run(self, source: str, name: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, f"<{name}>", "exec", dont_inherit=True), self.space)

    def _solution_is_right(self, task: int, before: Mapping[str, Any]) -> None:
        result = self.space["RESULTS"].get(task)
        if not result or result["mark"] != "✓":
            raise ValueError(f"solutions/{self.stem}.ipynb, task {task}: its own check says {result}")
        changed = [name for name, value in before.items() if self.space.get(name) is not value]
        if changed:
            raise ValueError(f"solutions/{self.stem}.ipynb, check {task}: leaves {', '.join(changed)} changed")
        self.space["RESULTS"].clear()

    def verdict(self, task: int, source: str) -> tuple[str, str]:
        """The check's mark and text with this cell in place of the solution's, which is put back afterwards."""
        self.space["LIMIT_S"] = _PATIENCE
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    self._run(source, "answer")
                except SyntaxError:
                    raise
                except Exception as error:
                    return "✗", f"{type(error).__name__}: {error}"
                return self.space["_verdict"](task, self.space["CHECKS"][task])
        finally:
            self._run(self.tasks[task], "solution")

    def generated(self, task: int) -> dict[str, str]:
        """id -> mark, of every mutant made from the solution of this task."""
        marks = {}
        for change in changes(self.tasks[task]):
            try:
                marks[f"{task}: {change.id}"] = self.verdict(task, change.source)[0]
            except SyntaxError:  # for example break outside a loop: no answer at all
                continue
        return marks


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def bench(stem: str, root: Path = notebooks.ROOT) -> Bench:
    """The bench of a committed solution."""
    with contextlib.suppress(ImportError):
        import matplotlib

        matplotlib.use("Agg")
    return Bench(notebooks.read(root / "solutions" / f"{stem}.ipynb"), stem)


def named_faults(on: Bench, lists: Wrongs) -> list[str]:
    """One line for each named mutant that is not rejected with its hint, each alternative that is not accepted, and each task that has too few."""
    faults = []
    for mutant in lists.mutants:
        mark, text = on.verdict(mutant.task, mutant.source(on.tasks[mutant.task]))
        if mark != "✗":
            faults.append(f"task {mutant.task}, mutant {mutant.name!r}: {mark} {text}")
        elif not re.search(mutant.hint, text):
            faults.append(f"task {mutant.task}, mutant {mutant.name!r}: no {mutant.hint!r} in the hint {text!r}")
    for right in lists.alternatives:
        mark, text = on.verdict(right.task, right.code)
        if mark != "✓":
            faults.append(f"task {right.task}, right answer {right.name!r}: {mark} {text}")
    for task in on.tasks:
        if not any(mutant.task == task for mutant in lists.mutants):
            faults.append(f"task {task}: no named mutant")
        if sum(right.task == task for right in lists.alternatives) < 2:
            faults.append(f"task {task}: fewer than two right answers in another style")
    return faults


def generated_faults(marks: Mapping[str, str], equivalent: Mapping[str, str]) -> list[str]:
    """One line for each generated mutant that survives without a reason, each reason without its survivor, and too small a share of rejected ones."""
    survivors = {name for name, mark in marks.items() if mark != "✗"}
    faults = [f"survives without a reason: {name}" for name in marks if name in survivors and not equivalent.get(name, "").strip()]
    faults += [f"a reason without its survivor: {name}" for name in equivalent if name not in survivors]
    if 100 * (len(marks) - len(survivors)) < SHARE * len(marks):
        faults.append(f"{len(marks) - len(survivors)} of {len(marks)} generated mutants rejected, fewer than {SHARE} %")
    return faults


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course.mutants", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("stems", nargs="*", help="01_transformer_block …; all labs without any")
    parser.add_argument("--survivors", action="store_true", help="print the ids of generated mutants that got ✓")
    options = parser.parse_args(arguments)
    failed = False
    for stem in [Path(name).stem for name in options.stems] or labs.stems():
        start = time.perf_counter()
        on, lists = bench(stem), wrongs(stem)
        faults, marks = named_faults(on, lists), {}
        for task in on.tasks:
            made = on.generated(task)
            marks |= made
            named = sum(mutant.task == task for mutant in lists.mutants)
            alternatives = sum(right.task == task for right in lists.alternatives)
            rejected = sum(mark == "✗" for mark in made.values())
            print(f"{stem} task {task}: {named} named; {rejected} of {len(made)} generated rejected; {alternatives} right answers")
            if options.survivors:
                print("".join(f"    {name}\n" for name, mark in made.items() if mark != "✗"), end="")
        faults += generated_faults(marks, lists.equivalent)
        rejected = sum(mark == "✗" for mark in marks.values())
        print(f"{stem}: {len(lists.mutants)} named, {rejected} of {len(marks)} generated rejected, {len(faults)} faults, {time.perf_counter() - start:.0f} s")
        print("".join(f"    {fault}\n" for fault in faults), end="")
        failed = failed or bool(faults)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
