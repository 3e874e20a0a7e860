"""The pictures of the twin's world: named tiles of the atlas, scaled and turned, as colours with an alpha plane.

Knows nothing of places and times. The art is Noto Emoji's, under the SIL Open Font License (`atlas.LICENSE`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.synthetic.png import read_png

if TYPE_CHECKING:
    from numpy.typing import NDArray

TILE_PX: Final = 104


@dataclass(frozen=True, slots=True)
class Cutout:
    """A picture without its background. Colours run from 0 to 255, alpha from 0 to 1; both sides are even."""

    rgb: NDArray[np.float32]
    alpha: NDArray[np.float32]

    @property
    def height(self) -> int:
        """Rows of pixels."""
        return self.alpha.shape[0]

    @property
    def width(self) -> int:
        """Columns of pixels."""
        return self.alpha.shape[1]


def cutout(name: str, size_px: int, *, mirrored: bool = False, turn_degrees: float = 0.0) -> Cutout:
    """The picture of this name, its longer side about `size_px` long."""
    premultiplied = _tiles()[name]
    height, width = premultiplied.shape[:2]
    scale = size_px / max(height, width)
    if turn_degrees:
        premultiplied = _turned(premultiplied, turn_degrees)
        height, width = premultiplied.shape[:2]
    rows = _resampling(height, max(2, 2 * round(height * scale / 2)))
    columns = _resampling(width, max(2, 2 * round(width * scale / 2)))
    resized = np.einsum("ah,hwc,bw->abc", rows, premultiplied, columns, optimize=True)
    if mirrored:
        resized = resized[:, ::-1]
    alpha = np.clip(resized[..., 3], 0.0, 1.0)
    rgb = np.clip(resized[..., :3] / np.maximum(alpha, 1e-3)[..., None], 0.0, 255.0)
    return Cutout(np.ascontiguousarray(rgb), np.ascontiguousarray(alpha))


@cache
def _tiles() -> dict[str, NDArray[np.float32]]:
    """Each tile without its empty margin: colours times alpha, then alpha from 0 to 1."""
    pixels, texts = read_png((files(__package__) / "atlas.png").read_bytes())
    columns = pixels.shape[1] // TILE_PX
    tiles = {}
    for index, name in enumerate(texts["tiles"].split("\n")):
        top, left = (TILE_PX * part for part in divmod(index, columns))
        tile = pixels[top : top + TILE_PX, left : left + TILE_PX].astype(np.float32)
        seen_rows, seen_columns = (np.flatnonzero(tile[..., 3].any(axis=axis)) for axis in (1, 0))
        tile = tile[seen_rows[0] : seen_rows[-1] + 1, seen_columns[0] : seen_columns[-1] + 1]
        tile[..., 3] /= 255.0
        tile[..., :3] *= tile[..., 3:]
        tiles[name] = tile
    return tiles


@cache
def _resampling(source: int, target: int) -> NDArray[np.float32]:
    """A matrix that takes `source` samples to `target`: a triangle filter, as wide as the coarser of the two grids."""
    reach = max(1.0, source / target)
    centres = (np.arange(target) + 0.5) * source / target
    distance = np.abs(centres[:, None] - (np.arange(source) + 0.5)[None, :]) / reach
    weights = np.clip(1.0 - distance, 0.0, None)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def _turned(tile: NDArray[np.float32], degrees: float) -> NDArray[np.float32]:
    """The tile turned about its centre, bilinearly, in a frame just large enough."""
    height, width = tile.shape[:2]
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    new_height = int(np.ceil(abs(height * cosine) + abs(width * sine)))
    new_width = int(np.ceil(abs(width * cosine) + abs(height * sine)))
    y, x = np.mgrid[:new_height, :new_width] - np.array([new_height - 1, new_width - 1])[:, None, None] / 2
    source_y = np.clip(cosine * y - sine * x + (height - 1) / 2 + 1, 0, height + 0.999)
    source_x = np.clip(sine * y + cosine * x + (width - 1) / 2 + 1, 0, width + 0.999)
    padded = np.pad(tile, ((1, 2), (1, 2), (0, 0)))
    top, left = source_y.astype(int), source_x.astype(int)
    down, right = (source_y - top)[..., None], (source_x - left)[..., None]
    upper = padded[top, left] * (1 - right) + padded[top, left + 1] * right
    lower = padded[top + 1, left] * (1 - right) + padded[top + 1, left + 1] * right
    turned: NDArray[np.float32] = (upper * (1 - down) + lower * down).astype(np.float32)
    return turned
