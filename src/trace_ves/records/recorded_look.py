"""A line of recorded frames: what one reader, opened on one video, handed to a program."""

from __future__ import annotations

from dataclasses import dataclass

from trace_ves.records.record import Count, Flag, Name, Numbers, SparseRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLook(SparseRecord):
    """What one reader handed to a program; a long look stands in several lines."""

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
