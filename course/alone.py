"""Run a lab or solution alone: in a folder that holds nothing else, in a kernel that has no book and no network.

`environment(path)` makes the folder and a kernel of its own under the usual name, python3, which Jupyter finds first through JUPYTER_PATH. Only that kernel,
and the Python processes it starts, get a `sitecustomize` that

- refuses to import `tinyserve`, `course` and `jupyter_book` (they may be on the path through a .pth file, which is why an empty folder alone proves nothing),
- takes the repository off `sys.path`,
- refuses every connection and name look-up off loopback, and points the proxy variables at a closed port for programs that are not Python.

It is a proof that an honest notebook needs neither, not a sandbox against a hostile one.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REFUSED = ("tinyserve", "course", "jupyter_book")
ROOT = Path(__file__).resolve().parent.parent

SITECUSTOMIZE = '''
import sys

REFUSED, ROOT = {refused!r}, {root!r}


class Refuse:
    """The first finder that an import asks."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError("a lab stands alone: no import of " + name, name=name)


def guard(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) and address else None  # else a socket of this machine, or one already connected
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
    else:
        return
    host = host.decode("ascii", "replace") if isinstance(host, (bytes, bytearray)) else host
    if host is not None and not (host in ("", "localhost", "::1", "0.0.0.0") or host.startswith("127.")):
        raise ConnectionRefusedError("a lab stands alone: no connection to " + host)


sys.meta_path.insert(0, Refuse())
sys.path[:] = [entry for entry in sys.path if entry.rstrip("/") != ROOT]
sys.addaudithook(guard)
'''


def _write_kernel(place: Path) -> dict[str, str]:
    """Write the kernel's specification and its sitecustomize below `place`; the variable under which Jupyter finds it."""
    guard = place / "guard"
    guard.mkdir()
    (guard / "sitecustomize.py").write_text(SITECUSTOMIZE.format(refused=REFUSED, root=str(ROOT)), encoding="utf-8")
    spec = place / "kernels" / "python3"
    spec.mkdir(parents=True)
    nowhere = "http://127.0.0.1:9"
    proxies = {name: nowhere for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}
    kernel = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3",
        "language": "python",
        "env": {"PYTHONPATH": str(guard), **proxies, "no_proxy": "localhost,127.0.0.1,::1", "NO_PROXY": "localhost,127.0.0.1,::1"},
    }
    (spec / "kernel.json").write_text(json.dumps(kernel), encoding="utf-8")
    return {"JUPYTER_PATH": str(place)}


@contextmanager
def environment(path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """(folder, variables): a new folder that holds a copy of the notebook under its own name, and the variables under which its kernel is refused the above.

    Set the variables for the process that starts the kernel; that process itself may use `course`. Raises FileNotFoundError where there is no notebook.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    with tempfile.TemporaryDirectory(prefix="lab-") as folder, tempfile.TemporaryDirectory(prefix="kernel-") as kernel:
        shutil.copyfile(path, Path(folder) / path.name)
        yield Path(folder), _write_kernel(Path(kernel))
