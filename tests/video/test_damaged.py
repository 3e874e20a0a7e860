"""Files that are not videos, or no longer whole ones: a sentence or the frames that are there, never a crash."""

import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import video_avi
import video_footage
from video_footage import Recipe
from video_oracle import HEIGHT, Footage, Truth, digest, every_frame

from trace_ves import video
from trace_ves.core import VideoError
from trace_ves.video import Video, container
from trace_ves.video.container import Deadline
from trace_ves.video.decoder import _CAREFUL_READER
from trace_ves.video.reader import Reader


def picture(path: Path) -> None:
    video_footage.encode(path, Recipe(codec="png", pix_fmt="rgb24", frames=1, muxer="image2"))


def words(path: Path) -> None:
    path.write_text("no video, just words\n" * 500)


ENCRYPTION = {
    "encryption_scheme": "cenc-aes-ctr",
    "encryption_key": "76a6c65c5ea762046bd749a2e632ccbb",
    "encryption_kid": "a7e61c373e219033c21091fa607bf3b8",
}


def encrypted(path: Path, **options: str) -> None:
    video_footage.encode(path, Recipe(options=video_footage.x264(), container=ENCRYPTION | options))


def film(path: Path, name: str = "b-frames.mp4") -> Path:
    """A film in the folder of this path."""
    video_footage.make(name, found := path.with_name("film.mp4"))
    return found


def without_pictures(path: Path, name: str) -> None:
    """An MP4 whose tables are whole and whose media data is nothing but zeros."""
    data = bytearray(film(path, name).read_bytes())
    start = data.index(b"mdat") + 4
    size = int.from_bytes(data[start - 8 : start - 4], "big") - 8
    data[start : start + size] = bytes(size)
    path.write_bytes(data)


def cut(source: Path, target: Path, share: float) -> Path:
    data = source.read_bytes()
    target.write_bytes(data[: int(share * len(data))])
    return target


NOT_VIDEOS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing.mp4": (lambda path: None, "there is no such file"),
    "folder.mp4": (lambda path: path.mkdir(), "not a regular file"),
    "pipe.mp4": (os.mkfifo, "not a regular file"),
    "empty.mp4": (lambda path: path.write_bytes(b""), "the file is empty"),
    **dict.fromkeys(("text.mp4", "words.txt"), (words, "not a video that can be read")),
    **dict.fromkeys(("picture.png", "picture.mp4"), (picture, "not a video that can be read")),
    "zeros.mp4": (lambda path: path.write_bytes(bytes(50_000)), "not a video that can be read"),
    "list.m3u8": (lambda path: path.write_text("#EXTM3U\n#EXTINF:1,\nother.ts\n"), "not a video that can be read"),
    "sound.m4a": (video_footage.with_sound, "no video stream"),
    "encrypted.mp4": (encrypted, "the video is encrypted"),
    "fragments.mp4": (lambda path: encrypted(path, movflags="frag_keyframe+empty_moov"), "the video is encrypted"),
    "covered.mp4": (lambda path: video_footage.with_sound(path, video_footage.COVER), "only a still picture"),
    "cut.mp4": (lambda path: cut(film(path), path, 0.5), "not a video that can be read"),  # its index is at its end
    "list.mp4": (lambda path: path.write_text(f"ffconcat version 1.0\nfile '{film(path)}'\n"), "not a video"),
    "none.avi": (
        lambda path: video_avi.write_avi(path, b"DX50", video_avi.SIZE, [video_avi.Chunk(b"", True)]),
        r"there is a video stream in this file, but not one frame in it\.$",
    ),
    **{
        f"zeros-{name}": (
            lambda path, name=name: without_pictures(path, name),
            rf"none of the first {count} frames can be decoded; the file is damaged\.$",
        )
        for name, count in (("b-frames.mp4", 75), ("hevc.mp4", 75), ("one-frame.mp4", 1))
    },
}


@pytest.mark.parametrize("name", NOT_VIDEOS)
def test_what_is_no_video_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    make, sentence = NOT_VIDEOS[name]
    path = tmp_path / name
    make(path)
    with pytest.raises(VideoError, match=sentence) as caught:
        video.open(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def check_as_far_as_shown(opened: Video, shown: list[Truth]) -> None:
    """Every moment gives the frame that a sequential decode, errors passed over, has on screen then."""
    by_pts = {frame.pts: frame.digest for frame in shown}
    frames = opened.frames_at([float(time) for time in opened.timestamps], height=HEIGHT)
    for asked, frame in zip(opened.pts, frames, strict=True):
        before = [pts for pts in by_pts if pts is not None and pts <= asked]
        assert frame.pts == max(before)
        assert digest(frame.picture) == by_pts[frame.pts]


@pytest.mark.parametrize(
    "name", ["faststart.mp4", "open-gop.mkv", "open-gop.ts", "h264.flv", "vp9.webm", "fragmented.mp4", "mpeg2.mpg"]
)
def test_a_file_cut_short_gives_the_frames_that_are_there(name: str, footage: Footage, tmp_path: Path) -> None:
    path = cut(footage(name), tmp_path / name, 0.4 if name.endswith("mkv") else 0.6)
    shown = every_frame(path, height=HEIGHT)
    assert 10 < len(shown) < 75
    with video.open(path) as opened:
        assert opened.duration < 2.4
        said = {"faststart.mp4": r"the file is cut short: \d\d of 75 frames", "open-gop.mkv": r"it declares 2\.5\d* s"}
        assert re.match(said.get(name, ""), " ".join(opened.warnings))
        check_as_far_as_shown(opened, shown)


def test_a_damaged_packet_costs_its_frame_and_is_said(footage: Footage, tmp_path: Path) -> None:
    path = tmp_path / "damaged.mp4"
    data = bytearray(footage("b-frames.mp4").read_bytes())
    with video.open(footage("b-frames.mp4")) as whole:
        start, end = whole.byte_ranges[37].tolist()
    data[start:end] = bytes([0xFF]) * (end - start)
    path.write_bytes(data)
    shown = every_frame(path, height=HEIGHT)
    assert len(shown) < 75
    with video.open(path) as opened:
        assert opened.warnings == ()
        check_as_far_as_shown(opened, shown)
        [said] = opened.warnings
        assert opened._decoder._readers[_CAREFUL_READER]._threads == 1
    assert said.startswith("1 of the requested frames cannot be decoded, the first at 1.233 s; the frame before")
    assert said.endswith(" is used instead; 8 others depend on damaged data")


def test_where_no_frame_can_be_decoded_a_request_says_so(footage: Footage, tmp_path: Path) -> None:
    data, path = bytearray(footage("hevc.mp4").read_bytes()), tmp_path / "damaged.mp4"
    for start, end in video.open(footage("hevc.mp4")).byte_ranges.tolist():
        data[start + 8 : end] = bytes(end - start - 8)
    path.write_bytes(data)
    with pytest.raises(VideoError, match=r"no frame up to 1\.000 s can be decoded"):
        video.open(path).frames_at([1])


def test_real_damage(shared: Path) -> None:
    path = shared / "media" / "corrupted.mp4"
    with video.open(path) as opened:
        assert opened.frames_at([3.0])[0].seconds == 2.9, "it is stored after the frame that cannot be decoded"
        check_as_far_as_shown(opened, every_frame(path, height=HEIGHT))
        [said] = opened.warnings
    assert said.startswith("1 of the requested frames cannot be decoded, the first at 3.000 s;")


def test_opening_and_decoding_have_a_deadline_that_the_error_states(footage: Footage, tmp_path: Path) -> None:
    assert video.open.__kwdefaults__ == {"deadline_seconds": 120}
    assert 4 < Deadline(Path("film.mp4"), "opening it", 5).remaining_seconds() <= 5
    assert Deadline(Path("film.mp4"), "opening it", -1).remaining_seconds() == 0
    with pytest.raises(VideoError, match=r"opening it took longer than the deadline of 1e-09 s"):
        video.open(cut(footage("raw.h264"), tmp_path / "raw.h264", 1), deadline_seconds=1e-9)  # no survey is stored
    with video.open(footage("b-frames.mp4")) as opened:
        opened.frames_at([0.5])
        opened._deadline_seconds = 0
        with pytest.raises(VideoError, match=r"decoding frames of it took longer than the deadline of 0 s"):
            opened.frames_at([1.0])
        assert opened._decoder._readers == {}
        opened._deadline_seconds = 60
        assert len(opened.frames_at([1.0])) == 1


def test_a_file_is_opened_with_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(container.av, "open", lambda path, **options: opened.append((path, options)))
    words(path := tmp_path / "text.mp4")
    deadline = Deadline(path, "opening it", 60)
    monkeypatch.setattr(deadline, "remaining_seconds", lambda: 7.5)
    container.open_container(path, deadline)
    formats = f"{container._VIDEO_FORMATS},{container._AUDIO_FORMATS}"
    options = {"protocol_whitelist": "file", "format_whitelist": formats, "skip_loop_filter": "all"}
    assert opened == [(str(path), {"options": options, "timeout": 7.5, "metadata_errors": "replace"})]


@pytest.mark.parametrize("coding", ["cabac=0", "cabac=1"])
def test_damage_does_not_reach_frames_that_are_decoded_after_it(coding: str, tmp_path: Path) -> None:
    options = video_footage.x264(**{"x264-params": f"{video_footage.X264}:bframes=0:{coding}"})
    video_footage.encode(whole := tmp_path / "whole.mp4", Recipe(options=options))
    with video.open(whole) as opened:
        moments, places, first = opened.timestamps, opened.byte_ranges, 5
        [clean] = opened.frames_at([moments[first]])
    for row in range(30, 60):  # of later groups
        data = bytearray(whole.read_bytes())
        start, end = places[row]
        for at in range(start + (end - start) // 4, end, 40):
            data[at] ^= 0x5A
        (path := tmp_path / f"{row}.mp4").write_bytes(data)
        with video.open(path) as opened:
            opened.frames_at([moments[row]])
            [after] = opened.frames_at([moments[first]])
            assert after.picture.digest() == clean.picture.digest(), row


def test_a_file_that_changes_under_a_reader_is_noticed(footage: Footage, tmp_path: Path) -> None:
    path = tmp_path / "changing.mp4"
    path.write_bytes(footage("b-frames.mp4").read_bytes())
    with video.open(path) as opened:
        opened.frames_at([1.0])
        path.write_bytes(footage("one-group.mp4").read_bytes())
        with pytest.raises(VideoError, match="changed since it was opened; open it again"):
            opened.frames_at([1.0])
        path.unlink()
        with pytest.raises(VideoError, match="changed since it was opened; open it again"):
            opened.frames_at([1.0])


def test_a_file_whose_video_became_another_stream_is_noticed(footage: Footage) -> None:
    path = footage("two-streams.mp4")
    with video.open(path) as opened:
        assert opened.stream_index == 0
        with pytest.raises(VideoError, match="the file changed while it was being read; open it again"):
            Reader(path, opened._index.packets, 1, threads=1, deadline=Deadline(path, "reading it", 60))


def resources() -> tuple[int, int]:
    """Files this process has open, and kilobytes it holds in memory."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return len(list(Path("/proc/self/fd").iterdir())), int(status["VmRSS"].split()[0])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to count open files and memory")
def test_many_files_leave_nothing_open(footage: Footage, tmp_path: Path) -> None:
    words(text := tmp_path / "text.mp4")
    names = ["b-frames.mp4", "open-gop.mkv", "hevc.mp4", "vp9.webm", "open-gop.ts"]

    def visit(count: int) -> None:
        for number in range(count):
            opened = video.open(footage(names[number % len(names)]))
            opened.frames_at([0.1, 1.9], height=32)
            if number % 2:  # the others are dropped without a word
                opened.close()
            if number % 4 == 0:
                with pytest.raises(VideoError):
                    video.open(text)

    visit(10)
    files_before, kilobytes_before = resources()
    visit(50)
    files_after, kilobytes_after = resources()
    assert files_after <= files_before + 2
    assert kilobytes_after - kilobytes_before < 8_000


def test_the_same_request_gets_the_same_damaged_frame_and_a_warning(shared: Path) -> None:
    with video.open(shared / "media" / "1_70.ts") as opened:
        assert len({digest(opened.frames_at([0.5])[0].picture) for _ in range(3)}) == 1
        assert "1 of the requested frames depend on damaged data, the first at 0.467 s" in opened.warnings


@pytest.mark.parametrize("seed", range(16))
def test_damaged_headers_of_hevc_do_not_change_later_requests(seed: int, footage: Footage, tmp_path: Path) -> None:
    source, path, chance = footage("hevc.mp4"), tmp_path / "damaged.mp4", random.Random(seed)
    data = bytearray(source.read_bytes())
    with video.open(source) as whole:
        start, end = whole.byte_ranges[0].tolist()
    for _ in range(3):
        data[chance.randrange(start + 5, end)] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    with video.open(path) as opened:
        first, second = ([frame.picture.digest() for frame in opened.frames_at([0.1, 0.3])] for _ in range(2))
    assert first == second


HIDES_DAMAGE = {
    "mjpeg.mov": Recipe(codec="mjpeg", pix_fmt="yuvj420p", frames=40),
    "ljpeg.avi": Recipe(codec="ljpeg", pix_fmt="bgr24", frames=40),
    "vp8.mkv": Recipe(codec="libvpx", gop=12, frames=40, options={"cpu-used": "8", "deadline": "realtime"}),
    "ffv1.mkv": Recipe(codec="ffv1", gop=12, frames=40),
    "h263.avi": Recipe(codec="h263", gop=12, frames=40, width=176, height=144),
    "msmpeg4.avi": Recipe(codec="msmpeg4", gop=12, frames=40),
    "raw.m2v": Recipe(codec="mpeg2video", gop=12, b_frames=2, frames=40, muxer="mpeg2video"),
}


@pytest.mark.parametrize("name", HIDES_DAMAGE)
def test_damage_that_a_decoder_hides_is_warned_of(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    video_footage.encode(path, HIDES_DAMAGE[name])
    data = path.read_bytes()
    with video.open(path) as opened:
        places, normal = opened.byte_ranges.tolist(), opened.warnings
    for seed in (0, 1, 2, 3, 19):
        chance, damaged = random.Random(f"{name}{seed}"), bytearray(data)
        for _ in range(chance.choice((1, 1, 3))):
            start, end = chance.choice(places)
            size = min(end - start, chance.choice((1, 4, 32, 512)))
            at = start + chance.randrange(end - start - size + 1)
            damaged[at : at + size] = chance.choice((bytes(size), chance.randbytes(size)))
        path.write_bytes(damaged)
        with video.open(path) as opened:
            times = [float(seconds) for seconds in opened.timestamps]
            alone = [digest(opened.frames_at([seconds], height=HEIGHT)[0].picture) for seconds in times[::7]]
            shown = [digest(frame.picture) for frame in opened.frames_at(times, height=HEIGHT)]
            is_warned = opened.warnings != normal
            sequential = shown if is_warned else [frame.digest for frame in every_frame(path, height=HEIGHT)]
            assert shown == sequential, seed
            assert alone == shown[::7], seed


def test_a_picture_of_which_a_part_is_missing_is_the_same_in_every_request(tmp_path: Path) -> None:
    path = tmp_path / "half.avi"
    video_footage.encode(path, Recipe(codec="magicyuv", frames=12))
    data = bytearray(path.read_bytes())
    with video.open(path) as whole:
        start, end = whole.byte_ranges[5].tolist()
    data[(start + end) // 2 : end] = bytes(end - (start + end) // 2)
    path.write_bytes(data)
    with video.open(path) as opened:
        times = [float(seconds) for seconds in opened.timestamps]
        alone = [digest(opened.frames_at([seconds], height=HEIGHT)[0].picture) for seconds in times]
        assert alone == [digest(frame.picture) for frame in opened.frames_at(times, height=HEIGHT)]
        assert opened.warnings == ("1 of the requested frames depend on damaged data, the first at 0.167 s",)


def test_damage_changes_no_frame_before_it(tmp_path: Path) -> None:
    """The decoder of this codec remembers what damaged data said, even when it is flushed."""
    video_footage.encode(tmp_path / "old.avi", Recipe(codec="msmpeg4", gop=12))
    data = (tmp_path / "old.avi").read_bytes()
    for seed in (65, 70, 103):
        chance, path, damaged = random.Random(seed), tmp_path / f"{seed}.avi", bytearray(data)
        for _ in range(chance.choice([1, 1, 3])):
            at = chance.randrange(len(data) // 5, len(data) - 30)
            damaged[at : at + 30] = chance.randbytes(30)
        path.write_bytes(damaged)
        expected = [frame.digest for frame in every_frame(path, height=HEIGHT)[:12]]
        with video.open(path) as opened:
            for row in chance.sample(range(75), 30):
                [frame] = opened.frames_at([float(opened.timestamps[row])], height=HEIGHT)
                assert row >= 12 or digest(frame.picture) == expected[row]


def test_pictures_beyond_the_limit_of_file_or_decoder_are_refused(
    footage: Footage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert container.MAX_PIXELS == 134_217_728
    monkeypatch.setattr(container, "MAX_PIXELS", 96 * 64)
    video.open(footage("one-frame.mp4")).close()
    with pytest.raises(VideoError, match=r"pictures of 96x96 are larger than the 6,144 pixels allowed"):
        video.open(footage("interlaced-h264.mp4"))
    monkeypatch.undo()
    monkeypatch.setattr("trace_ves.video.reader.MAX_PIXELS", 1000)  # the container's own sizes are within theirs
    with pytest.raises(VideoError), video.open(footage("b-frames.mp4")) as opened:
        opened.frames_at([0.5])
