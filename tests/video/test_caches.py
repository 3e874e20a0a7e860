"""Frames kept in memory and surveys kept on disk: asked again they cost nothing, lost they cost only time."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import video_footage
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trace_ves import video
from trace_ves.core import Frame, MissingExtraError, VideoError
from trace_ves.core.files import cache_dir
from trace_ves.records import disk_cache
from trace_ves.video import CachedVideo, container
from trace_ves.video.container import Deadline
from trace_ves.video.survey import _PACKET_COLUMNS, Survey, load_survey, save_survey, survey


@dataclass
class CountingVideo:
    """Ten frames, one a second; writes down what it had to decode."""

    duration: float = 10.0
    timestamps: tuple[float, ...] = tuple(float(second) for second in range(10))
    decoded: list[tuple[float, int | None]] = field(default_factory=list)

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        if any(not 0 <= moment <= self.duration for moment in seconds):
            raise VideoError("no frame there")
        rows = [min(9, int(moment)) for moment in seconds]
        self.decoded += [(float(row), height) for row in rows]
        size: Any = SimpleNamespace(width=10, height=height or 20)
        return tuple(Frame(row, float(row), size) for row in rows)


def test_a_frame_is_decoded_once_for_each_height() -> None:
    counting = CountingVideo()
    cached = CachedVideo(counting)
    first = cached.frames_at([0.2, 3.9, 9.5, 3.0, 0], height=8)
    again = cached.frames_at([10, 3.1, 0.9], height=8)
    assert [frame.seconds for frame in first + again] == [0, 3, 9, 3, 0, 9, 3, 0]
    assert counting.decoded == [(0.0, 8), (3.0, 8), (9.0, 8)]
    cached.frames_at([3.2])
    assert counting.decoded[3:] == [(3.0, None)]
    assert (cached.duration, cached._frames.maxsize) == (10, 268_435_456)


def test_the_least_recently_used_frames_are_dropped_first() -> None:
    counting = CountingVideo()
    cached = CachedVideo(counting, max_bytes=3 * 2 * 10 * 20)
    just = CachedVideo(just_one := CountingVideo(), max_bytes=2 * 10 * 20)
    for moments in ([0], [0], [1], [1]):
        just.frames_at(moments)
    assert just_one.decoded == [(0.0, None), (1.0, None)]
    for moments in ([0, 1, 2], [0], [3]):
        cached.frames_at(moments)
    counting.decoded.clear()
    cached.frames_at([0, 2, 3])
    assert counting.decoded == []
    cached.frames_at([1])
    assert counting.decoded == [(1.0, None)]


@pytest.mark.parametrize("moment", [-1.0, 10.5, float("nan")])
def test_a_moment_outside_stays_an_error(moment: float) -> None:
    cached = CachedVideo(CountingVideo())
    cached.frames_at([0, 9])
    with pytest.raises(VideoError):
        cached.frames_at([moment])


@given(requests=st.lists(st.lists(st.floats(0, 10), max_size=6), max_size=12), room=st.integers(0, 6))
def test_whatever_was_asked_before_the_frames_are_the_same(requests: list[list[float]], room: int) -> None:
    cached = CachedVideo(CountingVideo(), max_bytes=room * 2 * 10 * 20)
    for request in requests:
        assert cached.frames_at(request) == CountingVideo().frames_at(request)


def test_threads_share_what_one_of_them_decoded() -> None:
    counting = CountingVideo()
    cached = CachedVideo(counting)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: cached.frames_at([number % 10, 7.5]), range(80)))
    assert all(frames[0].seconds == number % 10 for number, frames in enumerate(answers))
    assert sorted(counting.decoded) == [(float(second), None) for second in range(10)]


def test_what_another_thread_decodes_meanwhile_is_not_decoded_again() -> None:
    class Meanwhile:
        def __enter__(self) -> None:
            cached._frames[3.0, None] = CountingVideo().frames_at([3.0])[0]

        def __exit__(self, *_: object) -> None:
            pass

    counting = CountingVideo()
    cached = CachedVideo(counting)
    cached._decoding = Meanwhile()  # type: ignore[assignment]
    assert [frame.seconds for frame in cached.frames_at([4.0, 3.0])] == [4, 3]
    assert counting.decoded == [(4.0, None)]


@pytest.fixture
def own(footage: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file and a cache folder that no other test touches."""
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(tmp_path / "cache"))
    return Path(shutil.copy(footage("variable-rate.mkv"), tmp_path / "own.mkv"))


def surveyed(path: Path) -> Survey:
    found, reader = survey(path, Deadline(path, "opening it", 60))
    reader.close()
    return found


def assert_same(stored: Survey, found: Survey) -> None:
    np.testing.assert_equal(asdict(stored), asdict(found))
    for column in _PACKET_COLUMNS:
        before, after = (getattr(each.index.packets, column) for each in (found, stored))
        assert after.dtype == before.dtype


ALL = (*video_footage.PLAIN, *video_footage.SPECIAL)
WITH_HEAD = [name for name in ALL if name.endswith((".mp4", ".mov", ".mkv", ".webm"))]
CHANGED = [
    "",
    "h264_metadata=sample_aspect_ratio=4/3",
    "h264_metadata=sample_aspect_ratio=1",
    "h264_metadata=crop_top=6",
]


@pytest.mark.parametrize("name", [*WITH_HEAD, *(f"b-frames.mp4 {change}" for change in CHANGED)])
def test_a_head_that_is_complete_says_what_decoding_would(
    name: str, footage: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, change = name.partition(" ")
    path = footage(name)
    if change:
        video_footage.remux(path, path := tmp_path / "changed.mp4", lambda *_: True, by=change)
    found = surveyed(path)
    monkeypatch.setattr(container, "_has_head", lambda _: False)
    assert_same(found, surveyed(path))


@pytest.mark.parametrize(
    ("name", "before", "at"),  # the lower bytes of width and height
    [
        *(("b-frames.mp4", b"avc1", at) for at in (29, 31)),
        *(("vp9.mp4", b"vp09", at) for at in (29, 31)),
        *(("vp9.webm", b"\xb0\x81", 2), ("vp9.webm", b"\xba\x81", 2)),
    ],
)
def test_a_head_that_contradicts_the_stream_is_not_believed(
    name: str, before: bytes, at: int, footage: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = footage(name.replace("vp9.mp4", "vp9.webm"))
    if path.name != name:
        video_footage.remux(path, path := tmp_path / name, lambda *_: True)
    data, path = bytearray(path.read_bytes()), tmp_path / f"changed{path.suffix}"
    start = data.rindex(before) if path.suffix == ".mp4" else data.index(before)
    data[start + at] += 3
    path.write_bytes(data)
    found = surveyed(path)
    monkeypatch.setattr(container, "_has_head", lambda _: False)
    assert_same(found, surveyed(path))


@pytest.mark.parametrize(
    "kind", ["variable-rate.mkv", "edit-list.mp4", "raw.h264", "one-frame.mp4", "vp9.webm", "mpeg4-b-frames.avi"]
)
def test_a_survey_comes_back_as_it_was(own: Path, footage: Callable[[str], Path], kind: str) -> None:
    shutil.copy(footage(kind), own)
    found = surveyed(own)
    assert load_survey(own) is None
    found.index.packets.dts[::2] = np.iinfo(np.int64).min  # as for packets without a time
    save_survey(own, found)
    stored = load_survey(own)
    assert stored is not None
    assert_same(stored, found)


def test_a_video_opened_from_a_stored_survey_gives_the_same_frames(own: Path) -> None:
    with video.open(own) as opened:
        before = [frame.jpeg() for frame in opened.frames_at([0.1, 2.2, 3.3], height=32)]
    found = surveyed(own)
    save_survey(own, replace(found, codec="another"))
    with video.open(own) as opened:
        assert opened.codec == "another"  # so it is the stored one
        assert [frame.jpeg() for frame in opened.frames_at([0.1, 2.2, 3.3], height=32)] == before
    os.utime(own, ns=(1, 1))
    assert load_survey(own) is None  # the file has changed


@given(damage=st.one_of(st.binary(max_size=40), st.integers(0)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_a_damaged_survey_is_never_taken_for_another(own: Path, damage: bytes | int) -> None:
    found = surveyed(own)
    save_survey(own, found)
    (stored,) = (cache_dir() / "video-index").iterdir()
    whole = bytearray(stored.read_bytes())
    if isinstance(damage, int):  # one bit
        whole[damage // 8 % len(whole)] ^= 1 << damage % 8
    stored.write_bytes(whole if isinstance(damage, int) else damage)
    loaded = load_survey(own)
    if loaded is not None:  # a bit of padding
        assert_same(loaded, found)
    stored.write_bytes(whole[: len(whole) // 2])
    with video.open(own) as opened:
        assert opened.frame_count == 75


def test_a_cache_that_cannot_be_written_is_no_obstacle(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.with_name("occupied").write_text("a file where a folder should be")
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(own.with_name("occupied")))
    save_survey(own, surveyed(own))
    assert load_survey(own) is None


def test_stored_surveys_are_bounded(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = surveyed(own)
    save_survey(own, found)
    (first,) = (cache_dir() / "video-index").iterdir()
    bound = 3 * first.stat().st_size + 100
    monkeypatch.setattr(disk_cache, "MOST_BYTES", bound)
    for number in range(8):
        os.utime(own, ns=(number, number))
        save_survey(own, found)
    files = list((cache_dir() / "video-index").iterdir())
    assert (len(files), first in files) == (3, False)
    assert sum(file.stat().st_size for file in files) <= bound
    assert load_survey(own) is not None


@pytest.mark.parametrize("library", ["av", "simplejpeg"])
def test_a_missing_library_is_named_by_its_extra(library: str, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("trace_ves.video.")]:
        monkeypatch.delitem(sys.modules, name)
        inside = name.removeprefix("trace_ves.video.")
        monkeypatch.setattr(video, inside, getattr(video, inside))  # put back, where it is imported again
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"^Decoding video needs an optional part: pip install '\.\[video\]'"):
        video.open(own)


def test_importing_the_package_loads_no_decoder() -> None:
    code = "import sys, trace_ves.video; print([name for name in ('av', 'numpy', 'simplejpeg') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
