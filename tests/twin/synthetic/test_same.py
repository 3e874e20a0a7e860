"""The same seed gives the same questions, worlds, pictures, sightings and replies as for the published results."""

import hashlib
import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trace_ves.core import Clip, Interval, ObservationStrategy
from trace_ves.core.question import LETTERS
from trace_ves.twin.lab import Lab, SimulatedEyes, WorldVideo
from trace_ves.twin.synthetic.bench import TwinVideo, frames_of, make_twin
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


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(rounded(value)).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("name", "hints"), [("usual", Hints()), ("other hints", Hints(0.4, 3.5)), ("few", Hints(1, 1))]
)
def test_questions_and_worlds(name: str, hints: Hints) -> None:
    twin = make_twin(24, 5, hints)
    content = [[video.truth.model_dump(), *(item.to_json() for item in video.items)] for video in twin]
    assert digest(content) == RECORDED["twins"][name]


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
        assert found == pytest.approx(recorded, abs=1e-3)


@pytest.mark.parametrize("motion", MOTIONS)
def test_motions(motion: str) -> None:
    """Those of a small thing, and of one that is almost as large as the picture."""
    track = Track("red balloon", motion, 0, 100, 40, 0.3, 0.6, acts=(Act("dance", 20, 60),))
    places = [(frame, size) for size in ((30, 40), (300, 340)) for frame in (2, 33, 45, 90)]
    poses = [pose(track, frame, Bands((214, 354), (34, 196)), size) for frame, size in places]
    found = [number for at in poses for number in (at.x, at.foot_y, at.opacity, at.scale)]
    assert found == pytest.approx(RECORDED["motions"][motion], abs=1e-3)


def test_frames() -> None:
    video = make_twin(2, 5)[0]
    shown = {track.first + 20 * number for track in video.world.tracks for number in (1, 2)}
    frames = [frame for number, frame in enumerate(frames_of(video.world, video.paint_seed)) if number in shown]
    assert [frame.packed.mean() for frame in frames] == pytest.approx(RECORDED["frames"], abs=2e-4)


def test_sightings() -> None:
    video = WorldVideo(make_twin(2, 5)[0].truth)
    frames = [frame for rows in (360, 180) for frame in video.frames_at(range(0, int(video.duration), 2), height=rows)]
    views = [SimulatedEyes(3)(frame.picture, 1.0) for frame in frames]
    names = [(view.scene, [sighting.name for sighting in view.sightings]) for view in views]
    assert digest(names) == RECORDED["seen"]
    numbers = np.array([[s.score, *s.box] for view in views for s in view.sightings])
    changes = np.abs(np.diff(numbers, axis=0))
    assert [*numbers.mean(axis=0), *changes.mean(axis=0)] == pytest.approx(RECORDED["sightings"], abs=1e-6)


def questions_about(video: TwinVideo) -> Iterator[tuple[str, dict[str, str]]]:
    """Those of the twin, and others about the same things."""
    for item in video.items:
        yield item.question.text, dict(zip(LETTERS, item.question.options, strict=False))
    actor, other = [track.sprite for track in video.world.tracks if track.acts][:2]
    places = {span.scene: None for span in video.world.scenes}
    yield "Which of these is seen last?", {"A": f"a {actor}", "B": f"a {other}", "C": "a whale"}
    yield f"Where does the {actor} appear?", dict(zip(LETTERS, places, strict=False))
    yield f"At the end of the video, how many times does a {actor} appear?", {}
    yield "Why does the minister resign?", {"A": "money", "B": "love"}


def replies(video: TwinVideo, lab: Lab) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each stage and its reply to every question, called much as the methods do."""
    source = WorldVideo(video.truth)
    duration = source.duration
    everywhere = [{"start": 0.0, "end": duration / 3}, {"start": duration / 2, "end": duration}]

    def clip(start: float, end: float, frames: int, rows: int = 360) -> Clip:
        moments = [start + (n + 0.5) * (end - start) / frames for n in range(frames)]
        return Clip(Interval(start, end), ObservationStrategy(), source.frames_at(moments, height=rows))

    for text, options in questions_about(video):
        said: list[tuple[str, dict[str, Any]]] = []

        def ask(stage: str, clips: Any = (), text: str = text, options: Any = options, said: Any = said, **more: Any):
            known = {"question": text, "options": options, "duration": duration, "limit": 3, "look_seconds": 30.0}
            reply = lab.reply_to(stage, known | more, clips, sample=len(said))
            said.append((stage, reply))
            return reply

        claims = [{"id": f"c{n}", **claim} for n, claim in enumerate(ask("claims")["claims"])]
        needs = [claim["id"] for claim in claims]
        board = clip(0, duration, 40, 180)
        search = {"claims": claims, "unmet_needs": needs, "looks": [], "anchors": [], "unexplored_segments": everywhere}
        first = ask("temporal-proposal", [board], notes=[], **search)
        looks = [clip(each["start"], each["end"], 12) for each in first["candidates"]]
        search |= {"anchors": [{"anchor": "a0", **everywhere[0]}], "looks": [{"look": "l1"}]}
        again = ask("temporal-proposal", looks[:1], notes=first["notes"], **search)
        looks += [clip(each["start"], each["end"], 30) for each in again["candidates"]]
        for look in looks:
            ask("anchor-extraction", [look], claims=claims)
        ask("anchor-prioritization", looks)
        trajectory = []
        for n in range(len(looks)):
            facts = ask("evidence-assembly", looks[: n + 1], claims=claims)["facts_supported"]
            settled = {fact["claim"]: f"at least {fact['value']}" if "value" in fact else "1" for fact in facts}
            trajectory.append({"prefix_id": f"a0+a{n}", "facts_supported": settled})
        for actions, frames in (("DROP, REFINE, EXPAND", 90), ("REFINE, EXPAND", 40), ("REFINE", 0), ("EXPAND", 39)):
            spent = {"actions": actions, "budget_remaining": frames, "conflict_set": ["a1"], "notes": first["notes"]}
            ask("trajectory-reconciler", trajectory=trajectory, **spent, **search)
        for stage in ("final-answer-replay", "forced-answer", "language-only-probe"):
            ask(stage, looks)
        evidence: list[Any] = []
        for frames in (40, 100):
            ask("avp-plan", evidence=evidence)
            evidence.append(ask("avp-observe", [clip(0, duration, frames, 180)], evidence=evidence))
            ask("avp-reflect", evidence=evidence)
        ask("avp-plan", evidence=evidence)
        ask("avp-answer", evidence=evidence)
        borders = [duration * n / 12 for n in range(12)]
        segments = [{"segment": n, "start": at, "end": at + 6 * n} for n, at in enumerate(borders)]
        views = [clip(at, at + 0.1, 1) for at in borders]
        scores = ask("vca-reward", views, segments=segments)["scores"]
        for promising in (segments, segments[:2]):
            rated = [each | {"relevance": score["relevance"]} for each, score in zip(promising, scores, strict=False)]
            ask("vca-explore", views, segments=rated)
        captions = [ask("dense-caption", [clip(at, at + 20, 10)]) for at in borders[:-1]]
        for family in ("temporal-ordering", "event-counting"):
            ask("item-proposal", captions=captions, family=family)
        ask("gist-probe", summary="; ".join(each["caption"] for each in captions))
        yield from said


def test_replies() -> None:
    found = defaultdict(list)
    for video in make_twin(6, 5):
        for stage, reply in replies(video, Lab(seed=3, noise=0.2)):
            found[stage].append(reply)
    assert {stage: digest(each) for stage, each in found.items()} == RECORDED["replies"]
