"""Compare the picture stored in a notebook with the one that a rerun draws, at low resolution.

Equal figures differ in a few antialiased pixels between machines, so bytes say nothing. Both pictures are shrunk to a grid about 48 cells wide,
where such noise averages out, and a moved line, another label or an emptied axis does not.
"""

from __future__ import annotations

import base64
import binascii
import io

import numpy as np
from PIL import Image, UnidentifiedImageError

GRID_WIDTH = 48
# On the scale 0 … 255. Redrawing on another machine moves a grid cell by about 1; a curve moved by its own width moves some by 30 or more.
LARGEST_CELL = 12.0
LARGEST_MEAN = 1.0
LARGEST_STRETCH = 0.02  # relative change of width or height
BLANK_SPREAD = 4  # a picture whose pixels differ by no more than this shows nothing


def decode(stored: str) -> np.ndarray:
    """The pixels of a base64 PNG from a notebook, as floats of 0 … 255 with shape [height, width, 3], laid on white.

    Raises ValueError for text that is not a picture.
    """
    try:
        image = Image.open(io.BytesIO(base64.b64decode(stored.replace("\n", ""), validate=True))).convert("RGBA")
    except (binascii.Error, UnidentifiedImageError, OSError, ValueError) as error:
        raise ValueError(f"not a PNG in base64 ({len(stored)} characters): {type(error).__name__}") from error
    white = Image.new("RGBA", image.size, "white")
    return np.asarray(Image.alpha_composite(white, image).convert("RGB"), dtype=np.float64)


def is_blank(pixels: np.ndarray) -> bool:
    """True where all pixels have (nearly) one colour."""
    flat = pixels.reshape(-1, 3)
    return bool((flat.max(axis=0) - flat.min(axis=0)).max() <= BLANK_SPREAD)


def _shrink(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return np.asarray(Image.fromarray(pixels.astype(np.uint8)).resize(size, Image.Resampling.BOX), dtype=np.float64)


def difference(stored: str, redrawn: str) -> str | None:
    """What tells the two base64 PNGs apart at low resolution, in words, or None where they show the same."""
    try:
        old, new = decode(stored), decode(redrawn)
    except ValueError as error:
        return str(error)
    if is_blank(old):
        return "the stored picture is blank"
    if is_blank(new):
        return "the redrawn picture is blank"
    (old_height, old_width), (new_height, new_width) = old.shape[:2], new.shape[:2]
    if abs(new_width / old_width - 1) > LARGEST_STRETCH or abs(new_height / old_height - 1) > LARGEST_STRETCH:
        return f"the picture was {old_width}x{old_height} pixels and is now {new_width}x{new_height}"
    size = (GRID_WIDTH, max(1, round(GRID_WIDTH * old_height / old_width)))
    gap = np.abs(_shrink(old, size) - _shrink(new, size))
    if gap.max() > LARGEST_CELL or gap.mean() > LARGEST_MEAN:
        return f"the picture changed: by {gap.max():.0f} of 255 where it differs most, {gap.mean():.2f} on average"
    return None
