"""Retrieval in small: passages, three rankings, and whether what was asked for is among the first k.

Needs the packages bm25s (lexical ranking) and wordllama (static word vectors, the weights
in its wheel); neither is imported until it is used. Nothing here calls a model: an answer
counts as found when its text stands in a retrieved passage, which a program can check.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).resolve().parent.parent / "data" / "python_docs"
UNDERLINE = re.compile(r"^([=\-^~\"'*+#])\1{2,}\s*$")
Embed = Callable[[Sequence[str]], np.ndarray]
"""Texts to vectors [n, d]."""


@dataclass(frozen=True)
class Passage:
    """A piece of a page, with the page's name and the heading it stands under."""

    page: str
    heading: str
    text: str

    @property
    def shown(self) -> str:
        """The text as an index and a prompt get it: with page and heading in front."""
        return f"[{self.page}: {self.heading}]\n{self.text}"


def read_pages(folder: Path = DOCS / "library") -> dict[str, str]:
    """Return the pages (*.rst.txt) of a folder by name, sorted. Raises FileNotFoundError where there are none."""
    pages = {path.name.removesuffix(".rst.txt"): path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.rst.txt"))}
    if not pages:
        raise FileNotFoundError(f"{folder} holds no *.rst.txt")
    return pages


def split_page(page: str, text: str, limit: int = 1200) -> list[Passage]:
    """Cut a page at headings and blank lines into passages of at most limit characters.

    A paragraph longer than limit becomes a passage of its own. No character but blank
    lines and headings' underlines is lost. Raises ValueError for limit below 1.
    """
    if limit < 1:
        raise ValueError(f"limit={limit!r} is below 1")
    found: list[Passage] = []
    heading, held = "", []

    def put() -> None:
        if held:
            found.append(Passage(page, heading or page, "\n\n".join(held)))
            held.clear()

    for block in re.split(r"\n\s*\n", text):
        lines = block.strip("\n").splitlines()
        marks = [i for i, line in enumerate(lines) if i and UNDERLINE.match(line) and lines[i - 1].strip()]
        if marks and not lines[0].startswith(" "):
            put()
            heading = lines[marks[0] - 1].strip()
            lines = [line for line in lines if not UNDERLINE.match(line)]
        part = "\n".join(lines)
        if not part.strip():
            continue
        if held and sum(map(len, held)) + 2 * len(held) + len(part) > limit:
            put()
        held.append(part)
    put()
    return found


def split_pages(pages: Mapping[str, str], limit: int = 1200) -> list[Passage]:
    """Return the passages of all pages, in order."""
    return [passage for page, text in pages.items() for passage in split_page(page, text, limit)]


def _bm25s() -> Any:
    """Import the library without its notices: a missing progress bar, and each index it builds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import bm25s
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return bm25s


def words(text: str) -> list[str]:
    """Return the words of a text that BM25 counts: in lower case, of two letters or more, no stop words."""
    return _bm25s().tokenize([text], stopwords="en", return_ids=False, show_progress=False)[0]


class BM25:
    """Lexical ranking by bm25s: words that are rare elsewhere count most. Robertson and Zaragoza 2009, doi 10.1561/1500000019."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        bm25s = _bm25s()
        self._tokenize = lambda texts: bm25s.tokenize(texts, stopwords="en", show_progress=False)
        self._index, self.size = bm25s.BM25(), len(passages)
        self._index.index(self._tokenize([p.shown for p in passages]), show_progress=False)

    def rank(self, question: str) -> list[int]:
        """Return the numbers of all passages, best first."""
        # The question's words as texts: its own numbering of them would not be the index's.
        words = self._tokenize([question])
        names = {number: word for word, number in words.vocab.items()}
        scores = self._index.get_scores([names[i] for i in words.ids[0]])
        return np.argsort(-scores, kind="stable").tolist()


class Dense:
    """Ranking by the cosine of vectors of a text and a question."""

    def __init__(self, passages: Sequence[Passage], embed: Embed) -> None:
        self.embed = embed
        self.vectors = _unit(embed([p.shown for p in passages]))

    def rank(self, question: str) -> list[int]:
        """Return the numbers of all passages, best first."""
        scores = self.vectors @ _unit(self.embed([question]))[0]
        return np.argsort(-scores, kind="stable").tolist()


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Return the rows at length 1 (a row of zeros stays)."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def word_vectors(dimensions: int = 256) -> Embed:
    """Return WordLlama's embedding: each token's vector looked up, then their mean. No network.

    Raises ValueError for dimensions other than 64, 128 and 256.
    """
    if dimensions not in (64, 128, 256):
        raise ValueError(f"dimensions={dimensions!r} is not one of 64, 128, 256")
    import wordllama

    # Version 0.4.0 looks for its tokenizer in a folder that the wheel does not have, and would download it: name the right one.
    here = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(dim=256, trunc_dim=dimensions, cache_dir=here, disable_download=True)
    return lambda texts: np.asarray(model.embed(list(texts)), dtype=np.float32)


def token_counter() -> Callable[[str], int]:
    """Return a function that counts the tokens of a text as Llama 2's tokenizer cuts it, which wordllama carries."""
    import wordllama
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(wordllama.__file__).parent / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def fuse(rankings: Iterable[Sequence[int]], offset: int = 60) -> list[int]:
    """Merge rankings of the same passages by reciprocal rank: the sum of 1 / (offset + place). Cormack et al. 2009, doi 10.1145/1571941.1572114."""
    score: dict[int, float] = {}
    for ranking in rankings:
        for place, number in enumerate(ranking, start=1):
            score[number] = score.get(number, 0.0) + 1 / (offset + place)
    return sorted(score, key=lambda number: (-score[number], number))


def holders(passages: Sequence[Passage], answer: str, page: str | None = None) -> set[int]:
    """Return the numbers of the passages (of one page, where given) that hold a text; line breaks count as blanks."""
    wanted = " ".join(answer.split())
    return {
        i for i, p in enumerate(passages) if wanted in " ".join(p.text.split()) and page in (None, p.page)
    }


def hit_rate(rankings: Sequence[Sequence[int]], wanted: Sequence[set[int]], k: int) -> float:
    """Return the share of questions with a wanted passage among the first k. ValueError for k below 1 or lists that differ in length."""
    if k < 1:
        raise ValueError(f"k={k!r} is below 1")
    if len(rankings) != len(wanted) or not wanted:
        raise ValueError(f"{len(rankings)} rankings and {len(wanted)} sets of wanted passages")
    return sum(bool(good & set(ranking[:k])) for ranking, good in zip(rankings, wanted)) / len(wanted)


def coverage(ranking: Sequence[int], wanted: set[int], k: int) -> float:
    """Return the share of the wanted passages that are among the first k. ValueError for k below 1 or none wanted."""
    if k < 1 or not wanted:
        raise ValueError(f"k={k!r} is below 1, or no passage is wanted")
    return len(wanted & set(ranking[:k])) / len(wanted)
