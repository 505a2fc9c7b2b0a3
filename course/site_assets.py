"""What the built site carries: MathJax served by the site itself, and none of the theme's scripts and fonts that no page needs."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
import shutil
from pathlib import Path

from fontTools import subset

# MathJax by its components, without ui/menu: that one is 108 of the 270 kB that tex-chtml.js weighs, and makes every formula a tab stop.
MATHJAX = "mathjax/startup.js"
MATHJAX_CONFIG = {"loader": {"load": ["core", "input/tex", "output/chtml", "a11y/assistive-mml"]}}
_MATHJAX_PARTS = (
    "startup.js", "core.js", "input/tex.js", "input/tex/extensions", "output/chtml.js", "output/chtml", "a11y/assistive-mml.js",
)

# A script that matches is taken out of every page. fontawesome.js (1.5 MB) draws the icons that the style sheet draws as well;
# thebe names a CDN and declares its constant twice; the design tabs and the toggle button are used by no page.
_NOT_LOADED = re.compile(r"fontawesome\.js|sphinx-thebe|thebe|design-tabs|togglebutton|require\.min\.js")
_SCRIPT = re.compile(r"[ \t]*<script\b[^>]*>.*?</script>\n?|[ \t]*<link\b[^>]*>\n?", re.DOTALL)

_ICON_FONT = "_static/vendor/fontawesome/webfonts/fa-solid-900.woff2"

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
        if "<link" in attributes:  # hints to load a script (the script itself follows), and the style sheets of scripts that go
            return "" if 'as="script"' in attributes or _NOT_LOADED.search(attributes) else tag
        inline = "src=" not in attributes
        return "" if _NOT_LOADED.search(tag if inline and len(tag) < 2000 and "thebe" in tag else attributes) else tag

    return _SCRIPT.sub(keep, page)


def with_one_h1(page: str) -> str:
    """The page's HTML with the theme's second title, which only paper shows, as plain text: a page has one h1."""
    return re.sub(r'(<div id="jb-print-docs-body"[^>]*>\s*)<h1>(.*?)</h1>', r'\1<p class="print-title">\2</p>', page, count=1, flags=re.DOTALL)


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
        lean = with_one_h1(without_unused_scripts(text))
        if lean != text:
            page.write_text(lean, encoding="utf-8")
    without_outputs(site)
    _subset_icons(site)
    for pattern in _NOT_SERVED:
        for path in list(site.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def without_outputs(site: Path) -> None:
    """Take the outputs out of the notebooks that the site offers for download: the pages show them, and pictures are most of the bytes."""
    for path in (site / "_sources").rglob("*.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None
        path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def icon_codes(style: str, names: set[str]) -> set[int]:
    """Code points of the icons with these class names (`fa-list`), read from Font Awesome's style sheet."""
    rules = re.finditer(r"((?:\.fa-[a-z0-9-]+:+before,?)+)\{content:\"\\([0-9a-f]+)\"\}", style)
    return {int(rule[2], 16) for rule in rules if names & set(re.findall(r"fa-[a-z0-9-]+", rule[1]))}


def _subset_icons(site: Path) -> None:
    """Keep the icons that pages, scripts and style sheets name: a few kB of the font's 156."""
    font = site / _ICON_FONT
    names, style, codes = set(), "", set()
    for path in [*site.rglob("*.html"), *site.glob("_static/scripts/*.js"), *site.glob("_static/**/*.css")]:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".css":
            style += text
            codes |= {ord(char) for char in text if 0xE000 <= ord(char) <= 0xF8FF}
        elif path.name != "fontawesome.js":
            names |= set(re.findall(r"\bfa-[a-z0-9-]+", text))
    codes |= icon_codes(style, names)
    if not codes:
        raise ValueError(f"{_ICON_FONT}: no icon of any page was found in the style sheets; has the theme changed?")
    options = subset.Options(flavor="woff2", notdef_outline=True)
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it tells each of its steps to Sphinx's log
    loaded = subset.load_font(str(font), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=codes)
    cutter.subset(loaded)
    subset.save_font(loaded, str(font), options)
