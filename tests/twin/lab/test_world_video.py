"""The parts of the laboratory one by one: frames of a world that was not drawn, quantiles, boxes, noise and specs."""

from pathlib import Path

import numpy as np
import pytest

from trace_ves.backbone.registry import open_backbone
from trace_ves.baselines.direct import answer_request, get_answer
from trace_ves.core import BackboneConfigError, InputError, Interval, ObservationStrategy, VideoError
from trace_ves.observer import Observer
from trace_ves.twin.lab import Figures, Lab, PictureFigures, ShownFigures, SimulatedEyes, WorldVideo, _misplace
from trace_ves.twin.synthetic.bench import make_twin

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
    for moment in (-0.001, 0.501, float("nan")):
        with pytest.raises(VideoError) as caught:
            film.frames_at([moment])
        assert str(caught.value) == (f"videos/v001.mp4: no frame at {moment} s; give a moment from 0 to 0.5 s.")
    for pixels in (frames[0].jpeg, frames[0].rgb):
        with pytest.raises(VideoError, match="was not drawn"):
            pixels()


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


def test_what_the_eyes_see_depends_only_on_the_frame_and_the_seed() -> None:
    frames = WorldVideo(make_twin(2, 3)[0].truth).frames_at(list(np.arange(0, 100, 0.5)), height=180)
    seen = [SimulatedEyes()(frame.picture, 1.0) for frame in frames]
    eyes = SimulatedEyes()
    assert [eyes(frame.picture, 1.0) for frame in reversed(frames)] == seen[::-1]
    assert seen != [SimulatedEyes(1)(frame.picture, 1.0) for frame in frames]
    with pytest.raises(InputError, match="lab only sees twins"):
        eyes(object(), 1.0)  # type: ignore[arg-type]


def test_a_noisy_call_misreads_the_same_way_again_and_another_call_anew() -> None:
    twin = [(item, video.truth) for video in make_twin(12, 3) for item in video.items]
    item, truth = twin[2]  # read rightly without noise

    def answers(backbone: Lab, shift: float) -> list[str | None]:
        observer = Observer(WorldVideo(truth), backbone)
        spans = [Interval(max(0.0, span.start - shift), span.end) for span in item.evidence]
        clips = tuple(observer.watch(span, ObservationStrategy(2.0, 360)) for span in spans)
        return [get_answer(reply) for reply in observer.ask([answer_request(item.question, clips)] * 2)]

    shifts = [0.1 * number for number in range(12)]
    clear, noisy = ([answers(Lab(noise=p), shift) for shift in shifts] for p in (0.0, 0.6))
    assert clear == [[item.answer] * 2] * 12
    assert noisy == [[letter] * 2 for letter in "AAABDABBBBBA"]


@pytest.mark.parametrize(
    ("world", "said"),
    [
        (None, "No such file or directory; lab only answers questions about twins"),
        ("{}\n", "world.jsonl:1: video: Field required"),
        ("nonsense\n", "world.jsonl:1: "),
        (
            WORLD.replace(
                "[]}",
                '[{"sprite": "ufo", "motion": "rest", "first": 0, "last": 4, "size_px": 40, "place": 0, "depth": 0}]}',
            ),
            "world.jsonl:1: tracks: the twin's world has no 'ufo'",
        ),
        (WORLD.replace("v001", "other"), "no video videos/v001"),
    ],
)
def test_a_bench_that_is_no_twin_is_refused_in_a_sentence(tmp_path: Path, world: str | None, said: str) -> None:
    if world is not None:
        (tmp_path / "world.jsonl").write_text(world, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        Lab().open_video(tmp_path / "videos/v001.mp4")


@pytest.mark.parametrize(
    ("spec", "seed", "noise"),
    [("lab", 0, 0.0), ("lab:7", 7, 0.0), ("lab:noise=.25", 0, 0.25), ("lab:999999999:noise=1", 999999999, 1.0)],
)
def test_a_spec_gives_the_seed_and_the_noise(spec: str, seed: int, noise: float) -> None:
    lab = open_backbone(spec)
    assert isinstance(lab, Lab)
    assert (lab._seed, lab._noise, lab.name) == (seed, noise, spec.replace("=.", "=0."))


@pytest.mark.parametrize("spec", ["lab:", "lab:0", "lab:x", "lab:-1", "lab:noise=2", "lab:noise=-.1"])
def test_other_specs_are_refused(spec: str) -> None:
    with pytest.raises(BackboneConfigError, match="lab:SEED"):
        open_backbone(spec)
