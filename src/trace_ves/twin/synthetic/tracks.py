"""How a sprite moves: where it is, how large and how opaque in each frame. At least a fifth of it always shows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from trace_ves.twin.synthetic.layout import FPS, HEIGHT, WIDTH
from trace_ves.twin.synthetic.vocabulary import vocabulary

Band = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Bands:
    """Where things can be in a scene."""

    ground: Band  # rows of the feet of things
    air: Band  # rows of the centres of flying things


@dataclass(frozen=True, slots=True)
class Act:
    """A quick motion within a track, from one frame to another; it ends where it began."""

    act: str
    first: int
    last: int
    question: str | None = None  # id of the question that it is evidence for


@dataclass(frozen=True, slots=True)
class Track:
    """One appearance of a sprite, drawn in every frame from the first to the last."""

    sprite: str
    motion: str
    first: int
    last: int
    size_px: int  # longer side, in a frame of 360 rows
    place: float  # position across the frame or its band, from 0 to 1
    depth: float  # from 0 (far) to 1 (near)
    rightward: bool = False
    question: str | None = None  # always None: acts are the evidence; version 0.1.0 wrote a question here
    acts: tuple[Act, ...] = ()  # in order of time; otherwise the sprite is at rest (`REST`)


@dataclass(frozen=True, slots=True)
class Pose:
    """Where a sprite is in one frame."""

    x: float  # the column of its middle
    foot_y: float  # the row of its lowest pixel
    opacity: float = 1.0
    scale: float = 1.0  # how large, as a multiple of the track's size


@dataclass(frozen=True, slots=True)
class _Moment:
    """Everything that a motion depends on."""

    track: Track
    part: float  # elapsed part of the track, from 0 to 1
    seconds: float  # since its first frame
    ground: Band
    air: Band
    width: int
    height: int

    def level(self, band: Band) -> float:
        """The row in a band at the track's depth."""
        return band[0] + (band[1] - band[0]) * self.track.depth

    def swing(self, hertz: float) -> float:
        """A sine wave between -1 and 1."""
        return math.sin(2 * math.pi * hertz * (self.seconds + self.track.place))

    def column(self, *, lingers: bool) -> float:
        """A column on the way from one edge to the other; a quarter of the sprite is outside at both ends."""
        part = _lingering(self.part, 0.15 + 0.7 * self.track.place) if lingers else self.part
        left, right = -self.width / 4, WIDTH + self.width / 4
        return left + (right - left) * part if self.track.rightward else right - (right - left) * part


def pose(track: Track, frame: int, bands: Bands, size: tuple[int, int]) -> Pose:
    """The pose of a track's sprite of `size` (width, height) pixels in one of its frames."""
    part = (frame - track.first) / max(1, track.last - track.first)
    seconds = (frame - track.first) / FPS
    return MOTIONS[track.motion](_Moment(track, part, seconds, bands.ground, bands.air, *size))


def _lingering(part: float, where: float) -> float:
    """Enters and leaves quickly, and is slow around the part `where` of the way."""
    if part < 0.5:
        return where * (1.0 - (1.0 - 2.0 * part) ** 3)
    return where + (1.0 - where) * (2.0 * part - 1.0) ** 3


def _crossing(moment: _Moment, bob: float, hertz: float, *, lingers: bool, hops: bool = False) -> Pose:
    """Motion along the ground that bobs by the part `bob` of the sprite's height."""
    swing = moment.swing(hertz)
    lift = bob * moment.height * (abs(swing) if hops else (1 + swing) / 2)
    return Pose(moment.column(lingers=lingers), moment.level(moment.ground) - lift)


def _flying(moment: _Moment, bob: float, hertz: float, *, lingers: bool) -> Pose:
    """Motion through the air within the frame."""
    middle = moment.level(moment.air) + bob * moment.height * moment.swing(hertz)
    middle = min(max(middle, 0.3 * moment.height), HEIGHT - 0.3 * moment.height)
    return Pose(moment.column(lingers=lingers), middle + moment.height / 2)


def _rising(moment: _Moment) -> Pose:
    x = 40 + (WIDTH - 80) * moment.track.place + 14 * moment.swing(0.25)
    return Pose(x, (HEIGHT + 0.75 * moment.height) * (1 - moment.part) + 0.25 * moment.height * moment.part)


def _appearing(moment: _Moment) -> Pose:
    sway = 0.04 * moment.height * moment.swing(0.5)
    return Pose(30 + (WIDTH - 60) * moment.track.place, moment.level(moment.ground) + sway, _faded(moment))


def _faded(moment: _Moment) -> float:
    """The opacity of something that fades in and out."""
    left_s = (moment.track.last - moment.track.first) / FPS - moment.seconds
    return min(1.0, 0.3 + min(moment.seconds, left_s) / _FADE_S)


def _resting(moment: _Moment) -> Pose:
    """Moves slowly at rest, and quickly in the same ways while it acts.

    Each way is a wave. An act goes through it a whole number of times, so it ends where it began.
    """
    track, size = moment.track, max(moment.width, moment.height)
    across, up, growth = ((1 - math.cos(2 * math.pi * _phase(moment, way))) / 2 for way in WAYS)
    scale = SMALLEST + (LARGEST - SMALLEST) * growth
    reach = min((ACROSS * size + LARGEST * moment.width) / 2, WIDTH / 2)
    x = reach + (WIDTH - 2 * reach) * track.place + ACROSS * size * (across - 0.5)
    band = moment.air if vocabulary().sprites[track.sprite].motion in _IN_THE_AIR else moment.ground
    highest = min(UP * size + LARGEST * moment.height, HEIGHT - 4.0)
    foot_y = min(max(moment.level(band) + UP * size / 2, highest), HEIGHT - 4.0)
    return Pose(x, foot_y - UP * size * up, _faded(moment), scale)


def _phase(moment: _Moment, way: Way) -> float:
    """The phase of a way; ways start independently, so that no single frame reveals an act."""
    track = moment.track
    frame = track.first + moment.seconds * FPS
    by_place, by_depth = _START[way]
    start = (by_place * track.place + by_depth * track.depth) % 1.0
    acting_s, cycles = 0.0, 0.0
    for act in track.acts:
        length_s = (act.last - act.first) / FPS
        part = min(max((frame - act.first) / max(1, act.last - act.first), 0.0), 1.0)
        acting_s += part * length_s
        if way in ACTS[act.act]:
            whole = max(1, round(ACTS[act.act][way] * length_s))
            # uneven, because frames at even intervals might show no motion otherwise
            cycles += whole * part + UNEVEN * math.sin(2 * math.pi * max(1, round(0.38 * whole)) * part)
    return start + (moment.seconds - acting_s) / REST_S[way] + cycles


_FADE_S: Final = 0.5
UNEVEN: Final = 0.6  # deviation of an act from an even rhythm, in cycles
Way = Literal["across", "up", "growth"]
WAYS: Final[tuple[Way, ...]] = ("across", "up", "growth")
# factors of a track's place and depth that give the start of the wave
_START: Final[dict[Way, tuple[float, float]]] = {
    "across": (997.13, 331.71),
    "up": (1597.37, 577.29),
    "growth": (2584.61, 911.53),
}
ACROSS, UP = 2.4, 1.8  # range of motion, in multiples of the longer side
SMALLEST, LARGEST = 0.68, 1.28  # range of its scale
REST_S: Final[dict[Way, float]] = {"across": 131.0, "up": 149.0, "growth": 173.0}  # seconds per cycle at rest
ACTS: Final[dict[str, dict[Way, float]]] = {  # the ways of each act, with cycles per second
    "jump": {"up": 0.9},
    "dash": {"across": 0.6},
    "dance": {"across": 0.55, "up": 0.95},
    "swell": {"growth": 0.7},
}
REST: Final = "rest"
_IN_THE_AIR: Final = frozenset({"fly", "flutter", "rise"})


def scaled_px(size_px: int, scale: float) -> int:
    """The longer side of a scaled sprite, an even number."""
    return size_px if scale == 1.0 else max(2, 2 * round(size_px * scale / 2))


MOTIONS: Final[dict[str, Callable[[_Moment], Pose]]] = {
    "drive": partial(_crossing, bob=0.02, hertz=2.0, lingers=False),
    "roll": partial(_crossing, bob=0.03, hertz=1.0, lingers=True),
    "walk": partial(_crossing, bob=0.08, hertz=1.6, lingers=True, hops=True),
    "hop": partial(_crossing, bob=0.45, hertz=1.0, lingers=True, hops=True),
    "sail": partial(_crossing, bob=0.10, hertz=0.4, lingers=False),
    "swim": partial(_crossing, bob=0.50, hertz=0.4, lingers=True),
    "fly": partial(_flying, bob=0.30, hertz=0.4, lingers=False),
    "flutter": partial(_flying, bob=0.80, hertz=0.7, lingers=True),
    "rise": _rising,
    "appear": _appearing,
    REST: _resting,
}
