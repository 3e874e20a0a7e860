"""The truth to compare with: every frame of a file by plain sequential decoding, nothing skipped, nothing sought."""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import av

from trace_ves.core import Frame
from trace_ves.video import Video
from trace_ves.video.picture import Orientation, Scaler, YuvPicture, orientation_of

HEIGHT = 48
"""Rows of the pictures that are compared."""

MAKES_UP = {"flv", "h263", "mpeg1video", "mpeg2video", "mpeg4", "msmpeg4", "msmpeg4v2", "wmv1", "wmv2"}


@dataclass(frozen=True)
class Truth:
    """One frame as a sequential decoder shows it."""

    pts: int | None
    digest: str
    is_made_up: bool = False
    """Whether it is the grey picture that a decoder shows in place of a reference which is not in the file."""


Footage = Callable[[str], Path]  # the fixture `footage`
Truths = Callable[..., list[Truth]]  # the fixture `truth`


def digest(picture: YuvPicture) -> str:
    """The pixels of a picture in a few characters."""
    planes = picture.luma.tobytes() + picture.blue.tobytes() + picture.red.tobytes()
    return f"{picture.width}x{picture.height}-{hashlib.sha256(planes).hexdigest()[:16]}"


def pixels(frames: Sequence[Frame]) -> list[str]:
    return [digest(frame.picture) for frame in frames]


def check(opened: Video, expected: Sequence[Truth], *, most: int = 10_000) -> None:
    """Ask for frames at their own times, alone, with some others, and with all: each has the expected pixels."""
    times = [float(time) for time in opened.timestamps]
    assert len(times) == len(expected)
    rows = random.Random(5).sample(range(len(times)), min(most, len(times)))
    for size in (*(1,) * 8, 7, 7, len(rows)):
        asked, rows = rows[:size], rows[size:] + rows[:size]
        frames = opened.frames_at([times[row] for row in asked], height=HEIGHT)
        assert [frame.pts for frame in frames] == [int(opened.pts[row]) for row in asked]
        assert [frame.seconds for frame in frames] == [times[row] for row in asked]
        assert pixels(frames) == [expected[row].digest for row in asked]


def every_frame(path: Path, *, stream: int | None = None, height: int | None = None) -> list[Truth]:
    """The frames in the order in which the decoder shows them; packets it cannot read are passed over."""
    shown: list[Truth] = []
    scaler: Scaler | None = None
    with av.open(str(path)) as container:
        moving = [one for one in container.streams.video if not one.disposition & av.stream.Disposition.attached_pic]
        chosen = moving[0] if stream is None else container.streams[stream]
        chosen.codec_context.thread_count = 1
        for packet in container.demux(chosen):
            try:
                frames = packet.decode()
            except av.FFmpegError:
                continue
            for frame in frames:
                scaler = scaler or Scaler(orientation_of(frame) or Orientation())
                made_up = frame.pict_type == av.video.frame.PictureType.NONE and chosen.codec.name in MAKES_UP
                shown.append(Truth(frame.pts, digest(scaler.picture(frame, height)), made_up))
    return shown


def packets_of(path: Path) -> tuple[bytes | None, list[bytes]]:
    """The extradata of a video, and its packets."""
    with av.open(str(path)) as container:
        extradata = container.streams.video[0].codec_context.extradata
        return extradata, [bytes(packet) for packet in container.demux(video=0) if packet.size]
