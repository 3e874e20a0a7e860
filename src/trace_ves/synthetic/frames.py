"""Draws the frames of a scene, in the planes a video is made of: luma, and two chromas at half the size (BT.601).

The backdrop is turned into planes once; a frame copies them and blends the sprites in. Knows nothing of files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.synthetic.art import cutout
from trace_ves.synthetic.canvas import HEIGHT, WIDTH
from trace_ves.synthetic.tracks import pose

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from trace_ves.synthetic.art import Cutout
    from trace_ves.synthetic.scenery import Backdrop
    from trace_ves.synthetic.tracks import Pose, Track

_RGB_TO_YUV: Final = np.array(
    [[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]], np.float32
) / np.float32(255)
_OFFSET: Final = np.array([16.0, 128.0, 128.0], np.float32)


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
        luma, *chromas = self.views()
        full = [luma, *(plane.repeat(2, axis=0).repeat(2, axis=1) for plane in chromas)]
        yuv = np.stack(full, axis=-1).astype(np.float32) - _OFFSET
        return np.clip(yuv @ np.linalg.inv(_RGB_TO_YUV).T + 0.5, 0, 255).astype(np.uint8)


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
    yuv = backdrop.rgb @ _RGB_TO_YUV.T + _OFFSET
    planes = Planes(np.empty((HEIGHT * 3 // 2, WIDTH), np.uint8))
    luma, blue, red = planes.views()
    luma[:] = yuv[..., 0] + 0.5
    blue[:] = _halved(yuv[..., 1]) + 0.5
    red[:] = _halved(yuv[..., 2]) + 0.5
    return planes


def stamp_of(picture: Cutout) -> Stamp:
    """A cutout ready to be blended."""
    yuv = picture.rgb @ _RGB_TO_YUV.T + _OFFSET
    half = _halved(picture.alpha)
    weight = np.maximum(half, 1e-4)
    chromas = tuple(_halved(yuv[..., plane] * picture.alpha) / weight for plane in (1, 2))
    return Stamp((yuv[..., 0], *chromas), (picture.alpha, half, half))


def track_stamp(track: Track) -> Stamp:
    """The stamp of a track's sprite; the art looks to the left, so it is mirrored on the way to the right."""
    return stamp_of(cutout(track.sprite, track.size_px, mirrored=track.rightward))


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
        blend(drawn, stamp, pose(track, frame, backdrop.ground, backdrop.air, stamp.size))
    return drawn


def _halved(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    height, width = plane.shape
    return plane.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3), dtype=np.float32)
