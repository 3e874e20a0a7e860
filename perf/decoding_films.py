"""The films of `decoding.py`: moving shapes, in every picture the number of its frame as a bar code."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FPS = 30
MILLISECOND = Fraction(1, 1000)
BITS = 18


@dataclass(frozen=True)
class Film:
    """A video to make and look at."""

    name: str
    codec: str
    width: int
    height: int
    seconds: int
    gop: int
    copies: int = 1
    """The encoded packets follow each other this many times; frame numbers start again with each."""
    variable: bool = False
    """Whether frames stay for different times."""

    @property
    def frames(self) -> int:
        """Frames that are encoded: those of one copy."""
        return self.seconds * FPS

    @property
    def duration(self) -> float:
        """Seconds of the whole film."""
        return self.seconds * self.copies

    def times_ms(self) -> np.ndarray:
        """When each frame of one copy is shown, in whole milliseconds as Matroska has them."""
        numbers = np.arange(self.frames)
        if not self.variable:
            return np.round(numbers * 1000 / FPS).astype(np.int64)
        held = 20 + 27 * (numbers * 7 % 31) // 31
        return (np.cumsum(held) - held) * self.seconds * 1000 // int(held.sum())

    def numbers_at(self, moments: Sequence[float]) -> list[int]:
        """The numbers that the frames on screen at these moments show; none of the moments is near a change."""
        within = np.asarray(moments) % self.seconds
        return [int(number) for number in np.searchsorted(self.times_ms() / 1000, within, side="right") - 1]


def films(*, quick: bool) -> list[Film]:
    """One film for each codec and size, in different containers; two of variable rate, and long ones."""
    short, large, long = (1, 9, 10) if quick else (7, 62, 120)
    return [
        Film("h264-360p.mp4", "libx264", 640, 360, 62, 250, short),
        Film("h264-720p.mp4", "libx264", 1280, 720, 62, 60, short),
        Film("h264-1080p.mkv", "libx264", 1920, 1080, 62, 120, short),
        Film("h264-4k.mp4", "libx264", 3840, 2160, 7, 60, large),
        Film("hevc-360p.mp4", "libx265", 640, 360, 62, 250, short),
        Film("hevc-720p.mkv", "libx265", 1280, 720, 62, 120, short),
        Film("hevc-1080p.mp4", "libx265", 1920, 1080, 62, 120, short),
        Film("hevc-4k.mkv", "libx265", 3840, 2160, 7, 60, large),
        Film("vp9-360p.webm", "libvpx-vp9", 640, 360, 62, 128, short),
        Film("vp9-720p.mkv", "libvpx-vp9", 1280, 720, 62, 128, short),
        Film("vp9-1080p.mp4", "libvpx-vp9", 1920, 1080, 62, 128, short),
        Film("vp9-4k.webm", "libvpx-vp9", 3840, 2160, 7, 64, large),
        Film("av1-360p.mp4", "libsvtav1", 640, 360, 62, 240, short),
        Film("av1-720p.webm", "libsvtav1", 1280, 720, 62, 120, short),
        Film("av1-1080p.mkv", "libsvtav1", 1920, 1080, 62, 120, short),
        Film("av1-4k.mp4", "libsvtav1", 3840, 2160, 7, 60, large),
        Film("h264-360p-variable.mp4", "libx264", 640, 360, 62, 250, short, variable=True),
        Film("vp9-360p-variable.webm", "libvpx-vp9", 640, 360, 62, 128, short, variable=True),
        Film("h264-360p-2h.mp4", "libx264", 640, 360, 60, 250, long),
        Film("hevc-360p-2h.mkv", "libx265", 640, 360, 60, 250, long),
        Film("vp9-360p-2h.webm", "libvpx-vp9", 640, 360, 60, 128, long),
        Film("av1-360p-2h.mkv", "libsvtav1", 640, 360, 60, 240, long),
        Film("h264-360p-10h.mp4", "libx264", 640, 360, 30, 250, 10 * long),
        Film("hevc-360p-10h.mkv", "libx265", 640, 360, 30, 250, 10 * long),
    ]


WARM_UP = Film("warm-up.mp4", "libx264", 64, 48, 2, 30)
"""Opened before anything is timed, so that imports are not."""

ENCODERS: dict[str, dict[str, str]] = {
    "libx264": {"preset": "veryfast", "crf": "26"},
    "libx265": {"preset": "ultrafast", "crf": "28", "x265-params": "log-level=none:bframes=4"},
    "libvpx-vp9": {"deadline": "good", "cpu-used": "5", "row-mt": "1", "crf": "40", "b": "0"},
    "libsvtav1": {"preset": "12", "crf": "40", "svtav1-params": "lp=2"},
}


def draw(number: int, film: Film, texture: np.ndarray) -> np.ndarray:
    """A moving picture in planes of YUV, with the frame's number as bright and dark cells along the top."""
    height, width = film.height, film.width
    shift = (number * 3) % width
    planes = texture[:, shift : shift + width].copy()
    cell = width // BITS
    for bit in range(BITS):
        planes[: height // 8, bit * cell : (bit + 1) * cell] = 220 if number >> bit & 1 else 30
    side = height // 4
    top = height // 2 + int(side * 0.8 * np.sin(number / 17))
    left = int((width - side) * (0.5 + 0.5 * np.sin(number / 41)))
    planes[top : top + side, left : left + side] = (number * 5) % 200 + 20
    return planes


def read_number(jpeg: bytes) -> int:
    """The frame number that a JPEG shows."""
    import simplejpeg

    picture = simplejpeg.decode_jpeg(jpeg, colorspace="GRAY")[..., 0]
    height, width = picture.shape
    row = picture[height // 24 : height // 12].mean(axis=0)
    cell = width / BITS
    return sum(int(row[int((bit + 0.3) * cell) : int((bit + 0.7) * cell)].mean() > 125) << bit for bit in range(BITS))


def make(film: Film, path: Path) -> None:
    """Encode the film, and repeat its packets where it is longer than its content."""
    import av

    texture = np.random.default_rng(1).integers(0, 255, (film.height // 8, film.width // 4), dtype=np.uint8)
    texture = np.tile(texture.repeat(8, axis=0).repeat(8, axis=1), (1, 2)) // 2 + 50
    part = path.with_suffix(".part" + path.suffix)
    grey = np.full((film.height // 2, film.width), 128, dtype=np.uint8)
    times = film.times_ms().tolist()
    with av.open(str(part), "w") as container:
        stream = container.add_stream(film.codec, rate=FPS, options=ENCODERS[film.codec])
        stream.width, stream.height, stream.pix_fmt = film.width, film.height, "yuv420p"
        stream.codec_context.gop_size = film.gop
        stream.codec_context.thread_type = "AUTO"
        stream.codec_context.time_base = MILLISECOND if film.variable else Fraction(1, FPS)
        packets = []
        for number in range(film.frames):
            planes = np.vstack((draw(number, film, texture), grey))
            frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
            frame.time_base = stream.codec_context.time_base
            frame.pts = times[number] if film.variable else number
            packets += stream.encode(frame)
        packets += stream.encode(None)
        for copy in range(film.copies):
            for packet in packets:
                container.mux(_copied(packet, copy * film.seconds, stream))
    part.replace(path)


def _copied(packet: Any, shift_seconds: int, stream: Any) -> Any:
    import av

    again = av.Packet(bytes(packet))
    again.stream, again.is_keyframe = stream, packet.is_keyframe
    again.time_base = packet.time_base
    shift = round(shift_seconds / packet.time_base)
    again.pts, again.dts = packet.pts + shift, packet.dts + shift
    return again
