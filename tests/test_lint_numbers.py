"""The reverse check: planted numbers are found, and what a cell prints, a source, a quotation or an excuse covers is not."""

from __future__ import annotations

from pathlib import Path

import lint_samples as sample
import pytest
from lint_samples import code, stdout

from course import notebooks
from course.lint import Page, numbers

SOURCE = "[a paper](https://arxiv.org/abs/1706.03762)"
PRINTS = code('print("…")', stdout("step 68.2 ms, 153 FLOP/B, 687,194,767,360 B, share 0.173, 1 GiB / 1 GB = 1.074\n"))
OTHER = code('print("…")', stdout("another 4.25\n"))


def found(tmp_path: Path, prose: str, section: str = "A line") -> list[str]:
    """The unsupported numbers of a chapter that says `prose` in the section that prints PRINTS, or in another."""
    book = sample.chapter()
    cells = [*book.cells[:3], f"## A line\n\n{prose if section == 'A line' else 'None.'}", PRINTS, f"## Another\n\n{prose if section == 'Another' else 'None.'}", OTHER, *book.cells[8:]]
    if section == "Takeaways":
        cells = [c if isinstance(c, str) or not c.source.startswith("## Takeaways") else f"## Takeaways\n\n- {prose}\n- two\n- three" for c in cells]
    return [number.text for _, number in numbers.unsupported(Page.load(sample.write(tmp_path, "chapter", sample.notebook(*cells))))]


@pytest.mark.parametrize(
    ("prose", "planted"),
    [
        ("A step takes 69.2 ms.", "69.2"),
        ("It is 7 times as fast.", "7"),
        ("So $t = 1.7$ seconds.", "1.7"),
        ("| model | size |\n|---|---|\n| small | 13.5 GB |", "13.5"),
        ("- first\n- a share of 18 %", "18"),
        ("It needs 343.6 GB.", "343.6"),
        ("About 86,016 tokens.", "86,016"),
        ("A card of 80 GB costs 2.75 USD an hour.", "2.75"),
        ("It moves $4{,}130$ FLOP/B.", "4,130"),
        (f"{SOURCE} says 5 %.\n\nAnd we say 6 %.", "6"),
        ("As the section *Takeaways* says, 9.9 ms.", "9.9"),
        ("It is 8 % more.", "8"),
    ],
)
def test_a_planted_number_is_found(tmp_path: Path, prose: str, planted: str) -> None:
    assert planted in found(tmp_path, prose)


@pytest.mark.parametrize(
    "prose",
    [
        "A step takes 68.2 ms, about 68 ms.",
        "That is 687.2 GB, or 640 GiB, at 153 FLOP/B.",
        "A share of 17.3 %, so 17 %.",
        "7.4 % more.",
        f"Twice as fast, 2.1 times, says {SOURCE}.",
        f"The table is from {SOURCE}.\n\n| a | b |\n|---|---|\n| 1.51 s | 47.2 |",
        'The claim was "about 343 GB". The documents say that 5 – 15 % is usual.',
        "Chapter 12 and table 3 of 2023 have 80 layers, 8 heads, 70B and 16 bits; see `x = 3.7`.",
        "The table under *Another* has 4.25 ms.",
        "A number in code, `12.5 ms`, is code.",
    ],
)
def test_what_is_supported_passes(tmp_path: Path, prose: str) -> None:
    assert found(tmp_path, prose) == []


def test_a_cell_of_another_section_is_not_beside_it(tmp_path: Path) -> None:
    assert found(tmp_path, "A step takes 68.2 ms.", "Another") == ["68.2"]
    assert found(tmp_path, "A step takes 68.2 ms.", "Takeaways") == []  # a section that sums up looks at the whole chapter
    assert found(tmp_path, "A step takes 69.2 ms.", "Takeaways") == ["69.2"]


def test_another_chapter_supports_only_what_it_prints(tmp_path: Path) -> None:
    other = sample.write(tmp_path, "chapter", sample.notebook("# Two", code('print("")', stdout("5.5 ms\n"))))
    other.rename(other.with_name("02_other.ipynb"))
    numbers._chapter_values.cache_clear()
    assert found(tmp_path, "Chapter 2 has 5.5 ms.") == []
    assert found(tmp_path, "Chapter 2 has 5.6 ms.") == ["5.6"]
    assert found(tmp_path, "Somewhere it is 5.5 ms.") == ["5.5"]


@pytest.fixture
def excused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def write(text: str) -> None:
        file = tmp_path / "numbers.yml"
        file.write_text(text, encoding="utf-8")
        numbers.excuses.cache_clear()
        monkeypatch.setattr(numbers, "EXCUSES", file)

    yield write
    numbers.excuses.cache_clear()


def faults(tmp_path: Path) -> list[str]:
    book = sample.chapter()
    book.cells[8].source = "## When it does not help\n\nIt is 7.3 times as fast."
    return [message for _, message in numbers.number(Page.load(sample.write(tmp_path, "chapter", book)))]


def test_an_excuse_needs_a_reason_and_a_use(tmp_path: Path, excused) -> None:
    excused("{}")
    assert len(faults(tmp_path)) == 1 and "states 7.3 times" in faults(tmp_path)[0]
    excused('01_demo: [{cell: c9, number: "7.3", reason: "worked in the sentence"}]')
    assert faults(tmp_path) == []
    excused('01_demo: [{cell: c9, number: "7.3", reason: "worked in the sentence"}, {cell: c9, number: "8.1", reason: "worked in the sentence"}]')
    assert len(faults(tmp_path)) == 1 and "excuses 8.1 in cell c9, which does not state it" in faults(tmp_path)[0]
    excused('01_demo: [{cell: c9, number: "7.3", reason: "so"}]')
    with pytest.raises(ValueError, match="reason of 10 characters"):
        faults(tmp_path)


def test_the_excuses_are_for_chapters_that_exist() -> None:
    stems = {path.stem for path in notebooks.find() if notebooks.kind(path) == "chapter"}
    assert set(numbers.excuses(numbers.EXCUSES)) <= stems
