"""Serve the built site on this machine, compressed as a real host does: `python -m course.serve [--port N] [--no-open]`."""

from __future__ import annotations

import argparse
import gzip
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent / "_build" / "html"
_TEXT = {".html", ".js", ".css", ".svg", ".json", ".txt", ".xml", ".ipynb", ".inv"}  # fonts and PNGs are compressed already


class _Handler(SimpleHTTPRequestHandler):
    """Serves one folder; text goes out as gzip to a browser that takes it; notes the bytes of each body."""

    def __init__(self, *args: object, sent: dict[str, int] | None = None, **options: object) -> None:
        self.sent = sent if sent is not None else {}
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.is_dir():
            path = path / "index.html"
        if not path.is_file():
            self.send_error(404)
            return
        body = path.read_bytes()
        compress = path.suffix in _TEXT and "gzip" in self.headers.get("Accept-Encoding", "")
        if compress:
            body = gzip.compress(body, compresslevel=6, mtime=0)
        self.sent[self.path] = len(body)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(body)))
        if compress:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@dataclass
class Served:
    """A running server: its address, with a final slash, and the bytes of each body that it sent, by path."""

    url: str
    sent: dict[str, int] = field(default_factory=dict)


@contextmanager
def serving(folder: Path, port: int = 0) -> Iterator[Served]:
    """Serve `folder` on loopback while the block runs; port 0 takes a free one. Raises FileNotFoundError for a folder without a site."""
    if not (folder / "index.html").is_file():
        raise FileNotFoundError(f"{folder} holds no site: run `make book` first")
    sent: dict[str, int] = {}
    server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, directory=str(folder), sent=sent))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{server.server_address[1]}/", sent)
    finally:
        server.shutdown()
        server.server_close()


def main(argv: list[str] | None = None) -> int:
    """Serve until interrupted; exit status 1 and one line on stderr where that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m course.serve", description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
    parser.add_argument("--no-open", action="store_true", help="do not open the browser")
    options = parser.parse_args(argv)
    try:
        with serving(SITE, options.port) as served:
            print(f"The book is at {served.url} (Ctrl-C stops it).", flush=True)
            if not options.no_open:
                webbrowser.open(served.url)
            threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    except (OSError, OverflowError) as error:
        print(f"port {options.port} cannot be used: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
