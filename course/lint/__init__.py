"""The lint of the notebooks: what nbval passes and a reader would trip over.

    python -m course.lint [paths]      every notebook of chapters/, labs/ and solutions/ without any
    python -m course.lint --rules      the table of rules

Prints `path:cell N: rule: what is wrong`; N is the cell's position from 1, Markdown cells included. The exit code is 1 where there is a fault.
"""

from __future__ import annotations

from pathlib import Path

from course.lint import cells, labs, numbers, outputs, spine, text  # noqa: F401  (each enters its rules into the table)
from course.lint.page import Page
from course.lint.registry import RULES, Fault, Rule

__all__ = ["RULES", "Fault", "Page", "Rule", "check", "faults"]


def faults(path: Path) -> list[tuple[str, int, str]]:
    """(rule, cell, message) of every fault in the notebook, in the order of its cells. Raises ValueError for a file that is no notebook."""
    page = Page.load(path)
    found = [(rule.id, cell, message) for rule in RULES.values() if page.kind in rule.kinds for cell, message in rule.check(page)]
    return sorted(found, key=lambda fault: fault[1])


def check(path: Path, name: str | None = None) -> list[str]:
    """The faults as printed lines; `name` stands for the path in them."""
    return [f"{name or path}:{f'cell {cell}' if cell else 'notebook'}: {rule}: {message}" for rule, cell, message in faults(path)]
