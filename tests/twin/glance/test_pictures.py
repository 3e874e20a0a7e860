"""Frames that share the pixels of a call: the more of them, the smaller each is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.backbone.registry import open_backbone
from trace_ves.core import BackboneConfigError, Frame, Question
from trace_ves.observer import Observer
from trace_ves.runs.methods import open_method
from trace_ves.twin.glance.eyes import reduce_picture
from trace_ves.twin.glance.glance import Glance
from trace_ves.twin.glance.sightings import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

QUESTION = Question("q", "v.mp4", "How many times does a red balloon float up?", ("2", "3", "4", "5"))


@dataclass(frozen=True)
class Grey:
    """A plain picture."""

    width: int = 640
    height: int = 360

    def rgb(self) -> NDArray[np.uint8]:
        return np.full((self.height, self.width, 3), 128, np.uint8)

    def jpeg(self, quality: int = 90) -> bytes:
        raise AssertionError("glance never compresses")


class GreyVideo:
    """A video of nothing else."""

    duration = 100.0

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
        return tuple(Frame(round(moment * 100), moment, Grey()) for moment in seconds)


def rows_seen(frames: int, sharp_frames: int | None) -> set[int]:
    seen: set[int] = set()

    def eyes(picture: NDArray[np.uint8]) -> View:
        seen.add(len(picture))
        return View((), None)

    open_method(f"uniform-{frames}")(QUESTION, Observer(GreyVideo(), Glance(eyes, sharp_frames=sharp_frames)))
    return seen


@pytest.mark.parametrize(
    ("frames", "sharp_frames", "rows"), [(256, None, 360), (64, 64, 360), (128, 64, 255), (256, 64, 180), (16, 64, 360)]
)
def test_many_frames_in_one_call_are_each_seen_smaller(frames: int, sharp_frames: int | None, rows: int) -> None:
    assert rows_seen(frames, sharp_frames) == {rows}


def test_the_spec_names_how_many_frames_are_seen_at_full_size() -> None:
    assert open_backbone("glance:64").name == "glance:64"
    assert open_backbone("glance").name == "glance"


@pytest.mark.parametrize("spec", ["glance:", "glance:0", "glance:many", "glance:-3", "glance:1e3"])
def test_a_spec_that_names_something_else_is_refused(spec: str) -> None:
    with pytest.raises(BackboneConfigError, match="write glance, or glance:N with the number of frames"):
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
