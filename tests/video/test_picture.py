"""Planes become RGB in bands of rows, and nobody can tell where one ends."""

from __future__ import annotations

import numpy as np
import pytest

from trace_ves.video import picture


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
