"""The one style: readable on a phone, opaque, safe for colour-blind readers, equal bytes for equal figures."""

from __future__ import annotations

import io
import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from course import figures


def drawn() -> plt.Figure:
    fig, ax = figures.axes()
    _ = ax.plot([1, 2, 4], label="a")
    _ = ax.set_title("title")
    _ = ax.set_xlabel("tokens")
    _ = ax.legend()
    return fig


def pixels(fig: plt.Figure) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(figures.png(fig))))


def lightness(color: str) -> float:
    """Relative luminance of an sRGB colour (WCAG 2.2)."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_figure_is_672_pixels_wide_and_opaque_white() -> None:
    image = pixels(drawn())
    assert image.shape[1] == 672
    assert (image[..., 3] == 255).all()
    assert (image[0, 0, :3] == 255).all()


def test_equal_figures_are_equal_bytes_without_a_version() -> None:
    first, second = figures.png(drawn()), figures.png(drawn())
    assert first == second
    assert b"atplotlib" not in first


def test_no_text_is_under_9_pixels_on_a_360_pixel_phone() -> None:
    fig = drawn()
    fig.canvas.draw()
    sizes = [text.get_fontsize() for text in fig.findobj(plt.Text) if text.get_text()]
    assert len(sizes) > 5
    assert min(sizes) / 72 * figures.DPI * 360 / (figures.MAX_WIDTH * figures.DPI) >= 9


def test_text_and_guides_contrast_with_the_page() -> None:
    for name in ("black", "grey", "blue"):
        assert 1.05 / (lightness(figures.COLORS[name]) + 0.05) >= 4.5, name


def seen(color: str, kind: str) -> np.ndarray:
    """The colour as a dichromat sees it, linear RGB (Viénot, Brettel and Mollon 1999; full loss of one cone type)."""
    channels = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]) ** 2.2
    matrix = {"protan": [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]], "deutan": [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]}
    return np.array(matrix[kind]) @ channels


@pytest.mark.parametrize("kind", ["protan", "deutan"])
def test_the_first_four_colours_differ_for_colour_blind_readers(kind: str) -> None:
    cycle = [figures.COLORS[name] for name in figures._CYCLE[:4]]
    for one, other in itertools.combinations(cycle, 2):
        assert np.abs(seen(one, kind) - seen(other, kind)).max() > 0.06, (one, other)


@pytest.mark.parametrize("size", [{"width": 8.0}, {"width": 0}, {"height": 0}, {"height": 20}, {"rows": 0}, {"cols": 0}])
def test_a_size_that_a_phone_cannot_show_is_refused(size: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(size))):
        figures.axes(**size)


def test_an_empty_figure_is_refused_and_closed() -> None:
    fig, _ = figures.axes()
    with pytest.raises(ValueError, match="empty"):
        figures.show(fig)
    assert not plt.fignum_exists(fig.number)


def test_show_outside_jupyter_draws_and_closes() -> None:
    fig = drawn()
    figures.show(fig)
    assert not plt.fignum_exists(fig.number)


def test_several_axes_come_as_an_array() -> None:
    fig, grid = figures.axes(rows=1, cols=2)
    assert grid.shape == (2,)
    plt.close(fig)
