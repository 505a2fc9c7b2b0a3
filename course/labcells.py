"""What the cells of a solution notebook are, and the rules they follow; the format is described in course/labs.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
_LIKE_A_MARK = re.compile(r"#+\s*(begin|end)[ _-]*solution", re.IGNORECASE)
ROLES = ("harness", "task", "check", "summary", "quiz")


@dataclass(frozen=True)
class Rule:
    """A broken rule: the cell's position from 1, or None for the whole notebook, and what is wrong."""

    cell: int | None
    text: str

    def __str__(self) -> str:
        return f"{'notebook' if self.cell is None else f'cell {self.cell}'}: {self.text}"


def role(cell: NotebookNode) -> str:
    """harness, task, check, summary or quiz; "" for any other cell."""
    marks = cell.metadata.get("course", {})
    return next((name for name in ROLES if name in marks), "") if cell.cell_type == "code" else ""


def number(cell: NotebookNode) -> int:
    """The number of a task or check cell."""
    marks = cell.metadata["course"]
    return marks["task"] if "task" in marks else marks["check"]


def problems(notebook: NotebookNode) -> list[Rule]:
    """Every rule that the solution breaks, in the order of its cells."""
    cells = list(enumerate(notebook.cells, start=1))
    found: list[Rule] = []
    for place, cell in cells:
        found += _marks(place, cell)
        if not any(rule.cell == place for rule in found):
            found += _task(place, cell) if role(cell) == "task" else _check(place, cell) if role(cell) == "check" else []
    found += _order([(place, cell) for place, cell in cells if cell.cell_type == "code"])
    if not found:
        names = {cell.metadata["course"]["function"] for _, cell in cells if role(cell) == "task"}
        for place, cell in cells:
            if cell.cell_type == "code" and role(cell) in ("", "task"):
                used = _early_uses(cell.source, names)
                found += [Rule(place, f"calls {name}, a task's function, outside a check and not below `if after(…):`") for name in used]
    return sorted(found, key=lambda rule: rule.cell or 0)


def _marks(place: int, cell: NotebookNode) -> Iterator[Rule]:
    """The metadata, and the pairs of BEGIN and END."""
    marks = cell.metadata.get("course", {})
    roles = [name for name in ROLES if name in marks]
    if set(marks) - {*ROLES, "function"} or len(roles) > 1 or (marks and cell.cell_type != "code"):
        yield Rule(place, f"metadata course {dict(marks)}: one of {', '.join(ROLES)}, on a code cell")
    for name in ("task", "check"):
        if name in marks and (not isinstance(marks[name], int) or isinstance(marks[name], bool) or marks[name] < 1):
            yield Rule(place, f"{name} {marks[name]!r}: a whole number from 1")
    if "task" in marks and not (isinstance(marks.get("function"), str) and marks["function"].isidentifier()):
        yield Rule(place, f"function {marks.get('function')!r}: the name of the task's function or class")
    opened: str | None = None
    for line in cell.source.splitlines():
        text = line.strip()
        if text == BEGIN:
            if opened is not None:
                yield Rule(place, f"{BEGIN} again before {END}")
            opened = line
        elif text == END:
            if opened is None:
                yield Rule(place, f"{END} without {BEGIN}")
            elif line.partition("#")[0] != opened.partition("#")[0]:
                yield Rule(place, f"{END} stands deeper or less deep than its {BEGIN}")
            opened = None
        elif _LIKE_A_MARK.search(line):
            yield Rule(place, f"{text!r} looks like a mark; the marks are {BEGIN!r} and {END!r}, alone on their lines")
    if opened is not None:
        yield Rule(place, f"{BEGIN} without {END}")
    if (BEGIN in cell.source) != ("task" in marks):
        yield Rule(place, f"a task without {BEGIN}" if "task" in marks else f"{BEGIN} outside a task cell")


def _parsed(source: str) -> ast.Module | str:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        return f"does not parse: {error.msg}, line {error.lineno}"


def _task(place: int, cell: NotebookNode) -> Iterator[Rule]:
    tree, name = _parsed(cell.source), cell.metadata["course"]["function"]
    if isinstance(tree, str):
        yield Rule(place, tree)
        return
    node = next((n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and n.name == name), None)
    if node is None:
        yield Rule(place, f"defines no {name}")
        return
    if not ast.get_docstring(node):
        yield Rule(place, f"{name} has no docstring")
    functions = [n for n in ast.walk(node) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    marked = [i for i, line in enumerate(cell.source.splitlines(), start=1) if line.strip() == BEGIN]
    bodies = [(f.body[0].lineno, f.end_lineno or f.lineno) for f in functions]
    for line in marked:
        if not any(f.lineno < line <= (f.end_lineno or 0) + 1 for f in functions):
            yield Rule(place, f"{BEGIN} on line {line} stands outside {name}: its raise would stop the notebook")
    if not bodies:
        yield Rule(place, f"{name} has no function to write")
    for function in functions[:1] if isinstance(node, ast.FunctionDef) else []:
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        bare = [a.arg for a in arguments if a.annotation is None] + ([] if function.returns else ["return"])
        if bare:
            yield Rule(place, f"{name} has no type hint for {', '.join(bare)}")


def _check(place: int, cell: NotebookNode) -> Iterator[Rule]:
    tree, wanted = _parsed(cell.source), number(cell)
    if isinstance(tree, str):
        yield Rule(place, tree)
        return
    decorated = [ast.unparse(d) for n in tree.body if isinstance(n, ast.FunctionDef) for d in n.decorator_list]
    if decorated != [f"check({wanted})"]:
        yield Rule(place, f"a check cell holds one function under @check({wanted}), found {', '.join(decorated) or 'none'}")
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list]
    if any(n.args.args or n.args.kwonlyargs for n in functions):
        yield Rule(place, "a check's function takes no arguments")


def _order(code: list[tuple[int, NotebookNode]]) -> Iterator[Rule]:
    """Which cells there are, and where."""
    places = {name: [place for place, cell in code if role(cell) == name] for name in ROLES}
    for name in ("harness", "summary", "quiz"):
        if len(places[name]) != 1:
            yield Rule(places[name][1] if places[name] else None, f"{len(places[name])} {name} cells: exactly one")
    tasks = [(place, cell) for place, cell in code if role(cell) == "task"]
    if not tasks:
        yield Rule(None, "no task")
        return
    seen: dict[int, int] = {}
    functions: dict[str, int] = {}
    for count, (place, cell) in enumerate(tasks, start=1):
        task, name = cell.metadata["course"]["task"], cell.metadata["course"].get("function")
        if task in seen:
            yield Rule(place, f"task {task} again: it is also in cell {seen[task]}")
        elif task != count:
            yield Rule(place, f"task {task} stands where task {count} should: number them in order")
        if name in functions:
            yield Rule(place, f"{name} is also the function of cell {functions[name]}")
        seen.setdefault(task, place)
        functions.setdefault(name, place)
    yield from _checks_in_place(code, seen)
    first, last = tasks[0][0], max([*places["check"], tasks[-1][0]])
    if places["harness"] and places["harness"][0] > first:
        yield Rule(places["harness"][0], "the harness stands after the first task")
    if places["summary"] and places["summary"][0] < last:
        yield Rule(places["summary"][0], "the summary stands before the last check")
    if places["quiz"] and places["quiz"][0] != code[-1][0]:
        yield Rule(places["quiz"][0], "the quiz is not the last code cell")


def _checks_in_place(code: list[tuple[int, NotebookNode]], tasks: dict[int, int]) -> Iterator[Rule]:
    """Each task is followed by its check, and each check follows its task."""
    checked: dict[int, int] = {}
    for (_, before), (place, cell) in zip([code[0], *code], code):
        if role(cell) != "check":
            continue
        wanted = cell.metadata["course"]["check"]
        if wanted not in tasks:
            yield Rule(place, f"check {wanted} has no task")
        elif wanted in checked:
            yield Rule(place, f"check {wanted} again: it is also in cell {checked[wanted]}")
        elif role(before) != "task" or before.metadata["course"]["task"] != wanted:
            yield Rule(place, f"check {wanted} is not the next code cell after task {wanted}")
        checked.setdefault(wanted, place)
    for task, place in tasks.items():
        if task not in checked:
            yield Rule(place, f"task {task} has no check")


def _early_uses(source: str, names: Iterable[str]) -> list[str]:
    """Names of tasks' functions that the cell uses when it runs, other than below `if after(…):`."""
    tree = _parsed(source)
    if isinstance(tree, str):  # a magic, for example; running the lab shows whether it works
        return []
    wanted, used = set(names), set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue  # runs only when called; running the untouched lab finds a call
        if isinstance(node, ast.If) and isinstance(node.test, ast.Call) and ast.unparse(node.test.func) == "after":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Name) and node.id in wanted:
            used.add(node.id)
        waiting += ast.iter_child_nodes(node)
    return sorted(used)
