"""Frame sampling schedules of other evaluation tools: which frames of a video each of them picks.

A schedule picks frame indexes; `FrameTimes` has the times of those frames.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core.errors import InputError
from trace_ves.core.interval import Interval, centred_uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pick = Callable[["FrameTimes"], NDArray[np.int64]]

MOST_FRAMES: Final = 100_000  # The largest N of a schedule
MOST_VIDEO_FRAMES: Final = 20_000_000  # About a week of video
ASSUMED_FPS: Final = 30.0  # The frame rate of a missing video, unless `--fps` gives another
QWEN_MIN_FRAMES: Final = 4
QWEN_MAX_FRAMES: Final = 768
QWEN_FRAME_FACTOR: Final = 2  # qwen-vl-utils takes an even number of frames, because its models merge pairs


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """When each frame of one video is shown."""

    seconds: NDArray[np.float64]
    """The time of every frame in display order; the first is 0."""
    fps: float
    """Mean frame rate."""
    is_exact: bool
    """Whether the times come from the video; otherwise from its duration and an assumed frame rate."""

    @classmethod
    def assumed(cls, duration_seconds: float, fps: float = ASSUMED_FPS) -> FrameTimes:
        """The frames of a missing video: evenly spaced, from 0 to one frame before its end."""
        if not duration_seconds * fps <= MOST_VIDEO_FRAMES:
            raise InputError(
                f"a video of {duration_seconds:g} s at {fps:g} fps is too long for a schedule; the limit is "
                f"{MOST_VIDEO_FRAMES / fps:g} s."
            )
        count = max(1, round(duration_seconds * fps))
        return cls(np.arange(count) / fps, fps, is_exact=False)

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last."""
        return len(self) / self.fps


@dataclass(frozen=True, slots=True)
class Schedule:
    """A way to pick frames without knowing the question."""

    name: str
    pick: Pick

    def timestamps(self, times: FrameTimes) -> tuple[float, ...]:
        """The times of the picked frames; in a short video some of them repeat."""
        return tuple(times.seconds[self.pick(times)].tolist())


def parse_schedule(name: str) -> Schedule:
    """The schedule of this name, such as `linspace-32` or `fps-2-max-128`. Raises `InputError`."""
    for pattern, make in _KINDS.items():
        if match := re.fullmatch(pattern, name):
            numbers = [float(group) for group in match.groups() if group is not None]
            if not all(0 < number <= MOST_FRAMES for number in numbers):
                raise InputError(f"the sampler {name!r}: its numbers must be more than 0 and at most {MOST_FRAMES}.")
            return Schedule(name, make(*numbers))
    raise InputError(
        f"the sampler {name!r} is unknown; write uniform-N, linspace-N, linspace-round-N, inner-N, step-R, fps-R or "
        "fps-R-max-N."
    )


def _uniform(count: float) -> Pick:
    """trace-ves: the frames shown at the centres of N equal parts."""

    def pick(times: FrameTimes) -> NDArray[np.int64]:
        moments = centred_uniform(Interval(0.0, times.duration), int(count))
        return np.maximum(np.searchsorted(times.seconds, moments, side="right") - 1, 0).astype(np.int64)

    return pick


def _linspace(count: float) -> Pick:
    """lmms-eval: `np.linspace(0, n - 1, N, dtype=int)`, which includes both ends."""
    return lambda times: np.linspace(0, len(times) - 1, int(count), dtype=np.int64)


def _linspace_round(count: float) -> Pick:
    """qwen-vl-utils with `nframes`: evenly spaced with both ends, rounded instead of truncated."""
    return lambda times: _rounded_linspace(len(times), min(int(count), len(times)))


def _fps(rate: float, most: float = QWEN_MAX_FRAMES) -> Pick:
    """qwen-vl-utils with `fps`: an even number of 4 to `max_frames` frames, spread evenly."""

    def pick(times: FrameTimes) -> NDArray[np.int64]:
        total = len(times)
        cap = _floor_even(min(most, total))
        count = _floor_even(min(max(total / times.fps * rate, QWEN_MIN_FRAMES), cap, total))
        return _rounded_linspace(total, max(1, count))

    return pick


def _inner(count: float) -> Pick:
    """VLMEvalKit with `nframe`: `int(i * n / (N + 1))` for i from 1 to N, without both ends."""
    return lambda times: (np.arange(1, int(count) + 1) * (len(times) / (int(count) + 1))).astype(np.int64)


def _step(rate: float) -> Pick:
    """VLMEvalKit with `fps`: frames at a fixed step from the first on, without a limit."""
    return lambda times: (np.arange(max(1, int(times.duration * rate))) * (times.fps / rate)).astype(np.int64)


def _floor_even(count: float) -> int:
    return math.floor(count / QWEN_FRAME_FACTOR) * QWEN_FRAME_FACTOR


def _rounded_linspace(total: int, count: int) -> NDArray[np.int64]:
    """`torch.linspace(0, total - 1, count).round()`, in double precision.

    torch uses single precision, in an order that depends on the processor: in videos of hours, about 1 pick in 250
    differs by one frame.
    """
    return np.rint(np.linspace(0, total - 1, count)).astype(np.int64)


_KINDS: Final[Mapping[str, Callable[..., Pick]]] = {
    r"uniform-([1-9]\d{0,5})": _uniform,
    r"linspace-([1-9]\d{0,5})": _linspace,
    r"linspace-round-([1-9]\d{0,5})": _linspace_round,
    r"inner-([1-9]\d{0,5})": _inner,
    r"step-(\d{1,3}(?:\.\d{1,6})?)": _step,
    r"fps-(\d{1,3}(?:\.\d{1,6})?)": _fps,
    r"fps-(\d{1,3}(?:\.\d{1,6})?)-max-([1-9]\d{0,5})": _fps,
}
"""The schedules by the pattern of their names."""
