"""Quiz cells: graded questions that work in a static page, in Jupyter and in Colab, with the same bytes every time.

In a notebook: `quiz("06_kv_cache", "check")` shows the questions of that section of quizzes/06_kv_cache.yml.
"""

from __future__ import annotations

from course.quiz.render import form_html
from course.quiz.schema import QUIZZES, Question, load

__all__ = ["Quiz", "lab_html", "quiz"]


class Quiz:
    """The questions of one section of one chapter; a notebook shows it as a form."""

    def __init__(self, stem: str, section: str) -> None:
        everything = load(QUIZZES / f"{stem}.yml")
        self.stem, self.section = stem, section
        self.questions: list[Question] = [question for question in everything if question.section == section]
        if not self.questions:
            known = ", ".join(sorted({question.section for question in everything}))
            raise ValueError(f"section={section!r} has no question in {stem}.yml; sections there: {known}")

    def _repr_html_(self) -> str:
        return form_html(self.stem, self.section, self.questions)

    def __repr__(self) -> str:
        count = len(self.questions)
        return f"Quiz {self.stem}, {self.section}: {count} question{'s' if count != 1 else ''}"


def quiz(stem: str, section: str) -> Quiz:
    """The form with the questions of `section` in quizzes/`stem`.yml.

    Raises FileNotFoundError for a missing file, ValueError for a bad question or a section without questions.
    """
    return Quiz(stem, section)


def lab_html(stem: str) -> str:
    """HTML of the chapter's `lab` questions, complete in itself: the body of a cell that imports nothing."""
    return Quiz(stem, "lab")._repr_html_()
