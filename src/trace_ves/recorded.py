"""What a run file says was looked at, decoded once more from the same video. Refuses a video that is another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves import video
from trace_ves.core import Clip, Frame, InputError, Interval, ObservationStrategy
from trace_ves.core.checksum import Checksum, checksum
from trace_ves.core.fields import FieldError, as_count, as_number, as_numbers, require

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trace_ves.core import Prediction, VideoSource
    from trace_ves.video.video import Video

SAME_MOMENT_SECONDS: Final = 1e-6
"""A logged timestamp and a decoded one that differ by less name the same frame."""


@dataclass(frozen=True, slots=True)
class RecordedClip:
    """A clip as a run file has it: where it lies and which frames, not the pixels."""

    span: Interval
    strategy: ObservationStrategy
    timestamps: tuple[float, ...]

    def decode(self, source: VideoSource) -> Clip:
        """The clip with its frames."""
        return Clip(self.span, self.strategy, recorded_frames(source, self.timestamps, self.strategy.height))


def open_recorded(prediction: Prediction, path: Path) -> Video:
    """The video that a prediction was made on; one with another checksum is refused."""
    noted = prediction.extra.get("video")
    expected = Checksum.from_json(noted) if isinstance(noted, dict) else None
    if expected is not None and expected != (found := checksum(path)):
        raise InputError(
            f"{path} is not the video that question {prediction.question_id!r} was answered on: the run noted "
            f"{expected.bytes} bytes with SHA-256 {expected.sha256[:12]}…, this file has {found.bytes} with "
            f"{found.sha256[:12]}…; get the same file."
        )
    return video.open(path)


def recorded_frames(source: VideoSource, timestamps: Sequence[float], height: int | None) -> tuple[Frame, ...]:
    """The frames with these timestamps, one for each; the video must have every one of them."""
    frames = source.frames_at(timestamps, height=height)
    for wanted, frame in zip(timestamps, frames, strict=True):
        if abs(frame.seconds - wanted) > SAME_MOMENT_SECONDS:
            raise InputError(
                f"the video has no frame at {wanted} s, the one on screen then is at {frame.seconds} s; "
                "timestamps must be the decoder's own, so this log cannot be replayed."
            )
    return frames


def recorded_bundle(prediction: Prediction) -> tuple[RecordedClip, ...]:
    """The clips that an answer rests on; without a bundle, the frames of its last call, or all if that saw none."""
    try:
        clips = tuple(_clip(record) for record in prediction.bundle)
    except (FieldError, ValueError) as error:
        raise InputError(f"question {prediction.question_id!r}: the bundle cannot be read: {error}.") from None
    if any(clip.timestamps for clip in clips):
        return tuple(clip for clip in clips if clip.timestamps)
    last = prediction.observations[-1].timestamps if prediction.observations else ()
    seen = tuple(sorted(set(last or prediction.timestamps)))
    heights = [height for call in prediction.observations for height in call.heights]
    if not seen:
        return ()
    span = Interval(seen[0], seen[-1])
    fps = len(seen) / span.length if span.length else 1.0
    return (RecordedClip(span, ObservationStrategy(fps, max(heights, default=360)), seen),)


def _clip(record: Mapping[str, object]) -> RecordedClip:
    start, end = as_numbers("span", require(record, "span"))
    fps, height = as_number("fps", require(record, "fps")), as_count("height", require(record, "height"))
    timestamps = as_numbers("timestamps", require(record, "timestamps"))
    return RecordedClip(Interval(start, end), ObservationStrategy(fps, height), timestamps)
