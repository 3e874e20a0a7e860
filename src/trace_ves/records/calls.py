"""What a method looked at: every call of the backbone with the frames it was given, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trace_ves.records.base import Count, Counts, Flag, Name, Number, Numbers, SparseRecord


@dataclass(frozen=True, slots=True)
class Usage(SparseRecord):
    """Tokens that a call used, as the provider counted them."""

    input_tokens: Count = 0
    cached_tokens: Count = 0
    """The part of the input tokens that came from the provider's cache."""
    output_tokens: Count = 0
    """A model's thinking included."""
    cache_write_tokens: Count | None = None
    """The part of the input tokens that was written into the provider's cache, where the provider says so."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            (self.cache_write_tokens or 0) + (other.cache_write_tokens or 0) or None,
        )


@dataclass(frozen=True, slots=True)
class Call(SparseRecord):
    """One call of the backbone: its stage, the frames it was given, and what it cost."""

    stage: str
    timestamps: Numbers = ()
    """Source timestamps of the supplied frames, in the order supplied; empty for a text-only call."""
    heights: Counts = ()
    """Rows of pixels of each of those frames."""
    usage: Usage = Usage()
    seconds: Number = 0.0
    """Wall-clock time of the call."""
    fault: str | None = None
    """What was wrong with the model's reply, where it stayed wrong after one repair."""
    service_tier: str | None = None
    """The tier of the service that answered, where it was not the standard one: `flex`."""
    remembered: Flag | None = None
    """True where nothing was sent: the frames were seen for an earlier question and support this answer too."""
    suspect: Flag | None = None
    """True where the server reported too few tokens to have read all these frames."""
    subtitles: Count | None = None
    """Lines of subtitles that the prompt showed as text; they are not observed frames."""
    undetermined: Flag | None = None
    """True where the answer of the reply was a draw; glance and lab say so, a model never does."""


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


def flex_usage(calls: Iterable[Call]) -> Usage:
    """The tokens of those calls that the cheaper tier of a service answered."""
    return sum((call.usage for call in calls if call.service_tier == "flex"), Usage())


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLook(SparseRecord):
    """What one reader handed to a program; a long look takes several lines."""

    look: Name
    """The same for the lines of one reader, within one file."""
    video: str
    """The path or address as the program gave it; empty where it gave neither."""
    question_id: str | None = None
    """The question that was being answered, where the program said so."""
    timestamps: Numbers
    frames_supplied: Count
    decoder: str
    """Library and version."""
    exact: Flag
    """Every timestamp is that of trace-ves' own decoder; else some are as the library rounded them."""
    scan: Flag | None = None
    """True where a long run of consecutive frames was read; the program may have kept fewer."""
    kept: Flag | None = None
    """True for frames that the program said it kept; the other lines of the look are then not supplied frames."""
