"""The score: what this browser has kept of the quizzes, for each chapter and in all; export, import, print, and what to reread."""

from __future__ import annotations

from course.practice.assemble import form
from course.practice.chapters import Chapter, chapters, reread_url
from course.practice.drill_twin import KINDS
from course.quiz.schema import Question

_BODY = """<div class="quiz-question"><p class="practice-total score-total" role="status" aria-live="polite">…</p>
<ul class="practice-legend">{legend}</ul>
<div class="score-figure"></div></div>
<div class="quiz-question"><h2>By chapter</h2>
<div class="practice-scroll" tabindex="0" role="region" aria-label="Table of chapters"><table><thead><tr><th scope="col">Chapter</th>
<th scope="col" class="practice-number">right</th><th scope="col" class="practice-number">in part</th><th scope="col" class="practice-number">wrong</th>
<th scope="col" class="practice-number">open</th><th scope="col" class="practice-number">score</th></tr></thead><tbody class="score-rows"></tbody></table></div>
<p class="score-more"></p></div>
<div class="quiz-question"><h2>To reread</h2><div class="score-reread"></div></div>
<div class="quiz-question practice-noprint"><h2>Keep it, move it</h2>
<p class="practice-buttons"><button type="button" class="score-export">Export as JSON</button>
<button type="button" class="score-print quiz-reset">Print</button></p>
<p class="practice-import"><label for="score-file">Import a file that this page has written</label><br>
<input type="file" id="score-file" accept=".json,application/json"></p>
<div class="quiz-result score-say" role="status" aria-live="polite"></div></div>
<p class="quiz-note" hidden></p>"""
_BARS = (("right", "right"), ("part", "in part"), ("wrong", "wrong"), ("open", "not answered"))


def _question(question: Question, known: tuple[Chapter, ...]) -> list[object]:
    """id, digest, number of rubric points (0: graded without the reader), section to reread, its address."""
    return [question.id, question.digest, len(question.rubric), question.reread, reread_url(question, known)]


def score_html(known: tuple[Chapter, ...] | None = None) -> str:
    """The score of all chapters (or of `known`) as one form; its links are relative to a page in appendices/."""
    known = chapters() if known is None else known
    legend = "".join(
        f'<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="bar-{name}" x=".5" y=".5" width="9" height="9"></rect></svg>{text}</li>'
        for name, text in _BARS
    )
    data = {
        "chapters": [{"stem": c.stem, "label": c.label, "url": c.url, "questions": [_question(q, known) for q in c.questions]} for c in known],
        "drills": list(KINDS),
    }
    without = "The score is read by a script from what your browser keeps, and no script runs here."
    return form("score", "Score", _BODY.format(legend=legend), ["score_store.js", "score_figure.js", "score.js"], data, without)
