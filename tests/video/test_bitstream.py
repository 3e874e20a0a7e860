"""Heads of packets, bit by bit: all bits but those that decide are set to what would mislead."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import video_footage
from video_oracle import HEIGHT, Footage, digest, every_frame, packets_of

from trace_ves import video
from trace_ves.video import decoder
from trace_ves.video.bitstream import (
    FrameNumbers,
    _Bits,
    avc_length_bytes,
    avc_parameter_sets,
    flags_can_be_checked,
    h264_head_is_complete,
    head_gives_size,
    hevc_has_one_layer,
    start_check,
    units,
)

CODE = b"\0\0\1"


def starts(codec: str, packet: bytes, extradata: bytes | None = None) -> bool:
    check = start_check(codec, extradata)
    assert check is not None
    return check(memoryview(packet))


def packed(bits: str) -> bytes:
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def with_bits(fields: dict[int, str], *, others: str, size: int) -> bytes:
    """Bytes with some bits from some places on, and all others alike."""
    bits = list(others * (8 * size))
    for at, value in fields.items():
        bits[at : at + len(value)] = value
    return packed("".join(bits))


def is_vp9_key(byte: str) -> bool:
    return byte.startswith("10") and (byte[5:7] if byte[2:4] == "11" else byte[4:6]) == "00"


@pytest.mark.parametrize(
    ("codec", "rule"),
    [
        *((codec, lambda byte: byte.startswith("00")) for codec in ("msmpeg4v2", "msmpeg4v3", "wmv1")),
        ("wmv2", lambda byte: byte.startswith("0")),
        ("vp8", lambda byte: byte.endswith("0")),
        ("vp9", is_vp9_key),
    ],
)
def test_one_byte_decides(codec: str, rule: Any) -> None:
    assert [starts(codec, bytes([byte])) for byte in range(256)] == [rule(f"{byte:08b}") for byte in range(256)]
    assert not starts(codec, b"")


FIELDS = [
    *(("flv1", 9, {30: f"{code:03b}"}, 33 + {0: 16, 1: 32}.get(code, 0), 2) for code in range(8)),
    *(("h263", 8, {35: f"{code:03b}"}, 38, 1) for code in range(7)),
    *(("h263", 8, {35: "111", 38: f"{code:03b}"}, 59 if code == 1 else 41, 3) for code in range(8)),
    ("msmpeg4v1", 5, {}, 37, 2),
]


@pytest.mark.parametrize(("codec", "size", "fields", "at", "width"), FIELDS)
def test_a_field_of_zeros_decides(codec: str, size: int, fields: dict[int, str], at: int, width: int) -> None:
    zeros = fields | {at: "0" * width}
    for bytes_ in (size, 16, 20):
        assert starts(codec, with_bits(zeros, others="1", size=bytes_))
    assert not starts(codec, with_bits(zeros, others="1", size=size)[:-1])
    for bit in range(at, at + width):
        assert not starts(codec, with_bits(fields | {bit: "1"}, others="0", size=size))


MPEG12 = (b"\0\0\1\0", ["ff08", "00cf", "ff0810"], ["0800", "0010", "0018", "0030", "08"])


@pytest.mark.parametrize(
    ("codec", "code", "intra", "others"),
    [
        ("mpeg1video", *MPEG12),
        ("mpeg2video", *MPEG12),
        ("mpeg4", b"\0\0\1\xb6", ["0000", "3fff"], ["4000", "8000", "00"]),
        ("ffv1", b"", ["7f80", "ffff"], ["7f7f", "0000", "ff"]),
    ],
)
def test_what_stands_after_the_start_code_decides(codec: str, code: bytes, intra: list[str], others: list[str]) -> None:
    for front in (b"", b"\0\0\1\xb3\xff\xff") if code else (b"",):
        found = [header for header in intra + others if starts(codec, front + code + bytes.fromhex(header))]
        assert found == intra


IDR, SLICE, DELIMITER, END = b"\x65\x11", b"\x41\x11", b"\x09\xf0", b"\x0a"
AT_ONCE, SLOW = b"\x06\x06\x01\x80", b"\x06\x06\x01\x7f"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        *((parts, True) for parts in ([IDR], [b"\x05"], [DELIMITER, IDR], [b"", IDR], [AT_ONCE, SLICE], [SLOW, IDR])),
        *((parts, False) for parts in ([], [SLICE], [b"\xe1"], [DELIMITER, SLICE, IDR], [DELIMITER, END])),
        *((parts, False) for parts in ([SLICE, AT_ONCE], [SLOW, SLICE])),
        ([b"\x06\x05\x02\x80\x80" + AT_ONCE[1:], SLICE], True),
        ([b"\x06\x05\x02\x80\x80" + SLOW[1:], SLICE], False),
        ([b"\x06\x05\x00" + AT_ONCE[1:], SLICE], True),
        ([b"\x06\x05\xff\x01" + b"\x77" * 256 + AT_ONCE[1:], SLICE], True),
        ([b"\x06\x05\xff\x02" + b"\x77" * 256 + AT_ONCE[1:], SLICE], False),
        ([b"\x06\x06\x00\x80", SLICE], True),
        *(([bytes.fromhex(head), SLICE], False) for head in ("06ff060180", "0606ffff", "060680", "07060180")),
    ],
)
def test_h264_starts_at_an_idr_picture_or_a_recovery_at_once(parts: list[bytes], *, expected: bool) -> None:
    assert starts("h264", b"".join(CODE + part for part in parts)) is expected
    for length_bytes in (1, 2, 3, 4):
        size = length_bytes if all(len(part) < 1 << 8 * length_bytes for part in parts) else 4
        extradata = bytes([1, 0, 0, 0, 0xFB + size, 0, 0])
        packet = b"".join(len(part).to_bytes(size, "big") + part for part in parts)
        assert starts("h264", packet, extradata) is expected


@pytest.mark.parametrize("kind", range(64))
def test_hevc_starts_at_random_access_points(kind: int) -> None:
    expected = 16 <= kind <= 23
    coded = [bytes([0x81 | kind << 1 & 0x7E, 1])]
    then = [b"\x42\x01", b"", *coded, b"\x26\x01" if kind < 16 else b"\x02\x01"]  # others, then what would mislead
    if kind >= 32:
        expected, then = True, [*coded, b"\x26\x01"]
    assert starts("hevc", b"".join(CODE + part for part in then)) is expected
    for length_bytes in (1, 2, 4):
        packet = b"".join(len(part).to_bytes(length_bytes, "big") + part for part in then)
        assert starts("hevc", packet, b"\1" + bytes(20) + bytes([0xFB + length_bytes, 0])) is expected
    assert not starts("hevc", CODE + b"\x42\x01")


def test_short_or_other_heads_of_files_mean_start_codes() -> None:
    avcc, hvcc = b"\1\0\0\0\xff\0\0", b"\1" + bytes(20) + b"\xff\0"
    assert (avc_length_bytes(avcc), avc_length_bytes(b"\1\0\0\0\xfc\0\0")) == (4, 1)
    assert [avc_length_bytes(other) for other in (avcc[:6], b"\0" + avcc[1:], b"\2" + avcc[1:], None)] == [0] * 4
    for extradata in (None, hvcc[:22], b"\0" + hvcc[1:], b"\2" + hvcc[1:]):
        assert starts("hevc", CODE + b"\x26\x01", extradata)
        assert not starts("hevc", b"\0\0\0\x02\x26\x01", extradata)
    assert starts("hevc", b"\0\0\0\x02\x26\x01", hvcc)


@pytest.mark.parametrize(
    ("packet", "length_bytes", "expected"),
    [
        (b"\x02ab\x01c", 1, [b"ab", b"c"]),
        (b"\0\x02ab\0\x01c", 2, [b"ab", b"c"]),
        (b"\0\0\0\x01a", 4, [b"a"]),
        (b"\0\0\0\x01", 4, []),
        (b"\x01a\x00", 1, [b"a"]),
        (b"\x01a\x00b", 1, [b"a", b""]),
        (b"\x09ab", 1, [b"ab"]),
        (b"\0\0\1ab\0\0\1c", 0, [b"ab", b"c"]),
        (b"..\0\0\1a\0\0\0\1\0\0\1", 0, [b"a\0", b"", b""]),
        (b"abc", 0, []),
    ],
)
def test_units_follow_their_length_or_a_start_code(packet: bytes, length_bytes: int, expected: list[bytes]) -> None:
    assert [bytes(unit) for unit in units(memoryview(packet), length_bytes)] == expected


def test_parameter_sets_of_h264_are_counted_and_measured() -> None:
    head = b"\1\x64\0\x1f\xff" + b"\xe2" + b"\0\x02ab" + b"\0\x03cde" + b"\x01" + b"\0\x01f"
    assert [bytes(each) for each in avc_parameter_sets(memoryview(head))] == [b"ab", b"cde", b"f"]
    assert [bytes(each) for each in avc_parameter_sets(memoryview(head[:6]))] == [b"", b""]
    assert list(avc_parameter_sets(memoryview(head[:5]))) == []
    many = b"\1\x64\0\x1f\xff" + b"\xe0" + b"\x21" + b"\0\x01a" * 33
    assert [bytes(each) for each in avc_parameter_sets(memoryview(many))] == [b"a"] * 33


def vps(layers: int) -> bytes:
    """A set that says how many layers there are, with bits around the number that would mislead."""
    return bytes([0x40, 0xFF, 0xFF, 0xF1 | layers << 1])


@pytest.mark.parametrize(
    ("sets", "one"),
    [
        *((sets, True) for sets in ([vps(0)], [vps(0), vps(0)], [b"\x42" + vps(7)[1:], vps(0)], [vps(1)[:3], vps(0)])),
        *((sets, False) for sets in ([], [vps(1)], [vps(4)], [vps(0), vps(2)], [vps(2), vps(0)])),
        *((sets, False) for sets in ([b"\x42" + vps(0)[1:]], [vps(0)[:3]])),
    ],
)
def test_a_stream_of_hevc_has_one_layer_if_every_set_says_so(sets: list[bytes], *, one: bool) -> None:
    head = b"\1" + bytes(22)
    assert hevc_has_one_layer(b"".join(CODE + each for each in sets)) is one
    measured = [len(each).to_bytes(2, "big") + each for each in sets]
    assert hevc_has_one_layer(head + b"\xa0" + len(sets).to_bytes(2, "big") + b"".join(measured)) is one
    assert hevc_has_one_layer(head + b"".join(b"\xa0\0\1" + each for each in measured)) is one
    assert not hevc_has_one_layer(b"\2" + (head + b"\xa0\0\1\0\x04" + vps(0))[1:])
    assert not hevc_has_one_layer(head[:22])
    assert not hevc_has_one_layer(head)
    assert not hevc_has_one_layer(b"\1\0\0\1" + vps(0) + bytes(15))  # of 23 bytes, in which a start code means nothing
    assert not hevc_has_one_layer(None)


HONEST = ["av1", "cavs", "h261", "rv10", "rv20", "rv30", "rv40", "svq1", "svq3", "theora", "vc1", "vp3", "vp4", "vp5"]
HONEST += ["vp6", "vp6a", "vp6f", "vvc", "wmv3"]
READ = ["ffv1", "flv1", "h263", "h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "msmpeg4v1", "msmpeg4v2"]
READ += ["msmpeg4v3", "wmv1", "wmv2", "vp8", "vp9"]


def test_flags_are_checked_where_headers_or_decoders_tell() -> None:

    def can(name: str, *, intra: bool) -> bool:
        codec: Any = SimpleNamespace(canonical_name=name, intra_only=intra)
        return flags_can_be_checked(codec)

    assert all(can(name, intra=False) for name in [*HONEST, *READ, "png"])
    assert can("mjpeg", intra=True)
    assert not any((can("gif", intra=False), can("mss1", intra=True), can("mss2", intra=True)))
    assert start_check("mjpeg", None) is None
    assert all(start_check(name, None) for name in READ)


# --- pictures that are missing from H.264 are noticed by their numbers, since the decoder says nothing ---------------

LOST = 25
"""The packet after the second keyframe, to which others refer."""
H264 = sorted(name for name, recipe in video_footage.PLAIN.items() if recipe.codec == "libx264" and recipe.frames > 1)


def without_packet(source: Path, target: Path) -> Path:
    """The file without a packet, as a receiver writes it that lost it."""
    video_footage.remux(source, target, lambda number, _: number != LOST)
    return target


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("name", ["late-start.mkv", "b-frames.mp4", "h264.flv", "h264.nut"])
def test_what_depends_on_a_lost_picture_is_said_and_all_else_is_exact(
    name: str, cores: int, footage: Footage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder, "_usable_cores", lambda: cores)
    path = without_packet(footage(name), tmp_path / name)
    exact = {frame.pts: frame.digest for frame in every_frame(path, height=HEIGHT)}
    with video.open(path) as opened:
        times = [float(seconds) for seconds in opened.timestamps]
        for frame in opened.frames_at([*times[:20], *times[50:]][::-1], height=HEIGHT):
            assert digest(frame.picture) == exact[frame.pts]
        assert opened.warnings == ()
        frames = opened.frames_at(times, height=HEIGHT)
        wrong = [frame for frame in frames if digest(frame.picture) != exact[frame.pts]]
        assert any("depend on damaged data, the first at 0.8" in warning for warning in opened.warnings)
    assert all(0.8 <= frame.seconds < 1.7 for frame in wrong)
    for seconds in (0.9, 1.2):  # asked for alone
        with video.open(path) as opened:
            alone = digest(opened.frames_at([seconds], height=HEIGHT)[0].picture)
            assert any("1 of the requested frames depend" in warning for warning in opened.warnings)
            assert digest(opened.frames_at([seconds], height=HEIGHT)[0].picture) == alone


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("name", ["open-gop.ts", "open-gop.mkv"])
def test_a_lost_picture_that_is_missed_only_where_others_are_skipped_changes_nothing(
    name: str, cores: int, footage: Footage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the lost one stands a picture with the same number that nobody refers to, and the decoder is content."""
    monkeypatch.setattr(decoder, "_usable_cores", lambda: cores)
    path = without_packet(footage(name), tmp_path / name)
    extradata, packets = packets_of(path)
    assert gaps(extradata, packets) == []
    assert gaps(extradata, packets, skips=True) == [LOST]
    exact = {frame.pts: frame.digest for frame in every_frame(path, height=HEIGHT)}
    with video.open(path) as opened:
        for seconds in (1.2, 0.9, 2.0):
            (frame,) = opened.frames_at([seconds], height=HEIGHT)
            assert digest(frame.picture) == exact[frame.pts]
        for frame in opened.frames_at([float(seconds) for seconds in opened.timestamps], height=HEIGHT):
            assert digest(frame.picture) == exact[frame.pts]


def gaps(extradata: bytes | None, packets: Iterable[bytes], *, skips: bool = False) -> list[int]:
    numbers = FrameNumbers(extradata)
    return [at for at, packet in enumerate(packets) if numbers.has_gap(memoryview(packet), skips=skips)]


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("name", [*H264, "raw.h264", "b-frames.avi"])
def test_no_picture_is_missing_from_a_whole_file(name: str, skips: bool, footage: Footage) -> None:
    assert gaps(*packets_of(footage(name)), skips=skips) == []


def golomb(value: int) -> str:
    digits = f"{value + 1:b}"
    return "0" * (len(digits) - 1) + digits


def unit(kind: int, bits: str) -> bytes:
    """A unit after a start code, its bits ended and escaped as they are in a stream."""
    bits += "1"
    data = int(bits.ljust((len(bits) + 7) // 8 * 8, "0"), 2).to_bytes((len(bits) + 7) // 8, "big")
    escaped = bytearray()
    for byte in data:
        if escaped[-2:] == b"\0\0" and byte <= 3:
            escaped.append(3)
        escaped.append(byte)
    return b"\0\0\1" + bytes([0x60 | kind]) + bytes(escaped)


def sps(*, profile: int = 66, colours: str = "", number_bits: int = 4, order: str = golomb(2), **more: Any) -> bytes:
    bits = f"{profile:08b}{0:016b}" + golomb(0) + colours + golomb(number_bits - 4) + order + golomb(1)
    return unit(7, bits + f"{more.get('gaps_allowed', False):b}" + golomb(5) + golomb(3) + more.get("rest", ""))


PPS = unit(8, golomb(2) + golomb(0) + "00")


def picture(number: int, *, number_bits: int = 4, plane: str = "", kind: int = 1) -> bytes:
    return unit(kind, golomb(0) + golomb(7) + golomb(2) + plane + f"{number:0{number_bits}b}" + "0" * 40)


def test_numbers_start_again_after_the_largest_one_and_at_a_keyframe() -> None:
    assert gaps(sps() + PPS, [picture(number) for number in (13, 14, 15, 0, 1, 1, 2)]) == []
    assert gaps(sps() + PPS, [picture(number) for number in (13, 15, 0, 2, 1)]) == [1, 3, 4]
    assert gaps(sps() + PPS, [picture(7), picture(0, kind=5), picture(1), picture(0)]) == [3]


def test_parameter_sets_may_come_with_the_packets_and_change() -> None:
    wide = sps(number_bits=16) + PPS + picture(0, number_bits=16, kind=5)
    first = [sps() + PPS + picture(0, kind=5), picture(1), wide, picture(1, number_bits=16)]
    assert gaps(None, first) == []
    assert gaps(None, [*first, picture(40_000, number_bits=16)]) == [4]
    assert gaps(None, [picture(1), picture(9)]) == []


HIGH = [44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 144, 244]
OTHERS = [number for number in (*HIGH, 66, 77, 88) for number in (number - 1, number + 1) if number not in HIGH]
COLOURS = golomb(1) + golomb(0) + golomb(4)
ALL_LISTS = ("1" + golomb(0) * 16) * 6 + ("1" + golomb(0) * 64) * 2


def lists(*steps: int, at: int = 0, of: int = 8) -> str:
    """A matrix of scaling lists of which one is there. A step of code 2n - 1 goes n up, one of 2n goes n down.

    The list starts at 8, values wrap at 256, and it ends where its next value is zero.
    """
    return "01" + "0" * at + "1" + "".join(map(golomb, steps)) + "0" * (of - at - 1)


@pytest.mark.parametrize(
    ("choices", "plane"),
    [
        *(({"profile": profile, "colours": COLOURS + "00", "number_bits": 7}, "") for profile in HIGH),
        *(({"profile": profile, "number_bits": 7}, "") for profile in OTHERS),
        *(({"number_bits": bits}, "") for bits in (4, 9, 16, 17)),
        ({"order": golomb(0) + golomb(2)}, ""),
        ({"order": golomb(1) + "0" + golomb(5) * 2 + golomb(0)}, ""),
        *(({"order": golomb(1) + "1" + golomb(5) * 2 + golomb(count) + golomb(6) * 255}, "") for count in (255, 256)),
        ({"profile": 100, "colours": golomb(2) + golomb(2) * 2 + "11" + "0" * 8}, ""),
        ({"profile": 100, "colours": COLOURS + "01" + ALL_LISTS}, ""),
        *(
            ({"profile": 100, "colours": COLOURS + matrix}, "")
            for steps in ([0] * 16, [3] * 16, [16], [2, 14], [495], [1, 2] * 8)
            for matrix in (lists(*steps), lists(*steps, *[0] * (48 * (len(steps) == 16)), at=6))
        ),
        ({"profile": 244, "colours": golomb(3) + "1" + golomb(4) * 2 + lists(16, at=11, of=12)}, "10"),
        ({"profile": 244, "colours": golomb(3) + "0" + golomb(4) * 2 + "01" + "0" * 12}, ""),
    ],
)
def test_numbers_are_found_behind_every_kind_of_head(choices: dict[str, object], plane: str) -> None:
    bits = min(16, int(str(choices.get("number_bits", 4))))
    stream = [picture(number, number_bits=bits, plane=plane) for number in (0, 1, 2, 5, 6)]
    assert gaps(sps(**choices) + PPS, stream) == [3]  # type: ignore[arg-type]
    assert gaps(sps(**choices, gaps_allowed=True) + PPS, stream) == []  # type: ignore[arg-type]


FRAMES, FIELDS, WHOLE = "10", "010", "0"  # whether a picture may be of fields, and one that shows all of it

NOTHING = "00000"  # of aspect, overscan, colours, chroma and rate; buffers and reordering follow
SMALL = (96, 64)


@pytest.mark.parametrize(
    ("rest", "size", "complete"),
    [
        (FRAMES + WHOLE + "1" + NOTHING + "0001", SMALL, True),
        (FRAMES + WHOLE + "1" + NOTHING + "0001", (96, 65), False),
        (FRAMES + WHOLE + "1" + NOTHING + "0001", (95, 64), False),
        (FIELDS + WHOLE + "1" + NOTHING + "0001", (96, 128), True),
        (FIELDS + WHOLE + "1" + NOTHING + "0001", SMALL, False),
        (FRAMES + "1" + "".join(map(golomb, (1, 2, 3, 4))) + "1" + NOTHING + "0001", (90, 50), True),
        (FIELDS + "1" + "".join(map(golomb, (1, 2, 3, 4))) + "1" + NOTHING + "0001", (90, 100), True),
        (FRAMES + WHOLE + "0", SMALL, False),
        (FRAMES + WHOLE + "1" + NOTHING + "0011", SMALL, True),
        (FRAMES + WHOLE + "1" + NOTHING + "0010", SMALL, False),
        *((FRAMES + WHOLE + "1" + NOTHING + buffers + "01" * 40, SMALL, False) for buffers in ("01", "10", "11")),
        *((FRAMES + WHOLE + f"11{shape:08b}" + NOTHING[1:] + "0001", SMALL, shape < 2) for shape in (0, 1, 2, 255)),
        *((FRAMES + WHOLE + "10" + f"1{shown}000" + "0001", SMALL, True) for shown in "01"),
        (FRAMES + WHOLE + "100" + "11110" + "00" + "0001", SMALL, True),
        (FRAMES + WHOLE + "100" + "11111" + "1" * 24 + "00" + "0001", SMALL, True),
        (FRAMES + WHOLE + "1000" + "1" + golomb(6) * 2 + "0" + "0001", SMALL, True),
        (FRAMES + WHOLE + "10000" + "1" + "1" * 65 + "0001", SMALL, True),
    ],
)
def test_a_head_of_h264_is_complete_or_a_frame_must_be_decoded(
    rest: str, size: tuple[int, int], complete: bool
) -> None:
    first = sps(rest=rest)[3:]

    def head(*sets: bytes) -> bytes:
        return bytes([1, 66, 0, 30, 255, 224 | len(sets)]) + b"".join(len(each).to_bytes(2) + each for each in sets)

    assert h264_head_is_complete(head(first) + b"\1" + head(PPS[3:])[6:], size) == complete
    assert not h264_head_is_complete(head(first, first), size)
    assert not h264_head_is_complete(head(PPS[3:]), size)
    assert not h264_head_is_complete(b"\0" + head(first)[1:], size)


def test_no_head_is_complete_without_a_parameter_set() -> None:
    assert not h264_head_is_complete(None, SMALL)
    assert not h264_head_is_complete(bytes([1, 66, 0, 30, 255, 225, 0, 0, 0]), SMALL)


def test_bits_are_read_in_order_and_zeros_follow_the_end() -> None:
    bits = _Bits(memoryview(b"\xb5\0\0\3\xff"))
    assert [bits.take(count) for count in (4, 4, 16, 6, 9, 3)] == [0b1011, 0b0101, 0, 0x3F, 0b110000000, 0]


def set_of(codec: str, more: str, crop: str) -> bytes:
    """A sequence parameter set with these bits before the size, or for H.264 behind it."""
    if codec == "h264":
        return sps(rest=more + crop)[3:]
    return b"\x42\1" + unit(0, "1111" + more + golomb(5) + golomb(3) + crop)[4:]


def gives_size(codec: str, sets: list[bytes], *packet: bytes, size: int = 4, first: int = 1, end: int = 99) -> bool:
    measured = b"".join(len(each).to_bytes(2, "big") + each for each in sets)
    head = bytes([first]) + bytes(20) + bytes([0xFB + size, 1, 0xA1]) + len(sets).to_bytes(2, "big") + measured
    if codec == "h264":
        head = (bytes([first, 0x64, 0, 0x1F, 0xFB + size, 0xE0 | len(sets)]) + measured).ljust(23, b"\0")
    data = b"".join(len(each).to_bytes(size, "big") + each for each in packet)
    return head_gives_size(codec, head[:end], SMALL, lambda: memoryview(data))


HEVC_START = "000" + "1" * 97 + golomb(2)
HEAD_SIZES: list[tuple[str, list[str], list[bytes], set[int], set[int]]] = [
    ("h264", ["11", "10", "011", "000"], [bytes([0xE0 | kind]) for kind in range(32)], {6}, {1, 5, 9, 12}),
    (
        *("hevc", [HEVC_START + each for each in (golomb(1), golomb(3) + "1", golomb(3) + "0", golomb(0))]),
        *([bytes([0x81 | kind << 1, 1]) for kind in range(64)], {39, 40}, {*range(10), *range(16, 22), 35, 38}),
    ),
]


@pytest.mark.parametrize(("codec", "more", "heads", "messages", "others"), HEAD_SIZES)
def test_the_head_gives_the_size_where_nothing_else_can(
    codec: str, more: list[str], heads: list[bytes], messages: set[int], others: set[int]
) -> None:
    crops = ("0", "1" + golomb(0), "1" + golomb(1), "1" + golomb(6))
    found = [[gives_size(codec, [set_of(codec, each, crop)]) for crop in crops] for each in more]
    assert found == [[True, True, False, False]] * 4
    good, last = set_of(codec, more[0], "0"), heads[max(others - {9, 12, 35, 38})]
    message = heads[max(messages)]
    assert not any(gives_size(codec, sets) for sets in ([], [good, good], [good, message + b"\x2f\0"]))
    assert not any((gives_size("vp9", [good]), gives_size(codec, [good], first=2), gives_size(codec, [good], end=22)))
    assert gives_size(codec, [good], end=23 if codec == "h264" else 99)
    assert not gives_size("hevc", [set_of("hevc", "001" + HEVC_START[3:] + golomb(1), "0")])
    for size in (1, 2, 4):
        found = [gives_size(codec, [good], *packet, size=size) for packet in ([last], [last, good], [b"", last])]
        assert found == [True, False, False]
    kinds = {kind for kind, head in enumerate(heads) if gives_size(codec, [good], head + b"\5\2abc")}
    assert kinds == others | messages
    long = b"\5\xff\1" + bytes(256)
    for said in (b"\x2f\2ab\x80", b"\5\2ab\x80", b"\5\2ab\5\0", long + b"\x80", long + b"\0\0"):
        assert gives_size(codec, [good], message + said) == (said.endswith(b"\x80") and said[0] == 5)


VP9_KEY = "10" + "00" + "0" + "0" + "1" + "0" + f"{0x498342:024b}" + "0010" + f"{95:016b}{63:016b}" + "0" * 20


@pytest.mark.parametrize(
    ("bits", "gives"),
    [
        (VP9_KEY, True),
        (VP9_KEY[:7] + "1" + VP9_KEY[8:], True),  # resilient to errors
        *((VP9_KEY[:at] + str(1 - int(VP9_KEY[at])) + VP9_KEY[at + 1 :], False) for at in (*range(7), *range(8, 32))),
        *((VP9_KEY[:at] + str(1 - int(VP9_KEY[at])) + VP9_KEY[at + 1 :], False) for at in range(36, 68)),
        *((VP9_KEY[:at] + str(1 - int(VP9_KEY[at])) + VP9_KEY[at + 1 :], True) for at in (*range(32, 36), 68)),
        (VP9_KEY + "11000000", False),  # the end of an index of several frames
        (VP9_KEY + "11011111", False),
        (VP9_KEY + "11100000", True),
        (VP9_KEY + "10000000", True),
        (VP9_KEY[:72], True),
        (VP9_KEY[:64], False),
        ("", False),
    ],
)
def test_a_shown_keyframe_of_vp9_says_its_size(bits: str, gives: bool) -> None:
    packet = int("1" + bits, 2).to_bytes(len(bits) // 8 + 1, "big")[1:]
    assert head_gives_size("vp9", None, SMALL, lambda: memoryview(packet)) == gives


@pytest.mark.parametrize("size", range(0, 60, 4))
def test_heads_and_packets_that_are_cut_off_are_no_errors(size: int, footage: Footage) -> None:
    extradata, packets = packets_of(footage("b-frames.mp4"))
    assert extradata is not None
    assert gaps(extradata[:size], packets[:3]) == []
    assert gaps(extradata, [packets[0], packets[1][:size]]) == []
    assert gaps((sps() + PPS)[:size], [packet[:size] for packet in packets[:3]]) == []
