"""What a run file says was looked at, decoded once more from the same video. Refuses a video that is another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves import video
from trace_ves.core import Clip, Frame, InputError, Interval
from trace_ves.records import ClipRecord
from trace_ves.records.checksum import checksum
from trace_ves.records.record import FieldError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trace_ves.core import VideoSource
    from trace_ves.records import Prediction
    from trace_ves.video.video import Video

SAME_MOMENT_SECONDS: Final = 1e-6
"""A logged timestamp and a decoded one that differ by less name the same frame."""


def open_recorded(prediction: Prediction, path: Path) -> Video:
    """The video that a prediction was made on; one with another checksum is refused."""
    refuse_other_video(prediction, path)
    return video.open(path)


def refuse_other_video(prediction: Prediction, path: Path) -> None:
    """Raise an `InputError` if a file has another checksum than the video that a prediction was made on."""
    expected = prediction.video_checksum
    if expected is not None and expected != (found := checksum(path)):
        raise InputError(
            f"{path} is not the video that question {prediction.question_id!r} was answered on: the run noted "
            f"{expected.bytes} bytes with SHA-256 {expected.sha256[:12]}…, this file has {found.bytes} with "
            f"{found.sha256[:12]}…; get the same file."
        )


def recorded_clip(source: VideoSource, clip: ClipRecord) -> Clip:
    """The clip with its frames."""
    return Clip(clip.span, clip.strategy, recorded_frames(source, clip.timestamps, clip.height))


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


def recorded_bundle(prediction: Prediction) -> tuple[ClipRecord, ...]:
    """The clips that an answer rests on; without a bundle, the frames of its last call, or all if that saw none."""
    try:
        clips = tuple(ClipRecord.from_json(clip) for clip in prediction.bundle)
    except FieldError as error:
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
    return (ClipRecord(span, fps, max(heights, default=360), seen),)
