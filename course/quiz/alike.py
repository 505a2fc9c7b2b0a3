"""Questions that test the same fact in the same way: pairs of one kind whose words, or whose keys, say the same.

Words weigh by how rare they are in the bank, as in TF-IDF (Spärck Jones 1972); the likeness of two questions is the
cosine of their weighted words. Numeric questions with one value in one unit are alike at half of that likeness.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations

from course.quiz.schema import Question
from course.quiz.units import family_of

LIMIT = 0.5

Pair = frozenset[str]

_ASKED_AGAIN = "the documents ask it; the chapter that teaches it asks first, chapter 17 again with the interviewer's follow-up"
REVIEWED: dict[Pair, str] = {
    frozenset(("03_decoder_only/interview-why-decoder-only", "17_self_check/decoder-only-or-not")): _ASKED_AGAIN,
    frozenset(("07_gqa/interview-deployment", "17_self_check/heads-in-deployment")): _ASKED_AGAIN,
    frozenset(("07_gqa/interview-problem-price", "17_self_check/shared-kv-heads")): _ASKED_AGAIN,
    frozenset(("16_long_context/interview-latency", "17_self_check/latency-of-long-contexts")): _ASKED_AGAIN,
    frozenset(("08_serving_metrics/little", "08_serving_metrics/little-bytes")): "the first counts requests, the second their bytes: a step further, not the same one",
    frozenset(("09_continuous_batching/interview-static-continuous", "17_self_check/static-or-continuous")): _ASKED_AGAIN,
    frozenset(("05_prefill_and_decode/mbu-of-a-step", "05_prefill_and_decode/mfu-of-a-step")): "one step, judged by bytes and by FLOPs: that the two differ is the point",
    frozenset(("15_production/break-even", "15_production/price-of-a-million")): "the price of a rate, and the rate at which two prices meet: one formula each way",
}
"""Pairs that are alike, were looked at, and stay: why."""


def name(question: Question) -> str:
    """Chapter and id: "06_kv_cache/bytes-of-a-token"."""
    return f"{question.stem}/{question.id}"


def words(question: Question) -> Counter[str]:
    """Words of the prompt, and of what a right answer says. Numbers are words too: another number is another question."""
    said = [question.prompt, question.code]
    said += [option.text for option in question.options if option.right]
    if question.kind == "numeric":
        said.append(f"{question.key:.6g}")
    found = re.findall(r"\d[\d,.]*\d|\d|[a-zA-Zα-ω][\w'-]*", " ".join(said).lower())
    return Counter(word.rstrip("s") if len(word) > 3 else word for word in found)


def likeness(questions: Iterable[Question]) -> dict[Pair, float]:
    """Cosine (0 to 1) of the weighted words, for each pair of questions of one kind."""
    counted = {name(q): (q.kind, words(q)) for q in questions}
    spread = Counter(word for _, bag in counted.values() for word in bag)
    vectors = {}
    for key, (kind, bag) in counted.items():
        weighed = {word: (1 + math.log(n)) * math.log(1 + len(counted) / spread[word]) for word, n in bag.items()}
        length = math.sqrt(sum(weight**2 for weight in weighed.values())) or 1.0
        vectors[key] = (kind, {word: weight / length for word, weight in weighed.items()})
    return {
        frozenset((a, b)): sum(weight * v.get(word, 0.0) for word, weight in u.items())
        for (a, (kind_a, u)), (b, (kind_b, v)) in combinations(vectors.items(), 2)
        if kind_a == kind_b
    }


def same_value(a: Question, b: Question) -> bool:
    """Whether two numeric questions ask for one value, to nine digits, in units of one family."""
    both = a.kind == b.kind == "numeric" and family_of(a.unit) == family_of(b.unit)
    return both and math.isclose(a.key, b.key, rel_tol=1e-9)


def check_alike(questions: list[Question], reviewed: Mapping[Pair, str] = REVIEWED) -> None:
    """Refuse two questions that test the same fact in the same way.

    Raises ValueError with the pairs that are alike and not reviewed, and with reviewed pairs of which a question is
    gone, which have to be struck.
    """
    by_name = {name(question): question for question in questions}
    faults = [f"reviewed, but gone: {' and '.join(sorted(pair))}" for pair in reviewed if not pair <= by_name.keys()]
    for pair, score in likeness(questions).items():
        if pair in reviewed or score <= LIMIT / 2:
            continue
        a, b = sorted(pair)
        same = same_value(by_name[a], by_name[b])
        if same or score > LIMIT:
            why = "one value" if same else f"likeness {score:.2f}"
            faults.append(f"alike ({why}): {a} and {b}; change one, or review the pair")
    if faults:
        raise ValueError("; ".join(sorted(faults)))
