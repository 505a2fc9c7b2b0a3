"""Rules about cells that ran and about what they left in the file."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator

from course import notebooks, pictures
from course.lint import code
from course.lint.page import Page, course, has_png, output_texts
from course.lint.registry import Fault, rule

MIMES = ("text/plain", "text/html", "text/markdown", "text/latex", "image/png")
DIGITS = 4

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*\.\d+(?:[eE][+-]?\d+)?(?![\d.]*\.\d)")
_PATH = re.compile(r"(?<![\w.:/<-])(?:~/\w|/(?:home|Users|root|tmp|usr|var|opt|mnt|content|work|workspace|private|etc)(?:/|\b(?=\W|$)))|\b[A-Z]:\\\w")
_MONTH = r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
_DATE = re.compile(rf"\b(?:19|20)\d\d-[01]\d-[0-3]\d\b|\b[0-2]?\d:[0-5]\d:[0-5]\d\b|\b{_MONTH}\.? \d{{1,2}},? (?:19|20)\d\d\b|\b\d{{1,2}}\.? {_MONTH} (?:19|20)\d\d\b")
_SOFTWARE = r"(?:versions?|torch|pytorch|numpy|python|matplotlib|cuda|cudnn|vllm|transformers|ipython|gcc|linux)"
_VERSION = re.compile(rf"(?<![\w.,])v?\d+\.\d+\.\d+(?:[.+-]?(?:cpu|cu\d+|post\d+|dev\d*|rc\d+|[ab]\d+))?(?![\w.])|\b{_SOFTWARE}[ =:_v/-]{{1,3}}\d+\.\d+", re.IGNORECASE)
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
# Log-in names that are also common words or belong to no person.
_NOBODY = {"root", "user", "runner", "jovyan", "ubuntu", "admin", "student", "docker", "vscode", "codespace", "test"}


@rule("executed")
def executed(page: Page) -> Iterator[Fault]:
    """Code cells were executed once, from top to bottom: their counts are 1 … N. A cell tagged nbval-skip has none."""
    want = 0
    for n, cell in page.code:
        if notebooks.SKIP_TAG in notebooks.tags(cell):
            if cell.execution_count is not None:
                yield n, "is tagged nbval-skip and has an execution count; run course.rerun"
            continue
        want += 1
        if cell.execution_count != want:
            yield n, f"execution count is {cell.execution_count}, not {want}; run course.rerun"


@rule("output-missing")
def output_missing(page: Page) -> Iterator[Fault]:
    """A cell that prints, ends in a value or shows a figure has its output stored."""
    known: dict[str, set[str]] = {}
    for n, cell in page.code:
        tree = page.tree(n)
        if tree is None:
            continue
        known.update({function.name: code.function_effects(function, known) for function in code.functions(tree)})
        if notebooks.SKIP_TAG in notebooks.tags(cell) or "raises-exception" in notebooks.tags(cell):
            continue
        effects = code.effects(tree.body, known)
        outputs = cell.get("outputs", [])
        if "show" in effects and not has_png(cell):
            yield n, "shows a figure, but no PNG is stored"
        if "print" in effects and not any(o.output_type == "stream" and o.name == "stdout" or "data" in o for o in outputs):
            yield n, "prints, but no output is stored"
        if code.ends_in_value(tree) and not any("data" in o for o in outputs):
            yield n, "ends in a value, but none is stored"


@rule("error-output")
def error_output(page: Page) -> Iterator[Fault]:
    """An error is stored only in a cell tagged raises-exception, and such a cell stores one."""
    for n, cell in page.code:
        has_error = any(output.output_type == "error" for output in cell.get("outputs", []))
        tagged = "raises-exception" in notebooks.tags(cell)
        if has_error and not tagged:
            yield n, "stores an error without the tag raises-exception"
        if tagged and not has_error:
            yield n, "is tagged raises-exception and stores no error"


@rule("stderr-output")
def stderr_output(page: Page) -> Iterator[Fault]:
    """Nothing is stored from stderr (warnings, progress bars) without the tag nbval-ignore-output."""
    for n, cell in page.code:
        on_stderr = any(output.output_type == "stream" and output.name == "stderr" for output in cell.get("outputs", []))
        if on_stderr and "nbval-ignore-output" not in notebooks.tags(cell):
            yield n, "stores stderr: remove the cause of the warning"


@rule("output-kind")
def output_kind(page: Page) -> Iterator[Fault]:
    """Outputs are text, HTML or PNG: no SVG, PDF, JPEG, script or widget, which nbval compares badly or not at all."""
    for n, cell in page.code:
        for mime in sorted({mime for output in cell.get("outputs", []) for mime in output.get("data", {})} - set(MIMES)):
            yield n, f"stores {mime}; allowed: {', '.join(MIMES)}"


@rule("blank-figure")
def blank_figure(page: Page) -> Iterator[Fault]:
    """A stored PNG can be read and is not all of one colour."""
    for n, cell in page.code:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                try:
                    if pictures.is_blank(pictures.decode(output["data"]["image/png"])):
                        yield n, "stores a blank figure"
                except ValueError as error:
                    yield n, f"stores a figure that is {error}"


def significant_digits(number: str) -> int:
    """How many significant digits a printed decimal has: 0.0123 has 3, 139.0 has 4, 1,234.56 has 6."""
    mantissa = re.split(r"[eE]", number)[0].replace(",", "").replace(".", "")
    return len(mantissa.lstrip("0")) or 1


@rule("digits")
def digits(page: Page) -> Iterator[Fault]:
    """A printed number with a decimal point has at most 4 significant digits, unless the metadata say why its digits are exact.

    Float sums change in their last digits with the machine and the thread count. Whole numbers are free, with thousands marks or without.
    """
    for n, cell in page.code:
        if set(notebooks.tags(cell)) & {"nbval-ignore-output", notebooks.SKIP_TAG} or "exact" in course(cell):
            continue
        for text in output_texts(cell, html=False):
            long = [number for number in _NUMBER.findall(text) if significant_digits(number) > DIGITS]
            if long:
                yield n, f'prints {long[0]}: more than {DIGITS} significant digits. Round it, or say {{"course": {{"exact": "why"}}}}'
                break


def _search(page: Page, pattern: re.Pattern[str], what: str) -> Iterator[Fault]:
    for n, cell in page.code:
        for text in output_texts(cell):
            match = pattern.search(text)
            if match:
                yield n, f"output holds {what}: {match[0]!r}"
                break


@rule("output-path")
def output_path(page: Page) -> Iterator[Fault]:
    """No absolute path in an output."""
    yield from _search(page, _PATH, "an absolute path")


@rule("output-date")
def output_date(page: Page) -> Iterator[Fault]:
    """No date and no time of day in an output."""
    yield from _search(page, _DATE, "a date or time")


@rule("output-version")
def output_version(page: Page) -> Iterator[Fault]:
    """No software version in an output."""
    yield from _search(page, _VERSION, "a version")


@rule("output-address")
def output_address(page: Page) -> Iterator[Fault]:
    """No memory address in an output: it differs in every run."""
    yield from _search(page, _ADDRESS, "an address")


def log_in_name() -> str:
    """Who runs the lint; empty on a machine without names, which has none to leak."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


@rule("output-user")
def output_user(page: Page) -> Iterator[Fault]:
    """No name of the person who ran the notebook in an output."""
    name = log_in_name()
    if len(name) > 2 and name.lower() not in _NOBODY:
        yield from _search(page, re.compile(rf"\b{re.escape(name)}\b"), "your log-in name")
