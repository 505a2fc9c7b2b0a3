"""The decision tree: questions in the order in which an engineer can answer them, from the log to the profiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .normal import Normal
from .rows import ROWS, Row


@dataclass(frozen=True)
class Question:
    """A question about readings: yes if each is in one of the states that conditions names. yes and no: a row's number, the next question, or None.

    heading begins a new part of the tree.
    """

    text: str
    conditions: Mapping[str, str]
    yes: int | Question | None
    no: int | Question | None = None
    heading: str = ""

    def answer(self, states: Mapping[str, str]) -> bool:
        """Say whether the states of the readings make it a yes."""
        return all(states[name] in wanted.split("|") for name, wanted in self.conditions.items())


def _chain(*questions: tuple[str, Mapping[str, str], int | Question, str]) -> Question:
    """Return the first of questions that are asked one after another until one is answered with yes."""
    following: Question | None = None
    for text, conditions, yes, heading in reversed(questions):
        following = Question(text, conditions, yes, following, heading)
    return following


TREE: Question = _chain(
    ("Does the log stop before the server is ready?", {"full requests": "low"}, 13, "Is it up, and right?"),
    ("Is the card's memory beside the server gone?", {"bytes outside": "low"}, 14, ""),
    ("Do golden prompts give other tokens?", {"golden prompts": "low"}, 16, ""),
    ("Are requests refused?", {"rejections": "high"}, 17, ""),
    ("Is work done twice (preemptions)?", {"preemptions": "high"}, 5, "Does it do needless work?"),
    ("Are drafts rejected?", {"accepted": "low"}, 15, ""),
    ("Are usual prompts found in the cache less often?", {"prefix hits": "low", "prompt p99": "normal"}, 12, ""),
    ("Far from the roofline, and idle within steps?", {"roofline": "low", "gaps": "high"}, 7, "Do steps take longer than they must?"),
    ("Far from the roofline, and never idle?", {"roofline": "low", "nvidia-smi": "normal"}, 10, ""),
    ("Does the first token wait before the queue?", {"front end p50": "high"}, 3, "Is the first token late?"),
    ("Do requests wait while all seats are taken?", {"waiting": "high", "seats": "high"}, 6, ""),
    ("Do most requests wait, though seats are free?", {"waiting": "high", "queue p50": "high"}, 1, ""),
    ("Do only long prompts take long?", {"prefill p99": "high", "prompt p99": "high"}, 2, ""),
    ("Are a few gaps long, and their steps large?", {"ITL p99": "high", "ITL p50": "normal", "step tokens p99": "high"}, 4, "Are later tokens late?"),
    ("Does each sequence cost more of a step?", {"s per sequence": "high", "KV usage": "high", "roofline": "normal"}, 8, ""),
    ("Did the last doubling of the load bring nothing?", {"gain of doubling": "low", "running": "high"}, 9, "Is the throughput poor?"),
    ("Is the card idle, and nobody there?", {"nvidia-smi": "low", "running": "low"}, 11, ""),
)


def questions(node: int | Question | None = TREE) -> Iterator[Question]:
    """Yield the questions in the order in which they are asked; a branch behind a yes comes before the no."""
    if isinstance(node, Question):
        yield node
        yield from questions(node.yes)
        yield from questions(node.no)


def diagnose(readings: Mapping[str, float | None], normal: Normal) -> Row | None:
    """Ask the questions of the tree about readings, and return the row that they lead to; None where nothing is wrong that it knows."""
    states, node = normal.states(readings), TREE
    while isinstance(node, Question):
        node = node.yes if node.answer(states) else node.no
    return None if node is None else next(row for row in ROWS if row.number == node)
