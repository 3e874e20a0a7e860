"""A canvas of one frame and the few shapes that backdrops are painted with. Edges are soft by half a pixel.

Knows no scene and no name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trace_ves.synthetic.art import Cutout

WIDTH, HEIGHT = 640, 360

Colour = tuple[float, float, float]

_Y: Final = (np.arange(HEIGHT, dtype=np.float32) + 0.5)[:, None]
_X: Final = (np.arange(WIDTH, dtype=np.float32) + 0.5)[None, :]


class Canvas:
    """A picture in the making, in colours from 0 to 255."""

    def __init__(self) -> None:
        self.rgb: NDArray[np.float32] = np.zeros((HEIGHT, WIDTH, 3), np.float32)

    def gradient(self, top: Colour, bottom: Colour, y0: float, y1: float) -> None:
        """Fill the rows from y0 to y1 with a vertical blend of two colours."""
        rows = slice(max(0, round(y0)), min(HEIGHT, round(y1)))
        part = np.clip((_Y[rows] - y0) / max(1.0, y1 - y0), 0.0, 1.0)[..., None]
        self.rgb[rows] = np.array(top, np.float32) * (1 - part) + np.array(bottom, np.float32) * part

    def below(self, curve: NDArray[np.float32], colour: Colour, shade: float = 0.0) -> None:
        """Fill all that lies below a curve (a height for each column); it darkens by `shade` towards the bottom."""
        top = max(0, int(curve.min()) - 1)
        cover = np.clip(_Y[top:] - curve[None, :] + 0.5, 0.0, 1.0)[..., None]
        depth = 1.0 - shade * np.clip((_Y[top:] - curve[None, :]) / HEIGHT, 0.0, 1.0)[..., None]
        self.rgb[top:] += (np.array(colour, np.float32) * depth - self.rgb[top:]) * cover

    def rectangle(self, x0: float, y0: float, x1: float, y1: float, colour: Colour) -> None:
        """Fill a rectangle, to whole pixels."""
        self.rgb[max(0, round(y0)) : max(0, round(y1)), max(0, round(x0)) : max(0, round(x1))] = colour

    def ellipse(self, x: float, y: float, rx: float, ry: float, colour: Colour, *, opacity: float = 1.0) -> None:
        """Fill an ellipse."""
        rows = slice(max(0, int(y - ry) - 1), max(0, int(y + ry) + 2))
        columns = slice(max(0, int(x - rx) - 1), max(0, int(x + rx) + 2))
        distance = np.hypot((_X[:, columns] - x) / rx, (_Y[rows] - y) / ry)
        cover = opacity * np.clip((1.0 - distance) * min(rx, ry) + 0.5, 0.0, 1.0)[..., None]
        self.rgb[rows, columns] += (np.array(colour, np.float32) - self.rgb[rows, columns]) * cover

    def texture(self, rng: np.random.Generator, strength: float, y0: float, y1: float, cell: tuple[int, int]) -> None:
        """Lighten and darken the rows from y0 to y1 by soft noise whose patches are `cell` (high, wide) in size."""
        rows = slice(max(0, round(y0)), min(HEIGHT, round(y1)))
        height = rows.stop - rows.start
        coarse = rng.standard_normal((height // cell[0] + 2, WIDTH // cell[1] + 2)).astype(np.float32)
        self.rgb[rows] += strength * _smoothed(coarse, cell)[:height, :WIDTH, None]

    def paste(self, picture: Cutout, x: float, foot_y: float, *, shadow: bool = False, brightness: float = 1.0) -> None:
        """Put a cutout so that it stands at (x, foot_y); what lies outside is cut off."""
        if shadow:
            self.ellipse(
                x, foot_y - 2, picture.width * 0.42, max(2.0, picture.width * 0.07), (20, 20, 25), opacity=0.28
            )
        left, top = round(x - picture.width / 2), round(foot_y - picture.height)
        rows = slice(max(0, -top), min(picture.height, HEIGHT - top))
        columns = slice(max(0, -left), min(picture.width, WIDTH - left))
        if rows.start >= rows.stop or columns.start >= columns.stop:
            return
        target = self.rgb[top + rows.start : top + rows.stop, left + columns.start : left + columns.stop]
        target += (brightness * picture.rgb[rows, columns] - target) * picture.alpha[rows, columns, None]


def waves(rng: np.random.Generator, level: float, height: float, longest: float = 500.0) -> NDArray[np.float32]:
    """A curve across the frame: a few sines of random phase around `level`."""
    curve = np.full(WIDTH, level)
    for order in (1.0, 1.7, 3.1, 5.3):
        phase = rng.uniform(0, 2 * np.pi)
        curve += height / (1.6 * order) * np.sin(2 * np.pi * order * _X[0] / longest + phase)
    return curve.astype(np.float32)


def _smoothed(coarse: NDArray[np.float32], cell: tuple[int, int]) -> NDArray[np.float32]:
    """Bilinear enlargement of a small grid, each cell to `cell` pixels."""
    for size in cell:
        # Rows grow in the first pass, and columns, turned into rows, in the second.
        part: NDArray[np.float32] = (np.arange(size) / size).astype(np.float32)[None, :, None]
        grown = coarse[:-1, None, :] * (1 - part) + coarse[1:, None, :] * part
        coarse = grown.reshape(-1, coarse.shape[1]).T
    return coarse
