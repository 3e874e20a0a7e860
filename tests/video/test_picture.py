"""Pictures: planes become RGB in bands of rows, and JPEGs that are the same bytes in every process."""

import itertools

import av
import numpy as np
import pytest
import simplejpeg
from numpy.typing import NDArray

from trace_ves.video import picture
from trace_ves.video.picture import Orientation, Scaler, YuvPicture, checksum


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


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("matrix", "red", "blue"),
    [(1, 0.2126, 0.0722), (5, 0.299, 0.114), (6, 0.299, 0.114), (2, 0.299, 0.114), (9, 0.2627, 0.0593)],
    ids=["709", "601", "170m", "unnamed", "2020"],
)
def test_colours_are_those_of_the_standards_formulas(matrix: int, red: float, blue: float, full: bool) -> None:
    for colour in ((0.8, 0.2, 0.1), (0.1, 0.7, 0.2), (0.2, 0.3, 0.9), (0.5, 0.5, 0.5), (0.9, 0.8, 0.1)):
        luma = red * colour[0] + (1 - red - blue) * colour[1] + blue * colour[2]
        chroma = (colour[2] - luma) / (2 - 2 * blue), (colour[0] - luma) / (2 - 2 * red)
        y = 255 * luma if full else 16 + 219 * luma
        frame = av.VideoFrame(32, 32, "yuv420p")
        for place, value in zip(
            frame.planes, (y, *(128 + (255 if full else 224) * each for each in chroma)), strict=True
        ):
            place.update(bytes([round(value)]) * place.buffer_size)
        frame.colorspace, frame.color_range = matrix, 2 if full else 1
        shown = Scaler(Orientation()).picture(frame, None).rgb()[16, 16]
        assert np.abs(shown - 255 * np.array(colour)).max() <= 6, (colour, shown)  # two roundings to 8 bits


USUAL = (144, 224, 240, 336, 360, 448, 480, 640, 720, 1080)
"""Sizes that frames are asked for in."""


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


def test_odd_sizes_around_the_usual_ones() -> None:
    odd = sorted({size + step for size in USUAL for step in (-1, 1)})
    for width, height in itertools.chain(zip(odd, odd[::-1], strict=True), ((width, 224) for width in odd)):
        assert len(jpegs(width, height)) == 1, (width, height)


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
