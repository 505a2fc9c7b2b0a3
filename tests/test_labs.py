"""The lab generator on a made-up solution, and every committed lab against its solution."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import small_lab
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from small_lab import STEM, code, quiz_html

from course import labs, notebooks
from course.labcells import role

STEMS = labs.stems()


def filled() -> NotebookNode:
    return labs.synced(small_lab.solution(), STEM, quiz_html)


def cell_with(notebook: NotebookNode, **marks: object) -> NotebookNode:
    return next(cell for cell in notebook.cells if all(cell.metadata.get("course", {}).get(key) == value for key, value in marks.items()))


def output_text(cell: NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = small_lab.repository(tmp_path_factory.mktemp("repository"))
    assert labs.generate(STEM, root, quiz_html) == [f"solutions/{STEM}.ipynb", f"labs/{STEM}.ipynb"]
    return root


def test_the_marked_part_becomes_one_raise_at_its_depth() -> None:
    source, removed = labs.student_source(small_lab.FIRST, 2)
    assert source.endswith('    """\n    raise NotImplementedError("task 2")')
    assert source.startswith("def first_at_least(values: list[int], bound: int) -> int:")
    assert len(removed) == 4
    compile(source, "lab", "exec")


def test_two_marked_parts_of_a_class_become_two_raises() -> None:
    part = "        ### BEGIN SOLUTION\n        self.n = 1\n        ### END SOLUTION\n"
    source, _ = labs.student_source(f"class Counter:\n    def __init__(self):\n{part}\n    def add(self):\n{part}", 4)
    assert source.count('        raise NotImplementedError("task 4")') == 2
    assert "SOLUTION" not in source
    compile(source, "lab", "exec")


def test_generated_cells_are_filled_in_the_solution_too() -> None:
    notebook = filled()
    assert cell_with(notebook, harness=True).source == labs.HARNESS.read_text(encoding="utf-8").rstrip("\n")
    assert cell_with(notebook, summary=True).source == "summary(2)"
    assert cell_with(notebook, quiz=True).source == "%%html\n" + quiz_html(STEM)
    assert notebook.metadata["course"]["stem"] == STEM


def test_syncing_and_generating_twice_changes_nothing() -> None:
    once = filled()
    assert labs.skeleton(labs.synced(once, STEM, quiz_html)) == labs.skeleton(once)
    assert labs.skeleton(labs.lab_of(once, STEM)) == labs.skeleton(labs.lab_of(once, STEM))


def test_ids_come_from_content_not_from_the_editor() -> None:
    other = small_lab.solution()
    for number, cell in enumerate(other.cells):
        cell["id"] = f"random{number}"
    assert labs.skeleton(labs.synced(other, STEM, quiz_html)) == labs.skeleton(filled())
    ids = [cell.id for cell in filled().cells]
    assert len(set(ids)) == len(ids)


def test_the_lab_differs_from_the_solution_in_tasks_and_link_only() -> None:
    solution = filled()
    lab = labs.lab_of(solution, STEM)
    for before, after in zip(solution.cells, lab.cells):
        if role(before) == "task":
            assert after.source != before.source
            assert "SOLUTION" not in after.source
        else:
            assert after.source == before.source
        assert after.metadata == before.metadata
    assert len(lab.cells) == len(solution.cells) + 1
    assert f"](../solutions/{STEM}.ipynb)" in lab.cells[-1].source
    assert lab.cells[-1].source.startswith("<details>")


def test_outputs_of_the_solution_stay_out() -> None:
    solution = filled()
    cell_with(solution, check=1).outputs = [{"output_type": "stream", "name": "stdout", "text": "stretched = np.asarray(x) * factor"}]
    assert not any(cell.get("outputs") for cell in labs.lab_of(solution, STEM).cells)


LEAKS: dict[str, Callable[[NotebookNode], None]] = {
    "text": lambda nb: nb.cells.insert(3, new_markdown_cell("Hint: `stretched = np.asarray(x) * factor`")),
    "docstring": lambda nb: cell_with(nb, task=1).update(source=small_lab.SCALE.replace("times the factor", "stretched = np.asarray(x) * factor")),
    "check": lambda nb: cell_with(nb, check=2).update(source=small_lab.FIRST_CHECK + "\n    for place, value in enumerate(values): pass"),
}


@pytest.mark.parametrize("change", LEAKS.values(), ids=LEAKS.keys())
def test_a_leak_is_an_error(change: Callable[[NotebookNode], None]) -> None:
    notebook = filled()
    change(notebook)
    with pytest.raises(labs.LabError, match=f"solutions/{STEM}.ipynb, cell \\d+: the solution's line .* leaks: it also stands in cell \\d+"):
        labs.lab_of(notebook, STEM)


def test_lines_below_25_characters_are_no_leak() -> None:
    notebook = filled()
    notebook.cells.insert(3, new_markdown_cell("`if value >= bound:` and `return stretched`"))
    labs.lab_of(notebook, STEM)


def edit(marks: dict[str, object], old: str, new: str) -> Callable[[NotebookNode], None]:
    def change(notebook: NotebookNode) -> None:
        cell = cell_with(notebook, **marks)
        assert old in cell.source
        cell.source = cell.source.replace(old, new)

    return change


def marks(which: dict[str, object], **new: object) -> Callable[[NotebookNode], None]:
    return lambda notebook: cell_with(notebook, **which).metadata["course"].update(new)


def without(**which: object) -> Callable[[NotebookNode], None]:
    return lambda notebook: notebook.cells.remove(cell_with(notebook, **which))


def move(position: int, **which: object) -> Callable[[NotebookNode], None]:
    def change(notebook: NotebookNode) -> None:
        cell = cell_with(notebook, **which)
        notebook.cells.remove(cell)
        notebook.cells.insert(position, cell)

    return change


def add(position: int, cell: NotebookNode) -> Callable[[NotebookNode], None]:
    return lambda notebook: notebook.cells.insert(position, copy.deepcopy(cell))


T1, T2 = {"task": 1}, {"task": 2}
BROKEN: dict[str, tuple[Callable[[NotebookNode], None], str]] = {
    "no END": (edit(T1, "    ### END SOLUTION", ""), r"cell 5: ### BEGIN SOLUTION without ### END"),
    "no BEGIN": (edit(T1, "    ### BEGIN SOLUTION", ""), r"cell 5: ### END SOLUTION without ### BEGIN"),
    "no marks": (edit(T1, "### ", "# - "), r"cell 5: a task without ### BEGIN"),
    "BEGIN twice": (edit(T1, "    return stretched", "    ### BEGIN SOLUTION\n    return stretched"), "cell 5: ### BEGIN SOLUTION again"),
    "END deeper": (edit(T1, "    ### END", "        ### END"), "cell 5: ### END SOLUTION stands deeper"),
    "misspelt mark": (edit(T1, "### END SOLUTION", "### END SOLUTION ###"), "cell 5: .* looks like a mark"),
    "lower case mark": (edit(T1, "### END SOLUTION", "# end solution"), "cell 5: .* looks like a mark"),
    "marks in a plain cell": (add(2, code("### BEGIN SOLUTION\nx = 1\n### END SOLUTION")), "cell 3: ### BEGIN SOLUTION outside a task cell"),
    "marks outside the function": (edit(T1, "    return stretched\n    ### END SOLUTION", "    return stretched\n    ### END SOLUTION\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION"), "cell 5: .*outside scale"),
    "task without check": (without(check=2), "cell 9: task 2 has no check"),
    "check without task": (without(task=2), "cell 9: check 2 has no task"),
    "check away from its task": (move(11, check=1), "check 1 is not the next code cell after task 1"),
    "same number twice": (marks(T2, task=1), "cell 9: task 1 again: it is also in cell 5"),
    "numbers with a gap": (marks(T2, task=3), "cell 9: task 3 stands where task 2 should"),
    "number as text": (marks(T1, task="1"), "cell 5: task '1': a whole number"),
    "check of another number": (edit({"check": 1}, "@check(1)", "@check(2)"), r"cell 6: a check cell holds one function under @check\(1\), found check\(2\)"),
    "check without decorator": (edit({"check": 1}, "@check(1)\n", ""), "cell 6: .* found none"),
    "check with arguments": (edit({"check": 1}, "scale_multiplies()", "scale_multiplies(x)"), "cell 6: a check's function takes no arguments"),
    "same function twice": (marks(T2, function="scale"), "defines no scale|scale is also the function of cell 5"),
    "another function": (marks(T2, function="last"), "cell 9: defines no last"),
    "no function named": (marks(T2, function=None), "cell 9: function None"),
    "no docstring": (edit(T2, '"""The position', 'note = """The position'), "cell 9: first_at_least has no docstring"),
    "no type hint": (edit(T2, "bound: int) -> int", "bound)"), "cell 9: first_at_least has no type hint for bound, return"),
    "does not parse": (edit(T2, "-> int:", "-> int"), "cell 9: does not parse"),
    "no harness": (without(harness=True), "notebook: 0 harness cells: exactly one"),
    "two harnesses": (add(3, code("", harness=True)), "cell 4: 2 harness cells"),
    "late harness": (move(9, harness=True), "the harness stands after the first task"),
    "no summary": (without(summary=True), "notebook: 0 summary cells"),
    "early summary": (move(6, summary=True), "cell 7: the summary stands before the last check"),
    "no quiz": (without(quiz=True), "notebook: 0 quiz cells"),
    "quiz not last": (add(12, new_code_cell("print(1)")), "cell 12: the quiz is not the last code cell"),
    "unknown metadata": (marks(T1, hint="x"), "cell 5: metadata course"),
    "two roles": (marks(T1, check=1), "cell 5: metadata course"),
    "task called outside a check": (add(10, code("scale(np.ones(2), 1.0)")), r"cell 11: calls scale, a task's function, outside a check"),
    "task called in its cell": (edit(T1, "    ### END SOLUTION", "    ### END SOLUTION\nscale(np.ones(2), 1.0)"), "cell 5: calls scale"),
    "no task": (lambda nb: setattr(nb, "cells", [cell for cell in nb.cells if role(cell) not in ("task", "check")]), "notebook: no task"),
}


@pytest.mark.parametrize(("change", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_rule_is_named_with_file_and_cell(change: Callable[[NotebookNode], None], message: str) -> None:
    notebook = small_lab.solution()
    change(notebook)
    with pytest.raises(labs.LabError, match=message) as caught:
        labs.synced(notebook, STEM, quiz_html)
    assert all(line.startswith(f"solutions/{STEM}.ipynb, ") for line in str(caught.value).splitlines())


def test_generated_and_executed(made: Path) -> None:
    assert labs.differences(STEM, made, quiz_html) == []
    assert labs.generate(STEM, made, quiz_html) == []
    for folder, mark in (("solutions", "✓"), ("labs", "…")):
        notebook = notebooks.read(made / folder / f"{STEM}.ipynb")
        assert labs.executed(notebook)
        assert [output_text(cell)[0] for cell in notebook.cells if role(cell) == "check"] == [mark, mark]
    assert [path.name for path in made.rglob("*") if path.is_file()] == [f"{STEM}.ipynb"] * 2


def test_hand_edits_are_seen_and_undone(made: Path) -> None:
    lab, solution = made / "labs" / f"{STEM}.ipynb", made / "solutions" / f"{STEM}.ipynb"
    before = lab.read_bytes(), solution.read_bytes()
    notebook = notebooks.read(lab)
    cell_with(notebook, task=1).source += "  "
    notebooks.write(notebook, lab)
    assert labs.differences(STEM, made, quiz_html) == [f"labs/{STEM}.ipynb: not what its solution generates"]
    assert labs.generate(STEM, made, quiz_html) == [f"labs/{STEM}.ipynb"]
    notebook = notebooks.read(solution)
    cell_with(notebook, harness=True).source += "\nRESULTS[1] = 1"
    notebooks.write(notebook, solution)
    assert labs.differences(STEM, made, quiz_html) == [f"solutions/{STEM}.ipynb: its generated cells are not current"]
    assert labs.generate(STEM, made, quiz_html, sync_only=True) == [f"solutions/{STEM}.ipynb"]
    assert (lab.read_bytes(), solution.read_bytes()) == before


def test_a_lab_without_outputs_is_executed_again(made: Path) -> None:
    lab = made / "labs" / f"{STEM}.ipynb"
    before = lab.read_bytes()
    notebook = notebooks.read(lab)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    notebooks.write(notebook, lab)
    assert labs.differences(STEM, made, quiz_html) == []
    assert labs.generate(STEM, made, quiz_html) == [f"labs/{STEM}.ipynb"]
    assert lab.read_bytes() == before


def test_a_lab_that_raises_is_not_written(tmp_path: Path) -> None:
    notebook = small_lab.solution()
    notebook.cells.insert(10, new_code_cell("def show():\n    print(scale(np.ones(2), 1.0))\n\nshow()"))
    root = small_lab.repository(tmp_path, notebook)
    with pytest.raises(RuntimeError, match="task 1"):
        labs.generate(STEM, root, quiz_html)
    assert not (root / "labs" / f"{STEM}.ipynb").exists()


@pytest.mark.parametrize("stem", STEMS)
def test_committed_labs_are_what_their_solutions_generate(stem: str) -> None:
    assert labs.differences(stem) == []


@pytest.mark.parametrize("stem", STEMS)
def test_a_solution_says_only_right(stem: str) -> None:
    notebook = notebooks.read(notebooks.ROOT / "solutions" / f"{stem}.ipynb")
    checks = [output_text(cell) for cell in notebook.cells if role(cell) == "check"]
    assert labs.executed(notebook)
    assert checks
    assert all(text.startswith("✓ ") and len(text.splitlines()) == 1 for text in checks), checks
    assert output_text(next(cell for cell in notebook.cells if role(cell) == "summary")).startswith(f"✓ {len(checks)} of {len(checks)}\n")


@pytest.mark.parametrize("stem", STEMS)
def test_an_untouched_lab_says_only_not_attempted(stem: str) -> None:
    notebook = notebooks.read(notebooks.ROOT / "labs" / f"{stem}.ipynb")
    checks = [output_text(cell) for cell in notebook.cells if role(cell) == "check"]
    assert labs.executed(notebook)
    assert checks
    assert all(text.startswith("… ") and len(text.splitlines()) == 1 for text in checks), checks
    everything = "".join(cell.source + output_text(cell) for cell in notebook.cells if cell.cell_type == "code" and role(cell) != "harness")
    hidden = notebooks.read(notebooks.ROOT / "solutions" / f"{stem}.ipynb")
    for cell in hidden.cells:
        if role(cell) == "task":
            for line in labs.student_source(cell.source, 1)[1]:
                assert len(line.strip()) < labs.LEAK_LENGTH or line.strip() not in everything


def test_no_lab_without_a_solution() -> None:
    assert {path.stem for path in (notebooks.ROOT / "labs").glob("*.ipynb")} <= set(STEMS)
