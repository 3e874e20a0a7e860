"""The log of a method: every call of the backbone, with its frames and its cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trace_ves.records.base import Count, Counts, Flag, Name, Number, Numbers, SparseRecord


@dataclass(frozen=True, slots=True)
class Usage(SparseRecord):
    """Tokens that a call used, as the provider counts them."""

    input_tokens: Count = 0
    cached_tokens: Count = 0
    """The part of the input tokens that came from the provider's cache."""
    output_tokens: Count = 0
    """These include thinking."""
    cache_write_tokens: Count | None = None
    """The part of the input tokens that was written into the provider's cache, if the provider reports it."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            (self.cache_write_tokens or 0) + (other.cache_write_tokens or 0) or None,
        )


@dataclass(frozen=True, slots=True)
class Call(SparseRecord):
    """One call of the backbone: its stage, its frames, and its cost."""

    stage: str
    timestamps: Numbers = ()
    """Source timestamps of the supplied frames, in the order supplied; empty for a text-only call."""
    heights: Counts = ()
    """The height in pixels of each of those frames."""
    usage: Usage = Usage()
    seconds: Number = 0.0
    """Wall-clock time of the call."""
    fault: str | None = None
    """Why the model's reply was invalid, even after one repair."""
    service_tier: str | None = None
    """The service tier that answered, if it was not the standard one: `flex`."""
    remembered: Flag | None = None
    """True if nothing was sent: an earlier question used the same frames, and its result supports this answer too."""
    suspect: Flag | None = None
    """True if the server reported too few tokens to have read all these frames."""
    subtitles: Count | None = None
    """The number of subtitles in the prompt; they do not count as observed frames."""
    undetermined: Flag | None = None
    """True if the reply drew among equally good answers. Only glance and lab report this."""


@dataclass(frozen=True, slots=True)
class ObservationLog:
    """Every call of one question, in order."""

    calls: tuple[Call, ...] = ()

    @property
    def timestamps(self) -> tuple[float, ...]:
        """F: the distinct source timestamps of all calls, in order of time."""
        return tuple(sorted({seconds for call in self.calls for seconds in call.timestamps}))

    @property
    def frames_supplied(self) -> int:
        """Fr: the number of frames in all calls; a frame that is supplied twice counts twice."""
        return sum(len(call.timestamps) for call in self.calls)

    @property
    def usage(self) -> Usage:
        """The tokens of all calls."""
        return sum((call.usage for call in self.calls), Usage())


def sum_flex_usage(calls: Iterable[Call]) -> Usage:
    """The tokens of the calls that the cheaper service tier answered."""
    return sum((call.usage for call in calls if call.service_tier == "flex"), Usage())


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLook(SparseRecord):
    """Frames that a video reader returned to a program; a long look takes several lines."""

    look: Name
    """An id that the lines of one reader share, within one file."""
    video: str
    """The path or address that the program opened; empty if it had neither."""
    question_id: str | None = None
    """The question that the program was answering, if it said so."""
    timestamps: Numbers
    frames_supplied: Count
    decoder: str
    """Library and version."""
    exact: Flag
    """True if every timestamp is that of the decoder of trace-ves; else the library rounded some of them."""
    scan: Flag | None = None
    """True if many consecutive frames were read; the program may have used fewer."""
    kept: Flag | None = None
    """True for frames that the program marked as used; the other lines of the look are then not supplied frames."""
