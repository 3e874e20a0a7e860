"""Every frame of every kind of file is the one that a plain sequential decode shows, by its pixels."""

import re
import shutil
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import simplejpeg
import video_avi
import video_footage
from av.codec.context import ThreadType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from video_avi import SIZE, Chunk, write_avi
from video_footage import Recipe
from video_oracle import HEIGHT, Footage, Truths, check, digest, every_frame, pixels

from trace_ves import video
from trace_ves.core import Interval
from trace_ves.video import Video, clip_file, decoder, reader, survey
from trace_ves.video.bitstream import start_check
from trace_ves.video.clip_file import encode_frames, write_clip
from trace_ves.video.container import Deadline

REAL = {
    "av1_video.mkv": None,
    "car-detection.mp4": None,
    "h264_10bits.mp4": None,
    "h265_video.mp4": None,
    "nasa_13013.mp4": 3,
    "rotated_90.mov": None,
    "tree.avi": None,
}
"""Real files, and the stream to look at where there are several."""


FILES = [*video_footage.PLAIN, *video_footage.SPECIAL, *video_footage.WITHOUT_TIMES, *video_footage.ODD_TIMES]


@pytest.mark.parametrize("name", FILES)
def test_frames_and_times_are_those_of_a_sequential_decode(name: str, footage: Footage, truth: Truths) -> None:
    expected = truth(footage(name), height=HEIGHT)
    if name in video_footage.ODD_TIMES:  # they are put in order, and the last frame of a moment is seen
        by_pts = {frame.pts: frame for frame in expected}
        expected = [by_pts[pts] for pts in sorted(by_pts)]
    with video.open(footage(name)) as opened:
        if name in video_footage.WITHOUT_TIMES:  # frames follow each other at the frame rate
            rate = 25 if name == "raw.obu" else video_footage.RATE  # FFmpeg's, where the file has none
            assert list(opened.timestamps) == [row / rate for row in range(len(expected))]
            assert opened.duration == len(expected) / rate
            placed = f"it has no timestamps; frames are placed at {rate} a second"
            assert (placed in opened.warnings) == name.startswith("raw.")
        else:
            assert list(opened.pts) == [frame.pts for frame in expected]
        assert opened.timestamps[0] == 0
        warnings = opened.warnings
        check(opened, expected)
        assert opened.warnings == warnings


@pytest.mark.parametrize("name", ["vp9.webm", "vp8.webm"])
def test_threads_give_the_same_frames(
    name: str, footage: Footage, truth: Truths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder, "_MIN_PIXELS_FOR_THREADS", 0)
    monkeypatch.setattr(decoder, "_usable_cores", lambda: 2)
    expected = truth(footage(name), height=HEIGHT)
    with video.open(footage(name)) as opened:
        check(opened, expected, most=40)
        readers = opened._decoder._readers.items()
        kinds = {threads: reader._stream.codec_context.thread_type for (_, threads), reader in readers}
        assert kinds == {1: ThreadType.SLICE, 2: ThreadType.FRAME}


@pytest.mark.parametrize("name", ["b-frames.mp4", "hevc.mp4", "mpeg2.mpg", "av1.mp4", "mpeg4.mp4", "hevc-layers.mp4"])
def test_frames_that_nobody_needs_are_skipped(name: str, footage: Footage) -> None:
    deadline = Deadline(footage(name), "reading it", 60)
    with video.open(footage(name)) as opened:
        used = opened._decoder._reader((0, 1), deadline)
        some, all_ = ([at for at, _ in used.frames(0, {11}, deadline, **how)] for how in ({}, {"skip_unwanted": False}))
        assert sorted(all_) == list(range(12))
        assert (11 in some, len(some) < 12) == (True, name not in {"mpeg4.mp4", "hevc-layers.mp4"})


@pytest.mark.parametrize(
    ("cores", "moments", "readers"),
    [
        (1, [0.1, 1.5], {(0, 1)}),
        (2, [0.1], {(0, 1)}),
        (2, [0.1, 1.5], {(0, 1), (1, 1)}),
        (3, [0.1, 1.5], {(0, 1), (1, 1)}),
        (2, [0.1, 0.9, 1.7, 2.4], {(0, 1), (1, 1)}),
        (9, [0.0, 0.9, 1.7, 2.4], {(0, 1), (1, 1), (2, 1), (3, 1)}),
    ],
)
def test_groups_are_shared_among_readers(
    footage: Footage, monkeypatch: pytest.MonkeyPatch, cores: int, moments: list[float], readers: set[tuple[int, int]]
) -> None:
    monkeypatch.setattr(decoder, "_usable_cores", lambda: cores)
    monkeypatch.setattr(decoder.FrameDecoder, "_find_hidden_damage", None)  # not called: this decoder says it
    with video.open(footage("b-frames.mp4")) as opened:
        opened.frames_at(moments, height=HEIGHT)
        assert opened._decoder._readers.keys() == readers


@pytest.mark.parametrize("name", ["film.mp4", "film.mkv", "film.ts", "film.h264"])
@pytest.mark.parametrize("build", [b"core 150", b"core 151", b"core  30"])
def test_the_first_packet_says_how_old_the_encoder_is(name: str, build: bytes, tmp_path: Path) -> None:
    """FFmpeg's decoder makes up for faults of old builds, which only the first packet of a file names."""
    options = video_footage.x264(preset="medium", qp="0")
    video_footage.encode(path := tmp_path / name, Recipe(options=options, width=192, height=128))
    named = re.findall(rb"core \d+", data := path.read_bytes())
    path.write_bytes(data.replace(named[0], build))
    frames = every_frame(path, height=HEIGHT)
    wrong = 0
    for moments in ([2.1], [2.1, 1.3, 0.3], [0.3], [1.3], [1.3]):
        with video.open(path) as opened:
            rows = [opened._index.locate(moment) for moment in moments]
            found = opened.frames_at(moments, height=HEIGHT)
            wrong += sum(digest(frame.picture) != frames[row].digest for row, frame in zip(rows, found, strict=True))
    assert (len(named), wrong) == (1, 0)


@pytest.mark.parametrize("name", ["wmv2.asf", "boxes.mov"])
def test_a_start_that_is_none_is_tried_once(
    name: str, footage: Footage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A packet is called a keyframe, and that it is none shows only in the pictures."""
    careful: list[object] = []
    decode = decoder.FrameDecoder._decode_carefully

    def counted(self: decoder.FrameDecoder, *arguments: Any) -> Any:
        careful.append(arguments)
        return decode(self, *arguments)

    monkeypatch.setattr(decoder.FrameDecoder, "_decode_carefully", counted)
    read_table = survey._read_table

    def with_another_key(*arguments: Any) -> Any:
        packets, *others = read_table(*arguments)
        packets.is_key[18] = True
        return packets, *others

    monkeypatch.setattr(survey, "_read_table", with_another_key)
    monkeypatch.setattr(reader, "start_check", lambda *_: None)
    film = tmp_path / name  # of which no survey is stored
    if name == "boxes.mov":
        monkeypatch.setattr(video_footage, "drawing", box)
        video_footage.encode(film, Recipe(codec="qtrle", width=176, height=144, pix_fmt="rgb24", frames=20, gop=12))
    else:
        shutil.copy(footage(name), film)
    with video.open(film) as opened:
        moment = [float(opened.timestamps[19])]
        assert pixels(opened.frames_at(moment)) == pixels(opened.frames_at(moment))
    assert len(careful) == 1


@pytest.mark.parametrize("name", REAL)
def test_real_footage(name: str, shared: Path, truth: Truths) -> None:
    path = shared / "media" / name
    expected = truth(path, stream=REAL[name], height=HEIGHT)
    with video.open(path) as opened:
        assert list(opened.pts) == [frame.pts for frame in expected]
        check(opened, expected, most=60)


@pytest.mark.parametrize("name", ["open-gop.mkv", "hevc-open-gop.ts", "raw.h264"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_requests_from_several_threads(name: str, footage: Footage, truth: Truths, data: st.DataObject) -> None:
    expected = truth(footage(name), height=HEIGHT)
    with video.open(footage(name)) as opened, ThreadPoolExecutor(3) as pool:
        moment = st.floats(min_value=0, max_value=opened.duration)
        requests = data.draw(st.lists(st.lists(moment, max_size=12), min_size=1, max_size=6))
        answers = list(pool.map(lambda request: opened.frames_at(request, height=HEIGHT), requests))
        for request, frames in zip(requests, answers, strict=True):
            rows = [sum(time <= asked for time in opened.timestamps) - 1 for asked in request]
            assert pixels(frames) == [expected[row].digest for row in rows]


# --- files that other programs left behind ----------------------------------------------------------------------------

DECODING_ORDER = "its timestamps are in decoding order; frames follow the decoder's order"
NO_ORDER = "its timestamps are not in the order of its frames; frames follow the decoder's order"


def opened_and_checked(path: Path) -> Video:
    """Compare its frames with those of a sequential decode."""
    opened = video.open(path)
    expected = [frame for frame in every_frame(path, height=HEIGHT) if not frame.is_made_up]
    assert opened.frame_count == len(expected)
    check(opened, expected)
    return opened


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("name", [*video_avi.B_FRAMES, *video_avi.NO_B_FRAMES])
def test_mpeg4_in_avi(name: str, index: bool, tmp_path: Path) -> None:
    path = tmp_path / "old.avi"
    write_avi(path, b"DX50", SIZE, (video_avi.B_FRAMES | video_avi.NO_B_FRAMES)[name](), index=index)
    with opened_and_checked(path) as opened:
        said = [warning for warning in opened.warnings if not warning.endswith("without what they refer to")]
        assert said == [DECODING_ORDER] * (name in video_avi.B_FRAMES)


@pytest.mark.parametrize("codec", video_avi.OTHER_CODECS)
def test_other_codecs_in_avi_whose_flags_or_index_are_wrong(codec: str, tmp_path: Path) -> None:
    chunks = video_avi.coded(codec, video_avi.drawings(), gop=12, b_frames=2 * codec.endswith(("x264", "2video")))
    for name, kept, index in (
        ("right.avi", chunks, True),
        ("flagged.avi", video_avi.flagged(chunks, True), True),
        ("unflagged.avi", video_avi.flagged(chunks, False), True),
        ("no-index.avi", chunks, False),
        ("cut.avi", chunks[1:], True),
    ):
        write_avi(tmp_path / name, video_avi.OTHER_CODECS[codec], SIZE, kept, index=index)
        opened_and_checked(tmp_path / name).close()


@pytest.mark.parametrize(
    ("codec", "fourcc", "skipped"),
    [("mpeg4", b"DX50", 1), ("msmpeg4", b"DIV3", 1), ("wmv1", b"WMV1", 5), ("flv", b"FLV1", 1), ("h263p", b"U263", 1)],
)
def test_frames_before_any_keyframe_are_warned_of(codec: str, fourcc: bytes, skipped: int, tmp_path: Path) -> None:
    chunks = video_avi.coded(codec, video_avi.drawings(), gop=12)
    write_avi(tmp_path / "cut.avi", fourcc, SIZE, chunks[skipped:])
    with opened_and_checked(tmp_path / "cut.avi") as opened:
        count = 12 - skipped
        warning = f"its first {count} frames, up to {count / 30:.3f} s, are decoded without what they refer to"
        assert opened.warnings == (warning,)
    write_avi(tmp_path / "none.avi", fourcc, SIZE, chunks[1:12])
    with opened_and_checked(tmp_path / "none.avi") as opened:
        assert "it has no keyframe; all of its frames are decoded without what they refer to" in opened.warnings


def test_damage_in_an_old_avi_is_warned_of(tmp_path: Path) -> None:
    chunks = video_avi.packed(video_avi.mpeg4(2))
    victim = next(number for number, chunk in enumerate(chunks) if number > 16 and len(chunk.data) > 100)
    data = bytearray(chunks[victim].data)
    data[40:90] = bytes([0xA5]) * 50
    chunks[victim] = Chunk(bytes(data), chunks[victim].is_key)
    write_avi(tmp_path / "damaged.avi", b"DX50", SIZE, chunks)
    with video.open(tmp_path / "damaged.avi") as opened:
        shown = opened.frames_at([float(time) for time in opened.timestamps], height=HEIGHT)
        assert pixels(shown) == [frame.digest for frame in every_frame(tmp_path / "damaged.avi", height=HEIGHT)]
        assert any("depend on damaged data" in warning for warning in opened.warnings)


TIMES_OF_DECODING = {
    **{f"h264.{kind}": Recipe(frames=40, options=video_footage.x264()) for kind in ("mp4", "mkv", "flv")},
    "h264.ts": Recipe(frames=40, options=video_footage.x264(), muxer="mpegts"),
    "hevc.mp4": Recipe(frames=40, codec="libx265", options=video_footage.x265()),
    "mpeg4.mp4": Recipe(frames=40, codec="mpeg4", gop=12, b_frames=2),
    "mpeg2.mkv": Recipe(frames=40, codec="mpeg2video", gop=12, b_frames=2),
}


def forget_presentation(_: int, packet: av.Packet) -> None:
    packet.pts = packet.dts


@pytest.mark.parametrize("name", TIMES_OF_DECODING)
def test_b_frames_whose_times_are_those_of_decoding(name: str, tmp_path: Path) -> None:
    video_footage.encode(tmp_path / name, TIMES_OF_DECODING[name], forget_presentation)
    with opened_and_checked(tmp_path / name) as opened:
        assert opened.warnings == (DECODING_ORDER,)
        assert all(opened.pts[1:] > opened.pts[:-1])


@pytest.mark.parametrize("made_up", [False, True])
@pytest.mark.parametrize("suffix", ["mp4", "mov", "mkv", "nut"])
def test_a_packed_bitstream_that_was_copied_from_an_avi(suffix: str, made_up: bool, tmp_path: Path) -> None:
    """With times of decoding, or as `ffmpeg -fflags +genpts -i old.avi -c copy` makes them up: in another order."""
    path, avi = tmp_path / f"packed.{suffix}", tmp_path / "old.avi"
    write_avi(avi, b"DX50", SIZE, video_avi.packed(video_avi.mpeg4(2)))
    if made_up:
        video_footage.remux(avi, path, lambda *_: None, fflags="+genpts")
    else:
        video_footage.remux(avi, path, forget_presentation)
    with opened_and_checked(path) as opened:
        assert opened.warnings == (NO_ORDER if made_up else DECODING_ORDER,)
        assert all(opened.pts[1:] > opened.pts[:-1])


def test_without_b_frames_times_of_decoding_are_right(tmp_path: Path) -> None:
    """The stream may say that frames can be reordered; where none is, nothing is odd about the timestamps."""
    options = video_footage.x264(**{"x264-params": "keyint=24:scenecut=0:bframes=3:b-adapt=0"})
    video_footage.encode(tmp_path / "still.mp4", Recipe(options=options, frames=40))
    with video.open(tmp_path / "still.mp4") as opened:
        assert opened.warnings == ()


def box(number: int, width: int, height: int) -> NDArray[np.uint8]:
    """A box that moves over noise; of the noise, all changes once, in the middle."""
    pixels = np.random.default_rng(number // 15).integers(0, 255, (height, width, 3), np.uint8)
    pixels[number : number + 20, 2 * number : 2 * number + 20] = (250, 8 * number, 20)
    return pixels


@pytest.mark.parametrize(
    ("encoder", "suffix", "pixels"),
    [
        ("ffv1", "nut", "yuv420p"),
        ("flashsv", "flv", "bgr24"),
        ("h261", "nut", "yuv420p"),
        ("msvideo1", "nut", "rgb555le"),
        ("qtrle", "mov", "rgb24"),
        ("rpza", "mov", "rgb555le"),
        ("svq1", "mov", "yuv410p"),
        ("tiff", "mov", "rgb24"),
    ],
)
def test_keyframe_flags_that_no_header_confirms(
    encoder: str, suffix: str, pixels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(video_footage, "drawing", box)

    def mark(number: int, packet: av.Packet) -> None:
        packet.is_keyframe |= number % 5 == 0

    recipe = Recipe(codec=encoder, width=176, height=144, pix_fmt=pixels, frames=20, gop=12)
    for name, change in (("right", None), ("wrong", mark)):
        video_footage.encode(tmp_path / f"{name}.{suffix}", recipe, change)
        opened_and_checked(tmp_path / f"{name}.{suffix}").close()


def test_an_apng_frame_that_the_next_one_does_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demuxer calls it a keyframe; it is disposed of, so the next frame is drawn on the one before it."""
    monkeypatch.setattr(video_footage, "drawing", box)
    path = tmp_path / "odd.apng"
    video_footage.encode(path, Recipe(codec="apng", pix_fmt="rgb24", frames=24, gop=8))
    data = bytearray(path.read_bytes())
    at = [each.start() for each in re.finditer(rb"fcTL.{4}" + struct.pack(">4I", *SIZE, 0, 0), data, re.DOTALL)][1]
    data[at + 28] = 2
    data[at + 30 : at + 34] = zlib.crc32(data[at : at + 30]).to_bytes(4, "big")
    path.write_bytes(data)
    opened_and_checked(path).close()


def test_each_exif_orientation_of_motion_jpeg(tmp_path: Path) -> None:
    stored = simplejpeg.encode_jpeg(video_footage.drawing(3, *SIZE))
    shown = {1: "", 2: "x", 3: "xy", 4: "y", 5: "t", 6: "tx", 7: "txy", 8: "ty"}
    pixels = []
    for orientation, turn in shown.items():
        entry = struct.pack("<HHIHH", 0x112, 3, 1, orientation, 0)
        exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + bytes(4)
        segment = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
        path = tmp_path / f"{orientation}.avi"
        write_avi(path, b"MJPG", SIZE, [Chunk(stored[:2] + segment + stored[2:], True)] * 3)
        with video.open(path) as opened:
            planes = opened.frames_at([0])[0].picture.luma
        if "x" in turn:
            planes = planes[:, ::-1]
        if "y" in turn:
            planes = planes[::-1]
        pixels.append(planes.T if "t" in turn else planes)
    assert all(np.array_equal(each, pixels[0]) for each in pixels)


@pytest.mark.parametrize(
    ("suffix", "first", "container"),
    [("mkv", -20, {"avoid_negative_ts": "0"}), ("mp4", -20, {}), ("nut", -20, {}), ("mp4", 10_000_000, {})],
)
def test_times_below_zero_and_far_above(suffix: str, first: int, container: dict[str, str], tmp_path: Path) -> None:
    options = video_footage.x264()
    recipe = Recipe(frames=40, options=options, pts=lambda number: number + first, container=container)
    video_footage.encode(tmp_path / f"odd.{suffix}", recipe)
    with opened_and_checked(tmp_path / f"odd.{suffix}") as opened:
        assert opened.timestamps[0] == 0


@pytest.mark.parametrize("encoder", [*video_avi.OTHER_CODECS, "h263", "libvpx", "libvpx-vp9", "libx265", "mpeg4"])
def test_start_checks_know_intra_frames(encoder: str) -> None:
    codec = av.Codec(encoder, "w").canonical_name.replace("h263p", "h263")
    chunks = video_avi.coded(encoder, video_avi.drawings(10, (176, 144) if encoder == "h263" else SIZE), gop=8)
    is_start = start_check(codec, None)
    assert is_start is not None
    assert [is_start(memoryview(chunk.data)) for chunk in chunks] == [chunk.is_key for chunk in chunks]
    assert not is_start(memoryview(video_avi.FILLER)) or codec in {"vp8", "wmv2"}  # whose first bits say intra


# --- a span as a file of its own: the frames on screen during it, copied where that is exact --------------------------

FROM_KEY_FRAME = Interval(0.8, 1.59)  # a key frame every 24 frames of 30 a second
FIRST, INSIDE = Interval(0, 0.75), Interval(1.1, 1.4)
KINDS = "b-frames.mp4 open-gop.mp4 open-gop.mkv open-gop.ts one-group.mp4 fragmented.mp4 negative-offsets.mp4"
KINDS += " late-start.mkv variable-rate.mkv one-frame.mp4 four-four-four-odd.mp4 h264.flv hevc.mp4 hevc-open-gop.ts"
KINDS += " vp9.webm av1.mp4 mpeg2.mpg mpeg4.mp4 mjpeg.mov edit-list.mp4 cut-before-keyframe.ts two-streams.mp4"
KINDS += " with-cover.mp4 rotated-90.mp4"


def seen_in(path: Path, span: Interval) -> tuple[list[float], list[NDArray[np.uint8]]]:
    """The frames on screen during a span, their times from the first of them."""
    with video.open(path) as source:
        times = [float(t) for t in source.timestamps]
        first = max((t for t in times if t <= span.start), default=times[0])
        moments = [t for t in times if first <= t <= max(span.end, first)]
        return [t - first for t in moments], [frame.rgb() for frame in source.frames_at(moments)]


BY_HEAD = ["b-frames.mp4 null", "hevc-ten-bit.mkv null", "vp9.webm null", "vp9-odd.webm null"]
BY_HEAD += ["b-frames.mp4 h264_metadata=crop_right=2", "hevc.mp4 hevc_metadata=crop_right=2"]
BY_FRAME = ["b-frames.mp4 h264_metadata=crop_left=2", "hevc.mp4 hevc_metadata=crop_left=2", "hevc-layers.mp4 null"]
BY_FRAME += ["b-frames.mp4 filter_units=remove_types=6,h264_metadata=display_orientation=insert:rotate=90"]
BY_FRAME += ["b-frames.mp4 h264_metadata=display_orientation=insert:flip=vertical", "repeated-head.mp4 null"]


@pytest.mark.parametrize("made", [f"{each} {kind}" for each in BY_HEAD + BY_FRAME for kind in ("mp4", "mkv")])
def test_the_head_or_a_frame_gives_the_size(made: str, footage: Footage, tmp_path: Path, monkeypatch: Any) -> None:
    name, change, kind = made.split()
    video_footage.remux(
        footage(name), path := tmp_path / f"changed.{kind}", lambda *_: True, by=change.removeprefix("null")
    )
    decoded, find = [], survey._first_frame
    monkeypatch.setattr(survey, "_first_frame", lambda *given: decoded.append(True) or find(*given))
    with video.open(path) as opened:
        assert bool(decoded) == (f"{name} {change}" in BY_FRAME)
        [shown] = pixels(opened.frames_at([0]))
        assert shown == every_frame(path)[0].digest
        assert shown.startswith(f"{opened.width}x{opened.height}-")


def test_frames_are_encoded_into_an_open_file(footage: Footage) -> None:
    file, sizes = BytesIO(), []
    with video.open(footage("b-frames.mp4")) as source:
        encode_frames(source.frames_at([0.5, 1.0], height=1), file, preset="ultrafast", crf=23)
        for preset, crf in (("ultrafast", 10), ("ultrafast", 40), ("medium", 40)):
            encode_frames(source.frames_at([0.5, 1.0]), other := BytesIO(), preset=preset, crf=crf)
            sizes.append(len(other.getvalue()))
    assert (sizes[0] > sizes[1], sizes[1] != sizes[2]) == (True, True)
    file.seek(0)
    with av.open(file) as clip:
        assert [(frame.time, frame.width, frame.height) for frame in clip.decode(video=0)] == [(0, 2, 2), (0.5, 2, 2)]


@pytest.mark.parametrize("other", ["one-group.mp4", "one-frame.mp4", "b-frames.mp4", None])
def test_a_copy_that_shows_something_else_is_not_kept(
    other: str | None, footage: Footage, tmp_path: Path, monkeypatch: Any
) -> None:
    data = footage(other).read_bytes() if other else b"no video"
    monkeypatch.setattr(clip_file, "_copy", lambda _path, _wanted, out: bool(out.write_bytes(data)))
    film = footage("b-frames.mp4")
    assert write_clip(film, Interval(0, 2.5), tmp_path / "clip.mp4") == (other == "b-frames.mp4")


@pytest.mark.parametrize(
    ("name", "span"),
    [
        *((name, FROM_KEY_FRAME) for name in KINDS.split()),
        *((name, span) for name in ("b-frames.mp4", "variable-rate.mkv", "vp9-odd.webm") for span in (FIRST, INSIDE)),
        ("b-frames.mp4", Interval(0.5, 0.5)),
        ("b-frames.mp4", Interval(2.0, 99)),
    ],
)
def test_the_clip_holds_the_frames_of_its_span(
    name: str, span: Interval, footage: Footage, tmp_path: Path, monkeypatch: Any
) -> None:
    chosen, encode = [], clip_file.encode_frames
    monkeypatch.setattr(clip_file, "encode_frames", lambda *given, **how: chosen.append(how) or encode(*given, **how))
    copied = write_clip(footage(name), span, tmp_path / "clip.mp4")
    assert chosen == ([] if copied else [{"preset": "veryfast", "crf": 14}])
    times, pictures = seen_in(footage(name), span)
    with av.open(str(tmp_path / "clip.mp4")) as container:
        plain = list(container.decode(video=0))  # as a player shows it
        assert (plain[0].time, len(plain)) == (0, len(times))
    with video.open(tmp_path / "clip.mp4") as clip:
        assert [float(t) for t in clip.timestamps] == pytest.approx(times, abs=0.002)
        found = [frame.rgb() for frame in clip.frames_at([float(t) for t in clip.timestamps])]
    for one, other in zip(found, pictures, strict=True):
        rows, columns = (side if copied else side // 2 * 2 for side in other.shape[:2])
        assert one.shape == (rows, columns, 3)
        difference = np.abs(one.astype(int) - other[:rows, :columns])
        assert difference.max() == 0 or (not copied and difference.mean() < 8)
    assert name != "b-frames.mp4" or copied == (span == FROM_KEY_FRAME)
