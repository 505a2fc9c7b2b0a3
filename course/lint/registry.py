"""The table of rules: each is one small generator of faults, entered under its id by the decorator `rule`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from course.lint.page import Page

Fault = tuple[int, str]  # position of the cell from 1 (0: the notebook as a whole), what is wrong and what to do
Check = Callable[[Page], Iterator[Fault]]

EVERY = frozenset({"chapter", "lab", "solution", "other"})
CHAPTER = frozenset({"chapter"})
LAB = frozenset({"lab", "solution"})


@dataclass(frozen=True)
class Rule:
    id: str
    kinds: frozenset[str]
    check: Check

    @property
    def summary(self) -> str:
        return (self.check.__doc__ or "").split("\n")[0]


RULES: dict[str, Rule] = {}


def rule(id: str, kinds: frozenset[str] = EVERY) -> Callable[[Check], Check]:
    """Enter the function into the table. Raises ValueError for an id that is taken, or a rule that does not say what it wants."""

    def enter(check: Check) -> Check:
        if id in RULES:
            raise ValueError(f"two rules are called {id}")
        if not check.__doc__:
            raise ValueError(f"rule {id} has no docstring")
        RULES[id] = Rule(id, kinds, check)
        return check

    return enter
