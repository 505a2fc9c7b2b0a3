"""Weigh the built site: its size, and what a browser fetches to show a page for the first time.

    python -m course.site_weight [PAGE ...]      # for example chapters/01_transformer_block.html
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from course.serve import SITE, serving

DEFAULT_PAGE = "chapters/01_transformer_block.html"


@dataclass(frozen=True)
class View:
    """A page's first view: bytes sent (text compressed with gzip, headers not counted) by path."""

    page: str
    sent: dict[str, int]

    @property
    def kilobytes(self) -> float:
        """kB (1,000 bytes) sent in all."""
        return sum(self.sent.values()) / 1e3


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below `folder`."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def first_view(page: str, site: Path = SITE) -> View:
    """Open `page` in a browser with an empty cache and note what the server sent.

    Images below the first screen are fetched when the reader scrolls to them only if the page says so; none does, so all are counted.
    Raises FileNotFoundError for a page that the site does not have, or where there is no browser.
    """
    from playwright.sync_api import sync_playwright  # not among what the site alone needs

    from course import browser

    if not (site / page).is_file():
        raise FileNotFoundError(f"{site / page}: no such page; is the site built?")
    path = browser.find()
    if path is None:
        raise FileNotFoundError(browser.HOW)
    with serving(site) as served, sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=path, args=browser.arguments())
        tab = chrome.new_page()
        tab.goto(served.url + page, wait_until="networkidle")
        tab.evaluate("async () => { await window.MathJax?.startup?.promise; await document.fonts.ready; }")  # its fonts come late
        chrome.close()
        return View(page, dict(served.sent))


def main(argv: list[str] | None = None) -> int:
    """Print the weights; exit status 1 and one line on stderr where something is missing."""
    parser = argparse.ArgumentParser(prog="python -m course.site_weight", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", default=[DEFAULT_PAGE], metavar="PAGE")
    parser.add_argument("--site", type=Path, default=SITE)
    parser.add_argument("--files", action="store_true", help="also list what was fetched")
    options = parser.parse_args(argv)
    try:
        views = [first_view(page, options.site) for page in options.pages]
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"site: {folder_bytes(options.site) / 1e6:.1f} MB")
    for view in views:
        print(f"{view.page}: {view.kilobytes:.0f} kB in {len(view.sent)} requests")
        for path, size in sorted(view.sent.items(), key=lambda item: -item[1]) if options.files else ():
            print(f"{size / 1e3:8.1f} kB  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
