"""What the built site carries: MathJax served by the site itself, and none of the theme's scripts and fonts that no page needs."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

MATHJAX = "mathjax/tex-chtml.js"
_MATHJAX_PARTS = ("tex-chtml.js", "input/tex/extensions", "output/chtml")  # what that script loads

# A script that matches is taken out of every page. fontawesome.js (1.5 MB) draws the icons that the style sheet draws as well;
# thebe names a CDN and declares its constant twice; the design tabs and the toggle button are used by no page.
_NOT_LOADED = re.compile(r"fontawesome\.js|sphinx-thebe|thebe|design-tabs|togglebutton|require\.min\.js")
_SCRIPT = re.compile(r"[ \t]*<script\b[^>]*>.*?</script>\n?|[ \t]*<link\b[^>]*\bas=\"script\"[^>]*>\n?", re.DOTALL)

# Files that no page of this book asks for.
_NOT_SERVED = (
    "_static/scripts/fontawesome.js*", "_static/**/*.map", "_static/sphinx-thebe*", "_static/thebe*", "_static/**/*.ttf",
    "_static/images/logo_*", "_static/locales", "_static/design-tabs.js", "_static/togglebutton*", "_static/webpack-macros.html",
    "_static/sbt-webpack-macros.html", "_static/vendor/fontawesome/webfonts/fa-brands*", "_static/__pycache__", "objects.inv.txt",
)


def mathjax_folder() -> Path:
    """Folder of the MathJax that the package sphinx-mathjax-offline carries. Raises FileNotFoundError where it is not installed."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")  # the module's name has hyphens, as its package
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("sphinx-mathjax-offline is not installed: pip install -r requirements-site.txt")
    return Path(next(iter(spec.submodule_search_locations))) / "static" / "mathjax"


def without_unused_scripts(page: str) -> str:
    """The page's HTML without the scripts, and hints to load scripts, that no page needs."""

    def keep(match: re.Match[str]) -> str:
        tag = match[0]
        attributes = tag[: tag.index(">") + 1]
        if "<link" in attributes:
            return ""  # a hint only: the scripts themselves follow
        inline = "src=" not in attributes
        return "" if _NOT_LOADED.search(tag if inline and len(tag) < 2000 and "thebe" in tag else attributes) else tag

    return _SCRIPT.sub(keep, page)


def prune(site: Path) -> None:
    """Make the built site carry what its pages load, and nothing else."""
    target = site / "_static" / "mathjax"
    shutil.rmtree(target, ignore_errors=True)
    for part in _MATHJAX_PARTS:
        source, copy = mathjax_folder() / part, target / part
        if source.is_dir():
            shutil.copytree(source, copy)
        else:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        lean = without_unused_scripts(text)
        if lean != text:
            page.write_text(lean, encoding="utf-8")
    for pattern in _NOT_SERVED:
        for path in list(site.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
