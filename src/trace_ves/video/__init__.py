"""Decoding: the frame on screen at any moment of a video file, with the timestamp the file gives it.

Needs the extra `video` (PyAV, simplejpeg), and imports it only when a video is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.core import MissingExtraError
from trace_ves.video.frame_cache import CachedVideo

if TYPE_CHECKING:
    from os import PathLike

    from trace_ves.video.video import Video

__all__ = ["CachedVideo", "Video", "open"]


def __getattr__(name: str) -> object:
    """`Video`, the class, on first use: it needs the decoder."""
    if name == "Video":
        from trace_ves.video.video import Video  # the decoder is loaded only where it is used

        return Video
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open(path: str | PathLike[str], *, deadline_seconds: float = 120.0) -> Video:  # noqa: A001  video.open reads well
    """The video in this file; opening it, and each request to it, is given up after `deadline_seconds`."""
    try:
        from trace_ves.video.video import Video  # the decoder is loaded only when a video is opened
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] in {"av", "simplejpeg"}:
            raise MissingExtraError("Decoding video", "video") from error
        raise
    return Video(path, deadline_seconds=deadline_seconds)
