"""Load a chapter's questions and refuse bad ones; every error names file, question, value and rule."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from course.quiz import keys, units
from course.quiz.inline import to_html

ROOT = Path(__file__).resolve().parents[2]
QUIZZES = ROOT / "quizzes"

_COMMON = {"id", "section", "kind", "prompt", "code", "explanation", "reread"}
_KEYS = {
    "single": _COMMON | {"options"},
    "multiple": _COMMON | {"options"},
    "numeric": _COMMON | {"key", "unit", "tolerance", "traps"},
    "free": _COMMON | {"rubric", "answer", "follow_up", "follow_up_answer"},
}
_NEEDED = {
    "single": ("options", "explanation"),
    "multiple": ("options", "explanation"),
    "numeric": ("key", "unit", "explanation"),
    "free": ("rubric", "answer"),
}
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SHUFFLE_PROOF = re.compile(r"\b(?:all|none|both|neither) of (?:the )?(?:above|these)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Option:
    """One answer of a choice question."""

    text: str
    feedback: str
    right: bool = False


@dataclass(frozen=True)
class Question:
    """One checked question; `options` are in the order in which the page shows them."""

    stem: str
    id: str
    section: str
    kind: str
    prompt: str
    explanation: str = ""
    reread: str = ""
    code: str = ""
    options: tuple[Option, ...] = ()
    key: float = 0.0
    unit: str = ""
    tolerance: float = 0.0
    traps: tuple[tuple[float, str], ...] = ()
    rubric: tuple[str, ...] = ()
    answer: str = ""
    follow_up: str = ""
    follow_up_answer: str = ""
    digest: str = field(default="", compare=False)


def shuffled(stem: str, question: str, options: list) -> list:
    """`options` in an order fixed by stem and question id alone (the same on every Python)."""
    def rank(index: int) -> str:
        return hashlib.sha256(f"{stem}/{question}/{index}".encode()).hexdigest()

    return [options[index] for index in sorted(range(len(options)), key=rank)]


def accepts(value: float, key: float, unit: str, tolerance: float) -> bool:
    """Whether the page grades `value` as right: within the tolerance, or printed the same as the key."""
    close = abs(value - key) <= max(tolerance, 1e-9) * abs(key)
    return close or units.value_text(value, unit) == units.value_text(key, unit)


def _text(raw: dict, name: str, required: bool = True) -> str:
    value = raw.get(name, "")
    if not isinstance(value, str) or (required and not value.strip()):
        raise ValueError(f"{name}={value!r} must be text that is not empty")
    if name != "code":
        to_html(value)
    return value


def _options(raw: dict, kind: str) -> list[Option]:
    listed = raw["options"]
    if not isinstance(listed, list) or len(listed) < 2:
        raise ValueError(f"options={listed!r} must be a list of at least two options")
    options = []
    for item in listed:
        if not isinstance(item, dict) or set(item) - {"text", "right", "feedback"}:
            raise ValueError(f"options={item!r} may have only text, right and feedback")
        text = _text(item, "text")
        if not str(item.get("feedback", "")).strip():
            raise ValueError(f"options={text!r} has no feedback; every option needs its own")
        if not isinstance(item.get("right", False), bool):
            raise ValueError(f"right={item['right']!r} must be true or false")
        if _SHUFFLE_PROOF.search(text):
            raise ValueError(f"options={text!r} depends on the order, but options are shuffled")
        options.append(Option(text, _text(item, "feedback"), item.get("right", False)))
    for name in ("text", "feedback"):
        seen = [getattr(option, name).strip() for option in options]
        again = [value for value in seen if seen.count(value) > 1]
        if again:
            raise ValueError(f"options: the {name} {again[0]!r} stands twice; each option needs its own")
    right = sum(option.right for option in options)
    if right == 0:
        raise ValueError("options: no right answer")
    if kind == "single" and right > 1:
        raise ValueError(f"options: {right} right answers in a single choice; use kind: multiple")
    if right == len(options):
        raise ValueError("options: every option is right, so there is nothing to choose")
    return options


def _numeric(raw: dict) -> dict:
    if not isinstance(raw["unit"], str):
        raise ValueError(f"unit={raw['unit']!r} must be text")
    unit, tolerance = raw["unit"], raw.get("tolerance", 0)
    family = units.family_of(unit)
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0 <= tolerance <= 0.2:
        raise ValueError(f"tolerance={tolerance!r} must be a relative error between 0 and 0.2")
    key = keys.evaluate(raw["key"])
    if family in ("B", "FLOP", "tok") and 0 < abs(key) < 1:
        raise ValueError(f"key={raw['key']!r} gives {key!r}; give it in the base unit {family!r}, not in multiples")
    traps: list[tuple[float, str]] = []
    listed = raw.get("traps") or []
    if not isinstance(listed, list):
        raise ValueError(f"traps={listed!r} must be a list")
    for item in listed:
        if not isinstance(item, dict) or set(item) != {"key", "feedback"}:
            raise ValueError(f"traps={item!r} must have key and feedback, and nothing else")
        value = keys.evaluate(item["key"], key=key)
        if accepts(value, key, unit, tolerance):
            raise ValueError(f"traps={item['key']!r} gives {value!r}, which is graded as the right answer")
        if any(accepts(value, other, unit, tolerance) for other, _ in traps):
            raise ValueError(f"traps={item['key']!r} gives {value!r}, the same as an earlier trap")
        traps.append((value, _text(item, "feedback")))
    return {"key": key, "unit": unit, "tolerance": float(tolerance), "traps": tuple(traps)}


def _free(raw: dict) -> dict:
    rubric = raw["rubric"]
    if not isinstance(rubric, list) or not rubric:
        raise ValueError(f"rubric={rubric!r} must list at least one point")
    if ("follow_up" in raw) != ("follow_up_answer" in raw):
        raise ValueError("follow_up and follow_up_answer go together: the interviewer's next question, and what to say to it")
    asked = {name: _text(raw, name) for name in ("follow_up", "follow_up_answer") if name in raw}
    return {"rubric": tuple(_text({"rubric": point}, "rubric") for point in rubric), "answer": _text(raw, "answer")} | asked


def _question(stem: str, raw: dict) -> Question:
    kind = raw.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise ValueError(f"kind={kind!r} is not one of {', '.join(_KEYS)}")
    if set(raw) - _KEYS[kind]:
        raise ValueError(f"{min(set(raw) - _KEYS[kind])!r} is not a key of a {kind} question")
    for name in _NEEDED[kind]:
        if raw.get(name) is None or raw[name] == [] or (raw[name] == "" and name != "unit"):
            raise ValueError(f"{name} is missing; a {kind} question needs it")
    if not isinstance(raw.get("section"), str) or not _SLUG.fullmatch(raw["section"]):
        raise ValueError(f"section={raw.get('section')!r} must be a word such as predict, check or lab")
    fields: dict = {name: _text(raw, name, required=name in _NEEDED[kind] or name == "prompt")
                    for name in ("prompt", "explanation", "reread", "code")}
    if kind in ("single", "multiple"):
        fields["options"] = tuple(shuffled(stem, raw["id"], _options(raw, kind)))
    else:
        fields |= _numeric(raw) if kind == "numeric" else _free(raw)
    content = json.dumps([raw, repr(fields.get("key"))], sort_keys=True, ensure_ascii=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    return Question(stem=stem, id=raw["id"], section=raw["section"], kind=kind, digest=digest, **fields)


def load(path: str | Path) -> list[Question]:
    """The checked questions of one YAML file, in its order.

    Raises FileNotFoundError for a missing file, ValueError (file, question id, value and rule) for a bad question.
    """
    path = Path(path)
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path.name}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or set(document) != {"chapter", "questions"}:
        raise ValueError(f"{path.name}: top level must have exactly the keys chapter and questions")
    if document["chapter"] != path.stem:
        raise ValueError(f"{path.name}: chapter={document['chapter']!r} must equal the file's stem {path.stem!r}")
    if not isinstance(document["questions"], list) or not document["questions"]:
        raise ValueError(f"{path.name}: questions must be a list that is not empty")
    seen: set[str] = set()
    questions = []
    for number, raw in enumerate(document["questions"], 1):
        identity = raw.get("id") if isinstance(raw, dict) else None
        if not isinstance(identity, str) or not _SLUG.fullmatch(identity):
            raise ValueError(f"{path.name}: question {number}: id={identity!r} must be kebab-case text")
        if identity in seen:
            raise ValueError(f"{path.name}: question {identity!r}: id={identity!r} stands twice")
        seen.add(identity)
        try:
            questions.append(_question(path.stem, raw))
        except ValueError as error:
            raise ValueError(f"{path.name}: question {identity!r}: {error}") from error
    return questions
