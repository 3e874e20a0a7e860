"""AV1's headers say which frames depend on which: only these are decoded, and every picture stays the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st
from video_oracle import HEIGHT, Footage, Truths, digest, packets_of

from trace_ves import video
from trace_ves.video import reader
from trace_ves.video.av1 import References, UnreadableHeaderError, _read_sequence, _Sequence

if TYPE_CHECKING:
    from pathlib import Path

GROUP = 24
"""Frames from keyframe to keyframe in the footage."""


def shown(opened: video.Video, rows: list[int]) -> list[tuple[int, str]]:
    frames = opened.frames_at([float(opened.timestamps[row]) for row in rows], height=HEIGHT)
    return [(frame.pts, digest(frame.picture)) for frame in frames]


def test_few_frames_are_needed_for_one(footage: Footage) -> None:
    extradata, packets = packets_of(footage("av1.mp4"))
    packets = [b"\x12\0" + packet for packet in packets]  # with a temporal delimiter, as streams have it
    references = References(extradata)
    for number in range(GROUP):
        references.add(number, packets[number])
    for wanted in range(1, GROUP):
        needed = references.needed({wanted})
        assert needed[0] is needed[wanted] is None  # the keyframe and the packet itself, whole
        assert len(needed) < 9
        assert all(0 < size <= len(packets[number]) for number, size in needed.items() if size is not None)
    assert len(references.needed(range(GROUP))) == GROUP
    assert references.needed(()).keys() == {0}


@pytest.mark.parametrize("level", ["00111", "01000" + "0", "01000" + "1"], ids=["3.3", "4.0", "4.0 of the high tier"])
def test_large_pictures_have_a_tier_in_their_header(level: str) -> None:
    bits = "0" * 12 + "0" * 12 + level + "0" * 18 + "1" + "00" + "1" + "1" + "110"
    data = int(bits.ljust(80, "0"), 2).to_bytes(10, "big")
    assert _read_sequence(data) == _Sequence(screen_content=2, integer_motion=2, order_hint_bits=7)


@pytest.mark.parametrize("held_bytes", [0, 4_000, 10**9])
def test_unreadable_headers_and_long_groups_leave_all_to_the_decoder(
    held_bytes: int,
    footage: Footage,
    truth: Truths,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_self: Any, number: int, _packet: bytes) -> None:
        if number % GROUP == 7:
            raise UnreadableHeaderError

    monkeypatch.setattr(References, "add", refuse)
    monkeypatch.setattr(reader, "_MAX_HELD_BYTES", held_bytes)
    expected = truth(footage("av1.mp4"), height=HEIGHT)
    with video.open(footage("av1.mp4")) as opened:
        assert shown(opened, [33, 20]) == [(expected[row].pts, expected[row].digest) for row in (33, 20)]


def test_damage_elsewhere_in_a_group_does_not_reach_a_frame(footage: Footage, truth: Truths, tmp_path: Path) -> None:
    expected = truth(footage("av1.mp4"), height=HEIGHT)
    victim, wanted = 9, 17  # in the first half of the group's layers, and after it
    with av.open(str(footage("av1.mp4"))) as container:
        start = [packet.pos for packet in container.demux(video=0)][victim] + 30
    damaged = bytearray(footage("av1.mp4").read_bytes())
    damaged[start : start + 170] = b"\xff" * 170
    path = tmp_path / "damaged.mp4"
    path.write_bytes(damaged)
    with video.open(path) as opened:
        alone = shown(opened, [wanted])
        assert alone == [(expected[wanted].pts, expected[wanted].digest)]
        assert opened.warnings == ()
        together = shown(opened, [victim, wanted, 12])
        assert together[1:2] == alone
        assert together[0] != (expected[victim].pts, expected[victim].digest)
        assert shown(opened, [12]) == together[2:]


@given(packets=st.lists(st.binary(max_size=60), max_size=4), extradata=st.none() | st.binary(max_size=30))
def test_any_bytes_are_headers_or_unreadable(packets: list[bytes], extradata: bytes | None) -> None:
    added = 0
    try:
        references = References(extradata)
        for number, packet in enumerate(packets):
            references.add(number, packet)
            added += 1
        assert references.needed({0}).keys() <= set(range(added))
    except UnreadableHeaderError:
        assert added <= len(packets)


@given(data=st.data())
def test_changed_headers_are_headers_or_unreadable(data: st.DataObject, footage: Footage) -> None:
    extradata, packets = packets_of(footage("av1.mp4"))
    number = data.draw(st.integers(0, 9))
    changed = bytearray(packets[number])
    changed[data.draw(st.integers(0, 20)) % len(changed)] ^= data.draw(st.integers(1, 255))
    references, read = References(extradata), 0
    try:
        for at, packet in enumerate(packets[:10]):
            references.add(at, bytes(changed) if at == number else packet)
            read += 1
    except UnreadableHeaderError:
        pass
    assert references.needed({read - 1}).keys() <= set(range(read))
