"""Pictures that are missing from H.264: noticed by their numbers and said, since the decoder says nothing."""

from collections.abc import Iterable
from pathlib import Path

import pytest
import video_footage
from video_oracle import HEIGHT, Footage, digest, every_frame, packets_of

from trace_ves import video
from trace_ves.video import decoder
from trace_ves.video.bitstream import FrameNumbers, avc_length_bytes, units

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
            assert any("1 of the frames asked for depend" in warning for warning in opened.warnings)
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


@pytest.mark.parametrize("name", ["b-frames.mp4", "late-start.mkv", "interlaced-h264.mp4", "four-four-four-odd.mp4"])
def test_any_one_picture_that_others_refer_to_is_missed_before_the_next_keyframe(name: str, footage: Footage) -> None:
    extradata, packets = packets_of(footage(name))
    length = avc_length_bytes(extradata)
    slices = [next(unit for unit in units(memoryview(one), length) if unit[0] & 31 in {1, 5}) for one in packets]
    keys = [at for at, packet in enumerate(slices) if packet[0] >> 5 == 3]
    referred = [at for at in range(keys[0] + 1, keys[1] - 4) if slices[at][0] >> 5]
    assert len(referred) > 5
    for lost in referred:
        assert gaps(extradata, packets[:lost] + packets[lost + 1 :], skips=True) != []


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


def sps(
    *, profile: int = 66, colours: str = "", number_bits: int = 4, order: str = golomb(2), gaps_allowed: bool = False
) -> bytes:
    bits = f"{profile:08b}{0:016b}" + golomb(0) + colours + golomb(number_bits - 4) + order + golomb(1)
    return unit(7, bits + f"{gaps_allowed:b}" + golomb(5) + golomb(3))


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


@pytest.mark.parametrize("size", range(0, 60, 4))
def test_heads_and_packets_that_are_cut_off_are_no_errors(size: int, footage: Footage) -> None:
    extradata, packets = packets_of(footage("b-frames.mp4"))
    assert extradata is not None
    assert gaps(extradata[:size], packets[:3]) == []
    assert gaps(extradata, [packets[0], packets[1][:size]]) == []
    assert gaps((sps() + PPS)[:size], [packet[:size] for packet in packets[:3]]) == []
