"""Draws the frames of a scene, in the planes a video is made of: luma, and two chromas at half the size (BT.601).

The backdrop is turned into planes once; a frame copies them and blends the sprites in. Knows nothing of files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.twin.synthetic.drawing import HEIGHT, WIDTH, cutout
from trace_ves.twin.synthetic.tracks import pose, scaled_px

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from trace_ves.twin.synthetic.drawing import Cutout
    from trace_ves.twin.synthetic.scenery import Backdrop
    from trace_ves.twin.synthetic.tracks import Pose, Track

MOST_STAMPS: Final = 512
"""Sprites in their sizes that are kept ready: something that swells has a dozen sizes."""

_YUV_OF_RGB: Final = (
    (65.481 / 255, 128.553 / 255, 24.966 / 255, 16.0),
    (-37.797 / 255, -74.203 / 255, 112.0 / 255, 128.0),
    (112.0 / 255, -93.786 / 255, -18.214 / 255, 128.0),
)
_RGB_OF_YUV: Final = ((1.164384, 0.0, 1.596027), (1.164384, -0.391762, -0.812968), (1.164384, 2.017232, 0.0))


@dataclass(frozen=True, slots=True)
class Planes:
    """One frame: `packed` holds the luma rows, then both chroma planes, as encoders take them."""

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
        """The picture that these planes stand for."""
        luma, *chromas = (plane.astype(np.float32) for plane in self.views())
        blue, red = (plane.repeat(2, axis=0).repeat(2, axis=1) - 128 for plane in chromas)
        channels = [y * (luma - 16) + u * blue + v * red for y, u, v in _RGB_OF_YUV]
        return np.clip(np.stack(channels, axis=-1) + 0.5, 0, 255).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Stamp:
    """A sprite ready to be blended: its planes and alpha at both sizes."""

    planes: tuple[NDArray[np.float32], ...]
    alphas: tuple[NDArray[np.float32], ...]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels; both are even."""
        height, width = self.alphas[0].shape
        return width, height


def planes_of(backdrop: Backdrop) -> Planes:
    """The planes of a scene without events."""
    luma, blue, red = _yuv(backdrop.rgb)
    planes = Planes(np.empty((HEIGHT * 3 // 2, WIDTH), np.uint8))
    for view, plane in zip(planes.views(), (luma, _halved(blue), _halved(red)), strict=True):
        view[:] = plane + np.float32(0.5)
    return planes


def stamp_of(picture: Cutout) -> Stamp:
    """A cutout ready to be blended."""
    luma, *chromas = _yuv(picture.rgb)
    half = _halved(picture.alpha)
    weight: NDArray[np.float32] = np.maximum(half, 1e-4).astype(np.float32)
    blue, red = (_halved(plane * picture.alpha) / weight for plane in chromas)
    return Stamp((luma, blue, red), (picture.alpha, half, half))


def track_stamp(track: Track) -> Stamp:
    """The stamp of a track's sprite; the art looks to the left, so it is mirrored on the way to the right."""
    return _stamp(track.sprite, track.size_px, track.rightward)


def scaled_stamp(track: Track, scale: float) -> Stamp:
    """The stamp of a track's sprite where it has grown or shrunk."""
    return _stamp(track.sprite, scaled_px(track.size_px, scale), track.rightward)


@lru_cache(MOST_STAMPS)
def _stamp(sprite: str, size_px: int, mirrored: bool) -> Stamp:
    return stamp_of(cutout(sprite, size_px, mirrored=mirrored))


def blend(frame: Planes, stamp: Stamp, at: Pose) -> None:
    """Draw the stamp into the frame, on even pixels, so that chroma and luma stay together."""
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


def draw(base: Planes, backdrop: Backdrop, sprites: Iterable[tuple[Track, Stamp]], frame: int) -> Planes:
    """The frame with these sprites in it; the base itself where there are none."""
    visible = [(track, stamp) for track, stamp in sprites if track.first <= frame <= track.last]
    if not visible:
        return base
    drawn = Planes(base.packed.copy())
    for track, stamp in visible:
        at = pose(track, frame, backdrop.bands, stamp.size)
        blend(drawn, stamp if at.scale == 1.0 else scaled_stamp(track, at.scale), at)
    return drawn


def _yuv(rgb: NDArray[np.float32]) -> tuple[NDArray[np.float32], ...]:
    """Luma and both chromas of a picture, all at full size. Written out, as a matrix product would wake threads."""
    red, green, blue = (rgb[..., channel] for channel in range(3))
    return tuple(
        np.float32(r) * red + np.float32(g) * green + np.float32(b) * blue + np.float32(offset)
        for r, g, b, offset in _YUV_OF_RGB
    )


def _halved(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    height, width = plane.shape
    halved: NDArray[np.float32] = plane.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3), dtype=np.float32)
    return halved
