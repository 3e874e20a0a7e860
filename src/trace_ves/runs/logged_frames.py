"""Writes the exact frames of a run as pictures, with an index."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves import video
from trace_ves.core import Frame, InputError, Interval, VideoSource
from trace_ves.core.errors import wrap_os_errors
from trace_ves.records import Call, ClipRecord, Prediction
from trace_ves.records.base import FieldError
from trace_ves.records.disk_cache import checksum
from trace_ves.records.run_file import read_configuration

if TYPE_CHECKING:
    from trace_ves.ves import Run
    from trace_ves.video.video import Video

SAME_MOMENT_SECONDS: Final = 1e-6  # Timestamps that differ by less are the same frame


def refuse_other_video(prediction: Prediction, path: Path) -> None:
    """Raise an `InputError` if a file has another checksum than the video of a prediction."""
    expected = prediction.video_checksum
    if expected is not None and expected != (actual := checksum(path)):
        raise InputError(
            f"{path} is not the video that question {prediction.question_id!r} was answered on: the run recorded "
            f"{expected.bytes} bytes with SHA-256 {expected.sha256[:12]}…, this file has {actual.bytes} with "
            f"{actual.sha256[:12]}…; get the same file."
        )


def recorded_frames(source: VideoSource, timestamps: Sequence[float], height: int | None) -> tuple[Frame, ...]:
    """The frames with exactly these timestamps."""
    frames = source.frames_at(timestamps, height=height)
    for expected, frame in zip(timestamps, frames, strict=True):
        if abs(frame.seconds - expected) > SAME_MOMENT_SECONDS:
            raise InputError(
                f"the video has no frame at {expected} s, but one at {frame.seconds} s; "
                "this log cannot be replayed, because its timestamps are not the decoder's."
            )
    return frames


def recorded_bundle(prediction: Prediction) -> tuple[ClipRecord, ...]:
    """The clips that support an answer; without a bundle, the frames of its last call, or all if that saw none."""
    try:
        clips = tuple(ClipRecord.from_json(clip) for clip in prediction.bundle)
    except FieldError as error:
        raise InputError(f"question {prediction.question_id!r}: the bundle cannot be read: {error}.") from None
    if any(clip.timestamps for clip in clips):
        return tuple(clip for clip in clips if clip.timestamps)
    last = prediction.observations[-1].timestamps if prediction.observations else ()
    timestamps = tuple(sorted(set(last or prediction.timestamps)))
    heights = [height for call in prediction.observations for height in call.heights]
    if not timestamps:
        return ()
    span = Interval(timestamps[0], timestamps[-1])
    fps = len(timestamps) / span.length if span.length else 1.0
    return (ClipRecord(span, fps, max(heights, default=360), timestamps),)


@dataclass(frozen=True, slots=True)
class WrittenFrames:
    """The files that were written."""

    folder: Path
    pictures: int
    calls: int
    checked: bool
    """Whether the run recorded the video's checksum."""
    warnings: tuple[str, ...]
    """The decoder's warnings about the video."""


def find_prediction(run: Run, question_id: str) -> Prediction:
    """The line of a run for one question."""
    for prediction in run.predictions:
        if prediction.question_id == question_id:
            return prediction
    some = ", ".join(prediction.question_id for prediction in run.predictions[:3])
    raise InputError(f"{run.path}: no line for question {question_id!r}; the file has {some}, …")


def find_bench(run: Path) -> Path:
    """The path of the bench in the configuration of a run, relative to the run's folder."""
    configuration = read_configuration(run)
    if configuration is None or configuration.bench is None:
        raise InputError(f"{run}: no run.toml next to this file names its bench; give --bench.")
    return run.parent / configuration.bench


def write_frames(prediction: Prediction, path: Path, out: Path) -> WrittenFrames:
    """Write every distinct frame once per height, and `frames.csv`, which lists the pictures of each call."""
    if not prediction.timestamps:
        raise InputError(
            f"question {prediction.question_id!r} was answered without frames, so there is nothing to write."
        )
    refuse_other_video(prediction, path)
    empty_folder(out)
    calls = [call for call in prediction.observations if call.timestamps]
    with video.open(path) as opened:
        if calls:
            names: dict[tuple[float, int | None], str] = {}
            frames = {frame for call in calls for frame in _list_frames(call)}
            for height in {height for _, height in frames}:
                timestamps = sorted(seconds for seconds, of in frames if of == height)
                for seconds, frame in zip(timestamps, recorded_frames(opened, timestamps, height), strict=True):
                    names[seconds, height] = _write_picture(frame, out)
            rows = [
                [number, call.stage, place, seconds, height, names[seconds, height]]
                for number, call in enumerate(prediction.observations, start=1)
                for place, (seconds, height) in enumerate(_list_frames(call), start=1)
            ]
            _write_table(out, ["call", "stage", "place", "seconds", "height", "picture"], rows)
            pictures = len(set(names.values()))
        else:
            pictures = len(set(write_moments(opened, prediction.timestamps, None, out)))
        warnings = opened.warnings
    text = json.dumps(prediction.to_json(), ensure_ascii=False, indent=2) + "\n"
    _write(out / "prediction.json", text.encode())
    return WrittenFrames(out, pictures, len(calls), "video" in prediction.extra, warnings)


def write_moments(video: Video, moments: Sequence[float], height: int | None, out: Path) -> list[str]:
    """Write the frame on screen at each moment, and `frames.csv`: moment, frame time, picture. Returns the names.

    The moments need not be the decoder's timestamps: they may come from other programs or from `frames --at`.
    """
    frames = video.frames_at(moments, height=height)
    empty_folder(out)
    names = [_write_picture(frame, out) for frame in frames]
    rows = [[moment, frame.seconds, name] for moment, frame, name in zip(moments, frames, names, strict=True)]
    _write_table(out, ["asked", "seconds", "picture"], rows)
    return names


def empty_folder(out: Path) -> Path:
    """Create the folder; refuse one that is not empty."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise InputError(f"{out} is not empty; give another folder.")
    except OSError as error:
        raise InputError(f"{out}: cannot be used as a folder: {error.strerror}.") from None
    return out


def _write_table(out: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(columns)
    table.writerows(rows)
    _write(out / "frames.csv", text.getvalue().encode())


def _write(path: Path, content: bytes) -> None:
    with wrap_os_errors(path, "written"):
        path.write_bytes(content)


def _list_frames(call: Call) -> list[tuple[float, int | None]]:
    """Timestamp and height of each frame of a call; None without heights means the original size."""
    if call.heights and len(call.heights) != len(call.timestamps):
        raise InputError(f"a {call.stage} call has {len(call.timestamps)} timestamps but {len(call.heights)} heights.")
    return list(zip(call.timestamps, call.heights or (None,) * len(call.timestamps), strict=True))


def _write_picture(frame: Frame, out: Path) -> str:
    name = f"{frame.seconds:010.3f}s-{frame.picture.height}p-pts{frame.pts}.jpg"
    _write(out / name, frame.jpeg())
    return name
