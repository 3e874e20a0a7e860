"""Write a span of a video as an MP4, frame-exact and without sound.

Packets are copied if a key frame begins the span and no later packet is needed; otherwise frames are re-encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import av
import numpy as np

from trace_ves.core import Frame, Interval, VideoError
from trace_ves.video.container import Deadline, choose_stream, open_container
from trace_ves.video.video import Video

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.stream import VideoStream
    from numpy.typing import NDArray


COPIED_CODECS: Final = frozenset({"h264", "hevc", "av1", "vp9", "mpeg4"})  # codecs that players expect in an MP4
TICKS: Final = 90_000
FRAMES_AT_ONCE: Final = 32
DEADLINE_SECONDS: Final = 600.0


def write_clip(path: Path, span: Interval, out: Path) -> bool:
    """Write the frames of a span, including those on screen at its ends; returns whether they were copied."""
    with Video(path, deadline_seconds=DEADLINE_SECONDS) as video:
        first, last = (
            max(0, int(row) - 1) for row in np.searchsorted(video.timestamps, [span.start, span.end], "right")
        )
        rows = slice(first, max(first, last) + 1)
        moments = [float(seconds) for seconds in video.timestamps[rows]]
        if _copy(path, [int(pts) for pts in video.pts[rows]], out) and _is_copy(out, video, moments):
            return True
        parts = (moments[first : first + FRAMES_AT_ONCE] for first in range(0, len(moments), FRAMES_AT_ONCE))
        encode_frames((frame for part in parts for frame in video.frames_at(part)), out, preset="veryfast", crf=14)
        return False


def _copy(path: Path, wanted: Sequence[int], out: Path) -> bool:
    """Copy the packets of these frames if they are a run that a key frame begins; False where they are not."""
    with open_container(path, Deadline(path, "cutting it", DEADLINE_SECONDS)) as source:
        stream, _ = choose_stream(source, path)
        if stream.codec_context.name not in COPIED_CODECS:
            return False
        packets: list[Packet[VideoStream]] = []  # one for each wanted frame, from a key frame on
        source.seek(wanted[0], stream=stream)
        for packet in source.demux(stream):
            if packet.pts is None or packet.dts is None or len(packets) == len(wanted):
                break
            packets.append(packet)
        moments = sorted(packet.pts for packet in packets if packet.pts is not None)
        if not packets or not packets[0].is_keyframe or packets[0].pts != wanted[0] or moments != list(wanted):
            return False
        with av.open(str(out), "w", format="mp4") as target:
            copied = target.add_stream_from_template(stream)
            for packet in packets:
                packet.stream = copied
                packet.pts, packet.dts = (packet.pts or 0) - wanted[0], (packet.dts or 0) - wanted[0]
                target.mux(packet)
    return True


def _is_copy(path: Path, source: Video, moments: Sequence[float]) -> bool:
    """Whether a copied file decodes to the source's frames: as many, and the first and the last of them alike."""
    try:
        with Video(path, deadline_seconds=DEADLINE_SECONDS) as copy:
            if copy.frame_count != len(moments):
                return False
            ends = [float(copy.timestamps[0]), float(copy.timestamps[-1])]
            pairs = zip(copy.frames_at(ends), source.frames_at([moments[0], moments[-1]]), strict=True)
            return all(np.array_equal(one.rgb(), other.rgb()) for one, other in pairs)
    except VideoError:
        return False


def encode_frames(frames: Iterable[Frame], out: Path | BinaryIO, *, preset: str, crf: int) -> None:
    """Write frames as an MP4 that begins at 0, each at its own distance from the first."""
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=30, options={"preset": preset, "crf": str(crf)})
        stream.pix_fmt, stream.codec_context.time_base = "yuv420p", Fraction(1, TICKS)
        start: float | None = None
        for decoded in frames:
            pixels = decoded.rgb()
            if start is None:
                start = decoded.seconds
                stream.width, stream.height = pixels.shape[1] // 2 * 2 or 2, pixels.shape[0] // 2 * 2 or 2
            frame = av.VideoFrame.from_ndarray(_even(pixels, stream.height, stream.width), format="rgb24")
            frame.pts, frame.time_base = round(TICKS * (decoded.seconds - start)), Fraction(1, TICKS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _even(pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """The picture with the even number of rows and columns that the encoder needs: one may be left out or doubled."""
    rows, columns = np.minimum(np.arange(height), len(pixels) - 1), np.minimum(np.arange(width), pixels.shape[1] - 1)
    return np.ascontiguousarray(pixels[np.ix_(rows, columns)])
