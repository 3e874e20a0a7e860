"""The packets of a stream in decode order, as one demux-only pass finds them. Nothing is decoded here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import av
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from av.container import InputContainer
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

    from trace_ves.video.deadline import Deadline

NO_TIME: Final = np.iinfo(np.int64).min
"""Stands for a timestamp that the file does not give."""

READ_ERRORS: Final = (av.FFmpegError, OSError, IndexError)
"""What demuxing may raise; IndexError comes from PyAV where damage makes a stream appear in mid-file."""

_CHECK_EVERY: Final = 512
_KEYFRAME_HEAD_BYTES: Final = 4096
"""Bytes of a keyframe to look at first; enough but for very large SEI messages."""


@dataclass(frozen=True, slots=True)
class PacketTable:
    """One row for each packet, in decode order."""

    pts: NDArray[np.int64]
    dts: NDArray[np.int64]
    duration: NDArray[np.int64]
    """0 where the file does not say."""
    position: NDArray[np.int64]
    """Where the packet starts in the file, in bytes; -1 where the demuxer does not say."""
    size: NDArray[np.int64]
    is_key: NDArray[np.bool_]
    is_discard: NDArray[np.bool_]
    """Decoded, because others refer to it, but cut from what is shown by an edit list."""

    def __len__(self) -> int:
        return len(self.pts)

    def without(self, hidden: NDArray[np.bool_]) -> PacketTable:
        """The same packets, of which those that are hidden are not shown."""
        return replace(self, is_discard=self.is_discard | hidden)

    def starts_with(self, other: PacketTable) -> bool:
        """Whether the first rows of this table are the other one."""
        return self._stands_at(other, 0)

    def ends_with(self, other: PacketTable) -> bool:
        """Whether the last rows of this table are the other one."""
        return self._stands_at(other, len(self) - len(other))

    def _stands_at(self, other: PacketTable, row: int) -> bool:
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
    """Every packet of the stream from where the container stands, and a warning where reading broke off.

    Keyframes that `is_start` does not accept count as ordinary frames.
    """
    rows: list[tuple[int, int, int, int, int, bool, bool]] = []
    warnings: tuple[str, ...] = ()
    try:
        for packet in container.demux(stream):
            if not packet.size:
                continue
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
            if len(rows) % _CHECK_EVERY == 0:
                deadline.check()
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
    """Take the mark from keyframes that `is_start` does not accept; data starts so many bytes after a position."""
    for row in np.flatnonzero(table.is_key):
        file.seek(int(table.position[row]) + skip_bytes)
        size = int(table.size[row])
        head = memoryview(file.read(min(size, _KEYFRAME_HEAD_BYTES)))
        if not is_start(head):
            whole = head.tobytes() + file.read(size - len(head))
            table.is_key[row] = len(whole) > len(head) and is_start(memoryview(whole))
