"""Opening a media file and choosing the stream to look at. Knows nothing of frames or time.

Files are hostile input: only the file itself is ever read, and only by demuxers of self-contained formats, so that
a playlist under the name of a video cannot make the decoder open other files or the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import av
from av.stream import Discard, Disposition

from trace_ves.core import VideoError

if TYPE_CHECKING:
    from pathlib import Path

    from av.container import InputContainer
    from av.video.stream import VideoStream

    from trace_ves.video.deadline import Deadline

_VIDEO_FORMATS: Final = (
    "3gp,apng,asf,av1,avi,avs2,avs3,cavsvideo,dirac,dnxhd,dv,evc,flv,gif,h261,h263,h264,hevc,ivf,kux,live_flv,m4v,"
    "matroska,mjpeg,mov,mpeg,mpegts,mpegvideo,mxf,nut,nuv,obu,ogg,rm,roq,smk,swf,vc1,vvc,wtv,xmv,yop,yuv4mpegpipe"
)
_AUDIO_FORMATS: Final = "aac,ac3,aiff,amr,ape,au,caf,eac3,flac,mp3,tta,wav,wv"
"""Opened only to say that there is no video in them."""

RAW_FORMATS: Final = frozenset(
    {"av1", "avs2", "avs3", "cavsvideo", "dirac", "dnxhd", "evc", "h261", "h263", "h264", "hevc"}
    | {"m4v", "mjpeg", "mpegvideo", "obu", "vc1", "vvc"}
)
"""Elementary streams: no container, so no timestamps; what the demuxer makes up for them is not the file's."""

MAX_PIXELS: Final = 1 << 27
"""Larger pictures are refused: one frame of this size already takes 200 MB."""

_NOT_MOVING: Final = Disposition.attached_pic | Disposition.timed_thumbnails | Disposition.still_image


def open_container(path: Path, deadline: Deadline) -> InputContainer:
    """The demuxer of this file; `VideoError` where there is no file, or nothing in it that can be read."""
    if not path.exists():
        raise VideoError(f"{path}: there is no such file.")
    if not path.is_file():
        raise VideoError(f"{path}: this is not a regular file; give the path of a video file.")
    if path.stat().st_size == 0:
        raise VideoError(f"{path}: the file is empty.")
    options = {"protocol_whitelist": "file", "format_whitelist": f"{_VIDEO_FORMATS},{_AUDIO_FORMATS}"}
    try:
        return av.open(
            str(path.absolute()),
            container_options=options,
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
    readable = [stream for stream in streams if _has_decoder(stream)]
    if not streams:
        what = "only a still picture, such as cover art" if container.streams.video else "no video stream"
        raise VideoError(f"{path}: there is {what} in this file.")
    if not readable:
        raise VideoError(f"{path}: this build of FFmpeg has no decoder for the video in this file; re-encode it.")
    best = max(
        readable,
        key=lambda stream: (bool(stream.disposition & Disposition.default), _area(stream), -stream.index),
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


def _has_decoder(stream: VideoStream) -> bool:
    codec: object = stream.codec_context  # None for an unknown codec, though PyAV's types do not say so
    return codec is not None


def _area(stream: VideoStream) -> int:
    return stream.codec_context.width * stream.codec_context.height
