"""Every rule of the quiz schema refuses a bad question and names file, question, value and rule."""

from __future__ import annotations

import copy
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from course.quiz import bank, keys, units
from course.quiz.schema import QUIZZES, Option, Question, accepts, load, shuffled

DEMO = Path(__file__).parent / "data" / "demo.yml"


def _document() -> dict:
    return yaml.safe_load(DEMO.read_text(encoding="utf-8"))


def _load(tmp_path: Path, document: object) -> list[Question]:
    path = tmp_path / "demo.yml"
    path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    return load(path)


def _set(question: dict, **changes: object) -> None:
    question.update(changes)


# Index of the question in demo.yml: 0 single, 1 multiple, 2 bytes, 3 time, 4 count, 5 free.
BAD = {
    "no right answer": (0, lambda q: q["options"][0].pop("right"), "options: no right answer"),
    "two right": (0, lambda q: _set(q["options"][1], right=True), "2 right answers in a single choice"),
    "all right": (1, lambda q: [_set(o, right=True) for o in q["options"]], "every option is right"),
    "no feedback": (0, lambda q: q["options"][2].pop("feedback"), "has no feedback"),
    "blank feedback": (0, lambda q: _set(q["options"][2], feedback="  "), "has no feedback"),
    "same feedback": (0, lambda q: _set(q["options"][2], feedback=q["options"][1]["feedback"]), "stands twice"),
    "same text": (0, lambda q: _set(q["options"][2], text=q["options"][1]["text"]), "stands twice"),
    "one option": (0, lambda q: _set(q, options=q["options"][:1]), "at least two options"),
    "option key": (0, lambda q: _set(q["options"][0], correct=True), "may have only text, right and feedback"),
    "right as text": (0, lambda q: _set(q["options"][0], right="yes"), "right='yes' must be true or false"),
    "order": (0, lambda q: _set(q["options"][1], text="None of the above"), "depends on the order"),
    "unknown kind": (0, lambda q: _set(q, kind="essay"), "kind='essay' is not one of single"),
    "list kind": (0, lambda q: _set(q, kind=["single"]), "is not one of single"),
    "unknown key": (0, lambda q: _set(q, hint="x"), "'hint' is not a key of a single question"),
    "key of another kind": (5, lambda q: _set(q, options=[]), "'options' is not a key of a free question"),
    "no explanation": (0, lambda q: q.pop("explanation"), "explanation is missing"),
    "empty prompt": (0, lambda q: _set(q, prompt=" "), "prompt=' ' must be text"),
    "bad id": (0, lambda q: _set(q, id="Which Norm"), "id='Which Norm' must be kebab-case"),
    "no id": (0, lambda q: q.pop("id"), "id=None must be kebab-case"),
    "duplicate id": (1, lambda q: _set(q, id="which-norm"), "id='which-norm' stands twice"),
    "no section": (0, lambda q: q.pop("section"), "section=None must be a word"),
    "lone dollar": (0, lambda q: _set(q, prompt="It costs $5"), "lone '$'"),
    "lone backtick": (0, lambda q: _set(q, prompt="the ` key"), "lone '`'"),
    "bad math": (0, lambda q: _set(q, prompt="$\\frac{1$"), "cannot be read"),
    "unknown command": (0, lambda q: _set(q, prompt="$\\sqroot{2}$"), "unknown command \\sqroot"),
    "typed number": (2, lambda q: _set(q, key="687194767360"), "is a typed number"),
    "arithmetic of typed numbers": (2, lambda q: _set(q, key="2 * 3"), "is a typed number"),
    "bare number": (2, lambda q: _set(q, key=687194767360), "must be an expression in quotes"),
    "unknown name": (2, lambda q: _set(q, key="os.getpid()"), "uses 'os'"),
    "builtin": (2, lambda q: _set(q, key="int(math.pi)"), "uses 'int'"),
    "private": (2, lambda q: _set(q, key="math.__doc__"), "private name '__doc__'"),
    "comprehension": (2, lambda q: _set(q, key="[n for n in (1,)]"), "may not use"),
    "syntax": (2, lambda q: _set(q, key="math.pi +"), "is not a Python expression"),
    "failing key": (2, lambda q: _set(q, key="math.sqrt(-1)"), "fails: ValueError"),
    "not finite": (2, lambda q: _set(q, key="math.inf"), "not a finite number"),
    "not a number": (2, lambda q: _set(q, key="math.pi > 3"), "not a finite number"),
    "key names itself": (2, lambda q: _set(q, key="key / 2 + math.pi"), "uses 'key'"),
    "bad unit": (2, lambda q: _set(q, unit="furlong"), "unit='furlong' is not one of"),
    "bits": (2, lambda q: _set(q, unit="Gbit"), "unit='Gbit' is not one of"),
    "no unit": (2, lambda q: q.pop("unit"), "unit is missing"),
    "key in multiples": (2, lambda q: _set(q, key="math.pi / 1e9"), "give it in the base unit 'B'"),
    "negative tolerance": (2, lambda q: _set(q, tolerance=-0.1), "tolerance=-0.1 must be"),
    "wide tolerance": (2, lambda q: _set(q, tolerance=5), "tolerance=5 must be"),
    "trap equals key": (2, lambda q: _set(q["traps"][0], key="key * 1.001"), "graded as the right answer"),
    "equal traps": (2, lambda q: _set(q["traps"][1], key="key / 2"), "the same as an earlier trap"),
    "trap feedback": (2, lambda q: q["traps"][0].pop("feedback"), "must have key and feedback"),
    "no rubric": (5, lambda q: q.pop("rubric"), "rubric is missing"),
    "empty rubric": (5, lambda q: _set(q, rubric=[]), "rubric is missing"),
    "rubric as text": (5, lambda q: _set(q, rubric="point"), "must list at least one point"),
    "follow-up without an answer": (5, lambda q: _set(q, follow_up="And then?"), "follow_up and follow_up_answer go together"),
    "empty follow-up": (5, lambda q: _set(q, follow_up="And then?", follow_up_answer=" "), "follow_up_answer=' ' must be text"),
    "follow-up of a choice": (0, lambda q: _set(q, follow_up="And then?"), "'follow_up' is not a key of a single question"),
    "no model answer": (5, lambda q: q.pop("answer"), "answer is missing"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_question_is_refused(tmp_path: Path, name: str) -> None:
    index, spoil, rule = BAD[name]
    document = copy.deepcopy(_document())
    spoil(document["questions"][index])
    with pytest.raises(ValueError) as caught:
        _load(tmp_path, document)
    message = str(caught.value)
    assert rule in message
    assert message.startswith("demo.yml: question ")
    identity = document["questions"][index].get("id")
    assert "id" in name or f"{identity!r}" in message


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        ([], "top level"),
        ({"chapter": "demo"}, "top level"),
        ({"chapter": "other", "questions": [{}]}, "chapter='other' must equal"),
        ({"chapter": "demo", "questions": []}, "not empty"),
        ({"chapter": "demo", "questions": ["text"]}, "question 1: id=None"),
    ],
)
def test_bad_file_is_refused(tmp_path: Path, document: object, rule: str) -> None:
    with pytest.raises(ValueError, match="demo.yml") as caught:
        _load(tmp_path, document)
    assert rule in str(caught.value)


def test_broken_yaml_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "demo.yml").write_text("chapter: [", encoding="utf-8")
    with pytest.raises(ValueError, match="demo.yml: is not YAML") as caught:
        load(tmp_path / "demo.yml")
    assert "\n" not in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent.yml"):
        load(tmp_path / "absent.yml")


def test_digest_follows_the_content(tmp_path: Path) -> None:
    before = {question.id: question.digest for question in load(DEMO)}
    document = _document()
    document["questions"][0]["options"][0]["feedback"] += " And more."
    after = {question.id: question.digest for question in _load(tmp_path, document)}
    assert {name for name in before if before[name] != after[name]} == {"which-norm"}


def test_shuffle_is_fixed_and_fair() -> None:
    assert shuffled("demo", "which-norm", list("abcd")) == shuffled("demo", "which-norm", list("abcd"))
    first = [shuffled("demo", f"question-{n}", list("abcd"))[0] for n in range(1000)]
    assert all(200 < first.count(letter) < 300 for letter in "abcd")


@pytest.mark.parametrize("path", sorted(QUIZZES.glob("*.yml")), ids=lambda path: path.stem)
def test_every_quiz_file_is_good(path: Path) -> None:
    assert load(path)


def test_no_guess_beats_chance_in_the_whole_bank() -> None:
    bank.check_bank(question for path in sorted(QUIZZES.glob("*.yml")) for question in load(path))


def _single(number: int, right: int, long: int) -> Question:
    options = tuple(Option("x" * (9 if n == long else 5 + n % 2), "why", n == right) for n in range(4))
    return Question("demo", f"q{number}", "check", "single", "?", options=options)


@pytest.mark.parametrize(
    ("right", "long", "guess"),
    [(lambda n: 0, lambda n: n % 3 + 1, "option 1"), (lambda n: 3, lambda n: n % 3, "option 4"),
     (lambda n: n % 4, lambda n: n % 4, "the longest option")],
)
def test_bank_with_a_tell_is_refused(right, long, guess: str) -> None:
    with pytest.raises(ValueError, match=f"guess='{guess}' is right in 12 of 12"):
        bank.check_bank(_single(n, right(n), long(n)) for n in range(12))


def test_fair_bank_passes() -> None:
    bank.check_bank(_single(n, n % 4, n // 4 % 4) for n in range(16))


def test_tail_is_the_binomial_tail() -> None:
    assert bank.tail([Fraction(1, 2)] * 3, 2) == 0.5
    assert bank.tail([Fraction(1, 4)] * 10, 0) == 1
    assert bank.tail([Fraction(1, 4), Fraction(1, 3)], 2) == pytest.approx(1 / 12)


def test_keys_read_the_cost_model_and_key() -> None:
    assert keys.evaluate("math.floor(math.pi)") == 3
    assert keys.evaluate("key / 2", key=10) == 5
    with pytest.raises(ValueError, match="uses 'key'"):
        keys.evaluate("key / 2")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (687194767360, "B", "687.2 GB"), (687194767360, "GiB", "640 GiB"), (327680, "B", "327.7 kB"), (512, "B", "512 B"),
        (999_960, "B", "1 MB"), (0, "B", "0 B"), (0.07, "ms", "70 ms"), (90, "s", "90 s"), (2e-7, "s", "200 ns"),
        (139.0e9, "FLOP", "139 GFLOP"), (312e12, "FLOP/s", "312 TFLOP/s"), (70553706496, "", "70,553,706,496"),
        (11.3137085, "", "11.31"), (1e-7 / 3, "", "3.333e-8"), (35, "%", "35 %"), (8, "x", "8×"), (1.5, "$", "$1.5"),
        (156.25, "FLOP/B", "156.3 FLOP/B"), (0.000123456, "", "0.0001235"), (1234.5, "tok/s", "1,235 tok/s"),
    ],
)
def test_values_are_printed_with_their_unit(value: float, unit: str, text: str) -> None:
    assert units.value_text(value, unit) == text


def test_a_value_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="value=inf is not a finite number"):
        units.value_text(float("inf"), "B")


def test_the_printed_answer_is_always_accepted() -> None:
    for value in (687194767360, 327680, 99_999, 1_234_567):
        shown = float(units.value_text(value, "B").split()[0].replace(",", ""))
        scale = units.FAMILIES["B"]["units"][units.value_text(value, "B").split()[1]]
        assert accepts(shown * scale, value, "B", 0)
