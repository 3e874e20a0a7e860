"""Proof of looking: which spans of a video a person has played, and whether that is enough for a judgement. Pure."""

from __future__ import annotations

import io
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import PlainSerializer

from trace_ves.records.base import Flag, Number, Record
from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from trace_ves.construction.visual_verification import Evidence
    from trace_ves.core import Interval

FASTEST_RATE: Final = 4.0
"""The player plays no faster than this."""
SLACK_SECONDS: Final = 2.0
"""What a report may be ahead of the server's clock: timers and networks are not exact."""
REPORT_SECONDS: Final = 20.0
"""A player reports more often than this."""
JOIN_SECONDS: Final = 0.12
"""Spans closer than this are one: players report frames, and frames have gaps."""


Rounded = Annotated[Number, PlainSerializer(lambda value: round(value, 3), return_type=float)]
"""A number that is kept to the third decimal."""


@dataclass(frozen=True, slots=True)
class Looking(Record):
    """What stands behind a judgement."""

    watched_share: Rounded
    """The smallest share of any interval that was played."""
    took_seconds: Rounded
    """From the moment that the assignment was given, by the server's clock."""
    clip_seconds: Rounded
    """Length of the intervals together."""
    is_blind: Flag = True
    """For leave-one-out: whether the person had nothing more of this video on screen before."""

    @property
    def pace(self) -> float:
        """Time taken, in lengths of the clips; below 1 it was faster than the clips are long."""
        return self.took_seconds / self.clip_seconds if self.clip_seconds > 0 else 1.0


def joined(spans: Iterable[Sequence[float]]) -> list[list[float]]:
    """The same spans in order, with those that touch or overlap made one."""
    found: list[list[float]] = []
    for start, end in sorted((float(start), float(end)) for start, end in spans):
        if found and start <= found[-1][1] + JOIN_SECONDS:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return found


def length(spans: Iterable[Sequence[float]]) -> float:
    """Seconds of all spans, one after the other."""
    return sum(end - start for start, end in spans)


def watched_share(interval: Interval, spans: Iterable[Sequence[float]]) -> float:
    """The share of an interval that was played."""
    inside = [
        [max(start, interval.start), min(end, interval.end)]
        for start, end in joined(spans)
        if end > interval.start and start < interval.end
    ]
    return min(1.0, length(inside) / interval.length) if interval.length > 0 else 1.0


def playable(credit: float, elapsed_seconds: float) -> float:
    """Seconds of video that can have been played since the last report, with what that one left over.

    Players report every few seconds, so that a long silence earns no more than a short one.
    """
    return min(credit + FASTEST_RATE * elapsed_seconds, FASTEST_RATE * REPORT_SECONDS + SLACK_SECONDS)


def unwatched(evidence: Evidence, spans: Iterable[Sequence[float]], needed: float) -> list[int]:
    """The places of the intervals that were not played enough."""
    played = joined(spans)
    return [place for place, interval in enumerate(evidence) if watched_share(interval, played) < needed]


FPS: Final = 12.0
HEIGHT: Final = 480
MOST_FRAMES: Final = 1200
TICKS: Final = 1000
"""Ticks of the clip's clock in a second."""


def cut(path: Path, span: Interval) -> bytes:
    """The interval as an MP4 that begins at 0: frames inside of it alone, at their own distances, without sound."""
    import av  # the encoder is loaded only where a clip is cut

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
