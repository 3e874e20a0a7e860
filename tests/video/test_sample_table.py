"""Tables in the head of an MP4 say what the demuxer says, or nothing."""

import struct
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import video_footage
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from video_oracle import Footage

from trace_ves import video
from trace_ves.video import sample_table, survey
from trace_ves.video.bitstream import h264_start_check, hevc_has_one_layer
from trace_ves.video.block_table import read_block_table
from trace_ves.video.container import (
    Deadline,
    PacketTable,
    choose_stream,
    keep_true_keyframes,
    open_container,
    read_packets,
    table_of,
)
from trace_ves.video.sample_table import read_sample_table

MP4 = [name for name in [*video_footage.PLAIN, *video_footage.SPECIAL] if name.endswith((".mp4", ".mov"))]
NOT_PLAIN = {"fragmented.mp4", "edit-list.mp4", "late-start.mp4"}
"""Fragments, an edit that cuts, an empty edit in front: left to the demuxer."""


def both(path: Path) -> tuple[PacketTable | None, PacketTable]:
    deadline = Deadline(path, "reading it", 60)
    with open_container(path, deadline) as container:
        stream, _ = choose_stream(container, path)
        table, beyond = read_sample_table(path, stream.id, None)
        assert beyond == 0
        return table, read_packets(container, stream, None, deadline)[0]


@pytest.mark.parametrize("name", MP4)
def test_the_table_is_what_the_demuxer_finds(name: str, footage: Footage) -> None:
    table, demuxed = both(footage(name))
    assert (table is None) == (name in NOT_PLAIN)
    if table is not None:
        np.testing.assert_equal(asdict(table), asdict(demuxed))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_head_gives_no_table_or_some_table_but_no_error(
    footage: Footage, tmp_path: Path, data: st.DataObject
) -> None:
    whole = footage("faststart.mp4").read_bytes()
    damaged = bytearray(whole)
    end = whole.index(b"mdat")
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, end))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.mp4"
    path.write_bytes(damaged)
    table, beyond = read_sample_table(path, 1, None)
    assert beyond >= 0
    assert table is None or len(table.pts) == len(table.size) == len(table.position)


@given(packet=st.binary(max_size=80), extradata=st.none() | st.binary(max_size=30))
def test_any_bytes_are_a_start_or_not(packet: bytes, extradata: bytes | None) -> None:
    assert h264_start_check(extradata)(memoryview(packet)) in {True, False}
    assert hevc_has_one_layer(extradata) in {True, False}


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
    monkeypatch.setattr(survey, "read_sample_table", lambda *given: (changed(read_sample_table(*given)[0]), 0))
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


def read(path: Path, data: bytes) -> Any:
    path.write_bytes(data)
    table, beyond = read_sample_table(path, 7, None)
    if table is None:
        return beyond or None
    assert {table.pts.dtype, table.dts.dtype, table.size.dtype} == {np.dtype(np.int64)}
    assert {table.is_key.dtype, table.is_discard.dtype} == {np.dtype(np.bool_)}
    assert not table.is_discard.any()
    return [column.tolist() for column in (table.pts, table.dts, table.duration, table.position, table.size)] + [
        [int(key) for key in table.is_key]
    ]


def rows(**changed: list[int]) -> list[list[int]]:
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
        (mp4(), rows()),
        (mp4(wide=True), rows()),
        (mp4(version=1), rows()),
        (mp4({name: table + b"." for name, table in TABLES.items()}), rows()),  # what follows the last row is not read
        (mp4(front=box(b"ftyp", b"isom")), rows()),
        (mp4(front=box(b"free") + box(b"free", b"." * 30, wide=True)), rows()),
        *((mp4(front=struct.pack(">I4s", size, b"free")), None) for size in (0, 7)),
        (mp4({b"stss": None}), rows(key=[1] * 4)),
        (mp4({b"stsz": numbers(0, 5, 4)}), rows(size=[5] * 4, position=[1000, 1005, 2000, 3000])),
        (mp4({b"stsz": numbers(0, 0, 0), b"stts": EMPTY, b"stsc": EMPTY, b"stco": EMPTY}), None),
        (mp4({b"stco": None, b"co64": numbers(0, 3) + numbers(1000, 2000, 3000, kind="Q")}), rows()),
        (mp4({b"stsc": numbers(0, 3, 1, 1, 1, 2, 2, 1, 3, 1, 1)}), rows(position=[1000, 2000, 2020, 3000])),
        (mp4({b"ctts": numbers(0, 2, 1, 200, 3, 0)}), rows(pts=[200, 100, 200, 300])),
        (mp4({b"ctts": numbers(0, 2, 3, 7, 1, 2**32 - 30)}), rows(pts=[7, 107, 207, 270], dts=MOVED)),
        *((mp4(changed), None) for changed in NOT_PLAIN_TABLES),
        (mp4(more=box(b"mvex")), None),
        (mp4(track_id=8), None),
        (mp4()[:3039], 1),
        (mp4()[:2029], 2),
        *((mp4(edit=edit_list(length, 0)), rows()) for length in (0, 180, 210)),
        *((mp4(edit=edit_list(length, 0, version=1)), rows()) for length in (0, 180)),
        *((mp4(edit=edit_list(180, 0), version=version), rows()) for version in (0, 1)),
        *((mp4(edit=edit_list(179, 0), version=version), None) for version in (0, 1)),
        (mp4({b"ctts": numbers(0, 1, 4, 30)}, edit=edit_list(210, 30)), rows(dts=MOVED)),
        (mp4({b"ctts": numbers(0, 1, 4, 30)}, edit=edit_list(210, 31)), None),
        (mp4(edit=edit_list(210, -1)), None),
        (mp4(edit=edit_list(210, 0, rate=1 << 15)), None),
        (mp4(edit=edit_list(210, 0, count=2)), None),
    ],
)
def test_every_table_of_a_small_head_counts(tmp_path: Path, data: bytes, expected: object) -> None:
    assert read(tmp_path / "small.mp4", data) == expected


@pytest.mark.parametrize(("limit", "least"), [("_MAX_SAMPLES", 4), ("_MAX_HEAD_BYTES", mp4().index(bytes(100)))])
def test_what_is_too_large_is_left_to_the_demuxer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, least: int
) -> None:
    monkeypatch.setattr(sample_table, limit, least)
    assert read(tmp_path / "small.mp4", mp4()) == rows()
    monkeypatch.setattr(sample_table, limit, least - 1)
    assert read(tmp_path / "small.mp4", mp4()) is None


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
