"""Every rule of the lint is proven by a small bad notebook that it, and no other rule, rejects; good notebooks pass."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lint_samples as sample
import pytest
from lint_samples import chapter, code, display, png, result, solution, stdout

from course import lint
from course.lint import __main__ as command

Break = Callable[[Any], Any]


def cell(position: int, **changes: Any) -> Break:
    """A change of one cell: its source, outputs, metadata or execution_count."""

    def change(book: Any) -> None:
        for name, value in changes.items():
            setattr(book.cells[position - 1], name, value)

    return change


def tagged(position: int, tag: str, **metadata: Any) -> Break:
    return lambda book: book.cells[position - 1].metadata.update({"tags": [tag], **metadata})


def source(position: int, old: str, new: str) -> Break:
    def change(book: Any) -> None:
        assert old in book.cells[position - 1].source
        book.cells[position - 1].source = book.cells[position - 1].source.replace(old, new)

    return change


def outputs(position: int, *new: Any) -> Break:
    return cell(position, outputs=list(new))


def prints(text: str) -> Break:
    """Let the chapter's printing cell print this."""
    return outputs(6, stdout(text))


def added(*new: Any, at: int = 8) -> Break:
    """Cells put in before position `at`, and everything counted anew."""

    def change(book: Any) -> Any:
        return sample.notebook(*book.cells[: at - 1], *new, *book.cells[at - 1 :])

    return change


def without(position: int) -> Break:
    return lambda book: sample.notebook(*book.cells[: position - 1], *book.cells[position:])


def exempt(count: int) -> Break:
    return added(*[code(f"x = {i}", tags=["nbval-ignore-output"], reason="a timing of this machine") for i in range(count)])


REASON = "a timing of this machine"
FIGURE = {"image/png": png(), "text/plain": "<Figure>"}
ERROR = sample.v4.new_output("error", ename="ValueError", evalue="no", traceback=["ValueError: no"])
STDERR = sample.v4.new_output("stream", name="stderr", text="a warning\n")

CHAPTER: list[tuple[str, Break]] = [
    ("syntax", source(5, "import numpy as np", "import numpy as")),
    ("number", source(9, "Never mind.", "It is 7.3 times as fast.")),
    ("empty-cell", added("  ")),
    ("semicolon", source(8, "_ = plt.plot([1, 2, 4])", "plt.plot([1, 2, 4]);")),
    ("semicolon", source(5, "import numpy as np", "import numpy as np;  # quiet")),
    ("magic", source(5, "import numpy as np", "%matplotlib inline")),
    ("magic", source(5, "import numpy as np", "!ls")),
    ("magic", source(6, "print", "%%nonsense\nprint")),
    ("magic", added(code("%pip install torch"))),
    ("tag", tagged(6, "nbval-ignore")),
    ("tag", source(5, "import numpy as np", "# NBVAL_IGNORE_OUTPUT\nimport numpy as np")),
    ("reason", tagged(6, "nbval-ignore-output")),
    ("reason", tagged(6, "nbval-ignore-output", reason="slow")),
    ("reason", lambda book: (tagged(6, "nbval-skip")(book), sample.notebook(*book.cells), cell(6, execution_count=None)(book), recount(book))[0]),
    ("reason", added(code("raise ValueError('no')", ERROR, tags=["raises-exception"]))),
    ("reason", cell(6, metadata={"course": {"exact": True}})),
    ("exempt-count", exempt(5)),
    ("alt-text", cell(8, metadata={})),
    ("alt-text", cell(8, metadata={"mystnb": {"image": {"alt": "a figure"}}})),
    ("alt-text", cell(6, metadata={"mystnb": {"image": {"alt": sample.ALT}}})),
    ("one-figure", outputs(8, display(FIGURE), display(FIGURE))),
    ("size", source(4, "Because.", "Because.\n" * 60_000)),
    ("metadata", lambda book: book.metadata.language_info.update({"version": "3.11.2"})),
    ("metadata", lambda book: book.metadata.kernelspec.update({"name": "venv"})),
    ("metadata", lambda book: book.metadata.update({"course": {"serial": "yes"}})),
    ("metadata", lambda book: book.metadata.update({"widgets": {}})),
    ("metadata", cell(6, metadata={"execution": {"iopub.execute_input": "now"}})),
    ("cell-id", lambda book: book.cells[5].update({"id": "c2"})),
    ("cell-id", lambda book: book.cells[5].pop("id")),
    ("executed", cell(6, execution_count=None)),
    ("executed", cell(6, execution_count=7)),
    ("executed", tagged(6, "nbval-skip", reason=REASON)),
    ("output-missing", outputs(6)),
    ("output-missing", outputs(7)),
    ("output-missing", lambda book: (outputs(8)(book), book.cells[7].metadata.clear())),
    ("output-missing", outputs(3)),
    ("output-missing", added(code("def say(x):\n    for i in x:\n        print(i)"), code("say([1])"))),
    ("output-missing", added(code("with open('x') as f:\n    print(f.read())"))),
    ("output-missing", added(code("if total([1]):\n    print(1)\nelse:\n    print(2)"))),
    ("error-output", outputs(5, ERROR)),
    ("error-output", added(code("x = 1", tags=["raises-exception"], reason="shows what the error says"))),
    ("stderr-output", outputs(5, STDERR)),
    ("output-kind", outputs(7, result({"text/plain": "4", "image/svg+xml": "<svg/>"}))),
    ("output-kind", outputs(7, result({"text/plain": "4", "application/pdf": "x"}))),
    ("output-kind", outputs(7, result({"text/plain": "4", "image/jpeg": "x"}))),
    ("blank-figure", outputs(8, display({"image/png": png(spot=None), "text/plain": "<Figure>"}))),
    ("blank-figure", outputs(8, display({"image/png": "", "text/plain": "<Figure>"}))),
    ("digits", prints("3.1416\n")),
    ("digits", prints("[0.12345678 2.0]\n")),
    ("digits", prints("1,234.56\n")),
    ("digits", prints("1.2346e-05\n")),
    ("digits", prints("took 123.45s\n")),
    ("digits", outputs(7, result({"text/plain": "4.00000"}))),
    ("output-path", prints("saved in /home/ada/model.pt\n")),
    ("output-path", prints("File ~/book/x.py\n")),
    ("output-path", prints("'/tmp/x'\n")),
    ("output-path", prints("C:\\Users\\ada\n")),
    ("output-path", outputs(7, result({"text/plain": "4", "text/html": "<p>/usr/lib/python3</p>"}))),
    ("output-date", prints("run on 2026-11-30\n")),
    ("output-date", prints("at 05:20:33\n")),
    ("output-date", prints("30 November 2026\n")),
    ("output-date", prints("Nov 30, 2026\n")),
    ("output-version", prints("2.13.0+cpu\n")),
    ("output-version", prints("3.11.2\n")),
    ("output-version", prints("torch 2.13\n")),
    ("output-version", prints("Python version: 3.11\n")),
    ("output-address", prints("<function f at 0x7f3a2c1b>\n")),
    ("output-user", prints("made by ada_lovelace\n")),
    ("myst", source(4, "The line", ":::{note}\nThe line")),
    ("myst", source(4, "The line", "```{math}\nx\n```\nThe line")),
    ("myst", source(4, "The line", "{cite}`vaswani2017`. The line")),
    ("myst", source(4, "## A line", "(a-line)=\n## A line")),
    ("citation", source(4, "1706.03762", "1706.00000")),
    ("citation", source(14, "1706.03762.", "1706.03762 and https://doi.org/10.1000/1.")),
    ("link", source(14, "../labs/01_demo.ipynb).", "../labs/01_demo.ipynb), [more](../labs/99_none.ipynb).")),
    ("link", source(4, "The line", "[Top](/chapters/x) The line")),
    ("link", source(4, "The line", "[Top](http://example.org/x) The line")),
    ("link", source(4, "The line", "<img src='none.png' alt='a line'> The line")),
    ("image-alt", source(4, "The line", "![](01_demo.ipynb) The line")),
    ("image-alt", source(4, "The line", "<img src='01_demo.ipynb'> The line")),
    ("details", source(4, "\n\n</details>", "")),
    ("details", source(4, "<summary>Deeper: why</summary>", "")),
    ("details", source(4, "</summary>\n\n", "</summary>\n")),
    ("title", source(4, "The line", "Text\n\n# Another\n\nThe line")),
    ("title", source(1, "# Demo\n\nYou", "You are here.\n\n# Demo\n\nYou")),
    ("promise", source(1, "| minutes |", "| time |")),
    ("promise", source(1, "You will see a line rise.", "")),
    ("promise", source(1, "| 20 |", "| 90 |")),
    ("promise", source(1, "| nothing |", "| |")),
    ("spine", source(9, "When it does not help", "When it helps not")),
    ("spine", source(4, "## A line\n\n", "")),
    ("spine", lambda book: sample.notebook(*book.cells[:9], book.cells[10], book.cells[9], *book.cells[11:])),
    ("spine", lambda book: sample.notebook(book.cells[0], *book.cells[3:8], *book.cells[1:3], *book.cells[8:])),
    ("spine", added("## Takeaways\n\n- a\n- b\n- c")),
    ("heading-order", source(4, "The line", "#### Far down\n\nThe line")),
    ("predict-quiz", without(3)),
    ("predict-quiz", source(3, '"predict"', '"none"')),
    ("check-questions", without(13)),
    ("check-questions", source(13, '"check"', '"none"')),
    ("quiz-stem", added(code('quiz("02_other", "x")', result({"text/plain": "quiz"})))),
    ("quiz-stem", added(code('quiz("01_demo", "check")', result({"text/plain": "quiz"})))),
    ("takeaways", source(10, "- three < four", "three < four")),
    ("misconceptions", source(11, "3. Three.", "")),
    ("lab-link", source(14, "[lab](../labs/01_demo.ipynb)", "lab")),
    ("lab-link", source(14, "https://arxiv.org/abs/1706.03762", "none")),
]


def recount(book: Any) -> None:
    count = 0
    for one in book.cells:
        if one.cell_type == "code" and "nbval-skip" not in one.metadata.get("tags", []):
            count += 1
            one.execution_count = count


SOLUTION: list[tuple[str, Break]] = [
    ("lab-imports", source(2, "import torch", "import torch\nfrom tinyserve import costs")),
    ("lab-imports", source(2, "import torch", "import torch\nimport course.quiz")),
    ("lab-imports", source(2, "import torch", "import torch\nimport pandas")),
    ("task-call", source(7, "if after(1):\n    print", "print")),
    ("task-call", source(7, "if after(1):", "if after(2):")),
    ("task-call", source(7, "if after(1):", "if not after(1):")),
    ("task-call", source(7, "if after(1):", "if after(1) or True:")),
    ("task-call", added(code("y = list(map(double, [1]))"))),
    ("task-call", source(5, "    ### END SOLUTION", "    ### END SOLUTION\n\n\ny = double(1)")),
    ("task-call", added(code("class User:\n    def __init__(self):\n        self.x = double(1)\n\n\nu = User()"))),
    ("gpu-only", added(code("if torch.cuda.is_available():\n    x = 1"))),
    ("gpu-only", added(code('import time\n\nif device == "cuda":\n    x = 1', ), at=9)),
    ("cuda-lines", added(code("def peak():\n" + "    torch.cuda.synchronize()\n" * 11))),
    ("exempt-count", exempt(9)),
    ("title", source(1, "# Lab: demo", "Lab: demo")),
    ("magic", cell(10, metadata={})),
]

GOOD: list[tuple[str, Callable[[], Any], Break]] = [
    ("chapter", chapter, lambda book: None),
    ("solution", solution, lambda book: None),
    ("lab", solution, lambda book: None),
    # exempt, with a reason
    ("chapter", chapter, lambda book: (prints("took 123.45 s\n")(book), tagged(6, "nbval-ignore-output", reason=REASON)(book))[2:]),
    ("chapter", chapter, lambda book: (prints("1.234567\n")(book), cell(6, metadata={"course": {"exact": "a ratio of whole numbers"}})(book))[2:]),
    ("chapter", chapter, lambda book: (tagged(6, "nbval-skip", reason=REASON)(book), cell(6, execution_count=None, outputs=[])(book), recount(book))[3:]),
    ("chapter", chapter, added(code("raise ValueError('no')", ERROR, tags=["raises-exception"], reason="shows what the error says"))),
    ("chapter", chapter, exempt(4)),
    ("solution", solution, exempt(8)),
    ("chapter", chapter, lambda book: book.metadata.update({"course": {"serial": True}})),
    # numbers that have no false precision
    ("chapter", chapter, prints("139.0 GFLOP, 70,553,706,496 parameters, 0.0001234, 1e-12, 2.62 MFLOP, -0.9999, Llama-3.1, Qwen2.5-7B, 1/3, 12:30\n")),
    ("chapter", chapter, prints("[batch, heads, seq] /head_dim, tokens/s, a/b, 640x480, 0x80, 127.0.0.1\n")),
    # code that prints nothing, or not surely
    ("chapter", chapter, added(code("x = []\nx.append(1)"), code("if x == [2]:\n    print(x)"), code("def later():\n    print(1)"), code("f = lambda: print(1)"))),
    ("chapter", chapter, added(code("import sys\nprint('x', file=sys.stderr) if False else None", result({"text/plain": "x"})))),
    ("chapter", chapter, added(code("def early(x):\n    if x:\n        return 1\n    print(x)"), code("y = early(1)"), code("'a; b'", result({"text/plain": "'a; b'"})))),
    # Markdown that only looks like MyST or a link
    ("chapter", chapter, source(4, "The line", "`{cite}` and `[x](y)` in code, $\\{x\\}$.\n\n```python\nx = d[0](1)  # ::: {a}`b`\n# no heading\n```\n\nThe line")),
    ("chapter", chapter, source(11, "1. One.\n2. Two.\n3. Three.", "**One.** a\n\n**Two.** b\n\n**Three.** c")),
    # labs: guards and twins
    ("solution", solution, source(7, "if after(1):", "if after(1, 2) and True:")),
    ("solution", solution, added(code("if torch.cuda.is_available():\n    x = 1\nelse:\n    x = 2"))),
]


@pytest.fixture(autouse=True)
def _a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.lint.outputs.log_in_name", lambda: "ada_lovelace")


def broken(make: Callable[[], Any], change: Break) -> Any:
    book = copy.deepcopy(make())
    new = change(book)
    return new if isinstance(new, dict) else book


def found(root: Path, kind: str, book: Any) -> set[str]:
    return {rule for rule, _, _ in lint.faults(sample.write(root, kind, book))}


@pytest.mark.parametrize(("rule", "change"), CHAPTER, ids=[f"{i}-{rule}" for i, (rule, _) in enumerate(CHAPTER)])
def test_a_broken_chapter_is_rejected_by_this_rule_alone(tmp_path: Path, rule: str, change: Break) -> None:
    assert found(tmp_path, "chapter", broken(chapter, change)) == {rule}


@pytest.mark.parametrize(("rule", "change"), SOLUTION, ids=[f"{i}-{rule}" for i, (rule, _) in enumerate(SOLUTION)])
@pytest.mark.parametrize("kind", ["lab", "solution"])
def test_a_broken_lab_is_rejected_by_this_rule_alone(tmp_path: Path, kind: str, rule: str, change: Break) -> None:
    assert found(tmp_path, kind, broken(solution, change)) == {rule}


@pytest.mark.parametrize(("kind", "make", "change"), GOOD, ids=[f"{i}-{kind}" for i, (kind, _, _) in enumerate(GOOD)])
def test_a_good_notebook_passes(tmp_path: Path, kind: str, make: Callable[[], Any], change: Break) -> None:
    assert lint.check(sample.write(tmp_path, kind, broken(make, change))) == []


def test_every_rule_has_a_notebook_that_it_rejects() -> None:
    assert set(lint.RULES) == {rule for rule, _ in CHAPTER + SOLUTION}


def test_a_fault_is_printed_with_file_cell_rule_and_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sample.write(tmp_path, "chapter", broken(chapter, outputs(6)))
    assert command.main([str(path)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first == f"{path}:cell 6: output-missing: prints, but no output is stored"
    assert last.startswith("lint: 1 notebooks, ") and last.endswith(" 1 faults")


def test_no_notebook_is_not_a_success(tmp_path: Path) -> None:
    assert command.main([str(tmp_path)]) == 1


def test_a_file_that_is_no_notebook_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.ipynb"
    file.write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="x.ipynb is not a notebook"):
        lint.faults(file)
