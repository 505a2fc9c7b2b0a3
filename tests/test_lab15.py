"""Lab 15's machinery: virtual time, the scripted server, a server by its URL, a checkpoint that loads, and what the generator does with its cells."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import math
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from course import labs, notebooks
from course.labcells import role
from course.mutate import changes

STEM = "15_production"
SOLUTION = notebooks.ROOT / "solutions" / f"{STEM}.ipynb"


@pytest.fixture(scope="module")
def cells() -> list[Any]:
    return notebooks.read(SOLUTION).cells


@pytest.fixture(scope="module")
def lab(cells: list[Any]) -> Iterator[Any]:
    """The solution's namespace, every cell run but the last one that measures."""
    import matplotlib

    matplotlib.use("Agg")
    module = types.ModuleType("lab_15")
    sys.modules[module.__name__] = module
    with contextlib.redirect_stdout(io.StringIO()):
        exec(labs.HARNESS.read_text(encoding="utf-8"), module.__dict__)
        for cell in cells:
            skipped = notebooks.tags(cell) or role(cell) in ("harness", "summary", "quiz")
            if cell.cell_type == "code" and not skipped:
                exec(compile(cell.source, "<lab 15>", "exec", dont_inherit=True), module.__dict__)
    yield module
    del sys.modules[module.__name__]


def test_virtual_time_is_exact_and_takes_no_time(lab: Any) -> None:
    async def sleepers() -> list[float]:
        async def one(seconds: float) -> float:
            begin = lab.clock()
            await asyncio.sleep(seconds)
            return lab.clock() - begin

        return await asyncio.gather(one(3600.0), one(7200.5))

    begin = time.monotonic()
    assert lab.virtual(sleepers()) == pytest.approx([3600.0, 7200.5], abs=1e-6)
    assert time.monotonic() - begin < 3600


def test_virtual_time_stops_what_can_never_end(lab: Any) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async def always() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="nothing is due"):
        lab.virtual(never())
    with pytest.raises(RuntimeError, match="never end"):
        lab.virtual(always())


def test_a_stopped_check_leaves_no_thread_behind(lab: Any) -> None:
    async def spin() -> None:
        while True:
            pass

    before = threading.active_count()
    with pytest.raises(BaseException, match="does a loop never end"), lab._time_limit(0.2):
        lab.virtual(spin())
    until = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.05)
    assert threading.active_count() == before


@pytest.mark.parametrize("url", ["http://example.org:80", "https://127.0.0.1:8000", "http://127.0.0.1", "http://10.0.0.1:8000", "ftp://localhost:1"])
def test_only_this_machine_is_measured(lab: Any, url: str) -> None:
    with pytest.raises(ValueError, match="only http://127.0.0.1:PORT"):
        lab.at(url)


def test_a_server_by_its_url_is_measured(lab: Any, cells: list[Any]) -> None:
    """The last cell with BASE_URL: here a scripted server in a thread."""
    last = next(cell for cell in cells if cell.cell_type == "code" and "REPORT" in cell.source)
    ready, stop, found = threading.Event(), threading.Event(), {}

    async def serve() -> None:
        server = lab.version(0.01, 0.002)
        async with lab.real_server(server) as url:
            found["url"] = url
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.01)
            found["requests"] = len(server.bodies)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(60)
        lab.BASE_URL, lab.RATE, printed = found["url"], 80.0, io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(last.source, "<last cell>", "exec", dont_inherit=True), lab.__dict__)
    finally:
        lab.BASE_URL = ""
        stop.set()
        thread.join()
    report = lab.REPORT
    assert "go" in printed.getvalue().splitlines()[-1]
    assert report["requests"] == 120 and report["failed_share"] == report["miscounted"] == report["changed"] == report["unstable"] == 0
    assert report["tokens_per_s"] * report["seconds"] == pytest.approx(120 * 16)
    assert report["ttft_p50"] >= 0.0099 and report["itl_p50"] >= 0.0019  # a loaded machine is slower, never faster
    assert found["requests"] == 4 + 120 + 10 * 8 + 3 * 4  # bounded: warm-up, load, comparison, golden prompts


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab.tempfile, "tempdir", str(tmp_path))
    command = f"{sys.executable} -c \"print('no memory'); raise SystemExit(3)\""
    with pytest.raises(RuntimeError, match="(?s)does not answer.*no memory"), lab.served(command):
        pass
    with pytest.raises(FileNotFoundError), lab.served(str(tmp_path / "nothing")):
        pass
    assert list(tmp_path.iterdir()) == []


def server_script(folder: Path, first_line: str = "") -> Path:
    """A server for `served`, which writes its process id to the file pid."""
    script = folder / "server.py"
    script.write_text(
        "import http.server, os, pathlib, signal, sys\n"
        f"{first_line}\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200)\n        self.send_header('Content-Length', '0')\n        self.end_headers()\n"
        f"pathlib.Path({str(folder / 'pid')!r}).write_text(str(os.getpid()))\n"
        "http.server.HTTPServer(('127.0.0.1', int(sys.argv[-1])), Handler).serve_forever()\n"
    )
    return script


def test_a_server_is_stopped_also_where_the_measurement_fails(lab: Any, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lab.served(f"{sys.executable} {server_script(tmp_path)}", wait=120.0) as url:
        assert url.startswith("http://127.0.0.1:")
        raise ZeroDivisionError
    assert not lab._answers(url)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_a_server_that_takes_its_time_to_stop_is_stopped_though_the_wait_is_interrupted(lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(subprocess.Popen):
        waits = 0

        def wait(self, timeout: float | None = None) -> int:
            self.waits += 1
            if self.waits == 1:
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(lab.subprocess, "Popen", Interrupted)
    script = server_script(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    with pytest.raises(KeyboardInterrupt), lab.served(f"{sys.executable} {script}", wait=120.0):
        pass
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_the_checkpoint_loads_and_never_ends_early(lab: Any, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    lab.checkpoint(tmp_path / "lab15")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "lab15")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "lab15").eval()
    text = lab.prompts(3, 1)[0]
    ids = tokenizer(text, return_tensors="pt").input_ids
    assert ids.shape[1] == len(text) and tokenizer.decode(ids[0]) == text
    with torch.no_grad():
        logits = model(ids).logits[0]
    assert torch.isfinite(logits).all() and logits.std() > 0.1
    assert int(logits.argmax(-1).min()) > 1  # neither <unk> nor <end>


def test_two_versions_of_the_script_differ_only_in_what_they_say(lab: Any) -> None:
    report = lab.virtual(lab.examined(lab.version(0.07, 0.02)))
    assert report["tpot_p50"] == pytest.approx(0.02, abs=1e-6) and report["late"] == pytest.approx(0.0, abs=1e-6)
    assert lab.decide(report, lab.RULES, lab.LEAST) == []
    wrong = lab.virtual(lab.examined(lab.version(0.07, 0.02, wrong=True)))
    assert lab.decide(wrong, lab.RULES, lab.LEAST) == ["changed"]
    assert {name: value for name, value in wrong.items() if name != "changed"} == {name: value for name, value in report.items() if name != "changed"}
    assert not any(isinstance(value, float) and math.isnan(value) for value in report.values())


def test_an_asynchronous_task_has_generated_mutants(cells: list[Any]) -> None:
    tasks = {cell.metadata["course"]["function"]: cell.source for cell in cells if role(cell) == "task"}
    for name in ("ask", "open_loop", "compare"):
        assert f"async def {name}(" in tasks[name] and len(changes(tasks[name])) >= 10


def test_a_skipped_cell_needs_no_execution_count() -> None:
    notebook = notebooks.read(SOLUTION)
    assert labs.executed(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source.count("%pip") for cell in code if cell.execution_count is None] == [1]
    code[-1].execution_count = None
    assert not labs.executed(notebook)


def test_the_request_that_stands_in_the_text_is_the_one_that_is_sent(lab: Any) -> None:
    assert json.loads(json.dumps(lab.body_of("x", 3)))["stream_options"] == {"include_usage": True}
