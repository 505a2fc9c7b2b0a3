"""A pytest plugin that completes nbval: it compares pictures and counts what was compared.

Load it with `-p course.nbval_plugin`. nbval skips `image/png` altogether, so a figure could be emptied, replaced or left out of the file unnoticed, and
text/plain says the same for all. Here every stored PNG is held against the rerun's at low resolution (`course.pictures`). A cell tagged
nbval-ignore-output may draw another picture (a timing), but neither the stored nor the new one may be blank.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from nbval.plugin import IPyNbCell

from course import pictures

PNG = "image/png"
COUNT_FILE = "COURSE_NBVAL_COUNTS"  # names the file to which each process appends a line per cell


def images(outputs: Any) -> list[str]:
    """The base64 PNGs of a cell's outputs, in order."""
    return [output["data"][PNG] for output in outputs if PNG in output.get("data", {})]


def picture_fault(stored: list[str], redrawn: list[str], compare: bool) -> str | None:
    """Why the stored pictures of one cell do not stand for the redrawn ones, or None.

    With `compare` False the pictures may differ, but none may be blank.
    """
    if len(stored) != len(redrawn):
        return f"{len(stored)} pictures are stored and {len(redrawn)} were drawn"
    for number, (old, new) in enumerate(zip(stored, redrawn), start=1):
        if compare:
            fault = pictures.difference(old, new)
        else:
            fault = _blank_fault(old, "stored") or _blank_fault(new, "redrawn")
        if fault:
            return f"picture {number}: {fault}"
    return None


def _blank_fault(picture: str, which: str) -> str | None:
    try:
        return f"the {which} picture is blank" if pictures.is_blank(pictures.decode(picture)) else None
    except ValueError as error:
        return f"the {which} picture is {error}"


def _count(item: IPyNbCell, verdict: str) -> None:
    """Append one line to the count file: xdist's workers share nothing else. A line this short is written in one piece."""
    path = os.environ.get(COUNT_FILE)
    if path:
        line = json.dumps({"file": str(item.path), "cell": item.cell_num, "verdict": verdict})
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """After nbval has compared a cell's text, compare its pictures, and count the cell."""
    if not isinstance(item, IPyNbCell):
        return (yield)
    if item.options["skip"]:
        _count(item, "skipped")
        return (yield)
    result = yield
    if item.parent.timed_out:  # nbval expects the cells after a timeout to fail and says so itself
        return result
    fault = picture_fault(images(item.cell.outputs), images(item.test_outputs or []), compare=item.options["check"])
    if fault:
        item.raise_cell_error("Cell figures differ", fault)
    if item.cell.execution_count is None:  # nbval compares nothing then
        item.raise_cell_error("Cell was never executed: run course.rerun")
    _count(item, "compared" if item.options["check"] else "ignored")
    return result
