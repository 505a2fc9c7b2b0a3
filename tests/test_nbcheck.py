"""nbcheck rejects a stored output that a rerun does not give, pictures included, and never counts a cell that it did not compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from lint_samples import code, notebook, png

from course import figures, nbcheck, notebooks, pictures, rerun
from course.nbval_plugin import picture_fault

DRAW = """from course import figures
fig, ax = figures.axes()
_ = ax.plot([1, 2, 4], label="measured")
_ = ax.legend()
figures.show(fig)"""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An executed notebook: 1 text, 2 prints, 3 draws, 4 ends in a value, 5 skipped, 6 draws with the output ignored."""
    path = tmp_path_factory.mktemp("book") / "chapters" / "01_demo.ipynb"
    path.parent.mkdir()
    skipped = code("raise SystemExit", tags=["nbval-skip"], reason="would end the kernel")
    ignored = code(DRAW, tags=["nbval-ignore-output"], reason="stands for a timing")
    book = notebook("# Demo", code("print('one')\nprint('two')"), code(DRAW), code("1 + 1"), skipped, ignored)
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.execution_count = None
    nbformat.write(book, path)
    assert rerun.rerun(path) == [2, 3, 4, 6]
    return path


def tampered(good: Path, tmp_path: Path, change: Any) -> Path:
    path = tmp_path / "chapters" / good.name
    path.parent.mkdir(exist_ok=True)
    book = notebooks.read(good)
    change(book.cells)
    nbformat.write(book, path)
    return path


def set_png(position: int, value: str) -> Any:
    return lambda cells: cells[position - 1].outputs[0]["data"].update({"image/png": value})


def other_line() -> str:
    """The same figure with one point of its line moved from 4 to 3.8."""
    import base64

    fig, ax = figures.axes()
    _ = ax.plot([1, 2, 3.8], label="measured")
    _ = ax.legend()
    return base64.b64encode(figures.png(fig)).decode("ascii")


def test_an_untouched_notebook_passes_and_its_cells_are_counted(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nbcheck.main([str(good)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nbcheck: 1 notebooks, 3 cells compared and equal, 1 run with output ignored, 1 skipped"


TAMPERED = [
    # the good notebook's cell that is tampered with, how, and what is said of it
    (2, lambda cell: cell.outputs[0].update(text="one\nthree\n"), "Cell outputs differ"),
    (4, lambda cell: cell.outputs.clear(), "Cell outputs differ"),
    (3, lambda cell: put(cell, png(spot=None, size=(672, 307))), "picture 1: the stored picture is blank"),
    (3, lambda cell: put(cell, other_line()), "picture 1: the picture changed"),
    (6, lambda cell: put(cell, png(spot=None, size=(672, 307))), "picture 1: the stored picture is blank"),
    (3, lambda cell: cell.outputs[0]["data"].pop("image/png"), "0 pictures are stored and 1 were drawn"),
    (2, lambda cell: cell.update(execution_count=None, outputs=[]), "Cell was never executed"),
]


def put(cell: Any, value: str) -> None:
    cell.outputs[0]["data"]["image/png"] = value


def test_every_kind_of_tampering_fails_its_cell(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = notebooks.read(good).cells
    cells = [nbformat.from_dict(stored[position - 1]) for position, _, _ in TAMPERED]
    for number, (cell, (_, change, _)) in enumerate(zip(cells, TAMPERED)):
        cell["id"] = f"t{number}"
        change(cell)
    path = tmp_path / "tampered.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)

    assert nbcheck.main([str(path)]) == 1
    out = capsys.readouterr().out
    reports = out.split("::Cell ")[1:]
    for number, (_, _, says) in enumerate(TAMPERED):
        report = reports[number]
        assert report.startswith(f"{number} ") and says in report, (number, says)
    assert "0 of 6 cells compared and equal, 0 of 1 run" in out


def test_a_comment_that_switches_comparison_off_is_found_by_the_count(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tampered(good, tmp_path, lambda cells: cells[1].update(source="# NBVAL_IGNORE_OUTPUT\nprint(3)"))
    assert nbcheck.main([str(path)]) == 1
    assert "2 of 3 cells compared and equal, 2 of 1 run" in capsys.readouterr().out


def test_nothing_compared_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.ipynb"
    nbformat.write(notebook("# Only text"), path)
    assert nbcheck.main([str(path)]) == 1
    assert "nothing was compared" in capsys.readouterr().out


def test_serial_notebooks_run_alone_after_the_others(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = []
    for name, serial in (("a", True), ("b", False), ("c", False)):
        book = notebooks.read(good)
        book.metadata["course"] = {"serial": serial}
        paths.append(tmp_path / f"{name}.ipynb")
        nbformat.write(book, paths[-1])
    running: set[str] = set()
    order, beside = [], {}

    def run(file: Path, env: dict[str, str]) -> tuple[bool, str]:
        running.add(file.stem)
        order.append(file.stem)
        beside[file.stem] = set(running)
        running.discard(file.stem)
        return True, ""

    monkeypatch.setattr(nbcheck, "_run", run)
    nbcheck.check(paths)
    assert order[-1] == "a" and beside["a"] == {"a"}


def test_notebooks_run_with_the_threads_asked_for_and_no_forced_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    env = notebooks.environment(threads=2)
    assert env["OMP_NUM_THREADS"] == env["MKL_NUM_THREADS"] == env["OPENBLAS_NUM_THREADS"] == "2"
    assert "MPLBACKEND" not in env
    with pytest.raises(ValueError, match="threads=0"):
        notebooks.environment(threads=0)


def test_pictures_are_compared_in_number_and_content() -> None:
    assert picture_fault([], [], compare=True) is None
    assert picture_fault([png()], [png()], compare=True) is None
    assert picture_fault([png()], [png(spot="red")], compare=True).startswith("picture 1: the picture changed")
    assert picture_fault([png()], [png(spot="red")], compare=False) is None
    assert "64x48" in picture_fault([png(size=(64, 48))], [png()], compare=True)
    assert "redrawn picture is blank" in picture_fault([png()], [png(spot=None)], compare=False)
    assert "not a PNG" in picture_fault(["AAAA"], [png()], compare=False)
    assert "not a PNG" in picture_fault(["AAAA"], [png()], compare=True)


def test_a_picture_that_differs_in_a_few_antialiased_pixels_is_the_same() -> None:
    noisy = pictures.decode(png())
    noisy[::16, ::16] -= 4
    assert pictures.difference(png(), as_png(noisy.clip(0, 255))) is None


def test_a_small_strong_and_a_wide_faint_change_are_both_seen() -> None:
    page = pictures.decode(png(size=(672, 307)))
    spotted, faint = page.copy(), page.copy()
    spotted[20:34, 20:34] = 0  # one grid cell of about a thousand
    faint -= 6  # a veil over all of it
    assert "where it differs most, 0." in str(pictures.difference(as_png(page), as_png(spotted)))
    assert "by 6 of 255" in str(pictures.difference(as_png(page), as_png(faint.clip(0, 255))))


def as_png(pixels: Any) -> str:
    import base64
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels.astype("uint8")).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def test_a_rerun_changes_nothing_in_a_good_notebook(good: Path) -> None:
    before = good.read_bytes()
    assert rerun.rerun(good) == []
    assert good.read_bytes() == before


def test_a_rerun_names_the_cells_that_changed_and_repairs_them(good: Path, tmp_path: Path) -> None:
    path = tampered(good, tmp_path, lambda cells: (set_png(3, other_line())(cells), cells[1].outputs[0].update(text="old\n")))
    assert rerun.rerun(path) == [2, 3]
    assert nbcheck.check([path])


def test_a_rerun_keeps_the_bytes_of_a_picture_that_looks_the_same(good: Path, tmp_path: Path) -> None:
    old = notebooks.read(good).cells[2].outputs[0]["data"]["image/png"]
    redrawn = pictures.decode(old)
    redrawn[0, 0] = 250  # one pixel: other bytes, the same picture
    path = tampered(good, tmp_path, set_png(3, as_png(redrawn)))
    kept = notebooks.read(path).cells[2].outputs[0]["data"]["image/png"]
    assert kept.strip() != old.strip()
    assert rerun.rerun(path) == []
    assert notebooks.read(path).cells[2].outputs[0]["data"]["image/png"].strip() == kept.strip()


def test_a_notebook_whose_cell_raises_is_left_as_it_was(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tampered(good, tmp_path, lambda cells: cells[1].update(source="raise ValueError('on purpose')"))
    before = path.read_bytes()
    assert rerun.main([str(path)]) == 1
    assert "on purpose" in capsys.readouterr().out
    assert path.read_bytes() == before


def test_paths_are_checked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none.ipynb"):
        notebooks.find([tmp_path / "none.ipynb"])
    (tmp_path / "x.txt").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="not a notebook"):
        notebooks.find([tmp_path / "x.txt"])


def test_new_cell_ids_come_from_the_text(tmp_path: Path) -> None:
    def ids() -> list[str]:
        book = notebook("# A", "# A", "# B")
        for cell in book.cells:
            del cell["id"]
        notebooks.write(book, tmp_path / "x.ipynb")
        return [cell.id for cell in notebooks.read(tmp_path / "x.ipynb").cells]

    assert ids() == ids() and len(set(ids())) == 3
