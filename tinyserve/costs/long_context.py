"""What a question about a long document costs: in one prompt, from a cached prefix, after retrieval, from a summary.

Every way is an amount once per document and an amount per question. FLOPs here are of the
prompt; what the answer's tokens cost is in ``answer_times`` (what one user waits) and
``question_seconds`` (what a busy server spends). An index and its search are not counted.
"""

from __future__ import annotations

import math

from ..configs import ModelConfig
from ..hardware import Accelerator
from .checks import require_count, require_fraction
from .flops import attention_flops, forward_flops
from .memory import kv_cache_bytes
from .roofline import decode_time, prefill_time, roofline_time
from .serving import RequestTimes


def prefill_parts(
    model: ModelConfig, tokens: int, card: Accelerator, cards: int = 1, cached: int = 0, dtype: str = "bf16", mfu: float = 0.5
) -> tuple[float, float]:
    """Return the seconds of a prompt's arithmetic in two parts: linear in its tokens, and quadratic (scores and the sum of V).

    Their sum is ``prefill_time`` where that is bound by compute. Raises ValueError as forward_flops and roofline_time.
    """
    quadratic = attention_flops(model, tokens, cached)
    linear = forward_flops(model, tokens, cached) - quadratic
    return tuple(roofline_time(flops, 0, card, cards, dtype, mfu) for flops in (linear, quadratic))


def per_question(once: float, each: float, questions: float) -> float:
    """Return the mean amount for one of so many questions: once / questions + each. ValueError for questions not above 0."""
    if not questions > 0:
        raise ValueError(f"questions={questions!r} is not above 0")
    return once / questions + each


def break_even_questions(once: float, each: float, other_each: float, other_once: float = 0.0) -> float:
    """Return the number of questions above which the first way costs less than the other in all.

    0 when it is cheaper from the start and stays so, infinite when it does not stay cheaper however many come.
    Raises ValueError for an amount below 0.
    """
    if min(once, each, other_each, other_once) < 0:
        raise ValueError(f"an amount is below 0: {(once, each, other_each, other_once)}")
    if each > other_each:
        return math.inf  # cheaper for a few questions at most, where other_once is large
    if each == other_each:
        return 0.0 if once < other_once else math.inf
    return max(0.0, (once - other_once) / (other_each - each))


def document_flops(model: ModelConfig, document: int, question: int, way: str, passages: int = 0) -> tuple[int, int]:
    """Return the prompt FLOPs (once, each question) of a way to answer from a document of so many tokens.

    stuffed: the document before every question, computed each time. cached: the document once, then only the
    question's own tokens. retrieved: so many tokens of passages before the question, computed each time. Raises
    ValueError for another way, and for counts below 1 (passages: only for retrieved).
    """
    require_count("document", document, minimum=1)
    require_count("question", question, minimum=1)
    if way == "stuffed":
        return 0, forward_flops(model, document + question)
    if way == "cached":
        return forward_flops(model, document), forward_flops(model, question, document)
    if way == "retrieved":
        return 0, forward_flops(model, require_count("passages", passages, minimum=1) + question)
    raise ValueError(f"way={way!r} is not one of stuffed, cached, retrieved")


def answer_times(
    model: ModelConfig, new: int, cached: int, output: int, card: Accelerator, cards: int = 1, batch: int = 1, mfu: float = 0.5, mbu: float = 0.6
) -> RequestTimes:
    """Return TTFT, and the decode time of an answer, of one request: new tokens computed, cached ones found.

    As ``request_times``, with a prefix. decode is not divided by the batch: it is what the user waits, while
    batch requests of the same shape decode. Raises ValueError for a count below 1 (cached: below 0).
    """
    require_count("output", output, minimum=1)
    require_count("batch", batch, minimum=1)
    first = prefill_time(model, new, card, cards, cached, mfu=mfu, mbu=mbu)
    begin = cached + new
    steps = range(begin + 1, begin + output)
    return RequestTimes(first, sum(decode_time(model, batch, context, card, cards, mfu=mfu, mbu=mbu) for context in steps))


def kv_step_seconds(
    model: ModelConfig, context: int, card: Accelerator, cards: int = 1, mbu: float = 0.6, kv_dtype: str = "bf16"
) -> float:
    """Return what reading one sequence's K and V adds to a decode step, in seconds."""
    return roofline_time(0, kv_cache_bytes(model, require_count("context", context, minimum=1), kv_dtype), card, cards, mbu=mbu)


def routed_tokens(retrieved: int, document: int, share: float) -> float:
    """Return the mean prompt tokens of a question when a share of them (0 to 1) goes on to the whole document after retrieval.

    retrieved + share * document: a routed question pays both. Li et al. 2024, arXiv 2407.16833 (Self-Route).
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share={share!r} is not between 0 and 1")
    return require_count("retrieved", retrieved) + share * require_count("document", document)


def needed_share(per_passage: float, passages: int) -> float:
    """Return the chance (0 to 1) that a search finds all of so many passages, each with this chance by itself: p^n."""
    return require_fraction("per_passage", per_passage) ** require_count("passages", passages, minimum=1)


def question_seconds(
    model: ModelConfig, new: int, cached: int, output: int, card: Accelerator, cards: int = 1, mfu: float = 0.5, mbu: float = 0.6, sharing: float = 1
) -> float:
    """Return the cards' seconds that a question adds to a busy server: arithmetic of its prompt, then K and V for each later token.

    new tokens are computed, cached ones found. The weights are left out: the batch reads them in any case. Arithmetic
    and reading are added, as if they never overlapped; the answer's own arithmetic is left out. sharing:
    how many questions decode together over the same cached prefix, under a kernel that reads it once for all; 1
    for none. Raises ValueError for a count below 1 (cached: below 0) and sharing below 1.
    """
    require_count("output", output, minimum=1)
    if not sharing >= 1:
        raise ValueError(f"sharing={sharing!r} is below 1")
    steps = output - 1
    own = steps * new + steps * (steps + 1) // 2  # tokens read over all steps: new + 1, new + 2, …
    tokens = steps * require_count("cached", cached) / sharing + own
    read = roofline_time(0, tokens * kv_cache_bytes(model, 1), card, cards, mbu=mbu)
    return sum(prefill_parts(model, new, card, cards, cached, mfu=mfu)) + read
