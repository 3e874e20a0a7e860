"""The same seed gives the same questions, worlds, pictures and simulated sightings as for the published results."""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trace_ves.twin.lab import SimulatedEyes, WorldVideo
from trace_ves.twin.synthetic.bench import frames_of, make_twin
from trace_ves.twin.synthetic.scenery import paint
from trace_ves.twin.synthetic.tracks import MOTIONS, Act, Bands, Track, pose
from trace_ves.twin.synthetic.world import Hints

RECORDED = tomllib.loads(Path(__file__).with_name("same.toml").read_text(encoding="utf-8"))


def rounded(value: Any) -> Any:
    """The value with floats to six digits, so that the last bits of another machine do not count."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return round(value, 6) if isinstance(value, float) else value


@pytest.mark.parametrize(
    ("name", "hints"), [("usual", Hints()), ("other hints", Hints(0.4, 3.5)), ("few", Hints(1, 1))]
)
def test_questions_and_worlds(name: str, hints: Hints) -> None:
    twin = make_twin(24, 5, hints)
    content = [
        [rounded(video.truth.model_dump()), *(rounded(item.to_json()) for item in video.items)] for video in twin
    ]
    assert hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16] == RECORDED["twins"][name]


def summary(picture: np.ndarray[Any, np.dtype[Any]]) -> list[float]:
    """The mean of each of 3 x 4 tiles, and how much neighbouring pixels differ."""
    tiles = picture.astype(float).reshape(3, picture.shape[0] // 3, 4, picture.shape[1] // 4, -1)
    edges = (np.abs(np.diff(picture.astype(float), axis=axis)).mean() for axis in (0, 1))
    return [*tiles.mean(axis=(1, 3, 4)).ravel().tolist(), *edges]


@pytest.mark.parametrize("scene", RECORDED["scenes"])
def test_scenes(scene: str) -> None:
    for seed, recorded in enumerate(RECORDED["scenes"][scene]):
        backdrop = paint(scene, [seed])
        found = [*summary(backdrop.rgb), *backdrop.bands.ground, *backdrop.bands.air]
        assert found == pytest.approx(recorded, abs=0.02)


@pytest.mark.parametrize("motion", MOTIONS)
def test_motions(motion: str) -> None:
    track = Track("red balloon", motion, 0, 100, 40, 0.3, 0.6, acts=(Act("dance", 20, 60),))
    poses = [pose(track, frame, Bands((214, 354), (34, 196)), (30, 40)) for frame in (2, 33, 45, 90)]
    found = [number for at in poses for number in (at.x, at.foot_y, at.opacity, at.scale)]
    assert found == pytest.approx(RECORDED["motions"][motion], abs=1e-3)


def test_frames() -> None:
    video = make_twin(2, 5)[0]
    shown = {track.first + 20 * number for track in video.world.tracks for number in (1, 2)}
    frames = [frame for number, frame in enumerate(frames_of(video.world, video.paint_seed)) if number in shown]
    assert [frame.packed.mean() for frame in frames] == pytest.approx(RECORDED["frames"], abs=0.005)


def test_sightings() -> None:
    video = WorldVideo(make_twin(2, 5)[0].truth)
    frames = [frame for rows in (360, 180) for frame in video.frames_at(range(0, int(video.duration), 2), height=rows)]
    views = [SimulatedEyes(3)(frame.picture, 1.0) for frame in frames]
    seen = [(view.scene, [sighting.name for sighting in view.sightings]) for view in views]
    assert hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:16] == RECORDED["seen"]
    numbers = np.array([[s.score, *s.box] for view in views for s in view.sightings])
    changes = np.abs(np.diff(numbers, axis=0))
    assert [*numbers.mean(axis=0), *changes.mean(axis=0)] == pytest.approx(RECORDED["sightings"], abs=1e-6)
