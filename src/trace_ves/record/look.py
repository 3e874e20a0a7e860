"""One reader that a program opened on one video, and the frames it was handed from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from trace_ves.record.frame_table import frame_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from trace_ves.record.frame_table import FrameTable


class Seen(Protocol):
    """How a library names a frame that it handed out; a frame table turns it into the decoder's timestamp."""

    def placed(self, table: FrameTable) -> float | None:
        """The timestamp of the frame in a table of all frames; None where the table has no such frame."""

    def own_seconds(self) -> float | None:
        """What the library itself says, where there is no table; None where it does not know."""


@dataclass(frozen=True, slots=True)
class SeenIndex:
    """A frame by its place in display order, of so many."""

    index: int
    count: int
    library_seconds: Callable[[], float | None] = lambda: None
    """What the library says of this place, asked only where it is needed."""

    def placed(self, table: FrameTable) -> float | None:
        """By place, where library and table agree on how many frames there are."""
        return table.by_index(self.index, self.count)

    def own_seconds(self) -> float | None:
        """What the library says of this place."""
        return self.library_seconds()


@dataclass(frozen=True, slots=True)
class SeenPts:
    """A frame by the timestamp of its stream, in ticks."""

    pts: int
    time_base: Fraction

    def placed(self, table: FrameTable) -> float | None:
        """By the same ticks."""
        return table.by_pts(self.pts, self.time_base)

    def own_seconds(self) -> float | None:
        """Seconds from the stream's zero, which need not be its first frame."""
        return float(self.pts * self.time_base)


@dataclass(frozen=True, slots=True)
class SeenSeconds:
    """A frame by seconds: from the stream's zero, or from the start time that the container states."""

    seconds: float
    from_start_time: bool = False

    def placed(self, table: FrameTable) -> float | None:
        """By the tick that these seconds were rounded from."""
        return table.by_seconds(self.seconds, from_start_time=self.from_start_time)

    def own_seconds(self) -> float | None:
        """The same seconds."""
        return self.seconds


@dataclass(slots=True, eq=False, weakref_slot=True)
class Look:
    """What was handed out by one reader."""

    video: str
    """The path or address as the program gave it."""
    decoder: str
    """Library and version."""
    question_id: str | None = None
    seen: list[Seen] = field(default_factory=list)
    written: int = 0
    """How many of them stand in a file already."""

    def resolved(self) -> Resolved:
        """The timestamps of everything that was seen."""
        return self.resolve(self.seen)

    def resolve(self, seen: Sequence[Seen]) -> Resolved:
        """The timestamps of some of it."""
        table = frame_table(self.video)
        timestamps, is_exact, unplaced = [], table is not None, 0
        for each in seen:
            found = each.placed(table) if table is not None else None
            if found is None:
                is_exact, found = False, each.own_seconds()
            if found is None or not 0 <= found < 1e9:
                unplaced += 1
            else:
                timestamps.append(found)
        return Resolved(tuple(timestamps), len(seen), is_exact, unplaced)


@dataclass(frozen=True, slots=True)
class Resolved:
    """The frames of a look by their timestamps."""

    timestamps: tuple[float, ...]
    frames_supplied: int
    is_exact: bool
    """Every timestamp is that of our own decoder; else some are what the library said."""
    unplaced: int
    """Frames whose timestamp nobody knows."""
