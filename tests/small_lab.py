"""A made-up solution of two tasks, for the tests of the lab machinery."""

from __future__ import annotations

from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course import notebooks

STEM = "90_small"

SCALE = '''def scale(x: np.ndarray, factor: float) -> np.ndarray:
    """x [n] times the factor -> [n].

    Example: scale([1, 2], 3) is [3, 6].
    """
    ### BEGIN SOLUTION
    stretched = np.asarray(x) * factor
    return stretched
    ### END SOLUTION'''

SCALE_CHECK = '''@check(1)
def scale_multiplies():
    x = np.array([1.0, -2.0, 0.5])
    close(scale(x, 3.0), np.array([3.0, -6.0, 1.5]), "the factor is not used, or not once")'''

FIRST = '''def first_at_least(values: list[int], bound: int) -> int:
    """The position of the first value that is at least the bound, or -1.

    Example: first_at_least([1, 5, 7], 5) is 1.
    """
    ### BEGIN SOLUTION
    for place, value in enumerate(values):
        if value >= bound:
            return place
    return -1
    ### END SOLUTION'''

FIRST_CHECK = '''@check(2)
def the_first_that_reaches_the_bound():
    same(first_at_least([1, 5, 7], 5), 1, "a value equal to the bound counts")
    same(first_at_least([1, 5, 7], 6), 2, "the value must reach the bound")
    same(first_at_least([7, 7, 1], 6), 0, "the first, not the last")
    same(first_at_least([1, 2], 9), -1, "none reaches the bound: -1")'''

AFTER = '''if after(1):
    print(scale(np.array([1.0]), 2.0))'''


def quiz_html(stem: str) -> str:
    return f"<form data-chapter=\"{stem}\"><p>A question.</p></form>"


def code(source: str, **course: object) -> NotebookNode:
    return new_code_cell(source, metadata={"course": dict(course)} if course else {})


def solution() -> NotebookNode:
    """The notebook as an author leaves it: the generated cells empty."""
    cells = [
        new_markdown_cell("# Lab: small\n\nTwo tasks."),
        code("import numpy as np"),
        code("", harness=True),
        new_markdown_cell("## Task 1: scale\n\nMultiply."),
        code(SCALE, task=1, function="scale"),
        code(SCALE_CHECK, check=1),
        code(AFTER),
        new_markdown_cell("## Task 2: search\n\nFind."),
        code(FIRST, task=2, function="first_at_least"),
        code(FIRST_CHECK, check=2),
        code("", summary=True),
        code("", quiz=True),
    ]
    return new_notebook(cells=cells)


def repository(root: Path, notebook: NotebookNode | None = None) -> Path:
    """A folder that holds nothing but this solution."""
    (root / "solutions").mkdir()
    notebooks.write(notebook or solution(), root / "solutions" / f"{STEM}.ipynb")
    return root
