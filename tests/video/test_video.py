"""What a caller sees: facts of the file, moments, heights, spans, and sentences for what cannot be."""

import math
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import simplejpeg
import video_footage
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from video_oracle import HEIGHT, Footage, check, every_frame

from trace_ves import video
from trace_ves.core import InputError, Interval, VideoError, centred_uniform
from trace_ves.video import Video, picture
from trace_ves.video.container import choose_stream
from trace_ves.video.folders import VideoFolders
from trace_ves.video.picture import Orientation, Scaler, YuvPicture, checksum

BEYOND = (-0.001, 2.501, math.nan, math.inf, -math.inf)


@pytest.fixture
def opened(footage: Footage) -> Iterator[Video]:
    with video.open(str(footage("b-frames.mp4"))) as found:
        yield found


def test_facts(opened: Video, footage: Footage) -> None:
    assert (opened.path, opened.codec, opened.warnings) == (footage("b-frames.mp4"), "h264", ())
    assert (opened.width, opened.height, opened.frame_count) == (96, 64, 75)
    assert (opened.duration, opened.average_fps) == (2.5, 30)
    assert repr(opened).endswith("2.500 s, 96x64, h264)")


def test_frames_come_in_the_order_asked_and_one_for_each_request(opened: Video) -> None:
    frames = opened.frames_at([2.0, 0.5, 2.0, 0.51])
    assert [frame.seconds for frame in frames] == [2.0, 0.5, 2.0, 0.5]
    assert opened.frames_at([]) == ()


def test_the_frame_on_screen_is_the_last_that_began(opened: Video) -> None:
    third = float(opened.timestamps[3])
    just_before, at = opened.frames_at([math.nextafter(third, 0), third])
    assert (just_before.seconds, at.seconds) == (float(opened.timestamps[2]), third)
    assert opened.frames_at([opened.duration])[0].pts == opened.pts[-1]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        *(
            ({"seconds": [1.0, moment]}, f"there is no frame at {moment} s; give a time from 0 to 2.5 s.")
            for moment in BEYOND
        ),
        *(
            ({"seconds": [1.0], "height": rows}, f"a picture needs at least 1 row of pixels, got height={rows}.")
            for rows in (0, -3)
        ),
        *(
            ({"fps": fps, "limit": limit}, f"frames between need fps > 0 and limit >= 1, got fps={fps}, limit={limit}.")
            for fps, limit in ((0.0, None), (-1.0, None), (math.nan, None), (math.inf, None), (1.0, 0))
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_allowed_range(opened: Video, asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(VideoError) as refusal:
        opened.frames_between(Interval(0, 1), **asked) if "fps" in asked else opened.frames_at(**asked)
    assert str(refusal.value) == f"{opened.path}: {sentence}"


@pytest.mark.parametrize(
    ("height", "size"),
    [(None, (96, 64)), (32, (48, 32)), (1, (2, 1)), (33, (50, 33)), (64, (96, 64)), (4000, (96, 64))],
)
def test_height_keeps_the_aspect_and_never_enlarges(opened: Video, height: int | None, size: tuple[int, int]) -> None:
    (frame,) = opened.frames_at([1.0], height=height)
    assert (frame.picture.width, frame.picture.height) == size
    assert frame.rgb().shape == (size[1], size[0], 3)
    assert simplejpeg.decode_jpeg_header(frame.jpeg())[:2] == (size[1], size[0])


def test_a_narrow_picture_keeps_a_column() -> None:
    small = Scaler(Orientation()).picture(av.VideoFrame(2, 64, "yuv420p"), 1)
    assert (small.width, small.height) == (1, 1)


def test_timestamps_cannot_be_changed_by_a_caller(opened: Video) -> None:
    for column in (opened.timestamps, opened.pts):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_a_span_is_looked_at_evenly_with_no_frame_twice_and_no_more_than_the_limit(opened: Video) -> None:
    span = Interval(0.4, 2.0)
    frames = opened.frames_between(span, fps=5, height=32)
    assert frames == opened.frames_at(centred_uniform(span, 8), height=32)
    assert {frame.picture.height for frame in frames} == {32}
    assert len(opened.frames_between(Interval(1.0, 1.1), fps=1000)) == 3
    assert [len(opened.frames_between(Interval(0, 2.5), fps=30, limit=limit)) for limit in (7, 1)] == [7, 1]
    assert [len(opened.frames_between(Interval(1.0, end), fps=0.1)) for end in (1.0, 2.5)] == [1, 1]


def test_what_is_said_of_frames_that_are_damaged(opened: Video) -> None:
    missing = "{} of the requested frames cannot be decoded, the first at {} s; the frame before is used instead"
    depend = "{} of the requested frames depend on damaged data, the first at {} s"
    for opened._undecodable, opened._damaged, said in (  # type: ignore[misc]
        (set(), set(), []),
        ({15, 30}, set(), [missing.format(2, "0.500")]),
        ({30}, {3, 9}, [missing.format(1, "1.000") + "; 2 others depend on damaged data"]),
        (set(), {45, 60, 75 - 1}, [depend.format(3, "1.500")]),
    ):
        assert list(opened.warnings) == said


def test_after_close_there_are_no_frames_but_a_sentence(footage: Footage) -> None:
    opened = video.open(footage("b-frames.mp4"))
    (kept,) = opened.frames_at([1.0])
    opened.close()
    opened.close()
    with pytest.raises(VideoError, match="was closed; open it again"):
        opened.frames_at([1.0])
    assert kept.rgb().shape == (64, 96, 3)


def test_a_jpeg_is_made_once_and_pictures_can_be_pickled(opened: Video) -> None:
    (frame,) = opened.frames_at([1.0], height=32)
    again = pickle.loads(pickle.dumps(frame))
    assert again == frame
    assert again.jpeg() == frame.jpeg()
    assert np.array_equal(again.rgb(), frame.rgb())
    assert (frame.jpeg(80) is frame.jpeg(80), frame.jpeg() is frame.jpeg(90)) == (True, True)
    assert len(frame.jpeg(30)) < len(frame.jpeg(95))
    with pytest.raises(ValueError, match="must be 1 to 100"):
        frame.jpeg(0)


@pytest.mark.parametrize("name", ["b-frames.mp4", "full-range.mp4", "ten-bit.mp4", "mjpeg.mov", "animated.gif"])
def test_pixels_are_those_that_were_drawn(name: str, footage: Footage) -> None:
    with video.open(footage(name)) as opened:
        (frame,) = opened.frames_at([float(opened.timestamps[4])])
    drawn = video_footage.drawing(4, frame.picture.width, frame.picture.height)
    patch = (slice(4, 16), slice(4, 24))
    for made in (frame.rgb(), simplejpeg.decode_jpeg(frame.jpeg(95))):
        assert np.abs(made[patch].astype(int) - drawn[patch].astype(int)).mean() < 8


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        ("rotated-90", lambda shown: np.rot90(shown, -1)),
        ("rotated-180", lambda shown: shown[::-1, ::-1]),
        ("rotated-270", np.rot90),
        ("mirrored", lambda shown: shown[:, ::-1]),
    ],
)
def test_turned_videos_are_upright(name: str, turn: Callable[[Any], Any], footage: Footage, tmp_path: Path) -> None:
    path = Path(shutil.copy(footage("rotated-0.mp4"), tmp_path))
    video_footage.turn(path, video_footage.MATRICES[name])
    with video.open(footage("rotated-0.mp4")) as plain, video.open(path) as opened:
        expected = turn(plain.frames_at([0.0])[0].rgb())
        assert np.array_equal(opened.frames_at([0.0])[0].rgb(), expected)
        assert (opened.height, opened.width) == expected.shape[:2]
        (small,) = opened.frames_at([0.0], height=30)
        assert (small.picture.height, small.picture.width) == (30, round(30 * opened.width / opened.height))


def test_the_default_stream_is_taken_and_said(footage: Footage, tmp_path: Path) -> None:
    with video.open(footage("two-streams.mp4")) as opened:
        assert opened.warnings == ("stream 0 is used, one of 2 video streams",)
    with video.open(footage("with-cover.mp4")) as opened:
        assert opened.warnings == ()
    sequence = video_footage.Recipe(codec="libsvtav1", options=video_footage.AV1, frames=20)
    video_footage.encode(tmp_path / "sequence.avif", sequence)  # begins with a still picture
    with video.open(tmp_path / "sequence.avif") as opened:
        assert opened.warnings == ("stream 1 is used, one of 2 video streams",)
        check(opened, every_frame(opened.path, stream=1, height=HEIGHT))


@pytest.mark.parametrize(
    ("streams", "chosen", "warned"),
    [
        ([(0, 9, 9), (0, 9, 9)], 0, True),
        ([(0, 9, 8), (0, 9, 9), (0, 9, 9)], 1, True),
        ([(0, 9, 9), (1, 1, 1)], 1, True),
        ([(0x400, 9, 9), (0, 1, 1)], 1, False),
    ],
)
def test_of_several_streams_one_is_chosen(streams: list[tuple[int, int, int]], chosen: int, warned: bool) -> None:
    class Streams(list[Any]):
        video = property(list)

    made = Streams(
        SimpleNamespace(
            index=at, disposition=kind, frames=0, codec_context=SimpleNamespace(name="x", width=width, height=height)
        )
        for at, (kind, width, height) in enumerate(streams)
    )
    file: Any = SimpleNamespace(streams=made)
    said = (f"stream {chosen} is used, one of {len(streams)} video streams",) if warned else ()
    assert choose_stream(file, Path("a.mp4")) == (made[chosen], said)
    assert [hasattr(stream, "discard") for stream in made] == [at != chosen for at in range(len(streams))]


def test_of_several_equal_streams_the_largest_is_taken(shared: Path) -> None:
    with video.open(shared / "media" / "nasa_13013.mp4") as opened:
        assert (opened.width, opened.height) == (480, 270)


# --- pictures: planes become RGB in bands of rows, and JPEGs that are the same bytes in every process -----------------


@pytest.mark.parametrize("size", [(1, 1), (7, 9), (64, 96), (65, 97), (3, 20_001)])
@pytest.mark.parametrize("band_pixels", [1, 100, 1000, 40_000])
def test_bands_leave_no_trace(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], band_pixels: int) -> None:
    chance = np.random.default_rng(7)
    half = tuple(-(-side // 2) for side in size)
    planes = [chance.integers(0, 256, shape, np.uint8) for shape in (size, half, half)]
    luma, blue, red = (plane.astype(np.float32) for plane in planes)
    blue, red = ((chroma - 128).repeat(2, 0).repeat(2, 1)[: size[0], : size[1]] for chroma in (blue, red))
    shifts = (1.402 * red, -0.344136 * blue - 0.714136 * red, 1.772 * blue)
    expected = np.stack([np.clip(luma + np.rint(shift), 0, 255) for shift in shifts], axis=-1)
    monkeypatch.setattr(picture, "_BAND_PIXELS", band_pixels)
    assert np.array_equal(picture.YuvPicture(*planes).rgb(), expected)


RANGES = [
    ("yuv420p", 0, False),
    ("yuv420p", 1, False),
    ("yuv420p", 2, True),
    ("yuvj420p", 0, True),
    ("yuvj420p", 1, True),
]


@pytest.mark.parametrize(("layout", "said", "full"), RANGES)
@pytest.mark.parametrize(
    ("matrix", "red", "blue"),
    [
        *((matrix, 0.299, 0.114) for matrix in (0, 2, 3, 5, 6, 8, 11)),  # BT.601, and what is unknown
        *((1, 0.2126, 0.0722), (4, 0.30, 0.11), (7, 0.212, 0.087), (9, 0.2627, 0.0593), (10, 0.2627, 0.0593)),
    ],
)
def test_colours_are_those_of_the_standards_formulas(
    matrix: int, red: float, blue: float, layout: str, said: int, full: bool
) -> None:
    for colour in ((0.8, 0.2, 0.1), (0.1, 0.7, 0.2), (0.2, 0.3, 0.9), (0.5, 0.5, 0.5), (0.9, 0.8, 0.1)):
        luma = red * colour[0] + (1 - red - blue) * colour[1] + blue * colour[2]
        chroma = (colour[2] - luma) / (2 - 2 * blue), (colour[0] - luma) / (2 - 2 * red)
        y = 255 * luma if full else 16 + 219 * luma
        frame = av.VideoFrame(32, 32, layout)
        values = (y, *(128 + (255 if full else 224) * each for each in chroma))
        for place, value in zip(frame.planes, values, strict=True):
            place.update(bytes([round(value)]) * place.buffer_size)
        frame.colorspace, frame.color_range = matrix, said
        shown = Scaler(Orientation()).picture(frame, None).rgb()[16, 16]
        assert np.abs(shown - 255 * np.array(colour)).max() <= 6, (colour, shown)  # two roundings to 8 bits


def plane(pixels: NDArray[np.uint8], surroundings: int) -> NDArray[np.uint8]:
    """The plane in the middle of memory that holds this byte everywhere else."""
    memory = np.full(pixels.size + 8192, surroundings, dtype=np.uint8)
    inside = memory[4096 : 4096 + pixels.size].reshape(pixels.shape)
    inside[:] = pixels
    return inside


def jpegs(width: int, height: int) -> set[bytes]:
    """What comes of one picture in memory that is filled with different bytes around it."""
    chance = np.random.default_rng(width * 10_000 + height)
    half = ((height + 1) // 2, (width + 1) // 2)
    planes = [chance.integers(0, 256, shape, dtype=np.uint8) for shape in ((height, width), half, half)]
    return {YuvPicture(*(plane(one, fill) for one in planes)).jpeg() for fill in (0, 90, 255)}


@pytest.mark.parametrize("height", range(1, 34))
def test_every_size_up_to_two_blocks(height: int) -> None:
    for width in range(1, 34):
        (data,) = jpegs(width, height)
        assert simplejpeg.decode_jpeg_header(data)[:2] == (height, width)


def test_the_last_column_and_row_are_the_pictures_own() -> None:
    luma = np.full((17, 33), 128, dtype=np.uint8)
    luma[:, -1], luma[-1] = 200, 60
    grey = np.full((9, 17), 128, dtype=np.uint8)
    shown = simplejpeg.decode_jpeg(YuvPicture(luma, grey, grey).jpeg(100), colorspace="GRAY")[..., 0]
    assert int(np.abs(shown.astype(int) - luma).max()) <= 2


@pytest.mark.parametrize("layout", ["yuv420p", "yuv420p10le", "nv12", "rgb24", "gray16le"])
def test_a_checksum_is_of_every_byte_of_the_pixels_and_of_no_padding(layout: str) -> None:
    def filled(padding: int, changed: tuple[int, int] | None = None) -> int:
        frame = av.VideoFrame(18, 6, layout)
        for number, (plane, width) in enumerate(zip(frame.planes, WIDTHS[layout], strict=True)):
            rows = np.full((plane.height, plane.line_size), padding, dtype=np.uint8)
            rows[:, :width] = 1
            if changed and changed[0] == number:
                rows[-1, changed[1]] = 2
            plane.update(rows.tobytes())
        return checksum(frame)

    assert filled(0) == filled(255)
    ends = [(plane, place) for plane, width in enumerate(WIDTHS[layout]) for place in (0, width - 1)]
    assert len({filled(0), *(filled(0, end) for end in ends)}) == len(ends) + 1


WIDTHS = {"yuv420p": (18, 9, 9), "yuv420p10le": (36, 18, 18), "nv12": (18, 18), "rgb24": (54,), "gray16le": (36,)}
"""Bytes of a row of each plane, 18 pixels wide."""


# --- videos are found by name in the folders that were given, and nowhere else ---------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with videos, links that lead in and out, and what lies outside."""
    place = tmp_path_factory.mktemp("place")
    films = place / "films"
    files = "films/a.mp4 films/deep/b.MKV films/notes.txt films/.hidden/c.mp4 films/.d.mp4 more/a.mp4 secret.mp4"
    for path in files.split():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(path.encode())
    (films / "inner.mp4").symlink_to(films / "deep" / "b.MKV")
    (films / "link.mp4").symlink_to(place / "secret.mp4")
    (films / "broken.mp4").symlink_to(place / "nowhere.mp4")
    (films / "loop.mp4").symlink_to(films / "loop.mp4")
    (films / "up").symlink_to(place)
    return place


def test_videos_are_listed_with_names_that_find_them_again(place: Path) -> None:
    folders = VideoFolders([place / "films", place / "more"])
    assert folders.names(9) == ["a.mp4", "inner.mp4", "deep/b.MKV", "more/a.mp4"]
    assert folders.names(2) == ["a.mp4", "inner.mp4"]
    assert folders.find("more/a.mp4").read_bytes() == b"more/a.mp4"
    assert folders.find(str(place / "more" / "a.mp4")).read_bytes() == b"more/a.mp4"
    assert folders.find("inner.mp4").read_bytes() == b"films/deep/b.MKV"


def test_a_single_file_can_be_given_and_its_neighbours_stay_hidden(place: Path) -> None:
    files = VideoFolders([place / "films" / "a.mp4", place / "secret.mp4"])
    assert files.names(9) == ["a.mp4", "secret.mp4"]
    with pytest.raises(InputError, match=r"there is no video 'inner\.mp4' in these folders"):
        files.find("inner.mp4")
    with pytest.raises(InputError, match="no such file or folder"):
        VideoFolders([place / "elsewhere"])


@given(
    st.lists(st.sampled_from(["..", ".", "up", "deep", "a.mp4", "secret.mp4", "link.mp4", "", "/", "\0"]), max_size=6)
)
def test_whatever_is_found_lies_inside(place: Path, parts: list[str]) -> None:
    folders = VideoFolders([place / "films"])
    try:
        found = folders.find("/".join(parts))
    except InputError:
        found = place / "films" / "nothing"
    assert found.is_relative_to((place / "films").resolve())
