"""`python -m course.quiz`: check every quizzes/*.yml and the bank as a whole; one line for each file."""

from __future__ import annotations

import sys

from course.quiz.alike import check_alike
from course.quiz.bank import check_bank
from course.quiz.schema import QUIZZES, load


def main() -> int:
    """Print the questions of each file, or the first fault; exit status 1 for a fault."""
    questions = []
    try:
        for path in sorted(QUIZZES.glob("*.yml")):
            questions += (found := load(path))
            kinds = sorted({question.kind for question in found})
            print(f"{path.name}: {len(found)} questions ({', '.join(kinds)})")
        check_bank(questions)
        check_alike(questions)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
