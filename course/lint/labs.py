"""Rules about labs and solutions: they stand alone, "Run all" never raises, and nothing needs a GPU."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from course.lint import code
from course.lint.page import Page, course
from course.lint.registry import LAB, Fault, rule

PACKAGES = ("numpy", "torch", "matplotlib", "IPython")
MOST_CUDA_LINES = 10
_CUDA_ONLY = re.compile(r"\btorch\.cuda\.(?!is_available\b|manual_seed)\w|\.cuda\(")


@rule("lab-imports", LAB)
def lab_imports(page: Page) -> Iterator[Fault]:
    """A lab imports the standard library, numpy, torch and matplotlib: what Colab has."""
    for n, _ in page.code:
        tree = page.tree(n)
        for node in ast.walk(tree) if tree else []:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for package in sorted({name.split(".")[0] for name in names} - set(PACKAGES) - sys.stdlib_module_names):
                yield n, f"imports {package or 'from its own folder'}; a lab has the standard library and {', '.join(PACKAGES)}"


def _task_names(page: Page) -> dict[str, int]:
    """Function or class of each task -> number of the task."""
    return {str(course(cell)["function"]): course(cell)["task"] for _, cell in page.code if "task" in course(cell) and "function" in course(cell)}


def _guards(test: ast.expr) -> set[int]:
    """The task numbers of `after(2, 3)` in a condition; none where it is turned round or only one of two ways in."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return set().union(*map(_guards, test.values))
    if isinstance(test, ast.Call) and code.called(test) == "after":
        return {a.value for a in test.args if isinstance(a, ast.Constant) and isinstance(a.value, int)}
    return set()


def _unguarded(nodes: Iterator[ast.AST] | list[ast.stmt], tasks: dict[str, set[int]], open_tasks: set[int]) -> Iterator[str]:
    """Names of functions called in the nodes that need a task which no `after` above them asked for. Bodies of functions do not run here."""
    for node in nodes:
        if isinstance(node, ast.If):
            yield from _unguarded([node.test], tasks, open_tasks)
            yield from _unguarded(node.body, tasks, open_tasks | _guards(node.test))
            yield from _unguarded(node.orelse, tasks, open_tasks)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _unguarded(list(node.decorator_list), tasks, open_tasks)
        elif not isinstance(node, ast.Lambda):
            # A name handed over (`timed(attention)`) is called there: so every use of the name counts, not only calls.
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and tasks.get(node.id, set()) - open_tasks:
                yield node.id
            yield from _unguarded(ast.iter_child_nodes(node), tasks, open_tasks)


def _needs(function: ast.AST, tasks: dict[str, set[int]]) -> set[int]:
    """The tasks that a call of this helper needs, because it uses their functions outside a guard of its own."""
    body = getattr(function, "body", [])
    inner = [n for statement in body for n in ([statement] if not isinstance(statement, ast.FunctionDef) else statement.body)]
    return set().union(*(tasks[name] for name in _unguarded(inner, tasks, set())), set())


@rule("task-call", LAB)
def task_call(page: Page) -> Iterator[Fault]:
    """Outside a check, a task's function is used only below `if after(task):`, so that "Run all" on an untouched lab never raises."""
    tasks = {name: {number} for name, number in _task_names(page).items()}
    for n, cell in page.code:
        tree = page.tree(n)
        if tree is None or "check" in course(cell) or course(cell).get("harness"):
            continue
        for function in code.functions(tree):  # a helper that uses a task's function needs that task from now on
            if function.name != course(cell).get("function"):
                tasks[function.name] = _needs(function, tasks)
        for name in sorted(set(_unguarded(tree.body, tasks, set()))):
            needed = ", ".join(map(str, sorted(tasks[name])))
            yield n, f"uses {name} outside a check; put it below `if after({needed}):`"


def _asks_for_gpu(test: ast.expr) -> bool:
    source = ast.unparse(test).lower()
    return ("cuda" in source or "gpu" in source) and not source.startswith("not ")


@rule("gpu-only", LAB)
def gpu_only(page: Page) -> Iterator[Fault]:
    """Every cell does something without a GPU: what only CUDA has gets a twin for the CPU."""
    for n, _ in page.code:
        tree = page.tree(n)
        work = [s for s in tree.body if not isinstance(s, ast.Import | ast.ImportFrom | ast.Pass) and not _is_docstring(s)] if tree else []
        if work and all(isinstance(s, ast.If) and not s.orelse and _asks_for_gpu(s.test) for s in work):
            yield n, "does nothing without a GPU; give it an else for the CPU"


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


@rule("cuda-lines", LAB)
def cuda_lines(page: Page) -> Iterator[Fault]:
    """At most ten lines of a lab use what only CUDA has (events, graphs, peak memory)."""
    lines = [n for n, cell in page.code for line in cell.source.split("\n") if _CUDA_ONLY.search(line.split("#")[0])]
    if len(lines) > MOST_CUDA_LINES:
        yield lines[MOST_CUDA_LINES], f"{len(lines)} lines use torch.cuda; at most {MOST_CUDA_LINES} in a lab"
