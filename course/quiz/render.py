"""Questions to one HTML form: ids from the content, no random part, works without a kernel and without a network.

Without JavaScript the `<details>` under each question holds the answer; with it, quiz.js grades in place.
"""

from __future__ import annotations

import functools
import hashlib
import html
import json
import re
from pathlib import Path

from course.quiz.inline import to_html
from course.quiz.schema import Question
from course.quiz.units import FAMILIES, family_of, value_text

_HERE = Path(__file__).resolve().parent


def packed_css(path: Path) -> str:
    """The style sheet without comments and needless white space."""
    css = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s*([{};,])\s*", r"\1", " ".join(css.split())).replace(";}", "}")


def packed_js(text: str) -> str:
    """The script without indentation, empty lines and lines that are a comment: a line comment must have its line to itself."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


@functools.cache
def style() -> str:
    """The style sheet of a form."""
    return packed_css(_HERE / "quiz.css")


@functools.cache
def script() -> tuple[str, str]:
    """The page's script without comments and indentation, and its digest, which forms name to find their script."""
    page, grade = ((_HERE / name).read_text(encoding="utf-8") for name in ("quiz.js", "grade.js"))
    code = packed_js(page.replace("// __GRADE__", grade))
    code = code.replace("__UNITS__", json.dumps(FAMILIES, separators=(",", ":")).replace("</", "<\\/"))
    digest = hashlib.sha256(code.encode()).hexdigest()[:8]
    return code.replace("__VERSION__", digest), digest


def _attribute(value: object) -> str:
    return html.escape(json.dumps(value, separators=(",", ":"), ensure_ascii=True), quote=True)


def _choices(question: Question, name: str) -> str:
    kind = "radio" if question.kind == "single" else "checkbox"
    return "\n".join(
        f'<label class="quiz-option"><input type="{kind}" name="{name}" value="{index}">'
        f"<span>{to_html(option.text)}</span></label>"
        for index, option in enumerate(question.options)
    )


def _choice_answer(question: Question) -> str:
    items = "\n".join(
        f'<li data-feedback="{index}"><b>{"Right" if option.right else "Wrong"}:</b> {to_html(option.text)} '
        f'<span class="quiz-why">{to_html(option.feedback)}</span></li>'
        for index, option in enumerate(question.options)
    )
    return f"<ul>\n{items}\n</ul>"


def _field(question: Question, name: str) -> str:
    family = FAMILIES[family_of(question.unit)]
    stated = f"; a bare number is read in {html.escape(question.unit)}" if question.unit else ""
    return (
        f'<p class="quiz-field"><label for="{name}-field">Your answer</label>'
        f'<input type="text" id="{name}-field" name="{name}" autocomplete="off" autocapitalize="off" spellcheck="false"'
        f' aria-describedby="{name}-hint {name}-read">'
        f'<span class="quiz-read" id="{name}-read"></span></p>\n'
        f'<p class="quiz-hint" id="{name}-hint">{html.escape(family["what"][0].upper() + family["what"][1:])},'
        f' such as {html.escape(family["example"])}{stated}.</p>'
    )


def _numeric_answer(question: Question) -> str:
    shown = value_text(question.key, question.unit)
    base = family_of(question.unit)
    if base and float(question.key).is_integer() and abs(question.key) < 1e15:
        full = f"{int(question.key):,} {base}"
        shown += f" ({full})" if full != shown and base not in "$x%" else ""
    traps = "".join(
        f'<li data-feedback="{index}"><b>Wrong:</b> {html.escape(value_text(value, question.unit))} '
        f'<span class="quiz-why">{to_html(text)}</span></li>\n'
        for index, (value, text) in enumerate(question.traps)
    )
    return f"<p><b>{html.escape(shown)}</b></p>" + (f"\n<ul>\n{traps}</ul>" if traps else "")


def _free_fields(question: Question, name: str) -> str:
    points = "\n".join(
        f'<label class="quiz-option"><input type="checkbox" name="{name}-point" value="{index}">'
        f"<span>{to_html(point)}</span></label>"
        for index, point in enumerate(question.rubric)
    )
    return (
        f'<p class="quiz-field quiz-long"><label for="{name}-field">Your answer</label>'
        f'<textarea id="{name}-field" name="{name}" rows="4"></textarea></p>\n'
        f'<div class="quiz-rubric" role="group" aria-label="Points your answer makes" hidden>\n'
        f"<p>Tick each point that your answer makes.</p>\n{points}\n</div>"
    )


def _free_answer(question: Question) -> str:
    points = "\n".join(f"<li>{to_html(point)}</li>" for point in question.rubric)
    asked = f"\n<p><b>The interviewer goes on:</b> {to_html(question.follow_up)}</p>" if question.follow_up else ""
    return f"<p>{to_html(question.answer)}</p>\n<p>Points that an answer should make:</p>\n<ul>\n{points}\n</ul>{asked}"


def _follow_up(question: Question, number: int) -> str:
    """The answer to the interviewer's next question, behind a click of its own; nothing where there is no such question."""
    if not question.follow_up:
        return ""
    summary = f'<summary>Answer to what follows<span class="quiz-unseen"> question {number}</span></summary>'
    return f'\n<details class="quiz-answer">{summary}\n<p>{to_html(question.follow_up_answer)}</p>\n</details>'


def _grading(question: Question) -> dict:
    """What the script needs to grade: never text, which stands in the answer below the question."""
    if question.kind == "numeric":
        return {"key": question.key, "unit": question.unit, "family": family_of(question.unit),
                "tolerance": question.tolerance, "traps": [value for value, _ in question.traps]}
    if question.kind == "free":
        return {"points": len(question.rubric)}
    return {"right": [index for index, option in enumerate(question.options) if option.right]}


def question_html(question: Question, number: int) -> str:
    """One question as a fieldset, with its answer behind a click."""
    name = f"q-{question.stem}-{question.id}"
    fields, answer, button = {
        "single": (_choices, _choice_answer, "Check"),
        "multiple": (_choices, _choice_answer, "Check"),
        "numeric": (_field, _numeric_answer, "Check"),
        "free": (_free_fields, _free_answer, "Compare with the rubric"),
    }[question.kind]
    hint = '<p class="quiz-hint">More than one may be right.</p>\n' if question.kind == "multiple" else ""
    code = f'<pre tabindex="0"><code>{html.escape(question.code.rstrip())}</code></pre>\n' if question.code else ""
    why = f'<p class="quiz-explanation">{to_html(question.explanation)}</p>\n' if question.explanation else ""
    reread = f'<p class="quiz-reread">To reread: {to_html(question.reread)}.</p>\n' if question.reread else ""
    return (
        f'<fieldset class="quiz-question" id="{name}" data-id="{question.id}" data-kind="{question.kind}"'
        f' data-digest="{question.digest}" data-grading="{_attribute(_grading(question))}">\n'
        f'<legend><span class="quiz-number">{number}.</span> {to_html(question.prompt)}</legend>\n'
        f"{code}{hint}{fields(question, name)}\n"
        f'<div class="quiz-row"><button type="button" class="quiz-check" hidden>{button}</button></div>\n'
        f'<div class="quiz-result" role="status" aria-live="polite"></div>\n'
        f'<details class="quiz-answer"><summary>Answer<span class="quiz-unseen"> to question {number}</span></summary>\n'
        f"{answer(question)}\n{why}{reread}</details>{_follow_up(question, number)}\n</fieldset>"
    )


def form_html(stem: str, section: str, questions: list[Question]) -> str:
    """One self-contained `<form class="quiz">` with its style and script."""
    code, version = script()
    body = "\n".join(question_html(question, number) for number, question in enumerate(questions, 1))
    title = {"predict": "Predict first", "check": "Check yourself", "lab": "After the lab"}.get(section, section.replace("-", " ").capitalize())
    return (
        f'<form class="quiz tex2jax_ignore mathjax_ignore" id="quiz-{stem}-{section}" data-version="{version}"'
        f' data-stem="{stem}" data-section="{section}" data-lm-suppress-shortcuts="true" autocomplete="off" novalidate'
        f' aria-label="Quiz: {title}">\n'
        f"<style>{style()}</style>\n{body}\n"
        f'<div class="quiz-foot" hidden><p class="quiz-score" role="status" aria-live="polite"></p>'
        f'<button type="button" class="quiz-reset">Reset</button></div>\n'
        f'<p class="quiz-note" hidden></p>\n'
        f"<noscript><p>Without JavaScript nothing is graded here; open “Answer” under a question.</p></noscript>\n"
        f"<script>\n{code}\n</script>\n</form>"
    )
