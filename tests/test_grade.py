"""python -m course.grade: right, wrong, untouched and tampered labs, and files that cannot be run."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
import small_lab
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from course import grade, labs, notebooks


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the small lab, generated but not executed: grading does that."""
    root = small_lab.repository(tmp_path_factory.mktemp("repository"))
    solution = labs.synced(small_lab.solution(), small_lab.STEM, small_lab.quiz_html)
    (root / "labs").mkdir()
    notebooks.write(labs.lab_of(solution, small_lab.STEM), root / "labs" / f"{small_lab.STEM}.ipynb")
    return root


def filled() -> NotebookNode:
    return labs.synced(small_lab.solution(), small_lab.STEM, small_lab.quiz_html)


def task_cell(notebook: NotebookNode, number: int) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.metadata.get("course", {}).get("task") == number)


def graded(notebook: NotebookNode, folder: Path, root: Path, name: str = "handed in.ipynb", **options: object) -> dict:
    nbformat.write(notebook, folder / name)
    return grade.grade(folder / name, root=root, **options)  # type: ignore[arg-type]


def words(report: dict) -> list[str]:
    return [row["result"] for row in report["checks"]]


def test_a_filled_lab_is_right_and_known_by_its_metadata(tmp_path: Path, root: Path) -> None:
    report = graded(filled(), tmp_path, root)
    assert words(report) == ["right", "right"]
    assert (report["lab"], report["checks_from"], report["right"], report["tasks"]) == (small_lab.STEM, "the repository", 2, 2)


def test_an_untouched_lab_is_not_attempted(tmp_path: Path, root: Path) -> None:
    assert words(graded(notebooks.read(root / "labs" / f"{small_lab.STEM}.ipynb"), tmp_path, root)) == ["not attempted", "not attempted"]


def test_wrong_answers_and_cells_that_raise_do_not_stop_the_rest(tmp_path: Path, root: Path) -> None:
    notebook = filled()
    task_cell(notebook, 1).source = "def scale(x, factor)\n    return x"
    notebook.cells.insert(3, new_code_cell("raise RuntimeError('mine')"))
    report = graded(notebook, tmp_path, root)
    assert words(report) == ["wrong", "right"]
    assert "NameError" in report["checks"][0]["text"]


def test_edited_checks_results_and_harness_change_nothing(tmp_path: Path, root: Path) -> None:
    notebook = filled()
    fake = "\nRESULTS.update({1: {'mark': '✓'}, 2: {'mark': '✓'}})\ncheck = lambda task: (lambda test: test)\nclose = same = lambda *a, **k: None"
    task_cell(notebook, 1).source = "def scale(x, factor): return x" + fake
    for cell in notebook.cells:
        marks = cell.metadata.get("course", {})
        if "check" in marks:
            cell.source = f"@check({marks['check']})\ndef yes(): pass"
        if "harness" in marks:
            cell.source += fake
    assert words(graded(notebook, tmp_path, root)) == ["wrong", "right"]


def test_deleted_check_cells_still_count(tmp_path: Path, root: Path) -> None:
    notebook = filled()
    notebook.cells = [cell for cell in notebook.cells if "check" not in cell.metadata.get("course", {})]
    assert words(graded(notebook, tmp_path, root)) == ["right", "right"]


def test_an_editor_that_drops_metadata_leaves_name_and_decorators(tmp_path: Path, root: Path) -> None:
    notebook = filled()
    notebook.metadata.pop("course")
    for cell in notebook.cells:
        cell.metadata.clear()
    report = graded(notebook, tmp_path, root, name=f"Copy of {small_lab.STEM} (1).ipynb")
    ready, _ = grade.prepared(notebook, notebooks.read(root / "labs" / f"{small_lab.STEM}.ipynb"), "# harness", "secret")
    assert [cell.source.startswith("_kept") for cell in ready.cells].index(True) == 3  # in the student's place, not at the end
    assert report["lab"] == small_lab.STEM
    assert words(report) == ["right", "right"]


def test_an_unknown_lab_is_graded_by_its_own_checks_and_says_so(tmp_path: Path, root: Path) -> None:
    notebook = filled()
    notebook.metadata.pop("course")
    report = graded(notebook, tmp_path, root)
    assert (report["lab"], report["checks_from"]) == (None, "the file itself")
    assert words(report) == ["right", "right"]


def test_the_kernel_has_no_book_and_no_network(tmp_path: Path, root: Path) -> None:
    notebook = filled()
    task_cell(notebook, 1).source = "import course\n" + task_cell(notebook, 1).source
    task_cell(notebook, 2).source += "\nimport socket\nsocket.create_connection(('192.0.2.1', 80), timeout=5)\ndef first_at_least(v, b): return None"
    assert words(graded(notebook, tmp_path, root)) == ["wrong", "right"]


@pytest.mark.parametrize(("cell", "why"), [("while True: pass", "not finished after 8 s"), ("import os; os._exit(1)", "the kernel died")])
def test_what_cannot_be_run_says_why(tmp_path: Path, root: Path, cell: str, why: str) -> None:
    notebook = filled()
    notebook.cells.insert(3, new_code_cell(cell))
    with pytest.raises(grade.CannotRun, match=why):
        graded(notebook, tmp_path, root, seconds=8)


def test_exit_codes_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = filled()
    notebook.metadata.pop("course")
    path = tmp_path / "mine.ipynb"
    nbformat.write(notebook, path)
    assert grade.main([str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["right"] == 2
    task_cell(notebook, 2).source = "def first_at_least(values, bound):\n    return len(values) - 1"
    nbformat.write(notebook, path)
    assert grade.main([str(path)]) == 1
    assert json.loads(capsys.readouterr().out)["checks"][1]["result"] == "wrong"


@pytest.mark.parametrize(("text", "why"), [(None, "does not exist"), ("no JSON", "is not a notebook"), ('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "no check cell")])
def test_no_lab_at_all_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, why: str) -> None:
    path = tmp_path / "mine.ipynb"
    if text is not None:
        path.write_text(text)
    assert grade.main([str(path)]) == 2
    assert why in json.loads(capsys.readouterr().out)["error"]


def test_an_unknown_stem_is_refused(tmp_path: Path, root: Path) -> None:
    with pytest.raises(ValueError, match="99_none"):
        graded(filled(), tmp_path, root, stem="99_none")
