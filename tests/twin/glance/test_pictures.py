"""Pictures before the eyes see them: made smaller where a call has many, and looked at once."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.twin.glance.conftest import ArrayPicture

from trace_ves.backbone.registry import open_backbone
from trace_ves.core import BackboneConfigError, Frame, Question
from trace_ves.observer import Observer
from trace_ves.runs.methods import open_method
from trace_ves.twin.glance.eyes import cache_views, reduce_picture
from trace_ves.twin.glance.glance import Glance
from trace_ves.twin.glance.sightings import View

QUESTION = Question("q", "v.mp4", "How many times does a red balloon float up?", ("2", "3", "4", "5"))


class GreyVideo:
    """A video of plain pictures."""

    duration = 100.0

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        return tuple(Frame(round(moment * 100), moment, picture(128, (360, 640))) for moment in seconds)


@pytest.mark.parametrize(
    ("frames", "sharp_frames", "rows"), [(256, None, 360), (64, 64, 360), (128, 64, 255), (256, 64, 180), (16, 64, 360)]
)
def test_many_frames_in_one_call_are_each_seen_smaller(frames: int, sharp_frames: int | None, rows: int) -> None:
    seen: set[int] = set()

    def eyes(picture: NDArray[np.uint8]) -> View:
        seen.add(len(picture))
        return View()

    open_method(f"uniform-{frames}")(QUESTION, Observer(GreyVideo(), Glance(eyes, sharp_frames=sharp_frames)))
    assert seen == {rows}


def test_the_spec_names_how_many_frames_are_seen_at_full_size() -> None:
    assert [open_backbone(spec).name for spec in ("glance:64", "glance")] == ["glance:64", "glance"]
    for spec in ("glance:", "glance:0", "glance:many", "glance:-3", "glance:1e3"):
        with pytest.raises(BackboneConfigError, match="write glance, or glance:N, where N is the number of frames"):
            open_backbone(spec)


@given(
    rows=st.integers(1, 60),
    columns=st.integers(1, 60),
    factor=st.floats(1, 8, exclude_min=True),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_smaller_picture_keeps_its_brightness(rows: int, columns: int, factor: float, seed: int) -> None:
    picture = np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), dtype=np.uint8)
    small = reduce_picture(picture, factor)
    assert small.shape == (max(1, round(rows / factor)), max(1, round(columns / factor)), 3)
    assert np.allclose(small.mean(axis=(0, 1)), picture.mean(axis=(0, 1)), atol=0.6)
    assert (small.min(axis=(0, 1)) >= picture.min(axis=(0, 1))).all()
    assert (small.max(axis=(0, 1)) <= picture.max(axis=(0, 1))).all()


class Digested(ArrayPicture):
    """A picture that knows its digest."""

    def digest(self) -> bytes:
        return self.pixels.tobytes()


def picture(value: int, shape: tuple[int, int] = (4, 6)) -> ArrayPicture:
    return ArrayPicture(np.full((*shape, 3), value, np.uint8))


def test_a_picture_is_looked_at_once_until_it_is_forgotten() -> None:
    looks: list[int] = []

    def look(pixels: NDArray[np.uint8]) -> int:
        looks.append(int(pixels[0, 0, 0]))
        return looks[-1]

    cache = cache_views(look, size=2)
    assert [cache(picture(n), 1.0) for n in (1, 2, 1, 3, 1, 2)] == [1, 2, 1, 3, 1, 2]
    assert looks == [1, 2, 3, 2]


def test_a_picture_that_was_looked_at_is_not_even_made_of_its_planes() -> None:
    cache = cache_views(lambda pixels: int(pixels.sum()))
    first, again = (Digested(np.full((4, 6, 3), 9, np.uint8)) for _ in range(2))
    assert cache(first, 1.0) == cache(again, 1.0) == 9 * 72
    assert (first.made, again.made) == (1, 0)


def test_a_smaller_view_and_the_same_bytes_in_another_shape_are_other_pictures() -> None:
    cache = cache_views(lambda pixels: pixels.shape)
    assert [cache(picture(7, shape), 1.0) for shape in ((4, 6), (6, 4))] == [(4, 6, 3), (6, 4, 3)]
    shown = picture(3, (8, 12))
    assert [cache(shown, factor) for factor in (1.0, 2.0, 1.0)] == [(8, 12, 3), (4, 6, 3), (8, 12, 3)]
