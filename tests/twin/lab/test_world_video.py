"""The parts of the laboratory one by one: frames of a world that was not drawn, quantiles, boxes and specs."""

from pathlib import Path

import pytest

from trace_ves.backbone.registry import open_backbone
from trace_ves.core import VideoError
from trace_ves.twin.lab import Figures, Lab, PictureFigures, ShownFigures, WorldVideo, _misplace

WORLD = '{"video": "videos/v001.mp4", "fps": 10, "frames": 5, "scenes": [], "tracks": []}\n'


@pytest.fixture
def film(tmp_path: Path) -> WorldVideo:
    (tmp_path / "world.jsonl").write_text(WORLD, encoding="utf-8")
    return Lab().open_video(tmp_path / "videos" / "v001.mp4")


def test_a_frame_is_on_screen_until_the_next_and_the_last_one_to_the_end(film: WorldVideo) -> None:
    assert film.duration == 0.5
    frames = film.frames_at([0.0, 0.09, 0.1, 0.3, 0.49, 0.5, 0.2])
    assert [frame.seconds for frame in frames] == [0.0, 0.0, 0.1, 0.3, 0.4, 0.4, 0.2]
    assert [frame.pts for frame in frames] == [0, 0, 1024, 3072, 4096, 4096, 2048]
    for moment in (-0.001, 0.501):
        with pytest.raises(VideoError) as caught:
            film.frames_at([moment])
        assert str(caught.value) == (f"videos/v001.mp4: no frame at {moment} s; give a moment from 0 to 0.5 s.")


def test_a_frame_is_never_larger_than_the_film(film: WorldVideo) -> None:
    for height, size in ((None, (640, 360)), (361, (640, 360)), (180, (320, 180)), (1, (2, 1))):
        (frame,) = film.frames_at([0.0], height=height)
        assert (frame.picture.width, frame.picture.height) == size


def test_figures_hold_from_their_bound_on_and_quantiles_lie_between_their_levels() -> None:
    shown = tuple(ShownFigures(from_part=part, size_ratios=(), scores=()) for part in (0.0, 0.5))
    pictures = tuple(
        PictureFigures(from_rows=rows, misnamed=0, phantoms=0, wrong_scores=(), no_scene=0) for rows in (0, 100)
    )
    zero = dict.fromkeys(("likeness", "size_likeness", "place_error", "lookalikes"), 0.0)
    figures = Figures(levels=(0, 0.5, 1), sizes_px=(0,), shown=shown, picture=pictures, **zero)
    assert [figures.at_part(part).from_part for part in (0.0, 0.49, 0.5, 1.0)] == [0, 0, 0.5, 0.5]
    assert [figures.at_rows(rows).from_rows for rows in (0, 99.9, 100, 360)] == [0, 0, 100, 100]
    assert [figures.quantile((0, 10, 30), chance) for chance in (0, 0.25, 0.5, 0.75, 1)] == [0, 5, 10, 20, 30]


def test_a_box_grows_around_its_centre_and_moves_by_its_longer_side() -> None:
    assert _misplace((0.2, 0.2, 0.4, 0.6), 2.0, 0.0, 0.0) == pytest.approx((0.1, 0.0, 0.5, 0.8))
    moved = _misplace((0.2, 0.2, 0.4, 0.6), 1.0, 0.5, 0.25)  # 128 by 144 pixels
    assert moved == pytest.approx((0.2 + 72 / 640, 0.2 + 36 / 360, 0.4 + 72 / 640, 0.6 + 36 / 360))


@pytest.mark.parametrize(
    ("spec", "seed", "noise"),
    [("lab", 0, 0.0), ("lab:7", 7, 0.0), ("lab:noise=.25", 0, 0.25), ("lab:999999999:noise=1", 999999999, 1.0)],
)
def test_a_spec_gives_the_seed_and_the_noise(spec: str, seed: int, noise: float) -> None:
    lab = open_backbone(spec)
    assert isinstance(lab, Lab)
    assert (lab._seed, lab._noise, lab.name) == (seed, noise, spec.replace("=.", "=0."))
