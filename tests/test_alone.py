"""The kernel in which labs run: no book, no network, nothing but the notebook."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from course import alone, notebooks

LINES = {
    "import tinyserve": "ModuleNotFoundError",
    "import course.quiz": "ModuleNotFoundError",
    "import importlib; importlib.import_module('jupyter_book')": "ModuleNotFoundError",
    "import importlib.util; importlib.util.find_spec('tinyserve')": "ModuleNotFoundError",
    "import socket; socket.create_connection(('192.0.2.1', 80), timeout=3)": "ConnectionRefusedError",
    "import socket; socket.getaddrinfo('example.org', 443)": "ConnectionRefusedError",
    "import socket; socket.gethostbyname('example.org')": "ConnectionRefusedError",
    "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))": "ConnectionRefusedError",
    "import socket; socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))": "ConnectionRefusedError",
    "import urllib.request; urllib.request.urlopen('https://example.org', timeout=3)": "URLError",
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import course'], check=True, stderr=subprocess.DEVNULL)": "CalledProcessError",
    "import numpy, torch, matplotlib": "",
    "import os; assert os.listdir('.') == ['alone.ipynb'], os.listdir('.')": "",
    "import sys; assert not any(__import__('os').path.exists(f'{p or chr(46)}/tinyserve/__init__.py') for p in sys.path)": "",
    "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), timeout=3); socket.create_connection(('localhost', s.getsockname()[1]), timeout=3)": "",
    "import asyncio, threading; print('the kernel itself lives')": "",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Each line, run in a cell of its own: the name of the error it raised, or ""."""
    path = tmp_path_factory.mktemp("labs") / "alone.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(line) for line in LINES]), path)
    with alone.environment(path) as (folder, variables):
        script = (
            "import nbformat, sys; from nbclient import NotebookClient; nb = nbformat.read(sys.argv[1], 4);"
            "NotebookClient(nb, kernel_name='python3', allow_errors=True, timeout=60, resources={'metadata': {'path': sys.argv[2]}}).execute(); nbformat.write(nb, sys.argv[1])"
        )
        env = {**os.environ, **variables}
        subprocess.run([sys.executable, "-c", script, str(folder / path.name), str(folder)], env=env, cwd=notebooks.ROOT, check=True)
        cells = nbformat.read(folder / path.name, 4).cells
    return {cell.source: next((output.ename for output in cell.outputs if output.output_type == "error"), "") for cell in cells}


@pytest.mark.parametrize("line", LINES)
def test_the_kernel_refuses_the_book_and_the_network_only(outcomes: dict[str, str], line: str) -> None:
    assert outcomes[line] == LINES[line]


def test_the_folder_goes_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text("{}")
    with alone.environment(path) as (folder, variables):
        assert [entry.name for entry in folder.iterdir()] == ["a.ipynb"]
        kernel = Path(variables["JUPYTER_PATH"])
    assert not folder.exists()
    assert not kernel.exists()


def test_a_missing_notebook_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.ipynb"), alone.environment(tmp_path / "none.ipynb"):
        pass
