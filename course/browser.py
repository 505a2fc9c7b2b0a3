"""Find a Chrome or Chromium for the browser tests: `python -m course.browser` prints its path.

With --install it tries, where none is found, Playwright's own download and then, as root on Debian, the package
chromium. Where that fails too, one line says how to get a browser.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_MAC = ("Google Chrome.app/Contents/MacOS/Google Chrome", "Chromium.app/Contents/MacOS/Chromium")
HOW = "no Chrome or Chromium: install one (Debian: apt install chromium; macOS: brew install --cask chromium) or set CHROME to its path"


def _playwright() -> str | None:
    """Path of the browser that Playwright has downloaded, if it has."""
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            path = playwright.chromium.executable_path
    except Exception:  # not installed, or no driver for this system: then there is no such browser
        return None
    return path if path and Path(path).exists() else None


def find() -> str | None:
    """Path of a browser: $CHROME, then the PATH, then macOS applications, then Playwright's download; else None.

    Raises ValueError if CHROME is set to something that is not a file.
    """
    chosen = os.environ.get("CHROME")
    if chosen:
        if not Path(chosen).is_file():
            raise ValueError(f"CHROME={chosen!r} is not a file")
        return chosen
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    for folder in (Path("/Applications"), Path.home() / "Applications"):
        for app in _MAC:
            if (folder / app).exists():
                return str(folder / app)
    return _playwright()


def _quiet(*command: str) -> bool:
    try:
        return subprocess.run(command, stdout=sys.stderr, stderr=sys.stderr, check=False, timeout=900).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def install() -> str | None:
    """Get a browser as far as this machine lets us, and return its path or None."""
    if _quiet(sys.executable, "-m", "playwright", "install", "chromium") and (path := find()):
        return path
    if shutil.which("apt-get") and os.geteuid() == 0:
        if _quiet("apt-get", "update") and _quiet("apt-get", "install", "-y", "--no-install-recommends", "chromium"):
            return find()
    return None


def arguments() -> list[str]:
    """Arguments that the browser needs here: root has no sandbox, containers have a small /dev/shm."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return ["--disable-gpu", "--disable-dev-shm-usage"] + (["--no-sandbox"] if root else [])


def main(argv: list[str] | None = None) -> int:
    """Print the path; exit status 1 and one line on stderr without one, 2 for an unknown argument."""
    given = sys.argv[1:] if argv is None else argv
    if set(given) - {"--install"}:
        print(f"unknown argument {sorted(set(given) - {'--install'})[0]!r}; only --install is known", file=sys.stderr)
        return 2
    try:
        path = find() or (install() if given else None)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(path or HOW, file=sys.stdout if path else sys.stderr)
    return 0 if path else 1


if __name__ == "__main__":
    sys.exit(main())
