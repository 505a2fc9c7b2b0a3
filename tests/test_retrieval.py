"""Passages, rankings and hit rates; the questions on Python's documentation; and the two packages as the chapter uses them."""

import hashlib
import json
import re
import socket

import numpy as np
import pytest

from tinyserve import retrieval
from tinyserve.retrieval import Passage

PAGE = """Title
=====

First words.

Second words,
on two lines.

Under
-----

.. function:: f(x)

   Text of f.

"""


@pytest.fixture(scope="module")
def passages():
    return retrieval.split_pages(retrieval.read_pages())


@pytest.fixture(scope="module")
def questions():
    return json.loads((retrieval.DOCS / "questions.json").read_text(encoding="utf-8"))


def test_a_page_is_cut_at_headings_and_by_length():
    whole = retrieval.split_page("p", PAGE)
    assert [(p.heading, p.text) for p in whole] == [
        ("Title", "Title\n\nFirst words.\n\nSecond words,\non two lines."),
        ("Under", "Under\n\n.. function:: f(x)\n\n   Text of f."),
    ]
    short = retrieval.split_page("p", PAGE, limit=20)
    assert [p.text for p in short] == ["Title\n\nFirst words.", "Second words,\non two lines.", "Under", ".. function:: f(x)", "   Text of f."]
    assert short[1].shown == "[p: Title]\nSecond words,\non two lines."


def test_nothing_is_lost_and_only_long_paragraphs_exceed_the_limit(passages):
    pages = retrieval.read_pages()

    def letters(text):  # without blanks and the lines that underline headings
        return re.sub(r"\s", "", "".join(line for line in text.splitlines() if not retrieval.UNDERLINE.match(line)))

    for page, text in pages.items():
        assert letters("".join(p.text for p in passages if p.page == page)) == letters(text)
    assert all(len(p.text) <= 1200 or "\n\n" not in p.text for p in passages)


def test_pages_are_as_published_and_small():
    manifest = json.loads((retrieval.DOCS / "manifest.json").read_text(encoding="utf-8"))
    files = sorted((retrieval.DOCS / "library").iterdir())
    assert [f.name for f in files] == sorted(manifest)
    for file in files:
        assert hashlib.sha256(file.read_bytes()).hexdigest() == manifest[file.name]["sha256"]
    assert sum(f.stat().st_size for f in files) < 600_000
    assert "ZERO-CLAUSE BSD" in (retrieval.DOCS / "LICENSE.txt").read_text(encoding="utf-8")


def test_every_answer_stands_on_its_page(passages, questions):
    assert len(questions["lookup"]) >= 40
    for q in questions["lookup"]:
        assert 1 <= len(retrieval.holders(passages, q["answer"], q["page"])) <= 2, q
        assert q["answer"] not in q["question"]
    assert {q["wording"] for q in questions["lookup"]} == {"same", "other"}
    assert len({q["question"] for q in questions["lookup"]}) == len(questions["lookup"])
    for q in questions["every"]:
        assert sum(bool(re.search(q["pattern"], p.text, re.M)) for p in passages if q.get("page", p.page) == p.page) >= 5


def test_bm25_is_its_formula():
    found = [Passage("a", "h", "red apple pie"), Passage("a", "h", "green apple tree"), Passage("b", "h", "blue sky over town")]
    ranking = retrieval.BM25(found)
    assert ranking.rank("sky") == [2, 0, 1]
    assert ranking.rank("green apples and trees: the green apple")[0] == 1
    assert ranking.rank("nothing known here") == [0, 1, 2]  # all scores 0: order of the text


def test_words_are_those_that_count():
    assert retrieval.words("The heap is EMPTY: a x IndexError, 2") == ["heap", "empty", "indexerror"]


def test_dense_is_cosine():
    vectors = {"[a: h]\nx": [3.0, 0.0], "[a: h]\ny": [1.0, 1.0], "[a: h]\nz": [0.0, 0.5], "q": [0.0, 2.0], "none": [0.0, 0.0]}
    ranking = retrieval.Dense([Passage("a", "h", t) for t in "xyz"], lambda texts: np.array([vectors[t] for t in texts]))
    assert ranking.rank("q") == [2, 1, 0]
    assert ranking.rank("none") == [0, 1, 2]


def test_the_embedding_needs_no_network(monkeypatch, passages):
    def refuse(*arguments, **options):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    embed = retrieval.word_vectors()
    car, automobile, banana = embed(["car", "automobile", "banana"])
    assert car.shape == (256,)
    assert car @ automobile > car @ banana
    assert retrieval.word_vectors(64)(["car"]).shape == (1, 64)


def test_tokens_are_llama_2s():
    count = retrieval.token_counter()
    assert count("Hello world") == 2 and count("") == 0
    assert 50 <= count("word " * 50) <= 51


def test_fused_ranks():
    assert retrieval.fuse([[0, 1, 2], [0, 1, 2]]) == [0, 1, 2]
    # 1 is second in both: 2/62 = 0.0323; 0 and 2 are first and third: 1/61 + 1/63 = 0.0323, a little more.
    assert retrieval.fuse([[0, 1, 2], [2, 1, 0]]) == [0, 2, 1]
    assert retrieval.fuse([[0, 1, 2], [2, 1, 0]], offset=0) == [0, 2, 1]
    assert retrieval.fuse([[5, 7], [7]]) == [7, 5]


def test_hit_rate_and_coverage():
    rankings, wanted = [[0, 1, 2], [2, 1, 0]], [{1}, {0, 7}]
    assert [retrieval.hit_rate(rankings, wanted, k) for k in (1, 2, 3)] == [0, 0.5, 1]
    assert [retrieval.coverage([4, 5, 6, 7], {5, 7, 9}, k) for k in (1, 2, 4)] == [0, 1 / 3, 2 / 3]


def test_holders_ignore_line_breaks_and_heed_the_page():
    found = [Passage("a", "h", "one\n   two three"), Passage("b", "h", "one two three"), Passage("b", "h", "one, two")]
    assert retrieval.holders(found, "one two") == {0, 1}
    assert retrieval.holders(found, "one two", "b") == {1}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: retrieval.split_page("p", "x", 0), "limit=0 is below 1"),
        (lambda: retrieval.word_vectors(100), "dimensions=100 is not one of 64, 128, 256"),
        (lambda: retrieval.hit_rate([[1]], [{1}], 0), "k=0 is below 1"),
        (lambda: retrieval.hit_rate([[1]], [], 1), "1 rankings and 0 sets"),
        (lambda: retrieval.coverage([1], set(), 1), "no passage is wanted"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_a_folder_without_pages_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no \*.rst.txt"):
        retrieval.read_pages(tmp_path)
