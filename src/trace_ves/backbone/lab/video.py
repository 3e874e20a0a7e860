"""Videos without pixels: a frame of them says which one it is, with the timestamp that the drawn film would give it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from trace_ves.core import Frame, VideoError
from trace_ves.synthetic.canvas import HEIGHT, WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.synthetic.truth import VideoTruth

TICKS_A_SECOND: Final = 10240
"""The time base that a drawn film gets in its MP4."""


@dataclass(frozen=True, slots=True)
class WorldPicture:
    """Which frame of which world; satisfies `core.Picture` as far as something without pixels can."""

    number: int
    width: int
    height: int
    digest: str
    """Of the truth, so that frames of different worlds differ."""
    truth: VideoTruth = field(repr=False, compare=False)

    def jpeg(self, quality: int = 90) -> NoReturn:  # noqa: ARG002  the protocol's signature
        """Never: there are no pixels."""
        raise VideoError(f"{self.truth.video}: this video was never drawn; its frames have no pixels.")

    def rgb(self) -> NoReturn:
        """Never: there are no pixels."""
        self.jpeg()


class WorldVideo:
    """A video that was made up but never drawn; satisfies `core.VideoSource`."""

    def __init__(self, truth: VideoTruth) -> None:
        self._truth = truth
        self.duration: Final = truth.frames / truth.fps

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame on screen at each of these moments, one for each, in the order asked."""
        rows = HEIGHT if height is None else min(height, HEIGHT)
        width = max(1, round(WIDTH * rows / HEIGHT))
        return tuple(self._frame(moment, width, rows) for moment in seconds)

    def close(self) -> None:
        """Nothing is open."""

    def _frame(self, moment: float, width: int, rows: int) -> Frame:
        truth = self._truth
        if not 0 <= moment <= self.duration:
            raise VideoError(f"{truth.video}: there is no frame at {moment} s; moments go from 0 to {self.duration} s.")
        number = min(int(moment * truth.fps) + 1, truth.frames - 1)
        while number / truth.fps > moment:  # floats are compared as the decoder does: a frame's own time finds it
            number -= 1
        picture = WorldPicture(number, width, rows, truth.digest, truth)
        return Frame(number * TICKS_A_SECOND // truth.fps, number / truth.fps, picture)
