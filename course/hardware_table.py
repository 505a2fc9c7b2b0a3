"""The appendix on hardware: the cards of `tinyserve.hardware` as a table with the source of each row."""

from __future__ import annotations

from tinyserve import costs, hardware
from tinyserve.hardware import Accelerator

_FIRST_OF = ("bf16", "fp16", "fp32")  # the dtype of a card's main column: the first that it has units for


def _row(card: Accelerator) -> list[str]:
    dtype = next(name for name in _FIRST_OF if name in card.peak_flops)
    fp8 = f"{card.peak('fp8') / 1e12:,.0f}" if "fp8" in card.peak_flops else "–"
    link = f"{card.link_bandwidth / 1e9:,.0f}" if card.link_bandwidth else "–"
    return [
        card.name, f"{card.peak(dtype) / 1e12:,.3g}" if card.peak(dtype) < 1e14 else f"{card.peak(dtype) / 1e12:,.0f}", fp8,
        f"{card.bandwidth / 1e12:.3g}", str(card.named_gb), f"{card.memory_bytes / costs.GIB:.1f}", f"{card.memory_bytes / costs.GB:.1f}",
        link, f"{costs.ridge(card, dtype):.0f}",
    ]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]]


def markdown() -> str:
    """The two tables, in Markdown: figures, then sources."""
    cards = list(hardware.ACCELERATORS.values())
    figures = ["card", "bf16, TFLOP/s", "FP8, TFLOP/s", "memory, TB/s", "on the label, GB", "reported, GiB", "reported, GB", "link, GB/s", "ridge, FLOP/B"]
    lines = _table(figures, [_row(card) for card in cards])
    lines += ["", "Link rates add both directions, as data sheets print them. A dash: the card has no such unit or link.", "", "## Sources", ""]
    lines += _table(["card", "rates", "year", "reported memory", "link"], [[c.name, c.source, c.date, c.memory_source, c.link] for c in cards])
    return "\n".join(lines) + "\n"
