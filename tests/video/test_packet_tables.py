"""Tables in the head of an MP4, and the heads of blocks in Matroska, say what the demuxer says, or nothing."""

import struct
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import video_footage
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from video_oracle import HEIGHT, Footage, Truths, digest

from trace_ves import video
from trace_ves.video import block_table, sample_table, survey
from trace_ves.video.bitstream import h264_start_check, head_gives_size, hevc_has_one_layer, start_check
from trace_ves.video.block_table import _batches, read_block_table
from trace_ves.video.container import (
    NO_TIME,
    Deadline,
    NotPlainError,
    PacketTable,
    choose_stream,
    keep_true_keyframes,
    open_container,
    read_packets,
    table_of,
)
from trace_ves.video.sample_table import _shows_as_stored, read_sample_table

FILES = [*video_footage.PLAIN, *video_footage.SPECIAL]
MP4 = [name for name in FILES if name.endswith((".mp4", ".mov"))]
MATROSKA = [
    name
    for name in FILES
    if name.endswith((".mkv", ".webm")) and any(codec in name for codec in ("open-gop", "rate", "vp", "av1", "hevc"))
]
NOT_PLAIN = {"fragmented.mp4", "edit-list.mp4", "late-start.mp4"}
"""Fragments, an edit that cuts, an empty edit in front: left to the demuxer."""


def both(path: Path) -> tuple[PacketTable | None, PacketTable]:
    """What is read without the demuxer, and what it finds."""
    deadline = Deadline(path, "reading it", 60)
    with open_container(path, deadline) as container:
        stream, _ = choose_stream(container, path)
        if path.name in MP4:
            table, *others = read_sample_table(path, stream.id, None)
            assert others == [0, table is not None and path.stem not in [*video_footage.MATRICES][1:]]
            return table, read_packets(container, stream, None, deadline)[0]
        is_start = start_check(stream.codec_context.codec.canonical_name, stream.codec_context.extradata)
        demuxed, _ = read_packets(container, stream, is_start, deadline)
        first = int(demuxed.position[0]) if len(demuxed) else 0
        return read_block_table(path, first, is_start, deadline), demuxed


def differs(table: PacketTable, demuxed: PacketTable, *further: str) -> list[str]:
    """Columns in which the two are not the same."""
    columns = ("pts", "position", "size", "is_discard", *further)
    return [column for column in columns if not np.array_equal(getattr(table, column), getattr(demuxed, column))]


@pytest.mark.parametrize("name", [*MP4, *MATROSKA])
def test_the_table_is_what_the_demuxer_finds(name: str, footage: Footage) -> None:
    table, demuxed = both(footage(name))
    assert (table is None) == (name in NOT_PLAIN)
    assert table is None or differs(table, demuxed, "is_key", *["dts", "duration"] * (name in MP4)) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_head_gives_some_table_or_none(footage: Footage, tmp_path: Path, data: st.DataObject) -> None:
    whole = footage("faststart.mp4").read_bytes()
    damaged = bytearray(whole)
    end = whole.index(b"mdat")
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, end))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.mp4"
    path.write_bytes(damaged)
    table, beyond, _ = read_sample_table(path, 1, None)
    assert beyond >= 0
    assert table is None or len(table.pts) == len(table.size) == len(table.position)


@given(packet=st.binary(max_size=80), extradata=st.none() | st.binary(max_size=30))
def test_any_bytes_are_a_start_or_not(packet: bytes, extradata: bytes | None) -> None:
    assert h264_start_check(extradata)(memoryview(packet)) in {True, False}
    assert hevc_has_one_layer(extradata) in {True, False}
    head = b"\1" + bytes(22) + (extradata or b"")
    for codec in ("hevc", "vp9"):
        assert head_gives_size(codec, head, (8, 8), lambda: memoryview(packet)) in {True, False}


@pytest.mark.parametrize(("name", "demuxed"), [("plain.mp4", 32 + 32), ("plain.mkv", 32 + 40)])
@pytest.mark.parametrize(("column", "row"), [(None, 0), ("pts", 0), ("position", 31), ("size", -1), ("dts", -32)])
def test_a_file_is_opened_by_its_tables_unless_the_demuxer_finds_others_at_an_end(
    name: str, demuxed: int, column: str | None, row: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        found = read_packets(*arguments, **options)
        read.append(len(found[0]))
        return found

    def changed(table: PacketTable | None) -> PacketTable | None:
        if table is not None and column:
            getattr(table, column)[row] += 1
        return table

    path = tmp_path / name
    options = {"preset": "ultrafast", "x264-params": "keyint=10:scenecut=0"}
    video_footage.encode(path, video_footage.Recipe(options=options, frames=90, width=32, height=32))
    monkeypatch.setattr(survey, "read_packets", counted)
    monkeypatch.setattr(survey, "read_sample_table", lambda *given: (changed(read_sample_table(*given)[0]), 0, True))
    monkeypatch.setattr(survey, "read_block_table", lambda *given: changed(read_block_table(*given)))
    with video.open(path) as opened:
        assert opened.timestamps.tolist() == pytest.approx([row / 30 for row in range(90)], abs=0.001)
    assert read[:1] == [32]
    assert sum(read[1:]) == demuxed - 32 if column is None else read[-1] == 90


# --- heads of a few bytes, by hand --------------------------------------------------------------


def box(name: bytes, *contents: bytes, wide: bool = False) -> bytes:
    content = b"".join(contents)
    if wide:
        return struct.pack(">I4sQ", 1, name, 16 + len(content)) + content
    return struct.pack(">I4s", 8 + len(content), name) + content


def numbers(*values: int, kind: str = "I") -> bytes:
    return b"".join(struct.pack(f">{kind}", value) for value in values)


TABLES = {
    b"stsd": numbers(0, 1),
    b"stsz": numbers(0, 0, 4, 10, 20, 30, 40),
    b"stts": numbers(0, 2, 3, 100, 1, 50),
    b"stsc": numbers(0, 2, 1, 2, 1, 2, 1, 1),
    b"stco": numbers(0, 3, 1000, 2000, 3000),
    b"stss": numbers(0, 2, 1, 3),
}
PTS, SIZES, PLACES, KEYS = [0, 100, 200, 300], [10, 20, 30, 40], [1000, 1010, 2000, 3000], [1, 0, 1, 0]


def mp4(
    changed: dict[bytes, bytes | None] | None = None,
    *,
    edit: bytes = b"",
    more: bytes = b"",
    front: bytes = b"",
    wide: bool = False,
    version: int = 0,
    track_id: int = 7,
) -> bytes:
    tables = {name: table for name, table in (TABLES | (changed or {})).items() if table is not None}
    inner = box(b"stbl", *(box(name, table) for name, table in tables.items()), wide=wide)
    stamps = bytes([version, 0, 0, 0]) + numbers(9, 9, kind="Q" if version else "I")
    track = box(b"tkhd", stamps, numbers(track_id, 0))
    track += edit + box(b"mdia", box(b"mdhd", stamps, numbers(1000)), box(b"minf", inner))
    others = box(b"trak", box(b"tkhd", bytes(4), numbers(9, 9, 3)))
    head = box(b"moov", box(b"mvhd", stamps, numbers(600)), more, others, box(b"trak", track), wide=wide)
    return (front + head).ljust(3040, b"\0")


def edit_list(length: int, media_time: int, *, rate: int = 1 << 16, count: int = 1, version: int = 0) -> bytes:
    row = struct.pack(">QqI" if version else ">IiI", length, media_time, rate)
    return box(b"edts", box(b"elst", bytes([version, 0, 0, 0]), numbers(count), row * count))


def read_head(path: Path, data: bytes) -> Any:
    path.write_bytes(data)
    table, beyond, _ = read_sample_table(path, 7, None)
    if table is None:
        return beyond or None
    assert {table.pts.dtype, table.dts.dtype, table.size.dtype} == {np.dtype(np.int64)}
    assert {table.is_key.dtype, table.is_discard.dtype} == {np.dtype(np.bool_)}
    assert not table.is_discard.any()
    columns = (table.pts, table.dts, table.duration, table.position, table.size, table.is_key.astype(int))
    return [column.tolist() for column in columns]


def head_rows(**changed: list[int]) -> list[list[int]]:
    columns = {"pts": PTS, "dts": PTS, "duration": [100, 100, 100, 50], "position": PLACES, "size": SIZES, "key": KEYS}
    return list((columns | changed).values())


MOVED = [-30, 70, 170, 270]
EMPTY = numbers(0, 0)
NOT_PLAIN_TABLES = [{b"stsc": numbers(0, 1, 1, 2, 1)}, {b"stsz": numbers(0, 0, 4, 10, 0, 30, 40)}, {b"sbgp": b""}]
NOT_PLAIN_TABLES += [{b"stts": numbers(0, 1, count, 100)} for count in (3, 5)] + [{b"stsd": numbers(0, 2)}]
NOT_PLAIN_TABLES += [{b"ctts": numbers(0, 1, 3, 7)}, {b"stps": b""}]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (mp4(), head_rows()),
        (mp4(wide=True), head_rows()),
        (mp4(version=1), head_rows()),
        (
            mp4({name: table + b"." for name, table in TABLES.items()}),
            head_rows(),
        ),  # what follows the last row is not read
        (mp4(front=box(b"ftyp", b"isom")), head_rows()),
        (mp4(front=box(b"free") + box(b"free", b"." * 30, wide=True)), head_rows()),
        *((mp4(front=struct.pack(">I4s", size, b"free")), None) for size in (0, 7)),
        (mp4(more=struct.pack(">I4s", 4, b"\0\0\0\x08") + b"free"), None),
        (mp4({b"stss": None}), head_rows(key=[1] * 4)),
        (mp4({b"stsz": numbers(0, 5, 4)}), head_rows(size=[5] * 4, position=[1000, 1005, 2000, 3000])),
        (mp4({b"stsz": numbers(0, 0, 0), b"stts": EMPTY, b"stsc": EMPTY, b"stco": EMPTY}), None),
        (mp4({b"stco": None, b"co64": numbers(0, 3) + numbers(1000, 2000, 3000, kind="Q")}), head_rows()),
        (mp4({b"stsc": numbers(0, 3, 1, 1, 1, 2, 2, 1, 3, 1, 1)}), head_rows(position=[1000, 2000, 2020, 3000])),
        (mp4({b"stsc": numbers(0, 3, 1, 9, 1, 1, 2, 1, 2, 1, 1)}), head_rows()),  # the first run has no chunk
        (mp4({b"ctts": numbers(0, 2, 1, 200, 3, 0)}), head_rows(pts=[200, 100, 200, 300])),
        (mp4({b"ctts": numbers(0, 2, 3, 7, 1, 2**32 - 30)}), head_rows(pts=[7, 107, 207, 270], dts=MOVED)),
        *((mp4(changed), None) for changed in NOT_PLAIN_TABLES),
        (mp4(more=box(b"mvex")), None),
        (mp4(track_id=8), None),
        (mp4()[:3039], 1),
        (mp4()[:2029], 2),
        *((mp4(edit=edit_list(length, 0)), head_rows()) for length in (0, 210)),
        *((mp4(edit=edit_list(length, 0, version=1)), head_rows()) for length in (0, 180)),
        *((mp4(edit=edit_list(180, 0), version=version), head_rows()) for version in (0, 1)),
        *((mp4(edit=edit_list(179, 0), version=version), None) for version in (0, 1)),
        (mp4({b"ctts": numbers(0, 1, 4, 30)}, edit=edit_list(210, 30)), head_rows(dts=MOVED)),
        (mp4({b"ctts": numbers(0, 1, 4, 30)}, edit=edit_list(210, 31)), None),
        (mp4(edit=edit_list(210, -1)), None),
        (mp4(edit=edit_list(210, 0, rate=1 << 15)), None),
        (mp4(edit=edit_list(210, 0, count=2)), None),
    ],
)
def test_every_table_of_a_small_head_counts(tmp_path: Path, data: bytes, expected: object) -> None:
    assert read_head(tmp_path / "small.mp4", data) == expected


@pytest.mark.parametrize(("limit", "least"), [("_MAX_SAMPLES", 4), ("_MAX_HEAD_BYTES", mp4().index(bytes(100)))])
def test_a_head_that_is_too_large_is_left_to_the_demuxer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, least: int
) -> None:
    monkeypatch.setattr(sample_table, limit, least)
    assert read_head(tmp_path / "small.mp4", mp4()) == head_rows()
    monkeypatch.setattr(sample_table, limit, least - 1)
    assert read_head(tmp_path / "small.mp4", mp4()) is None


@pytest.mark.parametrize("version", [0, 1])
def test_pictures_are_shown_as_stored_where_both_matrices_say_so(version: int) -> None:
    def is_upright(movie: bytes, track: bytes, *more: bytes) -> bool:
        head = box(b"mvhd", bytes([version]), bytes(35 + 12 * version), movie) + b"".join(more)
        return _shows_as_stored(
            memoryview(head), memoryview(box(b"tkhd", bytes([version]), bytes(39 + 12 * version), track))
        )

    plain, turned = (numbers(*(side << 16, 0, 0, 0, side << 16, 0, 0, 0, 1 << 30)) for side in (1, 2))
    found = [
        is_upright(*each) for each in ((plain, plain), (turned, plain), (plain, turned), (plain, plain, box(b"mvhd")))
    ]
    assert found == [True, False, False, False]


@pytest.mark.parametrize("skip", [0, 4])
def test_keyframes_are_checked_by_their_head_and_then_whole(tmp_path: Path, skip: int) -> None:
    """The first is one by its head, the second only as a whole, the third is not, the fourth was never called one."""
    path = tmp_path / "file"
    path.write_bytes(b"." * skip + b"k" + b"." * 5000 + b"." * 4999 + b"K" + b"." * 4096 + b"k")
    places = [(0, 5001, True), (5001, 5000, True), (10_001, 4096, True), (14_097, 1, False)]
    table = table_of([(0, 0, 0, position, size, key, False) for position, size, key in places])
    looked: list[int] = []

    def is_start(packet: memoryview) -> bool:
        looked.append(len(packet))
        return bytes(packet).startswith(b"k") or bytes(packet).endswith(b"K")

    with path.open("rb") as file:
        keep_true_keyframes(file, table, is_start, skip_bytes=skip)
    assert table.is_key.tolist() == [True, True, False, False]
    assert looked == [4096, 4096, 5000, 4096]


# --- Matroska, by hand and of a few bytes -----------------------------------------------------------------------------


def element(kind: int, content: bytes, size_bytes: int = 0) -> bytes:
    """An element with a size of as many bytes as it needs, or as are given."""
    length = len(content)
    size_bytes = size_bytes or next(count for count in range(1, 9) if length < (1 << 7 * count) - 1)
    head = kind.to_bytes(-(-kind.bit_length() // 8), "big")
    return head + (length | 1 << 7 * size_bytes).to_bytes(size_bytes, "big") + content


def number(kind: int, value: int) -> bytes:
    return element(kind, value.to_bytes(max(1, -(-value.bit_length() // 8)), "big"))


def clusters(source: Path) -> list[bytes]:
    """The packets of a VP9 file as groups of blocks, with void, sounds and additions among them; ten to a cluster."""
    with av.open(str(source)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    found = []
    for first in range(0, len(packets), 10):
        start = int(packets[first].pts)
        content = number(0xE7, start) + element(0xEC, bytes(first))
        for at, packet in enumerate(packets[first : first + 10]):
            head = (packet.pts - start).to_bytes(2, "big")
            if at % 3 == 0:
                content += element(0xA3, b"\x82" + head + b"\x80" + bytes(at + 1))  # another track
            if at % 2:
                content += element(0xA3, b"\x81" + head + bytes([0x80 * packet.is_keyframe]) + bytes(packet), 4)
            else:
                block = element(0xA1, b"\x81" + head + b"\0" + bytes(packet)) + number(0x9B, 50)
                block += b"" if packet.is_keyframe else number(0xFB, 33)
                content += element(0xA0, element(0xEC, b"..") + block + element(0x75A1, b"") + element(0x75A2, b"\0"))
        found.append(element(0x1F43B675, content, 8))
    return found


def matroska(source: Path) -> bytes:
    picture = number(0xB0, 96) + number(0xBA, 64)
    video_track = number(0xD7, 1) + number(0x73C5, 1) + number(0x83, 1) + element(0x86, b"V_VP9")
    sound_track = number(0xD7, 2) + number(0x73C5, 2) + number(0x83, 2) + element(0x86, b"A_PCM/INT/LIT")
    sound_track += element(0xE1, number(0x9F, 1) + number(0x6264, 8))
    tracks = element(0xAE, video_track + element(0xE0, picture)) + element(0xAE, sound_track)
    body = element(0x1549A966, number(0x2AD7B1, 1_000_000)) + element(0x1654AE6B, tracks)
    segment = element(0x18538067, body + b"".join(clusters(source)), 8)
    return element(0x1A45DFA3, number(0x4286, 1) + element(0x4282, b"matroska")) + segment


def test_groups_of_blocks_and_other_tracks(footage: Footage, truth: Truths, tmp_path: Path) -> None:
    path = tmp_path / "groups.mkv"
    path.write_bytes(matroska(footage("vp9.webm")))
    table, demuxed = both(path)
    assert table is not None
    assert len(table) == video_footage.FRAMES
    assert differs(table, demuxed, "is_key") == []
    expected = truth(footage("vp9.webm"), height=HEIGHT)
    with video.open(path) as opened:
        frames = opened.frames_at([float(opened.timestamps[row]) for row in (60, 3, 74)], height=HEIGHT)
        assert opened.duration == pytest.approx(float(opened.timestamps[-1]) + 0.05)
    assert [digest(frame.picture) for frame in frames] == [expected[row].digest for row in (60, 3, 74)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(changes=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=8))
@example(changes=[(5591, 6)])
@example(changes=[(23300, 134)])
def test_damage_gives_the_right_table_or_none(footage: Footage, tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(matroska(footage("vp9.webm")))
    blocks = damaged.index(b"\x1f\x43\xb6\x75")
    for place, byte in changes:
        damaged[blocks + place % (len(damaged) - blocks)] = byte
    path = tmp_path / "damaged.mkv"
    path.write_bytes(damaged)
    table, demuxed = both(path)
    assert table is None or differs(table, demuxed) == []
    assert table is None or not np.any(table.is_key & ~demuxed.is_key)  # FFmpeg looks for keyframes of its own


def block(payload: bytes, *, track: int = 1, time: int = 0, flags: int = 0x80, kind: int = 0xA3) -> bytes:
    return element(kind, bytes([0x80 | track]) + time.to_bytes(2, "big", signed=True) + bytes([flags]) + payload)


def group(*parts: bytes) -> bytes:
    return element(0xA0, b"".join(parts))


FIRST = block(b"first", time=3)
STAMP = number(0xE7, 1000)
BEGUN = STAMP + FIRST
PLAIN = [BEGUN]
FIRST_ROW = (1003, 5, True)
ONE = number(0xD7, 1)
TRACK = ONE + element(0x86, b"V_VP9")


def small(contents: list[bytes], *, tracks: bytes | None = None, others: bytes = b"") -> bytes:
    tracks = element(0xAE, TRACK) + element(0xAE, number(0xD7, 2)) if tracks is None else tracks
    body = element(0x1654AE6B, tracks) + others + b"".join(element(0x1F43B675, each) for each in contents)
    return element(0x1A45DFA3, b"") + element(0x18538067, body)


def rows(path: Path, data: bytes) -> list[tuple[int, int, bool]] | None:
    """Time, size and whether it is a keyframe, of each packet; every place must be that of the packet's payload."""
    path.write_bytes(data)
    table = read_block_table(path, data.index(b"first") - 4, None, Deadline(path, "reading it", 60))
    if table is None:
        return None
    assert not any(map(np.any, (table.is_discard, table.duration, table.dts != NO_TIME)))
    assert {table.pts.dtype, table.dts.dtype, table.duration.dtype} == {np.dtype(np.int64)}
    assert {table.is_key.dtype, table.is_discard.dtype} == {np.dtype(np.bool_)}
    assert all(data[at] == 0x81 and 0x20 <= data[at + 4] < 0x7F for at in table.position.tolist())
    return list(zip(table.pts.tolist(), table.size.tolist(), table.is_key.tolist(), strict=True))


def stamp(size: int) -> bytes:
    return element(0xE7, (1000).to_bytes(size, "big")) if size else element(0xE7, b"")


INNER = block(b"g", kind=0xA1, flags=0, time=7)
GROUP_ROWS = [FIRST_ROW, (1007, 1, True)]
IN_GROUP, NOT_IN_GROUP = (
    [0x9B, 0xA4, 0xFA, 0x75A2, 0xEC, 0xBF],
    [0x9C, 0xA5, 0xFC, 0x75A3, 0x75A1, 0xED, 0xC0, 0xA7, 0xAB],
)
NAMES = ["V_VP8", "V_VP9", "V_AV1", "V_MPEG4/ISO/AVC", "V_MPEGH/ISO/HEVC"]
CODED = [0x6D80, 0x23314F, 0x56AA, 0x7670]  # encodings of the content, a scale of times, a delay, a projection
OTHERS = [0x114D9B74, 0x1549A966, 0x1C53BB6B, 0x1941A469, 0x1043A770, 0x1254C367, 0xEC, 0xBF]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (small(PLAIN), [FIRST_ROW]),
        (small([BEGUN + block(b"ab", time=-2, flags=0)]), [FIRST_ROW, (998, 2, False)]),
        (
            small([BEGUN + block(b"a", time=32_767), number(0xE7, 0) + block(b"bc", time=1)]),
            [FIRST_ROW, (33_767, 1, True), (1, 2, True)],
        ),
        (small([BEGUN + block(b"ab", track=2) + block(b"c", time=9)]), [FIRST_ROW, (1009, 1, True)]),
        *(
            (small([BEGUN + element(0xA3, b"\x81\0\x09\x80c", size)]), [FIRST_ROW, (1009, 1, True)])
            for size in range(1, 9)
        ),
        (small([number(0xE7, 0) + FIRST + block(b"ab", time=0)]), [(3, 5, True), (0, 2, True)]),
        (small([number(0xE7, 0) + FIRST + block(b"ab", time=-1)]), None),
        (small([number(0xE7, 0) + FIRST + block(b"ab", time=-1, track=2)]), [(3, 5, True)]),
        *((small([stamp(size) + FIRST]), [FIRST_ROW]) for size in range(2, 8)),
        *((small(contents), None) for contents in ([stamp(8) + FIRST], [stamp(0) + FIRST], [FIRST])),
        *((small([BEGUN, content]), None) for content in (STAMP + STAMP, block(b"x"))),
        (small([BEGUN + group(INNER)]), GROUP_ROWS),
        (small([BEGUN + group(INNER, number(0xFB, 1))]), [FIRST_ROW, (1007, 1, False)]),
        (small([BEGUN + group(number(0xFB, 1), INNER) + block(b"h")]), [FIRST_ROW, (1007, 1, False), (1000, 1, True)]),
        (
            small([STAMP + group(INNER) + group(INNER, number(0xFB, 1)) + FIRST]),
            [(1007, 1, True), (1007, 1, False), FIRST_ROW],
        ),
        *((small([BEGUN + group(*parts)]), None) for parts in ([INNER, INNER], [FIRST], [STAMP])),
        *((small([BEGUN + part]), None) for part in (INNER, number(0xFB, 1), block(b""))),
        *((small([BEGUN + element(kind, b"..")]), [FIRST_ROW]) for kind in (0xA7, 0xAB, 0xEC, 0xBF)),
        *((small([BEGUN + element(kind, b"..")]), None) for kind in (0xA8, 0xAC, 0xED, 0xC0, 0x9B, 0x75A1, 0xE8)),
        *((small([BEGUN + group(INNER, element(kind, b".."))]), GROUP_ROWS) for kind in IN_GROUP),
        *((small([BEGUN + group(INNER, element(kind, b"."))]), None) for kind in NOT_IN_GROUP),
        *(
            (small([BEGUN + group(INNER, element(kind, bytes(8)))]), [FIRST_ROW, (1007, 1, kind != 0xFB)])
            for kind in (0xFB, 0x9B, 0x75A2)
        ),
        *((small([BEGUN + group(INNER, element(kind, bytes(9)))]), None) for kind in (0xFB, 0x9B, 0x75A2)),
        (small([BEGUN + element(0xA0, INNER)[:-1] + b"g" + element(0xEC, b"")]), [FIRST_ROW, (1007, 1, True)]),
        (small([BEGUN + block(b"z", flags=0x8F - 0x06)]), [FIRST_ROW, (1000, 1, True)]),
        *((small([BEGUN + block(b"z", flags=flags)]), None) for flags in (0x82, 0x84, 0x86)),
        (small([BEGUN + element(0xA3, b"\x40\x01\0\0\x80z")]), None),
        *((small([BEGUN + block(b"z", track=track)]), None) for track in (0, 3)),
        *(
            (small([BEGUN + block(laces, track=2, flags=flags)]), [FIRST_ROW] if adds_up else None)
            for flags, laces, adds_up in (
                (0x82, b"\x01\x00aab", False),
                (0x82, b"\x09\xff\xff", False),
                (0x84, b"\x02aabbcc", True),
                (0x84, b"\x02aabbc", False),
                (0x86, b"\x00\x82aabbbc", False),  # FFmpeg reads a size even where there is but one lace
                (0x86, b"\x02\x82\xbdaabbbc", False),
            )
        ),
        (small([STAMP + block(b"other")], others=element(0xEC, b"....first")), None),
        (small([], others=element(0xEC, b"....first")), None),
        (small([BEGUN + block(b"z")])[:-1], None),
        (small(PLAIN) + b"....", None),
        (small(PLAIN, others=b"\xec\x40\x80" + bytes(128)), [FIRST_ROW]),
        (small(PLAIN, others=b"\xec\x20\x01\x00" + bytes(256)), [FIRST_ROW]),
        (small(PLAIN, others=b"\xec\x01" + bytes(6) + b"\x07" + bytes(7)), [FIRST_ROW]),
        (small(PLAIN, others=b"\xec\xfe" + bytes(126)), [FIRST_ROW]),
        (small(PLAIN, others=b"\xec\xff" + bytes(127)), None),
        (small(PLAIN, others=b"\xec\x7f\xff" + bytes((1 << 14) - 1)), None),
        (small(PLAIN, others=b"\xec\x00\x81" + bytes(8)), None),
        (small(PLAIN, tracks=element(0xAE, TRACK) + b"\x08\x00\x00\x00\x00\x80"), None),
        *((small([BEGUN + part]), None) for part in (b"\xec\xff", b"\xec\x83..", b"\x20\x00\x00\x80", b"\0\xec\x80")),
        (small([BEGUN + b"\xec\x40\x7f" + bytes(127)]), [FIRST_ROW]),
        *((small([BEGUN + void]), None) for void in (b"\xec\xff" + bytes(127), b"\xec\0" + bytes(8))),
        *((small(PLAIN, others=element(kind, b"..")), [FIRST_ROW]) for kind in OTHERS),
        *((small(PLAIN, others=element(kind + 1, b"..")), None) for kind in OTHERS),
        (small(PLAIN, others=element(0x1654AE6B, element(0xAE, TRACK))), None),
        (small(PLAIN).replace(b"\x18\x53\x80\x67", b"\x18\x53\x80\x68"), None),
        *((small(PLAIN, tracks=element(0xAE, ONE + element(0x86, name.encode()))), [FIRST_ROW]) for name in NAMES),
        *((small(PLAIN, tracks=element(0xAE, track)), None) for track in (ONE, ONE + element(0x86, b"V_THEORA"))),
        (small(PLAIN, tracks=element(0xAF, TRACK)), None),
        *((small(PLAIN, tracks=element(0xAE, TRACK + element(kind, b"."))), None) for kind in CODED),
        (small(PLAIN, tracks=element(0xAE, TRACK + element(0xE0, element(0x7670, b".")))), None),
        *((small(PLAIN, tracks=element(0xAE, TRACK + element(kind + 1, b"."))), [FIRST_ROW]) for kind in CODED),
    ],
)
def test_every_part_of_a_file_counts(tmp_path: Path, data: bytes, expected: list[tuple[int, int, bool]] | None) -> None:
    assert rows(tmp_path / "small.mkv", data) == expected


@pytest.mark.parametrize(
    ("limit", "value", "is_plain"),
    [
        *(("_MAX_TRACKS_BYTES", len(TRACK) + 2 + more, more == 5) for more in (5, 4)),
        *(("_BATCH_BYTES", size, size >= len(BEGUN)) for size in (len(BEGUN), len(BEGUN) - 1, 2 * len(BEGUN) + 5)),
        *(("_MAX_STEPS", steps, steps == 2) for steps in (2, 1)),
    ],
)
def test_what_is_too_large_is_left_to_the_demuxer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, *, is_plain: bool
) -> None:
    monkeypatch.setattr(block_table, limit, value)
    second = number(0xE7, 2000) + block(b"other", time=3)
    expected = [FIRST_ROW, (2003, 5, True), (2003, 5, True)] if is_plain else None
    assert rows(tmp_path / "small.mkv", small([*PLAIN, second, second])) == expected


def test_only_true_keyframes_are_called_so(tmp_path: Path) -> None:
    path = tmp_path / "small.mkv"
    path.write_bytes(data := small([BEGUN + block(b"other") + block(b"first", flags=0)]))
    deadline = Deadline(path, "reading it", 60)
    table = read_block_table(path, data.index(b"first") - 4, lambda packet: bytes(packet) == b"first", deadline)
    assert table is not None
    assert table.is_key.tolist() == [True, False, False]


def test_clusters_are_read_together_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_table, "_BATCH_BYTES", 10)
    assert list(_batches([])) == []
    spans = [(0, 4), (5, 10), (11, 14), (16, 21), (22, 32)]
    assert list(_batches(spans)) == [(0, spans[:2]), (2, spans[2:4]), (4, spans[4:])]
    with pytest.raises(NotPlainError):
        list(_batches([(0, 11)]))


@pytest.mark.parametrize(
    ("flags", "sizes", "total"),
    [
        (0x82, b"\x00", 0),
        (0x82, b"\x02\x03\x01", 4),
        (0x82, b"\x03\xff\x00\xff\xff\x05\x07", 255 + 515 + 7),
        (0x86, b"\x01\x85", 5),
        (0x86, b"\x02\x85\xc0", 5 + 6),
        (0x86, b"\x04\x85\xbf\xbe\xc1", 5 + 5 + 4 + 6),
        (0x86, b"\x03\x41\x00\x60\x00\x5f\xfe", 256 + 257 + 256),
    ],
)
def test_laces_of_another_track_leave_some_for_the_last(tmp_path: Path, flags: int, sizes: bytes, total: int) -> None:
    """Each size but the last one's is stored: all of it, or for EBML its difference to the one before."""
    for rest, expected in ((total + 1, [FIRST_ROW]), (total, None)):
        laced = block(sizes + bytes(rest), track=2, flags=flags)
        assert rows(tmp_path / "laced.mkv", small([BEGUN + laced])) == expected
