"""How a sprite moves through a scene: where it stands and how opaque it is in each frame of its visit.

Knows nothing of why it is there. Every motion shows at least a quarter of the sprite from its first frame to its last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.synthetic.canvas import HEIGHT, WIDTH
from trace_ves.synthetic.layout import FPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.synthetic.scenery import Band


@dataclass(frozen=True, slots=True)
class Track:
    """One visit of one sprite: it is drawn in every frame from the first to the last, and in no other."""

    sprite: str
    motion: str
    first: int
    last: int
    size_px: int
    """The longer side of its picture, in a frame of 360 lines."""
    place: float
    """Where along the frame, or along the band that it moves in: from 0 to 1."""
    depth: float
    """How near: from 0, far, to 1."""
    rightward: bool = False


@dataclass(frozen=True, slots=True)
class Pose:
    """Where a sprite is in one frame."""

    x: float
    """The column of its middle."""
    foot_y: float
    """The row of its lowest pixel."""
    opacity: float = 1.0


def pose(track: Track, frame: int, ground: Band, air: Band, size: tuple[int, int]) -> Pose:
    """The pose of a track's sprite, `size` (width, height) pixels large, in one of its frames."""
    part = (frame - track.first) / max(1, track.last - track.first)
    seconds = (frame - track.first) / FPS
    return _MOTIONS[track.motion](track, part, seconds, ground, air, size)


def _across(track: Track, part: float, width: float) -> float:
    """A column on the way from a quarter in at one edge to a quarter out at the other."""
    left, right = -width / 4, WIDTH + width / 4
    return left + (right - left) * part if track.rightward else right - (right - left) * part


def _lingering(part: float, where: float) -> float:
    """In quickly, slowly about the column `where` of the way, out quickly."""
    if part < 0.5:
        return where * (1.0 - (1.0 - 2.0 * part) ** 3)
    return where + (1.0 - where) * (2.0 * part - 1.0) ** 3


def _level(track: Track, band: Band) -> float:
    return band[0] + (band[1] - band[0]) * track.depth


def _crossing(
    bob: float, hertz: float, *, lingers: bool, hops: bool = False
) -> Callable[[Track, float, float, Band, Band, tuple[int, int]], Pose]:
    """A way over the ground that moves up and down by `bob` of the sprite's height."""

    def motion(track: Track, part: float, seconds: float, ground: Band, air: Band, size: tuple[int, int]) -> Pose:  # noqa: ARG001  one signature for all motions
        x = _across(track, _lingering(part, 0.15 + 0.7 * track.place) if lingers else part, size[0])
        swing = math.sin(2 * math.pi * hertz * (seconds + track.place))
        return Pose(x, _level(track, ground) - bob * size[1] * (abs(swing) if hops else (1 + swing) / 2))

    return motion


def _flying(
    bob: float, hertz: float, *, lingers: bool
) -> Callable[[Track, float, float, Band, Band, tuple[int, int]], Pose]:
    """A way through the air."""

    def motion(track: Track, part: float, seconds: float, ground: Band, air: Band, size: tuple[int, int]) -> Pose:  # noqa: ARG001  one signature for all motions
        x = _across(track, _lingering(part, 0.15 + 0.7 * track.place) if lingers else part, size[0])
        middle = _level(track, air) + bob * size[1] * math.sin(2 * math.pi * hertz * (seconds + track.place))
        return Pose(x, min(max(middle, 0.3 * size[1]), HEIGHT - 0.3 * size[1]) + size[1] / 2)

    return motion


def _rising(track: Track, part: float, seconds: float, ground: Band, air: Band, size: tuple[int, int]) -> Pose:  # noqa: ARG001  one signature for all motions
    x = 40 + (WIDTH - 80) * track.place + 14 * math.sin(2 * math.pi * 0.25 * seconds)
    return Pose(x, (HEIGHT + 0.75 * size[1]) * (1 - part) + 0.25 * size[1] * part)


def _appearing(track: Track, part: float, seconds: float, ground: Band, air: Band, size: tuple[int, int]) -> Pose:  # noqa: ARG001  one signature for all motions
    left_s = (track.last - track.first) / FPS - seconds
    opacity = min(1.0, 0.3 + min(seconds, left_s) / _FADE_S)
    sway = 0.04 * size[1] * math.sin(2 * math.pi * 0.5 * seconds)
    return Pose(30 + (WIDTH - 60) * track.place, _level(track, ground) + sway, opacity)


_FADE_S: Final = 0.5

_MOTIONS: Final[dict[str, Callable[[Track, float, float, Band, Band, tuple[int, int]], Pose]]] = {
    "drive": _crossing(0.02, 2.0, lingers=False),
    "roll": _crossing(0.03, 1.0, lingers=True),
    "walk": _crossing(0.08, 1.6, lingers=True, hops=True),
    "hop": _crossing(0.45, 1.0, lingers=True, hops=True),
    "sail": _crossing(0.10, 0.4, lingers=False),
    "swim": _crossing(0.50, 0.4, lingers=True),
    "fly": _flying(0.30, 0.4, lingers=False),
    "flutter": _flying(0.80, 0.7, lingers=True),
    "rise": _rising,
    "appear": _appearing,
}
