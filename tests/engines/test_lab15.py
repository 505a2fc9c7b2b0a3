"""Lab 15 against real servers: the solution starts `vllm serve`, then `transformers serve`, measures it and stops it.

Both commands come from the environment of `make test-engines`.
What is asserted holds on a slow machine too: counts, identities and orders, never a speed.
"""

from __future__ import annotations

import json
import math
import os
import shlex
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from course import notebooks, rerun

SOLUTION = notebooks.ROOT / "solutions" / "15_production.ipynb"
TOKENS = 16  # that each request of the load asks for, and gets: the lab's checkpoint never ends early
SECONDS = 1800  # that a cell may take, the start of the server included


def command(python: str, name: str) -> str:
    """`vllm serve` or `transformers serve` of the environment that has this Python. vLLM brings all that the second needs as well."""
    return f"{shlex.quote(str(Path(python).with_name(name)))} serve"


def measured(serve: str, rate: float, place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, float | None], str]:
    """The report of the solution's last cell, run alone with this server, and what the notebook printed."""
    notebook = notebooks.read(SOLUTION)
    notebook.cells.append(new_code_cell("print('REPORT', json.dumps(REPORT))"))
    path = place / "solutions" / SOLUTION.name
    path.parent.mkdir()
    notebooks.write(notebook, path)
    scratch = place / "scratch"
    scratch.mkdir()
    with rerun.workplace(path) as (copy, variables):
        for name, value in {**variables, "LAB15_SERVE": serve, "LAB15_BASE_URL": "", "LAB15_RATE": str(rate), "TMPDIR": str(scratch)}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("LAB15_MODEL", raising=False)
        run = notebooks.read(copy)
        NotebookClient(run, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(copy.parent)}}, skip_cells_with_tag=notebooks.SKIP_TAG).execute()
    printed = "".join(output.get("text", "") for cell in run.cells for output in cell.get("outputs", []))
    assert not list(scratch.glob("lab15-*")), "the checkpoint's folder is still there"
    assert not processes_in(scratch), "the server still runs"
    return json.loads(printed.rpartition("REPORT ")[2]), printed


def processes_in(folder: Path) -> list[str]:
    """Processes whose current folder lies in this one, also if it is deleted by now."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(str(folder)):
                found.append(process.name)
        except OSError:  # it has ended, or belongs to somebody else
            continue
    return found


def sane(report: dict[str, float | None]) -> None:
    """What must hold for any server on any machine."""
    assert report["requests"] == 120 and report["failed_share"] == 0 and report["changed"] == 0
    assert all(value is None or math.isfinite(value) for value in report.values()), report
    assert report["served_rate"] * report["seconds"] == pytest.approx(120)
    assert report["tokens_per_s"] * report["seconds"] == pytest.approx(120 * TOKENS)
    assert 0 < report["ttft_p50"] <= report["ttft_p99"] <= report["seconds"]
    assert 0 < report["tpot_p50"] <= report["tpot_p99"] <= report["itl_max"]
    assert 0 <= report["itl_p50"] <= report["itl_p99"] <= report["itl_max"]
    assert report["ttft_p50"] < report["e2e_p50"] <= report["e2e_p99"] <= report["seconds"]
    assert 0 <= report["good_share"] <= 1 and report["goodput"] <= report["served_rate"] + 1e-9
    assert report["late"] >= 0 and report["ratio"] > 0


def test_vllm_serve(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report, printed = measured(command(python, "vllm"), 4.0, tmp_path, monkeypatch)
    sane(report)
    assert report["miscounted"] == 0, "vLLM's counter of generated tokens and the client's count differ"
    assert "✓ 10 of 10" in printed


def test_transformers_serve(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report, printed = measured(command(python, "transformers"), 1.0, tmp_path, monkeypatch)
    sane(report)
    assert report["miscounted"] is None, "transformers serve has counters now: read them"
    assert "✓ 10 of 10" in printed
