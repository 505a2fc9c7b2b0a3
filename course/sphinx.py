"""The Sphinx extension of the site: what `_config.yml` cannot compute.

The repository's slug comes from GITHUB_REPOSITORY or the git remote. With one, lab pages get a Colab button and every page a link to
report an error; without, both are absent and the rest works. Solutions are built, but stand in no list and not in the search.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sphinx.application import Sphinx
from sphinx.config import Config

from course import hardware_table, site_assets, status
from course.practice import exam_html, score_html
from course.practice.chapters import chapters

_SLUG = re.compile(r"[\w.-]+/[\w.-]+")
_REMOTE = re.compile(r"(?:https?|ssh|git)://(?:[^/@]+@)?(?P<host>[^/:]+)(?::\d+)?/(?P<path>.+)|(?:[^/@]+@)?(?P<host2>[^/:@]+):(?P<path2>[^/].*)")


def slug_of_remote(url: str) -> str | None:
    """owner/name of a remote on github.com (https, ssh or scp form; user names and tokens are dropped); None for any other."""
    match = _REMOTE.fullmatch(url.strip())
    if not match:
        return None
    host = match["host"] or match["host2"]
    path = (match["path"] or match["path2"]).strip("/").removesuffix(".git")
    return path if host == "github.com" and _SLUG.fullmatch(path) else None


def repository_slug(root: Path, environment: dict[str, str] | os._Environ = os.environ) -> str | None:
    """owner/name of this repository: GITHUB_REPOSITORY, else the remote `origin`; None where neither names one.

    Raises ValueError for a GITHUB_REPOSITORY that is not owner/name.
    """
    given = environment.get("GITHUB_REPOSITORY", "").strip()
    if given:
        if not _SLUG.fullmatch(given):
            raise ValueError(f"GITHUB_REPOSITORY={given!r} is not owner/name")
        return given
    try:
        answer = subprocess.run(["git", "-C", str(root), "remote", "get-url", "origin"], capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git on this machine
        return None
    return slug_of_remote(answer.stdout) if answer.returncode == 0 else None


def colab_url(slug: str, page: str, root: Path) -> str | None:
    """Colab's address of a lab page on `main`; None for every other page. Raises FileNotFoundError if the lab's file is missing."""
    if not page.startswith("labs/"):
        return None
    file = root / f"{page}.ipynb"
    if not file.is_file():
        raise FileNotFoundError(f"{page}.ipynb: the Colab button would lead to no file")
    return f"https://colab.research.google.com/github/{slug}/blob/main/{quote(page)}.ipynb"


def report_url(slug: str, page: str) -> str:
    """Address of a new issue that names the page."""
    return f"https://github.com/{slug}/issues/new?title={quote(f'Error on {page}')}&body={quote(f'Page: {page}')}"


def _configure(app: Sphinx, config: Config) -> None:
    config.mathjax_path = site_assets.MATHJAX
    config.mathjax3_config = {**(config.mathjax3_config or {}), **site_assets.MATHJAX_CONFIG}
    config.nb_ipywidgets_js = {}  # two scripts from other hosts, for widgets that no page has
    config.thebe_config = {}
    config.course_slug = repository_slug(Path(app.srcdir))


def _orphan(app: Sphinx, doctree: Any) -> None:
    if app.env.docname.startswith("solutions/"):
        app.env.metadata[app.env.docname]["orphan"] = True


def _out_of_search(app: Sphinx) -> None:
    """Skip solutions when the search index is filled: `:nosearch:` would still list their titles."""
    index = getattr(app.builder, "index_page", None)
    if index is None:
        return

    def index_page(pagename: str, doctree: Any, title: str) -> None:
        if not pagename.startswith("solutions/"):
            index(pagename, doctree, title)

    app.builder.index_page = index_page


def raw_html(markup: str) -> str:
    """A Markdown block that puts HTML on the page as it is. Raises ValueError for a backtick fence in it, which would end the block."""
    if "```" in markup:
        raise ValueError("the HTML holds ```, which would end its block")
    return f"```{{raw}} html\n{markup}\n```"


# What is made at build time: the mark on its page, and what takes its place.
MADE: dict[str, tuple[str, Callable[[Path], str]]] = {
    "appendices/status": ("{{ status }}", status.markdown),
    "appendices/hardware": ("{{ hardware }}", lambda root: hardware_table.markdown()),
    "appendices/exam": ("{{ exam }}", lambda root: raw_html(exam_html(chapters(root)))),
    "appendices/score": ("{{ score }}", lambda root: raw_html(score_html(chapters(root)))),
}


def _tables(app: Sphinx, docname: str, source: list[str]) -> None:
    """Fill what is made at build time into the pages that ask for it. Raises ValueError for such a page without its mark."""
    if docname in MADE:
        mark, make = MADE[docname]
        if mark not in source[0]:
            raise ValueError(f"{docname}: its mark {mark} is missing")
        source[0] = source[0].replace(mark, make(Path(app.srcdir)))


def _read_again(app: Sphinx, env: Any, added: set, changed: set, removed: set) -> list[str]:
    return [page for page in MADE if page in env.found_docs]


def _page(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    slug = app.config.course_slug
    icon = context["pathto"]("_static/favicon.svg", resource=True)
    context["metatags"] = context.get("metatags", "") + f'\n<link rel="icon" type="image/svg+xml" href="{escape(icon)}">'
    if pagename.startswith("solutions/"):
        context["metatags"] += '\n<meta name="robots" content="noindex">'
    if not slug or "body" not in context:
        return
    colab = colab_url(slug, pagename, Path(app.srcdir))
    if colab:
        button = f'<p class="colab"><a href="{escape(colab)}" rel="noopener">Open this lab in Colab</a></p>\n'
        context["body"] = context["body"].replace("</h1>", "</h1>\n" + button, 1)
    report = escape(report_url(slug, pagename))
    context["body"] += f'\n<p class="report"><a href="{report}" rel="noopener">Report an error on this page</a></p>\n'


def _finish(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        site_assets.prune(Path(app.outdir))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_config_value("course_slug", None, "env", [str, type(None)])
    app.connect("config-inited", _configure, priority=900)
    app.connect("builder-inited", _out_of_search)
    app.connect("env-get-outdated", _read_again)
    app.connect("source-read", _tables)
    app.connect("doctree-read", _orphan)
    app.connect("html-page-context", _page, priority=900)
    app.connect("build-finished", _finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
