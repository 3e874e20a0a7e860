"""One interval of a video as a small file of its own: encoded anew, so that nothing beyond the interval is in it."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.core import Interval

FPS: Final = 12.0
HEIGHT: Final = 480
MOST_FRAMES: Final = 1200
TICKS: Final = 1000
"""Ticks of the clip's clock in a second."""


def cut(path: Path, span: Interval) -> bytes:
    """The interval as an MP4 that begins at 0: frames inside of it alone, at their own distances, without sound."""
    import av  # noqa: PLC0415  the encoder is loaded only where a clip is cut

    with open_video(path) as video:
        frames = [
            frame
            for frame in video.frames_between(span, fps=FPS, height=HEIGHT, limit=MOST_FRAMES)
            if frame.seconds in span
        ]
        frames = frames or list(video.frames_at([span.centre], height=HEIGHT))
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=round(FPS), options={"preset": "ultrafast", "crf": "23"})
        first = frames[0].rgb()
        stream.width, stream.height = first.shape[1] // 2 * 2, first.shape[0] // 2 * 2
        stream.pix_fmt, stream.codec_context.time_base = "yuv420p", Fraction(1, TICKS)
        for frame in frames:
            pixels = frame.rgb()[: stream.height, : stream.width]
            picture = av.VideoFrame.from_ndarray(pixels.copy(), format="rgb24")
            picture.pts, picture.time_base = round(TICKS * (frame.seconds - frames[0].seconds)), Fraction(1, TICKS)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return file.getvalue()
