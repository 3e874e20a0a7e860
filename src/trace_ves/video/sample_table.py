"""Read the packets of an MP4 or MOV file from the tables in its header, without reading the media data.

Covers plain files: one description, no fragments, an edit list that cuts nothing. All others are demuxed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from trace_ves.video.container import NotPlainError, PacketTable, keep_true_keyframes, require_plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_HEAD_BYTES: Final = 256 << 20
_MAX_SAMPLES: Final = 1 << 26
_STORED_AS_THEY_ARE: Final = frozenset({b"avc1", b"avc3", b"hvc1", b"hev1", b"vp08", b"vp09", b"av01"})
_AS_STORED: Final = struct.pack(">9I", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)  # the matrix that turns nothing


def read_sample_table(
    path: Path, track_id: int, is_start: Callable[[memoryview], bool] | None
) -> tuple[PacketTable | None, int, bool]:
    """The packets of a track, or None if not plain; how many are beyond the file's end; whether nothing is rotated."""
    try:
        with path.open("rb") as file:
            head = _moov(file)
            track = _track(head, track_id)
            table = _track_table(track)
            beyond = int(np.count_nonzero(table.position + table.size > path.stat().st_size))
            if beyond or not _edits_cut_nothing(head, track, table):
                return None, beyond, False
            if is_start is not None:
                keep_true_keyframes(file, table, is_start)
            return table, 0, _shows_as_stored(head, track)
    except (NotPlainError, StopIteration, struct.error, LookupError, ValueError, OverflowError):
        return None, 0, False


def _boxes(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the name and content of each box in a box."""
    at = 0
    while at + 8 <= len(data):
        name, head, length = _box_head(data[at : at + 16])
        length = length or len(data) - at
        require_plain(length >= head)
        yield name, data[at + head : at + length]
        at += length


def _box_head(data: bytes | memoryview) -> tuple[bytes, int, int]:
    """The name of a box, the size of its header and its total size; 0 for a box that extends to the end."""
    length, name = struct.unpack_from(">I4s", data)
    return (name, 16, *struct.unpack_from(">Q", data, 8)) if length == 1 else (name, 8, length)


def _box(data: memoryview, *path: bytes) -> memoryview:
    """The content of the first box down this path."""
    for name in path:
        data = next(content for box, content in _boxes(data) if box == name)
    return data


def _moov(file: BinaryIO) -> memoryview:
    """Read the header of the file, which may be at its start or end."""
    while len(header := file.read(16)) >= 8:
        name, head, length = _box_head(header)
        require_plain(head <= length and (name != b"moov" or length <= _MAX_HEAD_BYTES))
        file.seek(head - len(header), 1)
        if name == b"moov":
            return memoryview(file.read(length - head))
        file.seek(length - head, 1)
    raise NotPlainError


def _track(head: memoryview, track_id: int) -> memoryview:
    for name, content in _boxes(head):
        require_plain(name != b"mvex")
        if name == b"trak":
            header = _box(content, b"tkhd")
            if struct.unpack_from(">I", header, 20 if header[0] == 1 else 12)[0] == track_id:
                return content
    raise NotPlainError


def _shows_as_stored(head: memoryview, track: memoryview) -> bool:
    """Whether the matrices of the movie, which FFmpeg must read first, and of the track leave pictures unrotated."""
    (name, movie), *others = _boxes(head)
    matrices = [bytes(box[at + 12 * box[0] :][:36]) for box, at in ((movie, 36), (_box(track, b"tkhd"), 40))]
    return name == b"mvhd" not in dict(others) and matrices == [_AS_STORED, _AS_STORED]


def _track_table(track: memoryview) -> PacketTable:
    """The samples in decode order, with the track's own times."""
    tables = dict(_boxes(_box(track, b"mdia", b"minf", b"stbl")))
    require_plain(not {b"sbgp", b"stps"} & tables.keys() and struct.unpack_from(">I", tables[b"stsd"], 4)[0] == 1)
    size = _sizes(tables)
    count = len(size)
    duration = _run_lengths(_rows(tables[b"stts"], 2), count)
    offset = np.zeros(count, dtype=np.int64)
    if b"ctts" in tables:
        offset = _run_lengths(_rows(tables[b"ctts"], 2), count).astype(np.int32).astype(np.int64)
    is_key = np.ones(count, dtype=np.bool_)
    if b"stss" in tables:
        is_key[:] = False
        is_key[_rows(tables[b"stss"], 1)[:, 0] - 1] = True
    require_plain(count and np.all(size))
    decoded = np.cumsum(duration) - duration
    dts = decoded + min(0, int(offset.min()))  # shifted as in FFmpeg, so that none is shown before it is decoded
    positions, is_discard = _positions(tables, size), np.zeros(count, np.bool_)
    head_bytes = 0 if tables[b"stsd"][12:16] in _STORED_AS_THEY_ARE else None
    return PacketTable(decoded + offset, dts, duration, positions, size, is_key, is_discard, head_bytes)


def _run_lengths(runs: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Expand a run-length table of (count, value), which must have a value for each sample."""
    require_plain(int(runs[:, 0].sum()) == count)
    return np.repeat(runs[:, 1], runs[:, 0])


def _sizes(tables: dict[bytes, memoryview]) -> NDArray[np.int64]:
    same, count = struct.unpack_from(">II", tables[b"stsz"], 4)
    require_plain(count <= _MAX_SAMPLES)
    if same:
        return np.full(count, same, dtype=np.int64)
    return np.frombuffer(tables[b"stsz"], dtype=">u4", count=count, offset=12).astype(np.int64)


def _positions(tables: dict[bytes, memoryview], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """The position of each sample in the file. Runs of chunks have the same number of samples."""
    wide = b"co64" in tables
    content = tables[b"co64" if wide else b"stco"]
    (chunks,) = struct.unpack_from(">I", content, 4)
    chunk_start = np.frombuffer(content, dtype=">u8" if wide else ">u4", count=chunks, offset=8).astype(np.int64)
    runs = _rows(tables[b"stsc"], 3)
    run_lengths = np.diff(np.append(runs[:, 0] - 1, chunks))
    require_plain(run_lengths.min() >= 0 and int((run_lengths * runs[:, 1]).sum()) == len(size))
    per_chunk = np.repeat(runs[:, 1], run_lengths)
    chunk = np.repeat(np.arange(chunks), per_chunk)
    before = np.cumsum(size) - size
    first = np.minimum(np.cumsum(per_chunk) - per_chunk, len(size) - 1)
    positions: NDArray[np.int64] = chunk_start[chunk] + before - before[first][chunk]
    return positions


def _rows(table: memoryview, columns: int) -> NDArray[np.int64]:
    """Read a table of unsigned 32-bit numbers after its version and count."""
    (count,) = struct.unpack_from(">I", table, 4)
    require_plain(count <= _MAX_SAMPLES)
    flat = np.frombuffer(table, dtype=">u4", count=count * columns, offset=8)
    return flat.astype(np.int64).reshape(count, columns)


def _edits_cut_nothing(head: memoryview, track: memoryview, table: PacketTable) -> bool:
    """Shift the table to presentation times; returns False if the edit list does more than set the start."""
    boxes = dict(_boxes(track))
    if b"edts" not in boxes:
        return True
    elst = _box(boxes[b"edts"], b"elst")
    if struct.unpack_from(">I", elst, 4)[0] != 1:
        return False
    # the length is in ticks of the movie, the start in ticks of the media
    length, media_time, rate = struct.unpack_from(">QqI" if elst[0] == 1 else ">IiI", elst, 8)
    movie_scale, media_scale = _timescale(_box(head, b"mvhd")), _timescale(_box(track, b"mdia", b"mdhd"))
    first, last = int(table.pts.min()), int(table.pts.max())
    cuts_start, cuts_end = media_time > first, (last - media_time) * movie_scale >= (length + 1) * media_scale
    if media_time < 0 or rate != 1 << 16 or cuts_start or (length and cuts_end):
        return False
    table.pts[:] -= media_time
    table.dts[:] -= media_time
    return True


def _timescale(header: memoryview) -> int:
    return int(struct.unpack_from(">I", header, 20 if header[0] == 1 else 12)[0])
