"""Decode rows of the index in groups with several readers, and damaged groups sequentially. One request at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core import VideoError
from trace_ves.video.index import FrameIndex, without_starts
from trace_ves.video.picture import Scaler, YuvPicture, checksum
from trace_ves.video.reader import PacketsMovedError, Reader

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

    from trace_ves.video.container import Deadline
    from trace_ves.video.survey import Survey

_THREADING_GAIN: Final = 0.25  # speedup per further core from threads within a decoder, for VP9 and AV1

_MIN_PIXELS_FOR_THREADS: Final = 64_000_000  # fewer take about 80 ms, which threads hardly reduce


@dataclass(frozen=True, slots=True)
class Group:
    """Frames that are decoded together, from a start packet to the last wanted one."""

    start: int
    wanted: tuple[int, ...]  # packet numbers in decode order

    @property
    def packets(self) -> int:
        """The number of packets to decode, which is the cost of the group."""
        return self.wanted[-1] - self.start + 1


def plan(index: FrameIndex, rows: Iterable[int]) -> tuple[Group, ...]:
    """Group these rows by start packet, in decode order."""
    by_start: dict[int, set[int]] = {}
    for row in rows:
        by_start.setdefault(int(index.start[row]), set()).add(int(index.packet[row]))
    return tuple(Group(start, tuple(sorted(by_start[start]))) for start in sorted(by_start))


def readers_pay(groups: Sequence[Group], cores: int) -> bool:
    """Whether several readers, each with one group at a time, are faster than one reader with a thread per core."""
    loads = [0] * cores
    for cost in sorted((group.packets for group in groups), reverse=True):
        loads[loads.index(min(loads))] += cost
    return max(loads) <= sum(loads) / (1 + _THREADING_GAIN * (cores - 1))


def threads_pay(groups: Sequence[Group], frame_pixels: int) -> bool:
    """Whether there is enough to decode for threads within a decoder."""
    return sum(group.packets for group in groups) * frame_pixels >= _MIN_PIXELS_FOR_THREADS


_MAX_READERS: Final = 4  # more readers would take more memory
_FIRST_READER: Final = (0, 1)  # slot and threads of the reader left open by a survey
_CAREFUL_READER: Final = (_MAX_READERS, 1)  # for damaged groups; it conceals damage instead of refusing packets


@dataclass(frozen=True, slots=True)
class Shown:
    """The picture on screen at a row of the index."""

    row: int  # the row of its frame: the requested one, or an earlier one if that cannot be decoded
    picture: YuvPicture
    is_damaged: bool = False  # whether it was decoded from partly damaged data


class FrameDecoder:
    """Decodes frames of one file with one or more readers."""

    def __init__(self, path: Path, survey: Survey, reader: Reader | None) -> None:
        self._path = path
        self._survey = survey
        self._index = survey.index
        self._readers = {} if reader is None else {_FIRST_READER: reader}
        self._cores = min(_MAX_READERS, _usable_cores())
        self._bad_starts: set[int] = set()
        self._damaged: set[int] = set()  # packets that some reader refused

    def close(self) -> None:
        """Close the file and the decoders; a later request opens them again."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def pictures(self, rows: Collection[int], height: int | None, deadline: Deadline) -> dict[int, Shown]:
        """The picture on screen at each of these rows: its own, or the one before if it cannot be decoded."""
        groups = plan(self._index, rows)
        row_of = {int(self._index.packet[row]): row for row in rows}
        try:
            by_packet = self._decode(groups, height, deadline)
            shown = {row_of[packet]: Shown(row_of[packet], picture) for packet, picture in by_packet.items()}
            lost = {packet: row for packet, row in row_of.items() if packet not in by_packet}
            for group in groups if lost else ():
                if missing := [lost[packet] for packet in group.wanted if packet in lost]:
                    shown |= self._decode_carefully(group, missing, height, deadline)
        except BaseException:
            self.close()  # the position of an interrupted reader is unknown
            raise
        if self._bad_starts:
            self._index = without_starts(self._index, self._bad_starts)
            self._bad_starts.clear()
        return shown

    def _decode(self, groups: Sequence[Group], height: int | None, deadline: Deadline) -> dict[int, YuvPicture]:
        """Pictures by packet number, without those of damaged groups."""
        first = self._reader(_FIRST_READER, deadline)
        # threads within a decoder do not pay if most frames are skipped or few are decoded
        threads = 1 if first.skips or not threads_pay(groups, self._survey.width * self._survey.height) else self._cores
        if len(groups) < 2 or self._cores < 2 or not (threads == 1 or readers_pay(groups, self._cores)):
            return self._work((0, threads), groups, height, deadline)
        readers = min(self._cores, len(groups))
        longest_first = iter(sorted(groups, key=lambda group: -group.packets))  # shared: each thread takes the next
        with ThreadPoolExecutor(readers - 1, thread_name_prefix="trace-ves-video") as pool:
            others = [pool.submit(self._work, (slot, 1), longest_first, height, deadline) for slot in range(1, readers)]
            pictures = self._work(_FIRST_READER, longest_first, height, deadline)
            for other in others:
                pictures |= other.result()
        return pictures

    def _work(
        self, kind: tuple[int, int], groups: Iterable[Group], height: int | None, deadline: Deadline
    ) -> dict[int, YuvPicture]:
        """Decode groups one after another with this reader, and scale each wanted frame."""
        reader = self._reader(kind, deadline)
        scaler = Scaler(self._survey.orientation)
        pictures: dict[int, YuvPicture] = {}
        for group in groups:
            wanted = frozenset(group.wanted)
            group_pictures: dict[int, YuvPicture] = {}
            held: deque[VideoFrame] = deque(maxlen=4 if reader.hides_damage else 0)  # memory has other old pixels
            try:
                for number, frame in reader.frames(group.start, wanted, deadline):
                    held.append(frame)
                    if number in wanted and self._is_exact(number, frame):
                        group_pictures[number] = scaler.picture(frame, height)
                damaged, started_badly = reader.damaged, reader.started_badly
                if reader.hides_damage and not started_badly and self._survey.checksums is None:
                    damaged = damaged | self._find_hidden_damage(reader, group, group_pictures, height, deadline)
            except PacketsMovedError:
                continue
            self._damaged |= damaged
            inexact = self._survey.checksums is not None and len(group_pictures) < len(wanted)
            if started_badly or (inexact and not damaged):
                self._bad_starts.add(group.start)
            elif not damaged:
                pictures |= group_pictures
        return pictures

    def _find_hidden_damage(
        self, reader: Reader, group: Group, pictures: dict[int, YuvPicture], height: int | None, deadline: Deadline
    ) -> set[int]:
        """Packets that are refused or decoded differently if decoding starts a key frame earlier."""
        scaler = Scaler(self._survey.orientation)
        differing: set[int] = set()
        start = next(start for start in self._starts_before(group.start) if group.start - start >= 4 or start == 0)
        for number, frame in reader.frames(start, group.wanted, deadline):
            if number in pictures and scaler.picture(frame, height).digest() != pictures[number].digest():
                differing.add(number)
        return differing | {number for number in reader.damaged if number >= group.start}

    def _is_exact(self, number: int, frame: VideoFrame) -> bool:
        """Whether a frame equals the one from sequential decoding, if its checksum is known."""
        checksums = self._survey.checksums
        return checksums is None or int(checksums[number]) == checksum(frame)

    def _decode_carefully(
        self, group: Group, rows: Sequence[int], height: int | None, deadline: Deadline
    ) -> dict[int, Shown]:
        """Decode rows of a damaged group sequentially: one thread, no frame skipped."""
        reader = self._reader(_CAREFUL_READER, deadline)
        scaler = Scaler(self._survey.orientation)
        wanted = range(int(self._index.packet[: max(rows) + 1].max()) + 1)  # a frame shown before may be stored after
        found: dict[int, Shown] = {}
        for start in self._starts_before(group.start):
            missing = [row for row in rows if row not in found]
            try:
                frames = reader.frames(start, wanted, deadline, skip_unwanted=False)
                best = self._last_shown(frames, missing, scaler, height)
            except PacketsMovedError:
                if start == 0:
                    raise VideoError(f"{self._path}: its packets have moved; open it again.") from None
                continue
            if not reader.started_badly:
                self._damaged |= reader.damaged
                found |= best
            if len(found) == len(rows):
                return {row: replace(shown, is_damaged=self._depends_on_damage(shown)) for row, shown in found.items()}
        raise VideoError(f"{self._path}: no frame up to {self._index.seconds[max(rows)]:.3f} s can be decoded.")

    def _depends_on_damage(self, shown: Shown) -> bool:
        return any(self._index.start[shown.row] <= at <= self._index.packet[shown.row] for at in self._damaged)

    def _last_shown(
        self, frames: Iterable[tuple[int, VideoFrame]], rows: Sequence[int], scaler: Scaler, height: int | None
    ) -> dict[int, Shown]:
        """The frame of each row, or of the nearest row before it if the row cannot be decoded.

        No frame is held: the decoder then uses its memory in the same order each time, with what damage leaves in it.
        """
        row_of = dict(zip(self._index.packet[: max(rows) + 1].tolist(), range(max(rows) + 1), strict=True))
        all_decodable = self._survey.checksums is not None
        best: dict[int, Shown] = {}
        for number, frame in frames:
            if (at := row_of.get(number)) is None or not self._is_exact(number, frame):
                continue
            fits = [row for row in rows if at == row or (at < row and not all_decodable)]
            fits = [row for row in fits if row not in best or at >= best[row].row]
            if fits:
                best |= dict.fromkeys(fits, Shown(at, scaler.picture(frame, height)))
        return best

    def _starts_before(self, start: int) -> Iterator[int]:
        """The keyframe before this start, some further back, and the start of the file."""
        keys = np.flatnonzero(self._index.packets.is_key[:start])[::-1]
        for back in (0, 1, 3):
            if back < len(keys):
                yield int(keys[back])
        yield 0

    def _reader(self, kind: tuple[int, int], deadline: Deadline) -> Reader:
        """The reader of this slot with this number of threads, opened on first use."""
        if kind not in self._readers:
            self._readers[kind] = Reader(
                self._path,
                self._index.packets,
                self._survey.stream_index,
                threads=kind[1],
                deadline=deadline,
                strict=kind != _CAREFUL_READER,
            )
        return self._readers[kind]


def _usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
