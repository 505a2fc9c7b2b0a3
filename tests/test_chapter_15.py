"""What chapter 15 and the cheat sheet say about vLLM in words is what course/vllm.py holds: dates, versions, flags, metrics."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from course import vllm

ROOT = Path(__file__).parent.parent
CELLS = nbformat.read(ROOT / "chapters" / "15_production.ipynb", 4).cells
PAGES = {
    "chapter": "\n\n".join(cell.source for cell in CELLS if cell.cell_type == "markdown"),
    "cheat sheet": (ROOT / "appendices" / "cheat_sheet.md").read_text(encoding="utf-8"),
}
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
OTHERS = {"--gpm-metrics"}  # of nvidia-smi
REPLACEMENTS = {flag for text in vllm.GONE_FLAGS.values() for flag in FLAG.findall(text)}


def _day(date) -> str:
    return f"{date.day} {date:%B %Y}"


@pytest.mark.parametrize("page", PAGES)
def test_the_dates_are_those_of_the_facts(page):
    text = PAGES[page]
    assert _day(vllm.CHECKED) in text and _day(vllm.EXPIRES) in text and vllm.VERSION in text
    named = set(re.findall(r"\b0\.3\d\.\d+\b", text))
    assert named <= {vllm.VERSION, vllm.CPU_VERSION}, named


@pytest.mark.parametrize("page", PAGES)
def test_every_flag_is_known(page):
    known = {*vllm.FLAGS, *vllm.BENCH_FLAGS, *vllm.GONE_FLAGS, *REPLACEMENTS, *OTHERS}
    unknown = set(FLAG.findall(PAGES[page])) - known
    assert not unknown, sorted(unknown)


@pytest.mark.parametrize("page", PAGES)
def test_every_metric_is_known(page):
    known = {series for metric in vllm.METRICS.values() for series in (metric.name, *metric.series)}
    unknown = set(re.findall(r"vllm:[a-z0-9_]+", PAGES[page])) - known
    assert not unknown, sorted(unknown)


def test_the_corrected_command_is_the_one_of_the_facts():
    block = next(b for b in re.findall(r"```bash\n(.*?)```", PAGES["chapter"], re.S) if b.startswith("vllm serve"))
    words = [word for line in block.splitlines() for word in line.split("#")[0].replace("\\", "").split()]
    assert words == " ".join(vllm.SERVE_COMMAND).split()


def test_refused_flags_are_named_as_refused():
    details = next(cell.source for cell in CELLS if "flags of old commands" in cell.source)
    assert set(vllm.GONE_FLAGS) <= set(FLAG.findall(details))
    advised = "\n".join(c.source for c in CELLS if c.cell_type == "markdown" and "flags of old commands" not in c.source)
    assert not set(vllm.GONE_FLAGS) & set(FLAG.findall(advised))
