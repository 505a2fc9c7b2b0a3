"""Checks on all questions together: neither the place nor the length of the right option may give it away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from course.quiz.inline import plain_length
from course.quiz.schema import Question

LIMIT = 0.05


def tail(chances: list[Fraction], hits: int) -> float:
    """Probability that at least `hits` of independent guesses with these `chances` are right."""
    ways = [Fraction(1)]
    for chance in chances:
        ways = [
            (ways[n] * (1 - chance) if n < len(ways) else 0) + (ways[n - 1] * chance if n else 0)
            for n in range(len(ways) + 1)
        ]
    return float(sum(ways[hits:], Fraction(0)))


def _strategies(longest_list: int) -> dict[str, Callable[[Question], int | None]]:
    """Ways to guess without reading: each returns the option it picks, or None where it does not apply."""
    def place(index: int) -> Callable[[Question], int | None]:
        return lambda question: index if index < len(question.options) else None

    def by_length(question: Question, pick: Callable) -> int | None:
        lengths = [plain_length(option.text) for option in question.options]
        return lengths.index(pick(lengths)) if lengths.count(pick(lengths)) == 1 else None

    ways: dict[str, Callable[[Question], int | None]] = {f"option {n + 1}": place(n) for n in range(longest_list)}
    ways["the last option"] = lambda question: len(question.options) - 1
    ways["the longest option"] = lambda question: by_length(question, max)
    ways["the shortest option"] = lambda question: by_length(question, min)
    return ways


def check_bank(questions: Iterable[Question]) -> None:
    """Refuse a bank in which a way to guess single choices without reading does better than chance.

    Better than chance: so many hits that fair places would give them with a probability below 5 %. Raises ValueError
    that names the guess, its hits and the questions; a new id or a reworded option moves them.
    """
    single = [question for question in questions if question.kind == "single"]
    for name, pick in _strategies(max((len(question.options) for question in single), default=0)).items():
        tried = [(question, index) for question in single if (index := pick(question)) is not None]
        hits = [f"{question.stem}/{question.id}" for question, index in tried if question.options[index].right]
        chance = tail([Fraction(1, len(question.options)) for question, _ in tried], len(hits))
        if hits and chance < LIMIT:
            raise ValueError(
                f"guess={name!r} is right in {len(hits)} of {len(tried)} single choices (chance of that: "
                f"{100 * chance:.1f} %); it must do no better than chance: {', '.join(hits)}"
            )
