"""Put a practice form together: the quiz cells' style and grading, this package's own, the data, and one script that starts it."""

from __future__ import annotations

import html
import json
from pathlib import Path

from course.quiz import render

HERE = Path(__file__).resolve().parent


def form(name: str, label: str, body: str, scripts: list[str], data: object, without_script: str) -> str:
    """One self-contained `<form class="quiz practice NAME">`.

    `scripts` are file names of this folder, joined in one function in which `QUIZ` is the quiz cells' interface (parse,
    valueText, gradeNumber, gradeChoice), `DATA` the data and `form` the form; `without_script` is what the page says
    where no script runs. Raises FileNotFoundError for a file that is not there.
    """
    code, version = render.script()
    own = render.packed_js("\n".join((HERE / file).read_text(encoding="utf-8") for file in ["common.js", *scripts]))
    own = own.replace("__DATA__", json.dumps(data, separators=(",", ":"), ensure_ascii=True).replace("</", "<\\/"))
    own = own.replace("__VERSION__", version)
    start = (
        "(function () {\nfunction start() {\ndocument.querySelectorAll('form." + name + ":not([data-ready]):has(script)')"
        ".forEach((form) => { form.dataset.ready = 'true'; main(form); });\n}\n" + own + "\n"
        "start(); setTimeout(start, 0); document.addEventListener('DOMContentLoaded', start);\n})();"
    )
    return (
        f'<form class="quiz practice {name} tex2jax_ignore mathjax_ignore" data-lm-suppress-shortcuts="true" autocomplete="off" novalidate'
        f' aria-label="{html.escape(label)}">\n<style>{render.style()}\n{render.packed_css(HERE / "practice.css")}</style>\n{body}\n'
        f"<noscript><p>{html.escape(without_script)}</p></noscript>\n<script>\n{code}\n</script>\n<script>\n{start}\n</script>\n</form>"
    )


def bare_page(title: str, inner: str) -> str:
    """A page with nothing but the form, to be opened as a file."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<link rel="icon" href="data:,"><title>{html.escape(title)}</title></head><body><main><h1>{html.escape(title)}</h1>\n'
        f"{inner}\n</main></body></html>\n"
    )
