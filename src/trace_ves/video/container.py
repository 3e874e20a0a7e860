"""Open a media file and choose its stream. Knows nothing about frames or time.

Files are hostile input: only the file itself is ever read, and only by demuxers of self-contained formats, so that
a playlist under the name of a video cannot make the decoder open other files or the network.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import av
import numpy as np
from av.stream import Discard, Disposition, Stream

from trace_ves.core import VideoError
from trace_ves.video.bitstream import h264_head_is_complete

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

_VIDEO_FORMATS: Final = (
    "3gp,apng,asf,av1,avi,avs2,avs3,cavsvideo,dirac,dnxhd,dv,evc,flv,gif,h261,h263,h264,hevc,ivf,kux,live_flv,m4v,"
    "matroska,mjpeg,mov,mpeg,mpegts,mpegvideo,mxf,nut,nuv,obu,ogg,rm,roq,smk,swf,vc1,vvc,wtv,xmv,yop,yuv4mpegpipe"
)
_AUDIO_FORMATS: Final = "aac,ac3,aiff,amr,ape,au,caf,eac3,flac,mp3,tta,wav,wv"  # opened to say that they hold no video

RAW_FORMATS: Final = frozenset(  # elementary streams: what the demuxer makes up as timestamps is not the file's
    {"av1", "avs2", "avs3", "cavsvideo", "dirac", "dnxhd", "evc", "h261", "h263", "h264", "hevc"}
    | {"m4v", "mjpeg", "mpegvideo", "obu", "vc1", "vvc"}
)

MAX_PIXELS: Final = 1 << 27  # larger pictures are refused: one frame of this size already takes 200 MB

_PROBED: Final = "h264,hevc,libdav1d"  # decoders that find facts in the head of a file and need no frame for it

_NOT_MOVING: Final = Disposition.attached_pic | Disposition.timed_thumbnails | Disposition.still_image


def open_container(path: Path, deadline: Deadline) -> InputContainer:
    """The demuxer of this file; `VideoError` where there is no file, or nothing in it that can be read."""
    if not path.exists():
        raise VideoError(f"{path}: there is no such file.")
    if not path.is_file():
        raise VideoError(f"{path}: this is not a regular file; give the path of a video file.")
    if path.stat().st_size == 0:
        raise VideoError(f"{path}: the file is empty.")
    if _has_head(path):
        container = _open(path, deadline, skip_frame="all", codec_whitelist=_PROBED)
        if all(needs_no_frame(stream) for stream in container.streams.video):
            return container
        container.close()
    return _open(path, deadline)


def _has_head(path: Path) -> bool:
    """Whether this is an MP4 or Matroska file, by its first bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError:  # opening it will say why
        return False
    return start[4:] == b"ftyp" or start.startswith(b"\x1a\x45\xdf\xa3")


def needs_no_frame(stream: VideoStream) -> bool:
    """Whether the head of an MP4 or Matroska file says all that FFmpeg would find out by decoding the first frames."""
    codec, name = stream.codec_context, codec_name(stream)
    if name == "h264":
        return h264_head_is_complete(codec.extradata, (codec.width, codec.height))
    return name == "vp9" or (name in {"hevc", "libdav1d"} and codec.pix_fmt is not None)


def _open(path: Path, deadline: Deadline, **options: str) -> InputContainer:
    options |= {"protocol_whitelist": "file", "format_whitelist": f"{_VIDEO_FORMATS},{_AUDIO_FORMATS}"}
    options |= {"skip_loop_filter": "all"}  # of the frames that FFmpeg decodes to find out about streams, not of ours
    try:
        return av.open(
            str(path.absolute()),
            options=options,
            timeout=deadline.remaining_seconds(),
            metadata_errors="replace",
        )
    except av.error.ExitError as error:
        raise deadline.error() from error
    except PermissionError as error:
        raise VideoError(f"{path}: the file may not be read; check its permissions.") from error
    except (av.FFmpegError, ValueError, OSError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise VideoError(
            f"{path}: not a video that can be read ({reason}); it may be an image, a playlist, text or a file whose "
            "head or index is missing."
        ) from error


def choose_stream(container: InputContainer, path: Path) -> tuple[VideoStream, tuple[str, ...]]:
    """The default stream of moving pictures, the largest of several, and a warning where there was a choice."""
    streams = [stream for stream in container.streams.video if not stream.disposition & _NOT_MOVING]
    readable = [stream for stream in streams if codec_name(stream)]
    if not streams:
        what = "only a still picture, such as cover art" if container.streams.video else "no video stream"
        raise VideoError(f"{path}: there is {what} in this file.")
    if not readable:
        raise VideoError(f"{path}: this build of FFmpeg has no decoder for the video in this file; re-encode it.")
    best = max(
        readable,
        key=lambda each: (bool(each.disposition & Disposition.default), each.frames != 1, _area(each), -each.index),
    )
    if _area(best) > MAX_PIXELS:
        raise VideoError(
            f"{path}: pictures of {best.codec_context.width}x{best.codec_context.height} are larger than the "
            f"{MAX_PIXELS:,} pixels allowed."
        )
    for other in container.streams:
        if other.index != best.index:
            other.discard = Discard.all
    if len(readable) > 1:
        return best, (f"stream {best.index} is used, one of {len(readable)} video streams",)
    return best, ()


def codec_name(stream: Stream) -> str:
    """The decoder of a stream; empty for an unknown codec, of which PyAV's types do not say that it has none."""
    return getattr(stream.codec_context, "name", "")


def _area(stream: VideoStream) -> int:
    return stream.codec_context.width * stream.codec_context.height


NO_TIME: Final = np.iinfo(np.int64).min  # a timestamp that the file does not state

READ_ERRORS: Final = (av.FFmpegError, OSError, IndexError)  # the last comes from PyAV where damage makes a stream up

_CHECK_EVERY: Final = 512
_KEYFRAME_HEAD_BYTES: Final = 4096  # bytes of a keyframe to look at first; enough except for very large SEI messages


class NotPlainError(Exception):
    """The head of a file has something that is left to the demuxer."""


def require_plain(condition: object) -> None:
    """Leave a file to the demuxer unless this holds."""
    if not condition:
        raise NotPlainError


@dataclass(frozen=True, slots=True)
class PacketTable:
    """One row for each packet, in decode order."""

    pts: NDArray[np.int64]
    dts: NDArray[np.int64]
    duration: NDArray[np.int64]  # 0 where the file does not say
    position: NDArray[np.int64]  # where the packet starts in the file, in bytes; -1 where the demuxer does not say
    size: NDArray[np.int64]
    is_key: NDArray[np.bool_]
    is_discard: NDArray[np.bool_]  # decoded, because others refer to it, but cut from what is shown by an edit list
    head_bytes: int | None = None  # between position and data; None if the file does not have the data as it is

    def __len__(self) -> int:
        return len(self.pts)

    def without(self, hidden: NDArray[np.bool_]) -> PacketTable:
        """The same packets, of which those that are hidden are not shown."""
        return replace(self, is_discard=self.is_discard | hidden)

    def contains(self, other: PacketTable, row: int) -> bool:
        """Whether the rows of this table from `row` on are the other one."""
        rows = slice(row, row + len(other))
        columns = ("pts", "position", "size", "is_discard")  # what a demuxer does not guess
        return (
            row >= 0
            and all(np.array_equal(getattr(self, column)[rows], getattr(other, column)) for column in columns)
            and (np.array_equal(self.dts[rows], other.dts) or bool(np.all(self.dts[rows] == NO_TIME)))
        )


def read_packets(
    container: InputContainer,
    stream: VideoStream,
    is_start: Callable[[memoryview], bool] | None,
    deadline: Deadline,
    *,
    limit: int | None = None,
) -> tuple[PacketTable, tuple[str, ...]]:
    """Every packet from where the container is, and a warning where reading broke off; `is_start` checks keyframes."""
    rows: list[tuple[int, int, int, int, int, bool, bool]] = []
    warnings: tuple[str, ...] = ()
    try:
        for packet in container.demux(stream):
            if not packet.size:
                continue
            if len(rows) % _CHECK_EVERY == 0:
                deadline.check()
                if packet.has_sidedata("encryption_info") or "enc_key_id" in stream.metadata:
                    raise VideoError(f"{deadline.path}: the video is encrypted; give a file that is not.")
            pts, dts, position = packet.pts, packet.dts, packet.pos
            rows.append(
                (
                    NO_TIME if pts is None else pts,
                    NO_TIME if dts is None else dts,
                    packet.duration or 0,
                    -1 if position is None else position,
                    packet.size,
                    packet.is_keyframe and (is_start is None or is_start(memoryview(packet))),
                    packet.is_discard,
                )
            )
            if len(rows) == limit:
                break
    except READ_ERRORS as error:
        deadline.check()
        reason = getattr(error, "strerror", None) or type(error).__name__
        warnings = (f"reading broke off after {len(rows)} packets ({reason})",)
    return table_of(rows), warnings


def table_of(rows: list[tuple[int, int, int, int, int, bool, bool]]) -> PacketTable:
    """A table of rows that are (pts, dts, duration, position, size, is_key, is_discard)."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 7).T
    pts, dts, duration, position, size, key, discard = (np.ascontiguousarray(column) for column in columns)
    return PacketTable(pts, dts, duration, position, size, key.astype(np.bool_), discard.astype(np.bool_))


def keep_true_keyframes(
    file: BinaryIO, table: PacketTable, is_start: Callable[[memoryview], bool], *, skip_bytes: int = 0
) -> None:
    """Clear the flag of keyframes that `is_start` rejects; data starts `skip_bytes` after a position."""
    for row in np.flatnonzero(table.is_key):
        file.seek(int(table.position[row]) + skip_bytes)
        size = int(table.size[row])
        head = memoryview(file.read(min(size, _KEYFRAME_HEAD_BYTES)))
        if not is_start(head):
            whole = head.tobytes() + file.read(size - len(head))
            table.is_key[row] = len(whole) > len(head) and is_start(memoryview(whole))


class Deadline:
    """The time at which the work stops: `doing` as in "opening it"."""

    def __init__(self, path: Path, doing: str, seconds: float) -> None:
        self.path, self.doing, self.seconds = path, doing, seconds
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raise the error if the time is up."""
        if time.monotonic() > self._end:
            raise self.error()

    def remaining_seconds(self) -> float:
        """Time that is left."""
        return max(0.0, self._end - time.monotonic())

    def error(self) -> VideoError:
        """The sentence that says that the time is up."""
        return VideoError(
            f"{self.path}: {self.doing} took longer than the deadline of {self.seconds:g} s; "
            "give a longer deadline, or re-encode the video with more keyframes."
        )
