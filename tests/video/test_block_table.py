"""The heads of blocks in Matroska say what the demuxer says, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
import video_footage
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from video_oracle import HEIGHT, Footage, Truths, digest

from trace_ves import video
from trace_ves.video.bitstream import start_check
from trace_ves.video.block_table import read_block_table
from trace_ves.video.container import Deadline, PacketTable, choose_stream, open_container, read_packets

if TYPE_CHECKING:
    from pathlib import Path

MATROSKA = [
    name
    for name in [*video_footage.PLAIN, *video_footage.SPECIAL]
    if name.endswith((".mkv", ".webm")) and any(codec in name for codec in ("open-gop", "rate", "vp", "av1", "hevc"))
]


def both(path: Path) -> tuple[PacketTable | None, PacketTable]:
    deadline = Deadline(path, "reading it", 60)
    with open_container(path, deadline) as container:
        stream, _ = choose_stream(container, path)
        is_start = start_check(stream.codec_context.codec.canonical_name, stream.codec_context.extradata)
        demuxed, _ = read_packets(container, stream, is_start, deadline)
        first = int(demuxed.position[0]) if len(demuxed) else 0
        return read_block_table(path, first, is_start, deadline), demuxed


def differs(table: PacketTable, demuxed: PacketTable, *further: str) -> list[str]:
    """Columns in which the two are not the same."""
    columns = ("pts", "position", "size", "is_discard", *further)
    return [column for column in columns if not np.array_equal(getattr(table, column), getattr(demuxed, column))]


@pytest.mark.parametrize("name", MATROSKA)
def test_the_table_is_what_the_demuxer_finds(name: str, footage: Footage) -> None:
    table, demuxed = both(footage(name))
    assert table is not None
    assert differs(table, demuxed, "is_key") == []


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
                block = element(0xA1, b"\x81" + head + b"\0" + bytes(packet)) + number(0x9B, 33)
                block += b"" if packet.is_keyframe else number(0xFB, 33)
                content += element(0xA0, element(0xEC, b"..") + block + element(0x75A1, b"") + element(0x75A2, b"\0"))
        found.append(element(0x1F43B675, content, 8))
    return found


def matroska(source: Path, *, track: bytes = b"", clusters_: list[bytes] | None = None) -> bytes:
    picture = number(0xB0, 96) + number(0xBA, 64)
    video_track = number(0xD7, 1) + number(0x73C5, 1) + number(0x83, 1) + element(0x86, b"V_VP9") + track
    sound_track = number(0xD7, 2) + number(0x73C5, 2) + number(0x83, 2) + element(0x86, b"A_PCM/INT/LIT")
    sound_track += element(0xE1, number(0x9F, 1) + number(0x6264, 8))
    tracks = element(0xAE, video_track + element(0xE0, picture)) + element(0xAE, sound_track)
    body = element(0x1549A966, number(0x2AD7B1, 1_000_000)) + element(0x1654AE6B, tracks)
    segment = element(0x18538067, body + b"".join(clusters_ or clusters(source)), 8)
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
    assert [digest(frame.picture) for frame in frames] == [expected[row].digest for row in (60, 3, 74)]


def test_what_is_not_plain_is_left_to_the_demuxer(footage: Footage, tmp_path: Path) -> None:
    source = footage("vp9.webm")
    plain = clusters(source)
    stamped_twice = element(0x1F43B675, number(0xE7, 0) + plain[0][12:], 8)
    laced = plain[0].replace(b"\x82\x00\x00\x80", b"\x81\x00\x00\x82")
    unknown_track = plain[0].replace(b"\x82\x00\x00\x80", b"\x87\x00\x00\x80")
    whole = matroska(source)
    changed = {
        "stripped headers": matroska(source, track=element(0x6D80, b"")),
        "codec delay": matroska(source, track=number(0x56AA, 1)),
        "two timestamps": matroska(source, clusters_=[stamped_twice, *plain[1:]]),
        "laces": matroska(source, clusters_=[laced, *plain[1:]]),
        "unknown track": matroska(source, clusters_=[unknown_track, *plain[1:]]),
        "cut": whole[:-10],
        "more behind": whole + b"....",
        "no clusters": whole[: whole.index(b"\x1f\x43\xb6\x75")],
    }
    path = tmp_path / "file.mkv"
    path.write_bytes(whole)
    first = int(both(path)[1].position[0])
    assert read_block_table(path, first, None, Deadline(path, "reading it", 60)) is not None
    assert read_block_table(path, first + 1, None, Deadline(path, "reading it", 60)) is None
    for name, data in changed.items():
        assert data != whole, name
        path.write_bytes(data)
        shift = data.index(b"\x1f\x43\xb6\x75") - whole.index(b"\x1f\x43\xb6\x75") if b"\x1f\x43\xb6\x75" in data else 0
        assert read_block_table(path, first + shift, None, Deadline(path, "reading it", 60)) is None, name


def with_sound(source: Path, flags: int, content: bytes) -> bytes:
    """The plain file, but for the first block of its sound track."""
    first, *others = clusters(source)
    sound = element(0xA3, b"\x82\x00\x00\x80\x00")
    changed = first[12:].replace(sound, element(0xA3, b"\x82\x00\x00" + bytes([flags]) + content), 1)
    return matroska(source, clusters_=[element(0x1F43B675, changed, 8), *others])


@pytest.mark.parametrize(
    ("flags", "content", "adds_up"),
    [
        (0x82, b"\x01\x02aab", True),
        (0x82, b"\x01\xff\x01" + bytes(300), True),
        (0x82, b"\x01\x09aab", False),
        (0x82, b"\x09\xff\xff", False),
        (0x84, b"\x02aabbcc", True),
        (0x84, b"\x02aabbc", False),
        (0x86, b"\x02\x82\xc0aabbbc", True),
        (0x86, b"\x02\x82\x5f\xf0aabbbc", False),
        (0x86, b"\x02\x82\xf0aabbbc", False),
        (0x86, b"\x00\x82aabbbc", False),
    ],
)
def test_laces_of_another_track_must_add_up(
    footage: Footage, tmp_path: Path, flags: int, content: bytes, *, adds_up: bool
) -> None:
    path = tmp_path / "laced.mkv"
    path.write_bytes(with_sound(footage("vp9.webm"), flags, content))
    table, demuxed = both(path)
    assert (table is not None) == adds_up
    assert table is None or differs(table, demuxed, "is_key") == []


@pytest.mark.parametrize("changed", [b"\x75\xa1\x81\0", b"\x9b\x89" + bytes(9)])
def test_what_the_demuxer_cannot_read_in_a_group_is_left_to_it(
    footage: Footage, tmp_path: Path, changed: bytes
) -> None:
    """Additions that are none, and a duration of nine bytes."""
    *others, last = clusters(footage("vp9.webm"))
    group = element(0xA0, element(0xA1, b"\x81\0\0\0" + bytes(9)) + changed)
    path = tmp_path / "group.mkv"
    path.write_bytes(matroska(footage("vp9.webm"), clusters_=[*others, element(0x1F43B675, last[12:] + group, 8)]))
    table, demuxed = both(path)
    assert len(demuxed)
    assert table is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(changes=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=8))
@example(changes=[(5591, 6)])
@example(changes=[(23300, 134)])
def test_damage_gives_the_demuxers_table_or_none(
    footage: Footage, tmp_path: Path, changes: list[tuple[int, int]]
) -> None:
    damaged = bytearray(matroska(footage("vp9.webm")))
    blocks = damaged.index(b"\x1f\x43\xb6\x75")
    for place, byte in changes:
        damaged[blocks + place % (len(damaged) - blocks)] = byte
    path = tmp_path / "damaged.mkv"
    path.write_bytes(damaged)
    table, demuxed = both(path)
    assert table is None or differs(table, demuxed) == []
    assert table is None or not np.any(table.is_key & ~demuxed.is_key)  # FFmpeg looks for keyframes of its own
