"""AV1's headers say which frames depend on which: only these are decoded, and every picture stays the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st
from video_oracle import HEIGHT, Footage, Truths, digest, packets_of

from trace_ves import video
from trace_ves.video import reader
from trace_ves.video.av1 import References, UnreadableHeaderError, _read_header, _read_sequence, _Sequence, _units
from trace_ves.video.container import Deadline

GROUP = 24
"""Frames from keyframe to keyframe in the footage."""


def shown(opened: video.Video, rows: list[int]) -> list[tuple[int, str]]:
    frames = opened.frames_at([float(opened.timestamps[row]) for row in rows], height=HEIGHT)
    return [(frame.pts, digest(frame.picture)) for frame in frames]


@pytest.mark.parametrize("held_bytes", [0, 4_000, 10**9])
def test_unreadable_headers_and_long_groups_leave_all_to_the_decoder(
    held_bytes: int, footage: Footage, truth: Truths, monkeypatch: pytest.MonkeyPatch
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


def test_of_each_packet_just_what_is_needed_goes_to_the_decoder(footage: Footage, monkeypatch: Any) -> None:
    extradata, packets = packets_of(footage("av1.mp4"))
    references = References(extradata)
    for number in range(18):
        references.add(number, b"\x12\0" + packets[number])  # with a temporal delimiter, as streams have it
    needed = {number: size and size - 2 for number, size in references.needed({17}).items()}
    assert len(needed) < 9
    assert needed[0] is needed[17] is None  # the keyframe and the packet itself, whole
    deadline = Deadline(footage("av1.mp4"), "reading it", 60)
    with video.open(footage("av1.mp4")) as opened:
        used = opened._decoder._reader((0, 1), deadline)
        parts = [(number, bytes(part)) for number, part in used._needed_by({17}, used._packets_from(0, 17, deadline))]
        held = sum(map(len, packets[:18]))
        for limit, count in ((held, len(parts)), (held - 1, 18)):  # where it would hold more, the decoder gets all
            monkeypatch.setattr(reader, "_MAX_HELD_BYTES", limit)
            assert len(list(used._needed_by({17}, used._packets_from(0, 17, deadline)))) == count
    assert parts == [(number, packets[number][:size]) for number, size in sorted(needed.items())]
    assert any(size is not None and size < len(packets[number]) for number, size in needed.items())


def or_none(read: Callable[..., Any], *arguments: object) -> Any:
    """What is read; None for what is unreadable."""
    try:
        return read(*arguments)
    except UnreadableHeaderError:
        return None


def packed(bits: str, tail: str = "0") -> bytes:
    bits += tail * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def sequence_bits(**changed: str) -> str:
    """A sequence header, field by field; what may differ is named."""
    fields = {
        "profile": "0000",
        "still": "0",
        "timing": "0",
        "delay": "0",
        "points": "00000",
        "point": "0" * 12 + "00111",
        "size": "0010" + "0001" + "111" + "11",
        "numbers": "0",
        "tools": "1111111",
        "hints": "1" + "11",
        "screen": "1",
        "motion": "1",
        "hint_bits": "110",
    }
    return "".join((fields | changed).values())


CHOSEN = _Sequence(screen_content=2, integer_motion=2, order_hint_bits=7)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, CHOSEN),
        ({"profile": "1111"}, CHOSEN),
        *(
            ({"timing": "1" + "10" * 32 + more}, CHOSEN)
            for more in ("0" + "0", "1" + "1" + "0", "1" + "0001" + "101" + "0")
        ),
        ({"delay": "1", "point": "0" * 12 + "00111" + "0"}, CHOSEN),
        ({"delay": "1", "point": "0" * 12 + "01000" + "1" + "1" + "1111"}, CHOSEN),
        ({"points": "00001", "point": ("0" * 12 + "11111" + "0") * 2}, CHOSEN),
        ({"points": "00010", "point": ("0" * 12 + "00001") * 3}, CHOSEN),
        ({"size": "0000" + "0000" + "11"}, CHOSEN),
        ({"size": "1111" + "1111" + "1" * 32}, CHOSEN),
        ({"hints": "0", "hint_bits": ""}, _Sequence(2, 2, 0)),
        *(({"hint_bits": f"{bits - 1:03b}"}, _Sequence(2, 2, bits)) for bits in (1, 8)),
        ({"screen": "00", "motion": ""}, _Sequence(0, 2, 7)),
        ({"screen": "01", "motion": "1"}, _Sequence(1, 2, 7)),
        ({"screen": "01", "motion": "01"}, _Sequence(1, 1, 7)),
        ({"screen": "1", "motion": "00"}, _Sequence(2, 0, 7)),
        ({"still": "1"}, None),
        ({"timing": "1" + "10" * 32 + "0" + "1"}, None),
        *(({"point": bits + "00111"}, None) for bits in ("0" * 11 + "1", "1" + "0" * 11)),
        ({"numbers": "1"}, None),
    ],
)
def test_every_field_of_a_sequence_header_has_its_bits(changed: dict[str, str], expected: _Sequence | None) -> None:
    bits = sequence_bits(**changed)
    for tail in "01":
        data = packed(bits, tail)
        assert or_none(_read_sequence, data) == expected
        assert or_none(_read_sequence, data[:-1]) is None


SEVEN = (5, 0, 7, 2, 5, 1, 6)
ALL = 0xFF


def named_bits(slots: tuple[int, ...] = SEVEN) -> str:
    return "".join(f"{slot:03b}" for slot in slots)


NAMED = sum(1 << slot for slot in set(SEVEN))
HINT = "1010101"
REFERENCES = named_bits()
FILLS = "111" + "00000100"
WITHOUT_HINTS = _Sequence(0, 2, 0)


@pytest.mark.parametrize(
    ("sequence", "bits", "expected"),
    [
        # not a repeat, kind, shown; showable; resilient; no cdf update; screen content, motion; size; hint; primary
        (CHOSEN, "0" "00" "1" "1" "0" "1" + HINT, (True, ALL, 0)),
        (CHOSEN, "0" "00" "1" "1" "1" "1" "1" + HINT, (True, ALL, 0)),
        (CHOSEN, "0" "00" "0" "1" "1" "1" "0" "1" + HINT + "01000001", (True, 0x41, 0)),
        (CHOSEN, "0" "10" "1" "0" "1" "0" "1" + HINT + "10000010", (False, 0x82, 0)),
        (CHOSEN, "0" "01" "1" "0" "1" "0" "1" + HINT + FILLS + "0" + REFERENCES, (False, 4, NAMED)),
        (CHOSEN, "0" "01" "1" "0" "1" "1" "1" "1" + HINT + FILLS + "0" + REFERENCES, (False, 4, NAMED)),
        (CHOSEN, "0" "01" "0" "1" "0" "1" "0" "1" + HINT + "111" "00100000" "0" + REFERENCES, (False, 32, NAMED)),
        (CHOSEN, "0" "01" "1" "1" "1" "0" "1" + HINT + "00010000" + HINT * 8 + "0" + REFERENCES, (False, 16, NAMED)),
        (CHOSEN, "0" "11" "1" "1" "0" + HINT + HINT * 8 + "0" + REFERENCES, (False, ALL, NAMED)),
        (CHOSEN, "0" "11" "0" "1" "1" "0" + HINT + HINT * 8 + "0" + REFERENCES, (False, ALL, NAMED)),
        (CHOSEN, "0" "01" "1" "0" "1" "0" "1" + HINT + FILLS + "1" + REFERENCES, None),
        (_Sequence(2, 2, 0), "0" "01" "1" "0" "1" "0" "1" + FILLS + REFERENCES, (False, 4, NAMED)),
        (_Sequence(2, 2, 0), "0" "01" "1" "1" "1" "0" "1" "00000100" + REFERENCES, (False, 4, NAMED)),
        (WITHOUT_HINTS, "0" "01" "1" "0" "1" "1" + FILLS + REFERENCES, (False, 4, NAMED)),
        (_Sequence(1, 2, 0), "0" "01" "1" "0" "1" "1" "1" + FILLS + REFERENCES, (False, 4, NAMED)),
        (_Sequence(1, 1, 0), "0" "01" "1" "0" "1" "1" + FILLS + REFERENCES, (False, 4, NAMED)),
        (_Sequence(2, 0, 1), "0" "01" "1" "0" "1" "1" "1" "1" + FILLS + "0" + REFERENCES, (False, 4, NAMED)),
        (WITHOUT_HINTS, "0" "01" "1" "0" "1" "1" + FILLS + named_bits((3,) * 7), (False, 4, 8)),
        *(
            (WITHOUT_HINTS, "0" "01" "1" "0" "1" "1" + FILLS + named_bits(slots), (False, 4, 17))
            for slots in ((0,) * at + (4,) + (0,) * (6 - at) for at in range(7))
        ),
    ],
)  # fmt: skip
def test_every_field_of_a_frames_header(sequence: _Sequence, bits: str, expected: tuple[bool, int, int] | None) -> None:
    for tail in "01":
        data = packed(bits, tail)[:24]
        assert or_none(_read_header, data, sequence) == expected
        assert or_none(_read_header, data[:-1], sequence) is None


def unit(kind: int, content: bytes) -> bytes:
    return bytes([kind << 3 | 2, len(content)]) + content


SEQUENCE = unit(1, packed(sequence_bits(hints="0", hint_bits="", screen="00", motion="")))
KEY = unit(6, packed("0" "00" "1" "1" "1") + b"key")  # fmt: skip


def inter(fills: int, *slots: int) -> bytes:
    bits = "0" "01" "1" "0" "1" "1" "111" + f"{fills:08b}" + named_bits((slots * 7)[:7])  # fmt: skip
    return unit(6, packed(bits) + bytes(fills % 7))


def show(slot: int) -> bytes:
    return unit(3, packed(f"1{slot:03b}"))


def late_key(fills: int) -> bytes:
    return unit(6, packed("0" "00" "0" "1" "1" "1" "1" + f"{fills:08b}"))  # fmt: skip


TWO = [inter(1 << 2, 1), inter(0, 2)]
LAYERS = [KEY, inter(1 << 1, 0), b"".join(TWO), inter(1 << 3, 0), inter(0, 3, 2), show(1)]
LATE = [KEY, late_key(1 << 7), inter(1 << 1, 0), show(7), inter(0, 1), inter(1 << 7, 1), show(7), inter(0, 0)]
TILED = unit(3, packed("0" "01" "1" "0" "1" "1" "111" "00000010") + bytes(3))  # fmt: skip
TILES = [KEY, TILED + unit(4, b"12") + unit(4, b"3"), inter(0, 1)]


@pytest.mark.parametrize(
    ("packets", "wanted", "expected"),
    [
        (LAYERS, {3}, {0: len(KEY), 3: None}),
        (LAYERS, {2}, {0: len(KEY), 1: len(LAYERS[1]), 2: None}),
        (LAYERS, {4}, {0: len(KEY), 1: len(LAYERS[1]), 2: len(TWO[0]), 3: len(LAYERS[3]), 4: None}),
        (LAYERS, {5}, {0: len(KEY), 1: len(LAYERS[1]), 5: None}),
        (LAYERS, {0}, {0: None}),
        (LAYERS, (), {}),
        (LATE, {2}, {0: len(KEY), 2: None}),
        (LATE, {3}, {1: len(LATE[1]), 3: None}),
        (LATE, {4}, {1: len(LATE[1]), 3: len(LATE[3]), 4: None}),
        (LATE, {6}, {1: len(LATE[1]), 3: len(LATE[3]), 5: len(LATE[5]), 6: None}),
        (LATE, {7}, {1: len(LATE[1]), 3: len(LATE[3]), 7: None}),
        (TILES, {2}, {0: len(KEY), 1: len(TILES[1]), 2: None}),
        ([KEY, SEQUENCE + KEY, inter(0, 0)], {2}, {1: None, 2: None}),
        ([KEY, SEQUENCE + KEY, inter(0, 0)], {0}, {0: None, 1: None}),
        ([unit(2, b"") + unit(5, b"..") + KEY + unit(15, b"."), inter(0, 4)], {1}, {0: len(KEY) + 6, 1: None}),
    ],
)
def test_frames_are_needed_that_headers_name(
    packets: list[bytes], wanted: set[int], expected: dict[int, int | None]
) -> None:
    references = References(b"\x81\0\0\0" + SEQUENCE)
    for number, packet in enumerate(packets):
        references.add(number, packet)
    assert references.needed(wanted) == expected


def test_a_sequence_header_may_come_with_a_packet() -> None:
    references = References(None)
    references.add(0, SEQUENCE + KEY)
    assert references.needed({0}) == {0: None}


@pytest.mark.parametrize("packet", [unit(kind, b"...") for kind in (0, 4, 7, 8, 14)] + [unit(6, b""), unit(3, b"")])
def test_what_only_the_decoder_knows_is_left_to_it(packet: bytes) -> None:
    config = b"\x81\0\0\0"
    for head, content in ((config + SEQUENCE, packet), (None, KEY), (config + unit(2, SEQUENCE[2:]), KEY)):
        with pytest.raises(UnreadableHeaderError):
            References(head).add(0, content)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\x12\0", [(2, 2, 2)]),
        (b"\x12\0\x32\3abc", [(2, 2, 2), (6, 4, 7)]),
        (b"\x32\1a\x7b\1b", [(6, 2, 3), (15, 5, 6)]),
        *((unsized, [(6, 1, 4)]) for unsized in (b"\x30abc", b"\x31abc")),  # the last bit is reserved
        (b"\x32", [(6, 1, 1)]),
        (b"\x32\x80\1" + bytes(128), [(6, 3, 131)]),
        (b"\x32\x83\x80\0abc", [(6, 4, 7)]),
        (b"\x32\x83\x80\x80\x80\x80\x80\x80\0abc", [(6, 9, 12)]),
        (b"\x32\x83\x80\x80\x80\x80\x80\x80\x80\0abc", None),
        *((unreadable, None) for unreadable in (b"\x32\4abc", b"\x32\x80", b"\xb2\3abc", b"\x36\3abc")),
    ],
)
def test_units_have_a_kind_and_a_size(data: bytes, expected: list[tuple[int, int, int]] | None) -> None:
    assert or_none(_units, data) == expected


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
