"""Where frames lie: rounding, order, leading pictures, groups and their shares; rules without any file."""

import ctypes
import shutil
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from video_oracle import Footage

from trace_ves import video
from trace_ves.core import VideoError
from trace_ves.video import decoder, survey
from trace_ves.video.container import NO_TIME, PacketTable, table_of
from trace_ves.video.decoder import FrameDecoder, Group, Shown, plan, readers_pay, threads_pay
from trace_ves.video.index import index_by_output, index_by_pts, index_by_rate, timestamps_can_be_trusted
from trace_ves.video.picture import Orientation, Scaler
from trace_ves.video.reader import PacketsMovedError, Reader, _numbers_by_identity
from trace_ves.video.survey import _PACKET_COLUMNS, _Facts

THIRTY = Fraction(30)


def table(pts: list[int | None], keys: set[int], discard: frozenset[int] = frozenset()) -> PacketTable:
    """Packets in decode order with these timestamps."""
    times = [NO_TIME if time is None else time for time in pts]
    return table_of([(t, n, 0, 100 * n, 10, n in keys, n in discard) for n, t in enumerate(times)])


@given(
    ticks=st.lists(st.integers(min_value=0, max_value=10**12), min_size=1, max_size=40, unique=True),
    time_base=st.fractions(min_value=Fraction(1, 10**7), max_value=1, max_denominator=10**7),
)
def test_a_frames_float_time_is_the_nearest_and_finds_it_again(ticks: list[int], time_base: Fraction) -> None:
    index = index_by_pts(table(list(ticks), {0}), time_base, THIRTY)
    for row, pts in enumerate(sorted(ticks)):
        exact = (pts - min(ticks)) * time_base
        assert index.seconds[row] == exact.numerator / exact.denominator
        assert index.seconds[index.locate(float(index.seconds[row]))] == index.seconds[row]


def test_times_too_large_for_floats_are_still_rounded_once() -> None:
    for last in (2**53 + 1, 2**60 + 1):
        index = index_by_pts(table([0, last], {0}), Fraction(1, 3), THIRTY)
        assert index.seconds[1] == last / 3


@pytest.mark.parametrize(
    ("packets", "order", "starts"),
    [
        (table([10, 16, 13, 11, 12], {0}), [0, 3, 4, 2, 1], [0] * 5),
        #       I0  P3  b1  b2 | I6  b4  b5  P7
        (table([0, 3, 1, 2, 6, 4, 5, 7], {0, 4}), [0, 2, 3, 1, 5, 6, 4, 7], [0, 0, 0, 0, 0, 0, 4, 4]),
        (table([0, 1, 2, 3], {0}, frozenset({0, 1})), [2, 3], [0, 0]),
        (table([0, 1, 2], {2}), [0, 1, 2], [0, 0, 2]),
    ],
    ids=["reordered", "leading pictures", "cut by an edit list", "before any keyframe"],
)
def test_frames_follow_timestamps_and_start_at_keys(packets: PacketTable, order: list[int], starts: list[int]) -> None:
    index = index_by_pts(packets, Fraction(1, 30), THIRTY)
    assert (index.packet.tolist(), index.start.tolist()) == (order, starts)
    assert index.seconds[0] == 0


@pytest.mark.parametrize(("declared", "end"), [(0, 3), (5, 7), (100, 102), (101, 3)])
def test_the_last_frame_stays_as_the_file_says_unless_that_is_absurd(declared: int, end: int) -> None:
    packets = replace(table([0, 1, 2], {0}), duration=np.array([1, 1, declared]))
    assert index_by_pts(packets, Fraction(1, 30), THIRTY).duration == end / 30


def test_without_word_of_it_the_last_frame_stays_as_long_as_the_others_or_as_the_rate_says() -> None:
    for ticks, base, end in (([5], 1, 1), ([5], 90_000, 3000), ([0, 7], 30, 14), ([0, 7, 9], 30, 13)):
        index = index_by_pts(table([*ticks], {0}), Fraction(1, base), THIRTY)
        assert index.duration == end / base


def test_a_table_contains_the_rows_that_are_alike() -> None:
    whole = table([0, 2, 1, 5], {0})
    part = PacketTable(*(getattr(whole, column)[1:3].copy() for column in _PACKET_COLUMNS))
    assert [whole.contains(part, row) for row in (-1, 0, 1, 2)] == [False, False, True, False]
    for column in _PACKET_COLUMNS:
        other = replace(part, **{column: np.array([0, 1], dtype=getattr(part, column).dtype)})
        assert whole.contains(other, 1) == (column in {"duration", "is_key"})
    assert replace(whole, dts=np.full(4, NO_TIME)).contains(part, 1)


def test_missing_and_shared_timestamps_are_not_trusted() -> None:
    assert timestamps_can_be_trusted(table([0, 2, 1], {0}))
    assert timestamps_can_be_trusted(table([0, 0, 1], {0}, frozenset({0})))
    assert not timestamps_can_be_trusted(table([0, None, 1], {0}))
    assert not timestamps_can_be_trusted(table([0, 1, 1], {0}))


def test_missing_timestamps_are_filled_evenly_in_the_order_shown() -> None:
    packets = table([None, 10, None, None, 40, None], {0})
    index = index_by_output(packets, np.arange(6), Fraction(1, 100), Fraction(10))
    assert list(index.pts) == [0, 10, 20, 30, 40, 50]
    none = index_by_output(packets, np.arange(0), Fraction(1, 100), Fraction(10))
    assert (len(none), none.duration) == (0, 0)


def test_of_frames_at_one_moment_the_last_is_seen() -> None:
    index = index_by_output(table([0, 5, 5, 9], {0}), np.arange(4), Fraction(1, 30), THIRTY)
    assert list(index.pts) == [0, 5, 9]
    assert list(index.packet) == [0, 2, 3]


def test_without_timestamps_the_rate_gives_them() -> None:
    rate = Fraction(30_000, 1001)
    index = index_by_rate(table([None] * 4, {0}), np.array([0, 2, 1, 3]), rate)
    assert index.seconds[3] == 3003 / 30_000
    assert index.duration == 4 * 1001 / 30_000


@given(
    shuffled=st.permutations(range(30)),
    keys=st.sets(st.integers(min_value=1, max_value=29)),
    rows=st.sets(st.integers(min_value=0, max_value=29), min_size=1),
)
def test_a_plan_decodes_each_frame_once_after_its_start(shuffled: list[int], keys: set[int], rows: set[int]) -> None:
    index = index_by_pts(table(list(shuffled), keys | {0}), Fraction(1, 30), THIRTY)
    groups = plan(index, rows)
    wanted = [number for group in groups for number in group.wanted]
    assert sorted(wanted) == sorted(int(index.packet[row]) for row in rows)
    for group in groups:
        assert list(group.wanted) == sorted(group.wanted)
        assert all(number >= group.start for number in group.wanted)
        assert group.start == 0 or group.start in keys
    rank = {int(packet): row for row, packet in enumerate(index.packet)}
    for row in rows:  # no frame is started from a keyframe that is shown after it
        start = int(index.start[row])
        assert start == 0 or rank[start] <= row


def test_readers_side_by_side_pay_where_their_shares_are_even() -> None:
    even, uneven = [Group(0, (99,)), Group(100, (199,))], [Group(0, (99,)), Group(100, (104,))]
    assert readers_pay(even, 2)
    assert readers_pay([Group(0, (packets - 1,)) for packets in (1, 2, 15, 2)], 2)  # 15 in 20, the longest first
    assert not readers_pay(uneven, 2)


def test_threads_within_a_decoder_are_for_long_decodes() -> None:
    groups = [Group(0, (99,)), Group(200, (250, 299))]
    assert [threads_pay(groups, pixels) for pixels in (319_999, 320_000)] == [False, True]


# --- surveys whose readers meet damage: found by the campaign of perf/fire.py on mutated files -----------------------

UNUSED: Any = None  # a deadline


def picture(shade: int) -> av.VideoFrame:
    grey = av.VideoFrame.from_ndarray(np.full((16, 16), shade, dtype=np.uint8), format="gray")
    return grey.reformat(format="yuv420p")


def reader_of(frames: dict[int, list[tuple[int, av.VideoFrame]] | None]) -> Any:
    """A reader that gives these frames from a start of the file; None says that the packets there are others."""

    def give(start: int, *_: Any, **__: Any) -> Iterator[tuple[int, av.VideoFrame]]:
        found = frames[start]
        if found is None:
            raise PacketsMovedError
        yield from found

    reader = SimpleNamespace(frames=give, damaged=set(), close=lambda: None)
    reader.open_lenient = lambda _: reader
    return reader


def test_of_two_pictures_of_one_packet_the_last_counts() -> None:
    one, other = picture(10), picture(200)
    reader = reader_of({0: [(0, one), (2, one), (1, one), (2, other), (3, one)]})
    found = survey._decode_all(reader, table([*range(5)], {0}), UNUSED)
    assert found.numbers.tolist() == [0, 1, 2, 3]
    assert found.checksums[2] == survey.checksum(other) != survey.checksum(one)
    assert found.checksums[4] == -1
    none = survey._decode_all(reader_of({0: []}), table([0], {0}), UNUSED)
    assert (none.numbers.tolist(), none.checksums.tolist()) == ([], [-1])
    facts: Any = SimpleNamespace(has_timestamps=True, flags_are_sure=False, format="mov", reorders=False)
    facts.time_base, facts.rate = Fraction(1, 30), THIRTY
    index, output = survey._index(reader, table([*range(5)], {0}), facts, UNUSED)
    assert index.pts.tolist() == [0, 1, 2, 3]
    assert output is not None
    assert output.reason == "1 of its packets give no frame; they are left out"


def test_a_careful_decode_gives_each_row_the_last_frame_at_or_before_it() -> None:
    index = index_by_pts(table([0, 2, 1, 3, 4], {0}), Fraction(1, 30), THIRTY)
    frames = [(number, picture(shade)) for number, shade in ((0, 10), (1, 20), (2, 30), (2, 40), (9, 50), (0, 60))]
    sums: list[Any] = [survey.checksum(frame) for _, frame in frames]
    scaler: Any = SimpleNamespace(picture=lambda frame, _: survey.checksum(frame))
    every, exact = {0: 5, 1: 3, 2: 1, 3: 1, 4: 1}, {0: 0, 1: 3, 2: 1}
    for known, shown in ((None, every), (np.array([sums[0], sums[1], sums[3], 0, 0]), exact)):
        facts: Any = SimpleNamespace(index=index, checksums=known)
        found = FrameDecoder(Path("a.mkv"), facts, None)._last_shown(frames, range(5), scaler, None)
        assert found == {row: Shown(min(row, 2), sums[place]) for row, place in shown.items()}


def test_a_careful_decode_starts_at_earlier_keyframes_and_knows_what_depends_on_damage() -> None:
    facts: Any = SimpleNamespace(index=index_by_pts(table([*range(12)], {0, 3, 5, 7, 9}), Fraction(1, 30), THIRTY))
    decoder = FrameDecoder(Path("a.mkv"), facts, None)
    assert [[*decoder._starts_before(start)] for start in (0, 3, 7, 9)] == [[0], [0, 0], [5, 3, 0], [7, 5, 0, 0]]
    decoder._damaged = {4, 7}
    still: Any = None
    assert [row for row in range(12) if decoder._depends_on_damage(Shown(row, still))] == [4, 7, 8]


def test_the_first_120_packets_are_decoded_to_see_whether_frames_are_reordered() -> None:
    asked: list[range] = []
    reader: Any = SimpleNamespace(frames=lambda _start, wanted, *_, **__: asked.append(wanted) or iter(()))
    facts: Any = SimpleNamespace(format="mov", reorders=True)
    assert [survey._doubt(reader, table([*range(count)], {0}), facts, UNUSED) for count in (5, 130)] == [None, None]
    assert asked == [range(5), range(120)]


def test_where_packets_moved_the_first_frame_is_found_from_the_start() -> None:
    reader = reader_of({3: None, 0: [(0, picture(7))]})
    assert survey._first_frame(reader, table([*range(5)], {3}), Path("a.mpg"), UNUSED).width == 16
    for packets, tried in ((5, 5), (301, 300)):
        with pytest.raises(VideoError, match=rf"^a\.mpg: none of the first {tried} frames can be decoded"):
            survey._first_frame(reader_of({3: None, 0: None}), table([*range(packets)], {3}), Path("a.mpg"), UNUSED)


UNSEEN = "are decoded without what they refer to"


@pytest.mark.parametrize(
    ("facts", "first", "keys", "said"),
    [
        *(({"declared_seconds": seconds}, 0, {0}, "") for seconds in (0.0, 47.0, 50.0)),
        ({"declared_seconds": 50.01}, -9, {0}, "it declares 50.010 s, but frames end at 48.000 s"),
        ({"declared_seconds": 60.20}, 10, {0}, ""),
        ({"declared_seconds": 60.21}, 10, {0}, "it declares 60.210 s, but frames end at 58.000 s"),
        (
            {"declared_seconds": 99.0, "has_timestamps": False},
            0,
            {0},
            "it has no timestamps; frames are placed at 30 a second",
        ),
        ({"codec": "h261"}, 0, {0}, "damage cannot be detected in h261 video"),
        ({"codec": "h264"}, 0, {2}, ""),
        ({"codec": "mpeg4"}, 0, {2}, f"its first 2 frames, up to 2.000 s, {UNSEEN}"),
        ({"codec": "mpeg4"}, 0, set(), f"it has no keyframe; all of its frames {UNSEEN}"),
        ({"pixel_aspect": Fraction(4, 3)}, 0, {0}, "its pixels are not square (4/3); pictures are given as stored"),
    ],
)
def test_what_may_surprise_is_said(facts: dict[str, Any], first: int, keys: set[int], said: str) -> None:
    plain = _Facts(0, "h264", "mov", Fraction(1), THIRTY, True, False, True, 0.0, Fraction(1))
    index = index_by_pts(table([*range(first, first + 48)], keys), plain.time_base, THIRTY)
    assert list(replace(plain, **facts).warnings(index)) == [said] * bool(said)


def test_facts_are_read_from_the_head_of_a_file() -> None:
    decoder = SimpleNamespace(canonical_name="h264", intra_only=False)
    codec = SimpleNamespace(codec=decoder, has_b_frames=2, sample_aspect_ratio=Fraction(4, 3))
    stream: Any = SimpleNamespace(index=3, time_base=Fraction(1, 30), duration=75, codec_context=codec)
    stream.guessed_rate, stream.average_rate = 24, 12
    file: Any = SimpleNamespace(duration=7_500_000, format=SimpleNamespace(name="mov"))
    full = _Facts(3, "h264", "mov", Fraction(1, 30), Fraction(24), True, True, True, 2.5, Fraction(4, 3))
    assert _Facts.of(file, stream) == full
    stream.guessed_rate = stream.duration = None
    assert _Facts.of(file, stream) == replace(full, rate=Fraction(12), declared_seconds=7.5)
    stream.average_rate = codec.sample_aspect_ratio = codec.has_b_frames = 0
    stream.time_base, file.duration, file.format.name = None, None, "h264"
    bare = _Facts(3, "h264", "h264", Fraction(1, 90_000), Fraction(25), True, False, False, 0.0, Fraction(1))
    assert _Facts.of(file, stream) == bare


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (None, "its packets are not where its own index says; the file is damaged."),
        ([], "not one frame of this video can be decoded; the file is damaged."),
    ],
)
def test_what_comes_of_no_frame_at_all_is_a_sentence(
    footage: Footage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: list[int] | None, sentence: str
) -> None:
    def index(*_: object) -> tuple[list[int], None]:
        if found is None:
            raise PacketsMovedError
        return found, None

    monkeypatch.setattr(survey, "_index", index)
    film = shutil.copy(footage("one-frame.mp4"), tmp_path / "film.mp4")  # of which no survey is stored
    with pytest.raises(VideoError) as caught:
        video.open(film)
    assert str(caught.value) == f"{film}: {sentence}"


# --- readers and decoders, of which stubs take the place of files ----------------------------------------------------


def bare_reader(packets: PacketTable, **state: Any) -> Any:
    made: Any = Reader.__new__(Reader)
    vars(made).update({"_packets": packets, "damaged": set(), "_conceals": False} | state)
    return made


def test_a_place_is_sought_by_its_timestamps_and_then_those_of_earlier_keyframes() -> None:
    packets = table([5, None, 7, 8, None, 10, 11], {0, 2, 3, 4, 6})
    packets.dts[2] = NO_TIME
    for by_pts, start, targets in (
        (True, 5, [4, 8, 3, 7]),
        (False, 5, [4, 3, 8, 7]),
        (True, 2, [7, 5, 0]),
        (True, 0, [5, 0]),
    ):
        assert list(bare_reader(packets, _seeks_by_pts=by_pts)._seek_targets(start)) == targets


def test_a_packet_is_known_by_its_place_or_else_by_its_timestamp() -> None:
    packets = table([5, 3, 9], {0})
    for place, times, asked, found in (
        ([30, 10, 20], [5, 3, 9], [{"pos": at} for at in (10, 30, 11, 31, None, -1)], [1, 0, *[None] * 4]),
        ([7, 7, 8], [5, 3, 9], [{"pts": 5}, {"pts": 9}, {"pts": 4}, {"pts": None}], [0, 2, None, None]),
        ([7, 7, 8], [3, 3, 9], [{"pts": 9}], [None]),
        ([-1, 10, 20], [5, 3, 9], [{"pos": -1}, {"pos": 20}], [None, 2]),
    ):
        known = _numbers_by_identity(replace(packets, position=np.array(place), pts=np.array(times)))
        assert [known(SimpleNamespace(**each)) for each in asked] == found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "first", "start", "last", "found"),
    [
        ([1] * 20, 0, 0, 16, [*range(17)]),
        ([1] * 20, 6, 9, 12, [9, 10, 11, 12]),
        ([1] * 3, 0, 0, 9, [0, 1, 2, PacketsMovedError]),
        ([1, 1, 2, 1], 0, 0, 9, [0, 1, PacketsMovedError]),
        ([1, 1, 2, 1], 0, 0, 1, [0, 1]),
    ],
)
def test_packets_are_those_of_the_table(sizes: list[int], first: int, start: int, last: int, found: list[Any]) -> None:
    looks: list[int] = []
    packets = [SimpleNamespace(size=1) for _ in range(20 - first)]
    source = iter(packets[1:])
    codec = SimpleNamespace(skip_frame="NONREF")
    seek = lambda *_: (first, packets[0], source)  # noqa: E731
    reader = bare_reader(replace(table([0], {0}), size=np.array(sizes)), _codec=codec, _seek=seek)
    given: list[Any] = []
    try:
        for number, packet in reader._packets_from(start, last, SimpleNamespace(check=lambda: looks.append(1))):
            assert packet is packets[number - first]
            given.append(number)
    except PacketsMovedError:
        given.append(PacketsMovedError)
    assert (given, codec.skip_frame) == (found, "DEFAULT")
    assert len(looks) == len([number for number in range(first, min(last, len(sizes)) + 1) if number % 8 == 0])
    assert len(list(source)) == (19 - last if PacketsMovedError not in given else 20 - len(given))


@pytest.mark.parametrize(
    ("build", "is_old"), [(b"150", True), (b"151", False), (b"7", True), (b"-7", False), (b"9" * 5000, False)]
)
def test_a_decoder_is_shown_what_an_old_x264_wrote(build: bytes, is_old: bool) -> None:
    shown: list[object] = []
    packet = b"before x264 - core " + build + b" after"
    reader = bare_reader(table([0], {0}), _codec=SimpleNamespace(decode=shown.append))
    reader._packets_from = lambda start, last, _: [(start, packet)] * (last + 1)
    reader._learn_encoder(UNUSED)
    assert shown == [packet] * is_old


@pytest.mark.parametrize(("start", "last", "found"), [(0, 9, 6), (2, 3, 2), (5, 8, 1), (6, 8, 0)])
def test_stored_packets_are_read_from_their_places(start: int, last: int, found: int, tmp_path: Path) -> None:
    sizes = np.array([70, 80, 90, 20, 30, 40, 50, 60])
    places = np.array([500, 3, 300, 100, 140, 200, 700, 760])  # the seventh is beyond the end
    (tmp_path / "film.mp4").write_bytes(data := np.random.default_rng(1).bytes(702 + 49))
    packets = replace(table([*range(8)], {0, 4}), size=sizes, position=places, head_bytes=2)
    looks: list[int] = []
    flushed: list[bool] = []
    codec = SimpleNamespace(skip_frame="NONREF", flush_buffers=lambda: flushed.append(True))
    reader = bare_reader(packets, _codec=codec, _path=tmp_path / "film.mp4", _file=None, _is_fresh=True)
    deadline = SimpleNamespace(check=lambda: looks.append(1))
    given = list(reader._packets_from(start, last, deadline))
    assert [number for number, _ in given] == [*range(start, start + found)]
    for number, packet in given:
        place = int(places[number]) + 2
        assert bytes(packet) == data[place : place + int(sizes[number])]
        assert packet.is_keyframe == (number in {0, 4})
        assert ctypes.string_at(packet.buffer_ptr + packet.size, 64) == bytes(64)  # where decoders read on
    assert (codec.skip_frame, flushed, reader._is_fresh, len(looks)) == ("DEFAULT", [True], False, int(start == 0))
    reader._file.close()
    reader._file = None
    (tmp_path / "film.mp4").unlink()
    assert list(reader._packets_from(start, last, deadline)) == []


@pytest.mark.parametrize(
    ("name", "head_bytes"),
    [
        *(("b-frames.mp4", 0), ("hevc.mp4", 0), ("av1.mp4", 0), ("open-gop.mkv", 4), ("vp9.webm", 4), ("vp8.webm", 4)),
        *(("mpeg4.mp4", None), ("mjpeg.mov", None), ("fragmented.mp4", None), ("open-gop.ts", None)),
    ],
)
def test_which_packets_are_read_without_demuxing(name: str, head_bytes: int | None, footage: Footage) -> None:
    with video.open(footage(name)) as opened:
        assert opened._index.packets.head_bytes == head_bytes


def test_what_a_decoder_gives_and_what_it_refuses() -> None:
    def shown(pts: int | None, kind: int = 1, *, corrupt: bool = False) -> Any:
        return SimpleNamespace(pts=pts, pict_type=kind, is_corrupt=corrupt)

    def decoded(*frames: Any, size: int | None = 9, conceals: bool = False, empty: bool = False) -> Any:
        def decode(_: Any) -> Any:
            if not frames:
                raise av.error.InvalidDataError(1, "no")
            return frames

        reader = bare_reader(table([0], {0}), _conceals=conceals, may_be_empty=lambda size: empty and size == 9)
        packet = None if size is None else SimpleNamespace(size=size)
        return [pts for pts, _ in reader._decode(SimpleNamespace(decode=decode), packet, 7)], reader.damaged

    assert decoded(shown(3), shown(2), shown(None), shown(4, 0)) == ([3, 2, 4], set())
    assert decoded(shown(3), shown(4, 0), conceals=True) == ([3], set())
    assert decoded(shown(3, corrupt=True), shown(None, corrupt=True)) == ([3], {3, 7})
    for name, sizes in (("mpeg4", [True, False]), ("h264", [False, False])):
        stream = SimpleNamespace(codec_context=SimpleNamespace(name=name))
        assert [bare_reader(table([0], {0}), _stream=stream).may_be_empty(size) for size in (19, 20)] == sizes
    refused = [decoded(), decoded(size=None), decoded(empty=True), decoded(size=8, empty=True)]
    assert refused == [([], damaged) for damaged in ({7}, {7}, set(), {7})]


@pytest.mark.parametrize(
    ("given", "exact", "damaged", "badly", "kept", "bad", "known"),
    [
        ([0, 1, 2], None, set(), False, {0, 2}, set(), set()),
        ([0, 1, 2], None, {1}, False, set(), set(), {1}),
        ([0, 1, 2], None, set(), True, set(), {0}, set()),
        ([0, 1], None, set(), False, {0}, set(), set()),
        ([0, 1, 2], {0, 1, 2}, set(), False, {0, 2}, set(), set()),
        ([0, 1, 2], {0, 1}, set(), False, set(), {0}, set()),
        ([0, 1, 2], {0, 1}, {2}, False, set(), set(), {2}),
        (None, None, set(), False, set(), set(), set()),
    ],
)
def test_what_is_kept_of_a_group(
    given: list[int] | None, exact: set[int] | None, damaged: set[int], badly: bool, kept: Any, bad: Any, known: Any
) -> None:
    frames = {number: picture(10 * number) for number in range(3)}
    right = [survey.checksum(frames[number]) + (exact is not None and number not in exact) for number in range(3)]
    reader = reader_of({0: None if given is None else [(number, frames[number]) for number in given]})
    reader.damaged, reader.started_badly, reader.hides_damage = damaged, badly, False
    facts: Any = SimpleNamespace(index=None, checksums=exact and np.array(right), orientation=Orientation())
    decoder = FrameDecoder(Path("a.mkv"), facts, reader)
    assert decoder._work((0, 1), [Group(0, (0, 2))], None, UNUSED).keys() == kept
    assert (decoder._bad_starts, decoder._damaged) == (bad, known)


def test_damage_is_sought_from_a_keyframe_some_packets_before() -> None:
    scaler = Scaler(Orientation())
    shown = {number: scaler.picture(picture(number), None) for number in (8, 9)}
    facts: Any = SimpleNamespace(index=index_by_pts(table([*range(12)], {0, 3, 4, 5, 8}), Fraction(1, 30), THIRTY))
    facts.orientation = Orientation()
    for start, first in ((8, 4), (7, 0), (5, 0), (2, 0)):
        reader = reader_of({first: [(7, picture(1)), (8, picture(8)), (9, picture(99)), (10, picture(1))]})
        reader.damaged = {2, start, 11}
        used = FrameDecoder(Path("a.mkv"), facts, None)
        assert used._find_hidden_damage(reader, Group(start, (9,)), shown, None, UNUSED) == {9, start, 11}


def test_the_cores_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder.os, "sched_getaffinity", lambda process: {process, 2, 3} - {1}, raising=False)
    assert decoder._usable_cores() == 3
    monkeypatch.delattr(decoder.os, "sched_getaffinity")
    for said, cores in ((5, 5), (None, 1)):
        monkeypatch.setattr(decoder.os, "cpu_count", lambda said=said: said)
        assert decoder._usable_cores() == cores
