"""The glossary: its entries are whole and sorted, and the first use of a term, and nothing else, becomes a link."""

from __future__ import annotations

from pathlib import Path

import pytest
from docutils import nodes
from docutils.utils import new_document

from course import glossary, notebooks

ROOT = Path(__file__).resolve().parents[1]
LISTED = tuple(
    glossary.parse(
        "# Glossary\n\n- **batch** (批): some. [5]\n- **KV cache** (KV 缓存): kept. [6]\n- **Little's law** (利特尔法则): L. [8]\n"
        "- **MoE**, mixture of experts (混合专家): many. [14]\n- **static batch** (静态批): fixed.\n- **batch job** (批任务): offline.\n"
    )
)


def linked(*parts: nodes.Node) -> tuple[list[str], str]:
    """(terms linked, the document with the links in square brackets)."""
    document = new_document("chapter")
    for part in parts:
        document += part
    terms = glossary.link(document, LISTED, "../appendices/glossary.html")
    for reference in list(document.findall(nodes.reference)):
        if "term" in reference["classes"]:
            reference.parent.replace(reference, nodes.Text(f"[{reference.astext()}]"))
    return terms, document.astext()


def say(text: str) -> nodes.paragraph:
    return nodes.paragraph("", text)


def test_the_first_use_is_linked_and_no_other() -> None:
    assert linked(say("The KV cache of a batch."), say("A KV cache, two KV caches.")) == (["KV cache", "batch"], "The [KV cache] of a [batch].\n\nA KV cache, two KV caches.")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A mixture of experts", "A [mixture of experts]"),
        ("Mixture-of-experts models", "[Mixture-of-experts] models"),
        ("two MoEs", "two [MoEs]"),
        ("moe, kv cache and batched", "moe, kv cache and batched"),
        ("a static batch", "a [static batch]"),
        ("a batch job", "a [batch job]"),
        ("a batch-invariant kernel", "a batch-invariant kernel"),
        ("Little’s\nlaw", "[Little’s\nlaw]"),
    ],
)
def test_what_counts_as_the_term(text: str, shown: str) -> None:
    assert linked(say(text))[1] == shown


def test_headings_code_links_and_formulas_stay_as_they_are() -> None:
    parts = (
        nodes.title("", "KV cache"),
        nodes.paragraph("", "", nodes.literal("", "KV cache"), nodes.math("", "KV cache"), nodes.reference("", "KV cache", refuri="https://example.org")),
        nodes.literal_block("", "KV cache"),
        nodes.raw("", "KV cache", format="html"),
    )
    assert linked(*parts)[0] == []
    assert linked(*parts, say("a KV cache"))[0] == ["KV cache"]


def test_a_link_leads_to_the_entry_and_says_what_it_means() -> None:
    document = new_document("chapter")
    document += say("a KV cache")
    glossary.link(document, LISTED, "../appendices/glossary.html")
    (reference,) = document.findall(nodes.reference)
    assert reference["refuri"] == "../appendices/glossary.html#term-kv-cache" and reference["reftitle"] == "KV 缓存: kept."


def test_every_entry_gets_an_anchor() -> None:
    page = glossary.with_anchors("- **KV cache** (KV 缓存): kept. [6]\n")
    assert page == '- <span id="term-kv-cache"></span>**KV cache** (KV 缓存): kept. [6]\n'


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("- **batch**: some", "is not"),
        ("- **batch** (lot): some.", "is not"),
        ("- batch (批): some.", "is not"),
        ("- **a** (甲): x.\n- **b**, A (乙): y.", "b and a share the name A"),
    ],
)
def test_a_bad_entry_is_named(page: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        glossary.parse(page)


def test_the_books_entries() -> None:
    entries = glossary.entries(ROOT)
    assert len(entries) >= 140
    assert [entry.term for entry in entries] == sorted((entry.term for entry in entries), key=str.lower)
    assert len({entry.anchor for entry in entries}) == len(entries)
    assert all(entry.text.endswith(".") and len(entry.text) <= 200 for entry in entries)


def test_the_chapter_of_an_entry_uses_its_term() -> None:
    chapters = {int(path.stem[:2]): path.read_text(encoding="utf-8") for path in notebooks.find() if notebooks.kind(path) == "chapter"}
    missing = [entry.term for entry in glossary.entries(ROOT) if entry.chapter in chapters and not entry.pattern.search(chapters[entry.chapter].replace("\\n", " "))]
    assert missing == []
