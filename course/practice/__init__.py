"""Practice beyond the chapters: drills, an exam over all quizzes, and the score; forms that need no network and no account.

In a notebook: `drills()`. The site shows the exam and the score on pages of their own; `python -m course.practice exam
--out exam.html` writes one as a file that works alone.
"""

from __future__ import annotations

from course.practice.drills import Drills, drills
from course.practice.exam import exam_html
from course.practice.score import score_html

__all__ = ["Drills", "drills", "exam_html", "score_html"]
