"""The pictures of the twin: tiles of the atlas, a canvas for backdrops, and frames as video planes.

The art is Noto Emoji's, under the SIL Open Font License (`atlas.LICENSE`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.twin.synthetic.layout import HEIGHT, WIDTH
from trace_ves.twin.synthetic.tracks import Pose, Track, pose, scaled_px

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trace_ves.twin.synthetic.scenery import Backdrop

TILE_PX: Final = 104


@dataclass(frozen=True, slots=True)
class Cutout:
    """A picture without its background. Colours run from 0 to 255, alpha from 0 to 1; both sides are even."""

    rgb: NDArray[np.float32]
    alpha: NDArray[np.float32]


def cutout(name: str, size_px: int, *, mirrored: bool = False) -> Cutout:
    """The picture of this name, with a longer side of about `size_px`."""
    width, height = cutout_size(name, size_px)
    resized = _resize_rows(_tiles()[name], height)
    resized = _resize_rows(resized.swapaxes(0, 1), width).swapaxes(0, 1)
    if mirrored:
        resized = resized[:, ::-1]
    alpha = np.clip(resized[..., 3], 0.0, 1.0)
    rgb = np.clip(resized[..., :3] / np.maximum(alpha, 1e-3)[..., None], 0.0, 255.0)
    return Cutout(np.ascontiguousarray(rgb), np.ascontiguousarray(alpha))


@cache
def cutout_size(name: str, size_px: int) -> tuple[int, int]:
    """Width and height of such a picture."""
    sides = _tiles()[name].shape[:2]
    height, width = (max(2, 2 * round(side * (size_px / max(sides)) / 2)) for side in sides)
    return width, height


@cache
def _tiles() -> dict[str, NDArray[np.float32]]:
    """Each tile without its margin: colours premultiplied by alpha, and alpha from 0 to 1."""
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


def _resize_rows(picture: NDArray[np.float32], rows: int) -> NDArray[np.float32]:
    """Resize to this number of rows: averages when it shrinks, interpolation when it grows.

    No matrix product, whose last bits differ between machines.
    """
    source = len(picture)
    if rows >= source:
        return _interpolate(picture, np.clip((np.arange(rows) + 0.5) * source / rows - 0.5, 0, source - 1))
    sums = np.concatenate([np.zeros_like(picture[:1]), np.cumsum(picture, axis=0)])
    edges = _interpolate(sums, np.arange(rows + 1) * (source / rows))
    return (edges[1:] - edges[:-1]) * np.float32(rows / source)


def _interpolate(picture: NDArray[np.float32], positions: NDArray[np.floating]) -> NDArray[np.float32]:
    """Rows at these positions, blended from the rows above and below."""
    upper = np.minimum(positions.astype(int), len(picture) - 1)
    lower = np.minimum(upper + 1, len(picture) - 1)
    part = (positions - upper).astype(np.float32)[:, None, None]
    blended: NDArray[np.float32] = picture[upper] * (1 - part) + picture[lower] * part
    return blended


Colour = tuple[float, float, float]

_Y: Final = (np.arange(HEIGHT, dtype=np.float32) + 0.5)[:, None]
_X: Final = (np.arange(WIDTH, dtype=np.float32) + 0.5)[None, :]


class Canvas:
    """A picture to paint on, with colours from 0 to 255."""

    def __init__(self) -> None:
        self.rgb: NDArray[np.float32] = np.zeros((HEIGHT, WIDTH, 3), np.float32)

    def gradient(self, top: Colour, bottom: Colour, y0: float, y1: float) -> None:
        """Fill the rows from y0 to y1 with a vertical blend of two colours."""
        rows = slice(max(0, round(y0)), min(HEIGHT, round(y1)))
        part = np.clip((_Y[rows] - y0) / max(1.0, y1 - y0), 0.0, 1.0)[..., None]
        self.rgb[rows] = np.array(top, np.float32) * (1 - part) + np.array(bottom, np.float32) * part

    def below(self, curve: NDArray[np.float32], colour: Colour, shade: float = 0.0) -> None:
        """Fill everything below a curve (a height per column), darker by `shade` towards the bottom."""
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
        """Add soft noise with patches of `cell` (height, width) to the rows from y0 to y1."""
        rows = slice(max(0, round(y0)), min(HEIGHT, round(y1)))
        height = rows.stop - rows.start
        coarse = rng.standard_normal((height // cell[0] + 2, WIDTH // cell[1] + 2)).astype(np.float32)
        self.rgb[rows] += strength * _enlarge(coarse, cell)[:height, :WIDTH, None]

    def paste(self, picture: Cutout, x: float, foot_y: float, *, shadow: bool = False, brightness: float = 1.0) -> None:
        """Paste a cutout with its foot at (x, foot_y), clipped to the canvas."""
        height, width = picture.alpha.shape
        if shadow:
            self.ellipse(x, foot_y - 2, width * 0.42, max(2.0, width * 0.07), (20, 20, 25), opacity=0.28)
        left, top = round(x - width / 2), round(foot_y - height)
        rows = slice(max(0, -top), min(height, HEIGHT - top))
        columns = slice(max(0, -left), min(width, WIDTH - left))
        if rows.start >= rows.stop or columns.start >= columns.stop:
            return
        target = self.rgb[top + rows.start : top + rows.stop, left + columns.start : left + columns.stop]
        target += (brightness * picture.rgb[rows, columns] - target) * picture.alpha[rows, columns, None]


def waves(rng: np.random.Generator, level: float, height: float, longest: float = 500.0) -> NDArray[np.float32]:
    """A curve across the frame: sines of random phase around `level`."""
    curve = np.full(WIDTH, level)
    for order in (1.0, 1.7, 3.1, 5.3):
        phase = rng.uniform(0, 2 * np.pi)
        curve += height / (1.6 * order) * np.sin(2 * np.pi * order * _X[0] / longest + phase)
    return curve.astype(np.float32)


def _enlarge(coarse: NDArray[np.float32], cell: tuple[int, int]) -> NDArray[np.float32]:
    """Bilinear enlargement of a small grid, each cell to `cell` pixels."""
    for size in cell:
        # The first pass enlarges rows; the second, after the transposition, columns.
        part: NDArray[np.float32] = (np.arange(size) / size).astype(np.float32)[None, :, None]
        grown = coarse[:-1, None, :] * (1 - part) + coarse[1:, None, :] * part
        coarse = grown.reshape(-1, coarse.shape[1]).T
    return coarse


MOST_STAMPS: Final = 512  # size of the cache; a swelling sprite has a dozen sizes

_YUV_OF_RGB: Final = (
    (65.481 / 255, 128.553 / 255, 24.966 / 255, 16.0),
    (-37.797 / 255, -74.203 / 255, 112.0 / 255, 128.0),
    (112.0 / 255, -93.786 / 255, -18.214 / 255, 128.0),
)
_RGB_OF_YUV: Final = ((1.164384, 0.0, 1.596027), (1.164384, -0.391762, -0.812968), (1.164384, 2.017232, 0.0))


@dataclass(frozen=True, slots=True)
class Planes:
    """One frame: `packed` holds the luma plane, then both chroma planes, as encoders expect."""

    packed: NDArray[np.uint8]

    def views(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
        """Luma and the two chroma planes; writing to them writes to the frame."""
        flat = self.packed.reshape(-1)
        luma, chroma = HEIGHT * WIDTH, HEIGHT * WIDTH // 4
        half = (HEIGHT // 2, WIDTH // 2)
        return (
            flat[:luma].reshape(HEIGHT, WIDTH),
            flat[luma : luma + chroma].reshape(half),
            flat[luma + chroma :].reshape(half),
        )

    def rgb(self) -> NDArray[np.uint8]:
        """The frame as RGB."""
        luma, *chromas = (plane.astype(np.float32) for plane in self.views())
        blue, red = (plane.repeat(2, axis=0).repeat(2, axis=1) - 128 for plane in chromas)
        channels = [y * (luma - 16) + u * blue + v * red for y, u, v in _RGB_OF_YUV]
        return np.clip(np.stack(channels, axis=-1) + 0.5, 0, 255).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Stamp:
    """A sprite ready for blending: its planes, and alpha at both resolutions."""

    planes: tuple[NDArray[np.float32], ...]
    alphas: tuple[NDArray[np.float32], ...]
    size: tuple[int, int]  # width and height in pixels; both are even


def make_planes(backdrop: Backdrop) -> Planes:
    """The planes of a scene without events."""
    luma, blue, red = _convert_to_yuv(backdrop.rgb)
    planes = Planes(np.empty((HEIGHT * 3 // 2, WIDTH), np.uint8))
    for view, plane in zip(planes.views(), (luma, _halve(blue), _halve(red)), strict=True):
        view[:] = plane + np.float32(0.5)
    return planes


@lru_cache(MOST_STAMPS)
def _stamp(sprite: str, size_px: int, mirrored: bool) -> Stamp:
    picture = cutout(sprite, size_px, mirrored=mirrored)
    luma, *chromas = _convert_to_yuv(picture.rgb)
    half = _halve(picture.alpha)
    weight: NDArray[np.float32] = np.maximum(half, 1e-4).astype(np.float32)
    blue, red = (_halve(plane * picture.alpha) / weight for plane in chromas)
    return Stamp((luma, blue, red), (picture.alpha, half, half), cutout_size(sprite, size_px))


def track_stamp(track: Track, scale: float = 1.0) -> Stamp:
    """The stamp of a track's sprite; the art faces left, so it is mirrored to move right."""
    return _stamp(track.sprite, scaled_px(track.size_px, scale), track.rightward)


def blend(frame: Planes, stamp: Stamp, at: Pose) -> None:
    """Draw the stamp into the frame at even pixels, so that chroma and luma stay aligned."""
    width, height = stamp.size
    left, top = 2 * round((at.x - width / 2) / 2), 2 * round((at.foot_y - height) / 2)
    for plane, colour, alpha, step in zip(frame.views(), stamp.planes, stamp.alphas, (1, 2, 2), strict=True):
        x, y = left // step, top // step
        rows = slice(max(0, -y), min(alpha.shape[0], plane.shape[0] - y))
        columns = slice(max(0, -x), min(alpha.shape[1], plane.shape[1] - x))
        if rows.start >= rows.stop or columns.start >= columns.stop:
            continue
        target = plane[y + rows.start : y + rows.stop, x + columns.start : x + columns.stop]
        covering = alpha[rows, columns] * np.float32(at.opacity)
        target[:] = target + (colour[rows, columns] - target) * covering + np.float32(0.5)


def draw(base: Planes, backdrop: Backdrop, tracks: Iterable[Track], frame: int) -> Planes:
    """The frame with the sprites of these tracks; the base itself if there are none."""
    visible = [track for track in tracks if track.first <= frame <= track.last]
    if not visible:
        return base
    drawn = Planes(base.packed.copy())
    for track in visible:
        at = pose(track, frame, backdrop.bands, track_stamp(track).size)
        blend(drawn, track_stamp(track, at.scale), at)
    return drawn


def _convert_to_yuv(rgb: NDArray[np.float32]) -> tuple[NDArray[np.float32], ...]:
    """Luma and both chromas at full resolution. No matrix product, which would start threads."""
    red, green, blue = (rgb[..., channel] for channel in range(3))
    return tuple(
        np.float32(r) * red + np.float32(g) * green + np.float32(b) * blue + np.float32(offset)
        for r, g, b, offset in _YUV_OF_RGB
    )


def _halve(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    height, width = plane.shape
    halved: NDArray[np.float32] = plane.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3), dtype=np.float32)
    return halved
