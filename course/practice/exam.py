"""The exam: a number draws questions over all chapters, in mixed kinds; graded at the end, with points for each chapter."""

from __future__ import annotations

from course.practice.assemble import form
from course.practice.chapters import Chapter, chapters
from course.quiz.render import question_html

SIZES = (10, 20, 40, 60)
_BODY = """<div class="quiz-question practice-bar practice-noprint"><p class="quiz-field"><label for="exam-size">Questions</label>
<select id="exam-size">{sizes}</select>
<label for="exam-seed">Exam no.</label><input type="text" id="exam-seed" class="practice-seed" inputmode="numeric" autocomplete="off">
<button type="button" class="exam-start">Start</button></p>
<p class="quiz-hint">The same number draws the same exam. Nothing is graded before the end.</p>
<p class="exam-say" role="status" aria-live="polite"></p></div>
<div class="quiz-question exam-result" tabindex="-1" hidden></div>
<div class="exam-paper"></div>
<div class="quiz-foot exam-foot practice-noprint" hidden><p class="exam-progress" role="status" aria-live="polite"></p>
<button type="button" class="exam-finish">Finish and grade</button></div>
<p class="quiz-note" hidden></p>
<template>{questions}</template>"""


def exam_html(known: tuple[Chapter, ...] | None = None, links: bool = True) -> str:
    """The exam as one form that carries every question of the chapters (all of them by default).

    links=False leaves out the links to chapters, for a page that stands alone.
    """
    known = chapters() if known is None else known
    asked = [(chapter, question) for chapter in known for question in chapter.questions]
    sizes = "".join(f'<option{" selected" if size == 20 else ""}>{size}</option>' for size in SIZES)
    body = _BODY.format(sizes=sizes, questions="\n".join(question_html(question, 1) for _, question in asked))
    data = {
        "bank": [[chapter.stem, question.kind] for chapter, question in asked],
        "chapters": [{"stem": c.stem, "label": c.label, "url": c.url if links else ""} for c in known],
    }
    return form("exam", "Exam", body, ["exam_draw.js", "exam.js"], data, "The exam is drawn by a script, and none runs here. Each chapter's own questions can be read without one.")
