"""What was looked at: frames with their true timestamps, clips of them, and the log of every call that saw them.

Knows nothing of decoders: a `Frame` holds a `Picture`, and whoever decodes says how it becomes JPEG or pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from trace_ves.core.fields import as_count, as_number, as_numbers, as_optional_text, as_record, as_text, each, require

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from trace_ves.core.interval import Interval


class Picture(Protocol):
    """The pixels of one frame, in whatever form the decoder left them."""

    @property
    def width(self) -> int:
        """Columns of pixels."""

    @property
    def height(self) -> int:
        """Rows of pixels."""

    def jpeg(self, quality: int = 90) -> bytes:
        """The picture as a JPEG file."""

    def rgb(self) -> NDArray[np.uint8]:
        """The picture as an array of height x width x 3."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of the source video. It never travels without its true timestamp."""

    pts: int
    """Presentation timestamp in the stream's own ticks: the frame's identity within its video."""
    seconds: float
    """The decoder's timestamp, the first frame of the stream at 0; never the one that was asked for."""
    picture: Picture = field(repr=False, compare=False)

    def jpeg(self, quality: int = 90) -> bytes:
        """The picture as a JPEG file."""
        return self.picture.jpeg(quality)

    def rgb(self) -> NDArray[np.uint8]:
        """The picture as an array of height x width x 3."""
        return self.picture.rgb()


@dataclass(frozen=True, slots=True)
class ObservationStrategy:
    """How closely to look at a span."""

    fps: float = 1.0
    """Frames for each second of the span."""
    height: int = 360
    """Rows of pixels; a video with fewer keeps its own."""

    def __post_init__(self) -> None:
        if not (self.fps > 0 and self.height > 0):
            raise ValueError(f"a strategy needs fps > 0 and height > 0, got fps={self.fps}, height={self.height}")


@dataclass(frozen=True, slots=True)
class Clip:
    """A span of the video, how it was looked at, and the frames that were seen."""

    span: Interval
    strategy: ObservationStrategy
    frames: tuple[Frame, ...]


class VideoSource(Protocol):
    """What an observer needs of a video; `trace_ves.video.open` gives one."""

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last."""

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        """The frame on screen at each of these moments, one for each, in the order asked."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a call used, as the provider counted them."""

    input_tokens: int = 0
    cached_tokens: int = 0
    """The part of the input tokens that the provider had in a cache of its own."""
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the backbone: its stage, the frames it was given, and what it cost."""

    stage: str
    timestamps: tuple[float, ...] = ()
    """Source timestamps of the supplied frames, in the order supplied; empty for a call of text alone."""
    heights: tuple[int, ...] = ()
    """Rows of pixels of each of those frames."""
    usage: Usage = Usage()
    seconds: float = 0.0
    """Wall-clock time of the call."""
    fault: str | None = None
    """What was wrong with the model's reply, where it stayed wrong after one repair."""

    def to_json(self) -> dict[str, object]:
        """The call as it stands in a run file."""
        record: dict[str, object] = {
            "stage": self.stage,
            "timestamps": list(self.timestamps),
            "heights": list(self.heights),
            "usage": usage_to_json(self.usage),
            "seconds": self.seconds,
        }
        return record | ({"fault": self.fault} if self.fault is not None else {})

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> Call:
        """The call that `to_json` wrote; a plain one needs no more than its stage and timestamps."""
        return cls(
            stage=as_text("stage", require(record, "stage")),
            timestamps=as_numbers("timestamps", record.get("timestamps", [])),
            heights=each("heights", record.get("heights", []), as_count),
            usage=usage_from_json(as_record("usage", record.get("usage", {}))),
            seconds=as_number("seconds", record.get("seconds", 0.0)),
            fault=as_optional_text("fault", record.get("fault")),
        )


def usage_to_json(usage: Usage) -> dict[str, int]:
    """Token counts as they stand in a run file."""
    return {
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }


def usage_from_json(record: Mapping[str, object]) -> Usage:
    """The token counts that `usage_to_json` wrote."""
    return Usage(
        input_tokens=as_count("input_tokens", record.get("input_tokens", 0)),
        cached_tokens=as_count("cached_tokens", record.get("cached_tokens", 0)),
        output_tokens=as_count("output_tokens", record.get("output_tokens", 0)),
    )


@dataclass(frozen=True, slots=True)
class ObservationLog:
    """Every call before the final answer, in the order they were made."""

    calls: tuple[Call, ...] = ()

    @property
    def timestamps(self) -> tuple[float, ...]:
        """F: the distinct source timestamps that were supplied in any call, in order of time."""
        return tuple(sorted({seconds for call in self.calls for seconds in call.timestamps}))

    @property
    def frames_supplied(self) -> int:
        """Fr: every frame of every call; a frame supplied again is charged again."""
        return sum(len(call.timestamps) for call in self.calls)

    @property
    def usage(self) -> Usage:
        """Tokens of all calls together."""
        return sum((call.usage for call in self.calls), Usage())

    def to_json(self) -> list[dict[str, object]]:
        """The log as it stands in a run file."""
        return [call.to_json() for call in self.calls]

    @classmethod
    def from_json(cls, records: Sequence[object]) -> ObservationLog:
        """The log that `to_json` wrote."""
        return cls(tuple(Call.from_json(as_record("observations", record)) for record in records))
