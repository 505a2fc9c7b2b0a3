"""The drills as a form: endless numeric practice over random models, cards, contexts, batches and dtypes."""

from __future__ import annotations

from course.practice.assemble import form
from course.practice.drill_data import data

_NAMES = {
    "kv": "Bytes of K and V", "weights": "Bytes of the weights", "fits": "Fits, and how often", "decode": "Floor of a decode step",
    "ttft": "Floor of TTFT", "crossover": "Attention's crossover", "experts": "Experts touched", "speculation": "Tokens of speculation",
    "price": "Cost per million tokens",
}
_BODY = """<div class="quiz-question practice-bar"><p class="quiz-field"><label for="drill-kind">Kind</label>
<select id="drill-kind">{options}</select>
<label for="drill-seed">Drill no.</label><input type="text" id="drill-seed" class="practice-seed" inputmode="numeric" autocomplete="off">
<button type="button" class="drill-next">New drill</button></p></div>
<fieldset class="quiz-question" data-kind="numeric"><legend class="drill-prompt">…</legend>
<p class="quiz-field"><label for="drill-field">Your answer</label><input type="text" id="drill-field" autocomplete="off" autocapitalize="off"
 spellcheck="false" aria-describedby="drill-hint drill-read"><span class="quiz-read" id="drill-read"></span></p>
<p class="quiz-hint" id="drill-hint"></p>
<div class="quiz-row"><button type="button" class="drill-check">Check</button>
<button type="button" class="drill-show quiz-reset" aria-expanded="false" aria-controls="drill-working">Show the working</button></div>
<div class="quiz-result" role="status" aria-live="polite"></div>
<div id="drill-working" class="drill-working" role="group" aria-label="Working" hidden></div></fieldset>
<div class="quiz-foot"><p class="drill-tally" role="status" aria-live="polite"></p></div>
<p class="quiz-note" hidden></p>"""


class Drills:
    """The form with drills; a notebook shows it."""

    def _repr_html_(self) -> str:
        options = ['<option value="">all nine</option>', *(f'<option value="{name}">{text}</option>' for name, text in _NAMES.items())]
        without = "Drills are drawn by a script, and none runs here. Each chapter's questions can be read without one."
        files = ["drill_costs.js", "drill_kinds.js", "drill_more.js", "drill_page.js"]
        return form("drills", "Drills", _BODY.format(options="".join(options)), files, data() | {"kinds": _NAMES}, without)

    def __repr__(self) -> str:
        return f"Drills: {len(_NAMES)} kinds"


def drills() -> Drills:
    """Endless numeric drills, graded in the browser."""
    return Drills()
