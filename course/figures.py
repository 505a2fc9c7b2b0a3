"""One style for every figure of the chapters: draw with `axes`, end the cell with `show`.

    fig, ax = figures.axes()
    _ = ax.plot(lengths, seconds, color=figures.COLORS["blue"], label="prefill")
    figures.show(fig)

A chapter's column is about 672 px wide on a desk and 360 px on a phone. So a figure is 7 inches wide at 96 dpi, and its smallest text is
13 points: 9 px on the phone. Labs stand alone and do not import this module.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

# The eight colours of Okabe and Ito ("Color Universal Design", 2008), told apart with the common kinds of colour blindness, and a
# grey for guides and bounds. Yellow is faint on white: for areas, never for lines or text.
COLORS: dict[str, str] = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "yellow": "#F0E442",
    "black": "#000000",
    "grey": "#767676",
}

DPI = 96
MAX_WIDTH = 7.0  # inches; a wider figure would be shrunk below readable text on a phone
SMALLEST_TEXT = 13  # points: 13 pt / 72 · 96 dpi · 360 px / 672 px = 9.3 px

_CYCLE = ("blue", "vermillion", "green", "orange", "purple", "sky", "black")

STYLE: dict[str, Any] = {
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
    # Opaque white: a transparent figure cannot be read on the site's dark page.
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.transparent": False,
    # DejaVu Sans comes with matplotlib, so that every machine draws the same letters.
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "dejavusans",
    "font.size": SMALLEST_TEXT,
    "axes.titlesize": SMALLEST_TEXT + 1,
    "axes.labelsize": SMALLEST_TEXT,
    "xtick.labelsize": SMALLEST_TEXT,
    "ytick.labelsize": SMALLEST_TEXT,
    "legend.fontsize": SMALLEST_TEXT,
    "figure.titlesize": SMALLEST_TEXT + 2,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.5,
    "lines.markersize": 7,
    "legend.frameon": False,
    "image.cmap": "cividis",  # even in lightness, safe for colour-blind readers
    "axes.prop_cycle": matplotlib.cycler(color=[COLORS[name] for name in _CYCLE]),
}


def axes(rows: int = 1, cols: int = 1, height: float = 3.2, width: float = MAX_WIDTH) -> tuple[Figure, Any]:
    """A new figure in the book's style and its axes: one `Axes`, or an array of them where there are several.

    `height` and `width` are the whole figure's, in inches at 96 dpi. The style also becomes matplotlib's current one, so that what
    you add later (a legend, a text) follows it. Raises ValueError for a size that a phone cannot show.
    """
    if rows < 1 or cols < 1:
        raise ValueError(f"rows={rows}, cols={cols}: a figure needs at least one of each")
    if not 0 < width <= MAX_WIDTH:
        raise ValueError(f"width={width} is outside 0 … {MAX_WIDTH} inches: wider figures have unreadable text on a phone")
    if not 0 < height <= 2 * MAX_WIDTH:
        raise ValueError(f"height={height} is outside 0 … {2 * MAX_WIDTH} inches")
    plt.rcParams.update(STYLE)
    return plt.subplots(rows, cols, figsize=(width, height), layout="constrained")


def png(fig: Figure) -> bytes:
    """The figure as a PNG: 96 dpi, opaque white, and without matplotlib's version in its metadata, so that equal figures are equal bytes.

    Raises ValueError for a figure on which nothing is drawn.
    """
    if not any(ax.has_data() or ax.texts for ax in fig.axes):
        raise ValueError("the figure is empty: draw on its axes before showing it")
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=DPI, facecolor="white", transparent=False, bbox_inches=None, metadata={"Software": None})
    return buffer.getvalue()


def show(fig: Figure) -> None:
    """Put the figure into the cell's output and close it. Outside Jupyter it draws the figure (so that errors show) and closes it.

    Raises ValueError for a figure on which nothing is drawn.
    """
    try:
        image = png(fig)
        pixels = "x".join(str(round(inches * DPI)) for inches in fig.get_size_inches())
    finally:
        plt.close(fig)  # or Jupyter's own backend would show it a second time
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return
    if get_ipython() is not None:
        # The data is handed over as it is: no object, so no address and no version in the output.
        display({"image/png": base64.b64encode(image).decode("ascii"), "text/plain": f"<Figure {pixels}>"}, raw=True)
