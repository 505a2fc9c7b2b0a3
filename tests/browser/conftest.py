"""A browser, the built site on loopback, and pages that remember every error and every request."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from course import browser as finder
from course.quiz.render import form_html
from course.quiz.schema import Question, load

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("BOOK_HTML") or ROOT / "_build" / "html")  # BOOK_HTML: a build that stands elsewhere
DEMO = ROOT / "tests" / "data" / "demo.yml"


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and prints nothing."""

    def log_message(self, *_: object) -> None:
        return


def bare_page(title: str, *forms: str) -> str:
    """A page with nothing but quiz forms."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<link rel="icon" href="data:,"><title>{title}</title></head><body><main><h1>{title}</h1>\n'
        + "\n".join(forms) + "\n</main></body></html>\n"
    )


@pytest.fixture(scope="session")
def chrome() -> Iterator[Browser]:
    path = finder.find()
    if path is None:
        pytest.fail(finder.HOW, pytrace=False)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=finder.arguments())
        yield started
        started.close()


class Watch:
    """Opens pages in one context; `errors` and `requests` hold what those pages said and asked for."""

    def __init__(self, chrome: Browser, **options: object) -> None:
        self.context: BrowserContext = chrome.new_context(**options)
        self.context.set_default_timeout(10_000)
        self.errors: list[str] = []
        self.requests: list[str] = []

    def page(self, url: str) -> Page:
        """A new page at `url`, loaded."""
        page = self.context.new_page()
        page.on("console", lambda message: message.type in ("error", "warning") and self.errors.append(
            f"{page.url}: console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.errors.append(f"{page.url}: page error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", lambda request: self.errors.append(f"{page.url}: failed: {request.url}"))
        page.on("response", lambda answer: answer.status >= 400 and self.errors.append(
            f"{page.url}: {answer.status}: {answer.url}"))
        page.goto(url, wait_until="load")
        return page


@pytest.fixture
def watch(chrome: Browser) -> Iterator:
    """watch(**context options) -> Watch; its pages are closed after the test."""
    opened: list[Watch] = []

    def open_one(**options: object) -> Watch:
        opened.append(Watch(chrome, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.context.close()


@pytest.fixture(scope="session")
def demo_questions() -> list[Question]:
    return load(DEMO)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, demo_questions: list[Question]) -> str:
    """URL (file://) of a page with both forms of tests/data/demo.yml."""
    path = tmp_path_factory.mktemp("demo") / "demo.html"
    sections = {section: [q for q in demo_questions if q.section == section] for section in ("check", "lab")}
    forms = [form_html("demo", section, questions) for section, questions in sections.items()]
    path.write_text(bare_page("Demo", *forms), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="session")
def site_files() -> dict[str, Path]:
    """Every page of the built site: address below the root -> file. A page that only leads to another is not one."""
    if not (SITE / "index.html").exists():
        pytest.fail("the site is not built: run `make book` first", pytrace=False)
    below = {path.relative_to(SITE).as_posix(): path for path in sorted(SITE.rglob("*.html"))}
    pages = {name: path for name, path in below.items() if not name.startswith("_")}
    return {name: path for name, path in pages.items() if 'http-equiv="refresh"' not in path.read_text(encoding="utf-8").lower()}


@pytest.fixture(scope="session")
def site(site_files: dict[str, Path]) -> Iterator[str]:
    """Address of the built site, served on loopback, with a final slash."""
    handler = functools.partial(Quiet, directory=str(SITE))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
