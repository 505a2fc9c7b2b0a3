"""Two small notebooks, a chapter and a solution, that the lint accepts; test_lint.py breaks them one rule at a time."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import nbformat
from nbformat import v4
from PIL import Image

ALT = "A line that rises from one to four while the position goes from one to three."

QUIZ = """
questions:
  - {id: guess, section: predict, kind: single}
  - {id: a, section: check, kind: single}
  - {id: b, section: check, kind: multiple}
  - {id: c, section: check, kind: numeric}
  - {id: d, section: check, kind: numeric}
  - {id: e, section: check, kind: single}
  - {id: f, section: check, kind: free}
"""

BIBLIOGRAPHY = "@article{vaswani2017,\n  title = {Attention},\n  url = {https://arxiv.org/abs/1706.03762}\n}\n"


def png(color: str = "white", spot: str | None = "black", size: tuple[int, int] = (96, 48)) -> str:
    """A base64 PNG: one colour, with a square in its middle unless `spot` is None."""
    image = Image.new("RGB", size, color)
    if spot:
        image.paste(spot, (size[0] // 3, size[1] // 3, size[0] // 2, size[1] // 2))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def stdout(text: str) -> Any:
    return v4.new_output("stream", name="stdout", text=text)


def result(data: dict[str, str]) -> Any:
    return v4.new_output("execute_result", data=data, execution_count=1)


def display(data: dict[str, str]) -> Any:
    return v4.new_output("display_data", data=data)


def code(source: str, *outputs: Any, **metadata: Any) -> Any:
    return v4.new_code_cell(source, outputs=list(outputs), metadata=metadata)


def notebook(*cells: Any) -> Any:
    """The cells as an executed notebook: counts 1 … N, ids c1 … cN, plain metadata."""
    made = [v4.new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    count = 0
    for number, cell in enumerate(made, start=1):
        cell["id"] = f"c{number}"
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
    book = v4.new_notebook(cells=made)
    book.metadata = nbformat.from_dict({"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}})
    return book


def chapter() -> Any:
    """Cells: 1 title, 2 predict, 3 quiz, 4 section, 5 import, 6 print, 7 value, 8 figure, 9 no help, 10 takeaways, 11 misconceptions, 12 check, 13 quiz, 14 sources."""
    return notebook(
        "# Demo\n\nYou will see a line rise.\n\n| minutes | needs | after it you can |\n|---|---|---|\n| 20 | nothing | read a line |",
        "## Predict first\n\nGuess.",
        code('from course.quiz import quiz\nquiz("01_demo", "predict")', result({"text/html": "<form>?</form>", "text/plain": "quiz"})),
        "## A line\n\nThe line of [Vaswani and others](https://arxiv.org/abs/1706.03762) rises: $y = 2^x$.\n\n"
        "<details><summary>Deeper: why</summary>\n\nBecause.\n\n</details>",
        code("import numpy as np\nimport matplotlib.pyplot as plt\n\n\ndef total(values):\n    return sum(values)"),
        code('print(f"{total([1, 2]):.2f} of 687,194,767,360")', stdout("3.00 of 687,194,767,360\n")),
        code("total([1, 2]) + 1", result({"text/plain": "4"})),
        code("_ = plt.plot([1, 2, 4])\nplt.show()", display({"image/png": png(), "text/plain": "<Figure>"}), mystnb={"image": {"alt": ALT}}),
        "## When it does not help\n\nNever mind.",
        "## Takeaways\n\n- one < two\n- two < three\n- three < four",
        "## Three misconceptions\n\n1. One.\n2. Two.\n3. Three.",
        "## Check yourself",
        code('quiz("01_demo", "check")', result({"text/html": "<form>?</form>", "text/plain": "quiz"})),
        "## Lab and sources\n\nThe [lab](../labs/01_demo.ipynb). Source: https://arxiv.org/abs/1706.03762.",
    )


def solution() -> Any:
    """Cells: 1 title, 2 imports, 3 harness, 4 text, 5 task, 6 check, 7 guarded use, 8 device, 9 text, 10 quiz."""
    return notebook(
        "# Lab: demo",
        code("import torch"),
        code("def check(number):\n    return lambda function: None\n\n\ndef after(*tasks):\n    return True", course={"harness": True}),
        "Write `double`.",
        code("def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION", course={"task": 1, "function": "double"}),
        code("@check(1)\ndef doubles():\n    assert double(2) == 4", stdout("✓ task 1\n"), course={"check": 1}),
        code("def twice(x):\n    return double(double(x))\n\n\nif after(1):\n    print(twice(1))", stdout("4\n")),
        code('device = "cuda" if torch.cuda.is_available() else "cpu"\nprint(torch.ones(2, device=device).sum().item())', stdout("2.0\n")),
        "Three questions.",
        code("%%html\n<form>?</form>", display({"text/html": "<form>?</form>", "text/plain": "<IPython.core.display.HTML object>"}), course={"quiz": True}),
    )


def write(root: Path, kind: str, book: Any) -> Path:
    """Write the notebook into its folder below `root`, with the files it refers to; its path."""
    for folder in ("chapters", "labs", "solutions", "quizzes"):
        (root / folder).mkdir(exist_ok=True)
    (root / "quizzes" / "01_demo.yml").write_text(QUIZ, encoding="utf-8")
    (root / "references.bib").write_text(BIBLIOGRAPHY, encoding="utf-8")
    (root / "labs" / "01_demo.ipynb").write_text("{}", encoding="utf-8")
    path = root / {"chapter": "chapters", "lab": "labs", "solution": "solutions"}[kind] / "01_demo.ipynb"
    path.write_text(nbformat.v4.writes(book), encoding="utf-8")
    return path
