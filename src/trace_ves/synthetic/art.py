"""The pictures of the twin's world: named tiles of the atlas, scaled, as colours with an alpha plane.

Knows nothing of places and times. The art is Noto Emoji's, under the SIL Open Font License (`atlas.LICENSE`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Final

import numpy as np

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
        return int(self.alpha.shape[0])

    @property
    def width(self) -> int:
        """Columns of pixels."""
        return int(self.alpha.shape[1])


def cutout(name: str, size_px: int, *, mirrored: bool = False) -> Cutout:
    """The picture of this name, its longer side about `size_px` long."""
    width, height = cutout_size(name, size_px)
    resized = _resized(_tiles()[name], height)
    resized = _resized(resized.swapaxes(0, 1), width).swapaxes(0, 1)
    if mirrored:
        resized = resized[:, ::-1]
    alpha = np.clip(resized[..., 3], 0.0, 1.0)
    rgb = np.clip(resized[..., :3] / np.maximum(alpha, 1e-3)[..., None], 0.0, 255.0)
    return Cutout(np.ascontiguousarray(rgb), np.ascontiguousarray(alpha))


@cache
def cutout_size(name: str, size_px: int) -> tuple[int, int]:
    """Width and height of that picture."""
    sides = _tiles()[name].shape[:2]
    height, width = (max(2, 2 * round(side * (size_px / max(sides)) / 2)) for side in sides)
    return width, height


@cache
def _tiles() -> dict[str, NDArray[np.float32]]:
    """Each tile without its empty margin: colours times alpha, then alpha from 0 to 1."""
    with as_file(files(__package__) / "atlas.npz") as path, np.load(path) as atlas:
        drawn = dict(zip(atlas["names"].tolist(), atlas["tiles"].astype(np.float32), strict=True))
    tiles = {}
    for name, tile in drawn.items():
        seen_rows, seen_columns = (np.flatnonzero(tile[..., 3].any(axis=axis)) for axis in (1, 0))
        trimmed = tile[seen_rows[0] : seen_rows[-1] + 1, seen_columns[0] : seen_columns[-1] + 1]
        trimmed[..., 3] /= 255.0
        trimmed[..., :3] *= trimmed[..., 3:]
        tiles[name] = trimmed
    return tiles


def _resized(picture: NDArray[np.float32], rows: int) -> NDArray[np.float32]:
    """The picture with so many rows: each the mean of the rows it covers, or drawn between two where it grows.

    Sums and lookups alone: a matrix product would be left to a threaded library, slow beside busy neighbours and not
    the same to the last bit everywhere.
    """
    source = len(picture)
    if rows >= source:
        return _between(picture, np.clip((np.arange(rows) + 0.5) * source / rows - 0.5, 0, source - 1))
    sums = np.concatenate([np.zeros_like(picture[:1]), np.cumsum(picture, axis=0)])
    edges = _between(sums, np.arange(rows + 1) * (source / rows))
    return (edges[1:] - edges[:-1]) * np.float32(rows / source)


def _between(picture: NDArray[np.float32], positions: NDArray[np.floating]) -> NDArray[np.float32]:
    """Rows at these positions, blended from the row above and the one below."""
    upper = np.minimum(positions.astype(int), len(picture) - 1)
    lower = np.minimum(upper + 1, len(picture) - 1)
    part = (positions - upper).astype(np.float32)[:, None, None]
    blended: NDArray[np.float32] = picture[upper] * (1 - part) + picture[lower] * part
    return blended
