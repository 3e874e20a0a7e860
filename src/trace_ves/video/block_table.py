"""Read the packets of a Matroska or WebM file from the headers of its blocks, without demuxing the media data.

Clusters are walked side by side: one step of numpy reads the next element of each. Covers plain files: one segment and
clusters of known size, no additions, no laces of pictures, no stripped headers, no projection. All others are demuxed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.video.container import NO_TIME, Deadline, NotPlainError, PacketTable, keep_true_keyframes, require_plain

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SEGMENT: Final = 0x18538067
_TRACKS: Final = 0x1654AE6B
_CLUSTER: Final = 0x1F43B675
_TRACK_ENTRY: Final = 0xAE
_TRACK_NUMBER: Final = 0xD7
_CODEC_ID: Final = 0x86
_OTHERS_IN_SEGMENT: Final = frozenset(  # seek head, info, cues, attachments, chapters, tags, void, checksum
    {0x114D9B74, 0x1549A966, 0x1C53BB6B, 0x1941A469, 0x1043A770, 0x1254C367, 0xEC, 0xBF}
)
_CHANGES_PACKETS: Final = frozenset({0x6D80, 0x23314F, 0x56AA, 0x7670})  # stripped headers, times, delay, projection
_CODECS: Final = frozenset({b"V_VP8", b"V_VP9", b"V_AV1", b"V_MPEG4/ISO/AVC", b"V_MPEGH/ISO/HEVC"})
"""Codecs whose packets are the stored blocks."""

_TIMESTAMP: Final = 0xE7
_SIMPLE_BLOCK: Final = 0xA3
_GROUP: Final = 0xA0
_BLOCK: Final = 0xA1
_REFERENCE: Final = 0xFB
_IN_CLUSTER: Final = np.zeros(1 << 15, dtype=np.bool_)
_IN_CLUSTER[[_TIMESTAMP, _SIMPLE_BLOCK, _GROUP, 0xA7, 0xAB, 0xEC, 0xBF]] = True  # position, size, void, checksum last
_IN_GROUP: Final = np.zeros(1 << 15, dtype=np.bool_)
_IN_GROUP[[_BLOCK, _REFERENCE, 0x9B, 0xA4, 0xFA, 0x75A1, 0x75A2, 0xEC, 0xBF]] = True
"""By kind; the unnamed ones are duration, codec state, priority, additions, discard padding, void, checksum."""
_MOST_BYTES: Final = np.full(1 << 15, np.iinfo(np.int64).max)
_MOST_BYTES[[_REFERENCE, 0x9B, 0x75A2]] = 8
_MOST_BYTES[0x75A1] = 0  # by kind: numbers have eight bytes, and what is inside additions is not looked into here

_MAX_TRACKS_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 32 << 20
_MAX_STEPS: Final = 4096  # elements in a cluster; longer ones are demuxed faster than they are walked
_BLOCK_HEAD_BYTES: Final = 4  # of a block: one byte for the track, two for the time, one for flags
_LACING: Final = 0x06  # of the flags of a block: how it is divided into frames; what is not named here is EBML
_XIPH_LACES: Final = 0x02
_FIXED_LACES: Final = 0x04
_WORD_BYTES: Final = 8

_BYTES: Final = range(256)
_SIZE_BYTES: Final = np.array([_WORD_BYTES + 1 - byte.bit_length() for byte in _BYTES])  # of a size, by its first byte
_SIZE_MASK: Final = np.array(
    [(1 << 64 - bytes_) - 1 if bytes_ <= _WORD_BYTES else 0 for bytes_ in _SIZE_BYTES.tolist()], dtype=np.uint64
)
_SIZE_SHIFT: Final = np.array([max(0, 64 - 8 * bytes_) for bytes_ in _SIZE_BYTES.tolist()], dtype=np.uint64)
"""The mask and shift that extract the size from a word that starts with it."""
_FIRST_OF_TWO_BYTES: Final = 0x40
_KIND_BYTES: Final = np.array([1 if byte & 0x80 else 2 for byte in _BYTES])  # of an element's kind, by its first byte
_STEPS_OVER: Final = np.array([0 if byte == _GROUP else 1 for byte in _BYTES])  # and not into, by its first byte


@dataclass(frozen=True, slots=True)
class _Elements:
    """Elements of clusters, in the order of the file."""

    cluster: NDArray[np.int64]
    kind: NDArray[np.int64]
    position: NDArray[np.int64]  # where the content starts in the file, in bytes
    size: NDArray[np.int64]
    word: NDArray[np.uint64]  # the first eight bytes of the content

    def only(self, chosen: NDArray[np.bool_]) -> _Elements:
        return _Elements(*(getattr(self, column)[chosen] for column in self.__slots__))


def read_block_table(
    path: Path, first_position: int, is_start: Callable[[memoryview], bool] | None, deadline: Deadline
) -> PacketTable | None:
    """The packets of the track with a block at this position, without dts and durations; None if it is not plain."""
    try:
        with path.open("rb") as file:
            clusters, codecs = _segment(file, path.stat().st_size)
            if not clusters:
                return None
            data = np.zeros(min(_BATCH_BYTES, clusters[-1][1] - clusters[0][0]) + 2 * _WORD_BYTES, dtype=np.uint8)
            batches = [_walked(file, batch, first, data, deadline) for first, batch in _batches(clusters)]
            found = _Elements(
                *(np.concatenate([getattr(batch, column) for batch in batches]) for column in _Elements.__slots__)
            )
            table = _table(file, found, len(clusters), first_position, codecs)
            if is_start is not None:
                keep_true_keyframes(file, table, is_start, skip_bytes=_BLOCK_HEAD_BYTES)
            return table
    except (NotPlainError, OSError, ValueError, IndexError, OverflowError):
        return None


def _segment(file: BufferedReader, file_bytes: int) -> tuple[list[tuple[int, int]], dict[int, bytes]]:
    """Start and end of every cluster's content, and the codec of every track whose packets are the stored blocks."""
    clusters: list[tuple[int, int]] = []
    codecs: dict[int, bytes] = {}
    _, _, end = _element(file, 0)
    segment, at, _ = _element(file, end)
    require_plain(segment == _SEGMENT)
    while at < file_bytes:
        kind, at, end = _element(file, at)
        require_plain(end <= file_bytes)
        if kind == _CLUSTER:
            clusters.append((at, end))
        elif kind == _TRACKS and end - at <= _MAX_TRACKS_BYTES and not codecs:
            codecs = _codecs(file.read(end - at))
        else:
            require_plain(kind in _OTHERS_IN_SEGMENT)
        at = end
    return clusters, codecs


def _element(file: BufferedReader, at: int) -> tuple[int, int, int]:
    """The type of the element at this position, and the start and end of its content."""
    file.seek(at)
    kind, size, content = _head(file.read(12), 0)
    file.seek(at + content)
    return kind, at + content, at + content + size


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """The type and size of the element at this position, and the start of its content."""
    kind_bytes = _WORD_BYTES + 1 - data[at].bit_length()
    size_at = at + kind_bytes
    size_bytes = _WORD_BYTES + 1 - data[size_at].bit_length()
    content = size_at + size_bytes
    bits = 7 * size_bytes
    size = int.from_bytes(data[size_at:content], "big") & ((1 << bits) - 1)
    is_known = size != (1 << bits) - 1  # all ones mean an open end
    require_plain(kind_bytes <= 4 and size_bytes <= _WORD_BYTES and is_known)
    return int.from_bytes(data[at:size_at], "big"), size, content


def _children(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        kind, size, at = _head(data, at)
        yield kind, data[at : at + size]
        at += size


def _codecs(tracks: bytes) -> dict[int, bytes]:
    """The codec by track number; empty for tracks whose packets are not just their blocks."""
    found: dict[int, bytes] = {}
    for kind, entry in _children(tracks):
        if kind == _TRACK_ENTRY:
            fields = dict(_children(entry))
            number = int.from_bytes(fields.get(_TRACK_NUMBER, b""), "big")
            inner = dict(_children(fields.get(0xE0, b"")))  # what is said of video
            found[number] = b"" if _CHANGES_PACKETS & (fields | inner).keys() else fields.get(_CODEC_ID, b"")
    return found


def _batches(clusters: list[tuple[int, int]]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield clusters that are read into memory together, with the number of the first."""
    first = 0
    for number, (_, end) in enumerate(clusters):
        require_plain(end - clusters[number][0] <= _BATCH_BYTES)
        if end - clusters[first][0] > _BATCH_BYTES:
            yield first, clusters[first:number]
            first = number
    if clusters:
        yield first, clusters[first:]


def _walked(
    file: BufferedReader, clusters: list[tuple[int, int]], first: int, data: NDArray[np.uint8], deadline: Deadline
) -> _Elements:
    """The elements of these clusters, including those inside block groups, read into the buffer `data`."""
    deadline.check()
    base, length = clusters[0][0], clusters[-1][1] - clusters[0][0]
    file.seek(base)
    data[length : length + 2 * _WORD_BYTES] = 0
    require_plain(file.readinto(data[:length].data) == length)
    words = np.ndarray((length + _WORD_BYTES,), ">u8", data, strides=(1,))  # the eight bytes from each byte on
    at, end = np.array(clusters, dtype=np.int64).T - base
    cluster = np.arange(first, first + len(clusters))
    steps: list[tuple[NDArray[np.int64], ...]] = []
    while len(at):
        require_plain(len(steps) < _MAX_STEPS)
        kind = data[at]
        size_at = at + _KIND_BYTES[kind]
        size_head = data[size_at]
        size = ((words[size_at].astype(np.uint64) & _SIZE_MASK[size_head]) >> _SIZE_SHIFT[size_head]).astype(np.int64)
        content = size_at + _SIZE_BYTES[size_head]
        steps.append((cluster, at, content, size))
        at = content + size * _STEPS_OVER[kind]
        if (is_done := at >= end).any():
            require_plain((at <= end).all())
            at, end, cluster = at[~is_done], end[~is_done], cluster[~is_done]
    columns = [np.concatenate(column) for column in zip(*steps, strict=True)]
    order = np.argsort(columns[1], kind="stable")
    cluster, at, content, size = (column[order] for column in columns)
    kind_bytes = _KIND_BYTES[data[at]]
    size_head = data[at + kind_bytes]
    unknown = (_SIZE_MASK[size_head] >> _SIZE_SHIFT[size_head]).astype(np.int64)  # all ones mean an open end
    require_plain(np.all(size != unknown) and np.all(data[at] >= _FIRST_OF_TWO_BYTES))
    kind = np.where(kind_bytes == 1, data[at], words[at].astype(np.uint64) >> np.uint64(48)).astype(np.int64)
    _check_nesting(kind, at, content + size, np.array([end - base for _, end in clusters]))
    return _Elements(cluster, kind, content + base, size, words[content].astype(np.uint64))


def _check_nesting(
    kind: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64], cluster_end: NDArray[np.int64]
) -> None:
    """Require elements of known types at their places, and groups that end with one of their elements."""
    is_group = kind == _GROUP
    group_end = np.maximum.accumulate(np.where(is_group, end, 0))
    inside = start < np.append(0, group_end[:-1])
    require_plain(np.where(inside, _IN_GROUP[kind], _IN_CLUSTER[kind]).all())
    ends = np.sort(np.append(start, cluster_end), kind="stable")
    require_plain(np.array_equal(ends[np.searchsorted(ends, end[is_group])], end[is_group]))


def _table(
    file: BufferedReader, found: _Elements, clusters: int, first_position: int, codecs: dict[int, bytes]
) -> PacketTable:
    """The blocks of the track with a block at this position."""
    require_plain(np.all(found.size <= _MOST_BYTES[found.kind]))
    stamps = found.only(found.kind == _TIMESTAMP)
    require_plain(np.array_equal(stamps.cluster, np.arange(clusters)))
    require_plain(np.all((stamps.size > 0) & (stamps.size <= 7)))
    cluster_time = (stamps.word >> (64 - 8 * stamps.size).astype(np.uint64)).astype(np.int64)
    group = np.cumsum((found.kind == _SIMPLE_BLOCK) | (found.kind == _GROUP))
    refers = np.bincount(group, weights=found.kind == _REFERENCE) > 0

    is_block = (found.kind == _SIMPLE_BLOCK) | (found.kind == _BLOCK)
    group, blocks = group[is_block], found.only(is_block)
    require_plain(np.all(group[1:] != group[:-1]) and np.all(blocks.size > _BLOCK_HEAD_BYTES))
    heads = (blocks.word >> np.uint64(32)).astype(np.int64)
    track, time, flags = heads >> 24, (heads >> 8 & 0xFFFF).astype(np.int16).astype(np.int64), heads & 0xFF
    at_first = np.flatnonzero(blocks.position == first_position)
    tracks = set(np.flatnonzero(np.bincount(track & 0x7F)).tolist())
    require_plain(len(at_first) == 1 and np.all(track >= 0x80) and tracks <= codecs.keys())
    chosen = track == track[at_first[0]]
    is_simple = blocks.kind == _SIMPLE_BLOCK
    pts = cluster_time[blocks.cluster] + time
    has_laces = flags & _LACING != 0
    require_plain(codecs[int(track[at_first[0]]) & 0x7F] in _CODECS and not np.any(chosen & (has_laces | (pts < 0))))
    _check_laces(file, blocks.only(has_laces), flags[has_laces])
    is_key = np.where(is_simple, flags & 0x80 != 0, ~refers[group])[chosen]
    count = len(is_key)
    return PacketTable(
        pts[chosen],
        np.full(count, NO_TIME),
        np.zeros(count, dtype=np.int64),
        blocks.position[chosen],
        blocks.size[chosen] - _BLOCK_HEAD_BYTES,
        is_key,
        np.zeros(count, dtype=np.bool_),
        _BLOCK_HEAD_BYTES,
    )


def _check_laces(file: BufferedReader, blocks: _Elements, flags: NDArray[np.int64]) -> None:
    """Require valid laces in all tracks, because the demuxer also drops blocks after invalid ones."""
    for position, size, flag in zip(blocks.position.tolist(), blocks.size.tolist(), flags.tolist(), strict=True):
        file.seek(position + _BLOCK_HEAD_BYTES)
        data = file.read(size - _BLOCK_HEAD_BYTES)
        if flag & _LACING == _FIXED_LACES:
            adds_up = (len(data) - 1) % (data[0] + 1) == 0
        else:
            sizes, rest = (_xiph_laces if flag & _LACING == _XIPH_LACES else _ebml_laces)(data)
            adds_up = all(size > 0 for size in sizes) and sum(sizes) < rest
        require_plain(adds_up)


def _xiph_laces(data: bytes) -> tuple[list[int], int]:
    """The sizes of all laces but the last, and the number of bytes of the lace sizes."""
    sizes, at = [], 1
    for _ in range(data[0]):
        last = at
        while data[last] == 0xFF:
            last += 1
        sizes.append(sum(data[at : last + 1]))
        at = last + 1
    return sizes, len(data) - at


def _ebml_laces(data: bytes) -> tuple[list[int], int]:
    """The same for sizes stored as differences to the previous size."""
    sizes, at = [0], 1
    for number in range(data[0]):
        bytes_ = _WORD_BYTES + 1 - data[at].bit_length()
        value = int.from_bytes(data[at : at + bytes_], "big") - (1 << 7 * bytes_)
        sizes.append(sizes[-1] + value - ((1 << 7 * bytes_ - 1) - 1 if number else 0))
        at += bytes_
    return sizes[1:] or [0], len(data) - at  # FFmpeg reads a size even if there is only one lace
