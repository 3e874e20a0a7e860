"""Who sees single frames, perfectly and as many as they like, cannot tell an act from rest, and answers at chance."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean, median
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from tests.twin.synthetic.oracles import CHANCE, NEAR, SEEDS, fitting, nearest

from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.core.question import LETTERS
from trace_ves.twin.synthetic.bench import TwinVideo, make_twin
from trace_ves.twin.synthetic.layout import HEIGHT, WIDTH
from trace_ves.twin.synthetic.scenery import paint
from trace_ves.twin.synthetic.tracks import LARGEST, SMALLEST, Track, pose

if TYPE_CHECKING:
    from collections.abc import Iterator

BANDS = paint("park", [7]).bands
STUDIED: Final = (490, 491)
"""Worlds from whose frames the oracle learns what acts and rest look like; it is tried on others."""
FRAMES: Final = 4
"""Frames of each presence that it studies."""

Look = tuple[int, int, int, bool]
"""All that a single frame shows of an actor, in steps: column, row, how large it is for its kind, whether it fades."""


def look(track: Track, frame: int) -> Look:
    at = pose(track, frame, BANDS, (track.size_px, track.size_px))
    parts = at.x / WIDTH, at.foot_y / HEIGHT, (at.scale - SMALLEST) / (LARGEST - SMALLEST)
    column, row, size = (min(4, int(5 * part)) for part in parts)
    return column, row, size, at.opacity < 1


def asked_tracks(video: TwinVideo, number: int) -> Iterator[tuple[str, Track, str]]:
    """Every presence of the actors of a question: the actor, its track, and the act that is asked about."""
    for event in video.world.asked[number]:
        for each in video.world.tracks:
            if each.sprite == event.sprite:
                yield event.sprite, each, event.act


def acts_at(track: Track, act: str, frame: int) -> bool:
    return any(each.act == act and each.first <= frame <= each.last for each in track.acts)


@pytest.fixture(scope="module")
def odds() -> dict[Look, float]:
    """How much likelier each look is in an act than at rest, as the logarithm of the ratio."""
    rng = np.random.default_rng(0)
    seen: dict[bool, Counter[Look]] = {True: Counter(), False: Counter()}
    for seed in STUDIED:
        for video in make_twin(600, seed):
            for number in range(len(video.items)):
                for _, track, act in asked_tracks(video, number):
                    for frame in rng.integers(track.first, track.last + 1, FRAMES).tolist():
                        seen[acts_at(track, act, frame)][look(track, frame)] += 1
    totals = {acting: looks.total() + 100 for acting, looks in seen.items()}
    return {
        each: float(np.log((seen[True][each] + 1) / totals[True]) - np.log((seen[False][each] + 1) / totals[False]))
        for each in seen[True] | seen[False]
    }


@pytest.fixture(scope="module")
def worlds() -> list[TwinVideo]:
    return [video for seed in SEEDS for video in make_twin(600, seed)]


def test_a_single_frame_does_not_show_whether_its_actor_acts(worlds: list[TwinVideo], odds: dict[Look, float]) -> None:
    """Of a frame in an act and one at rest, the frame that looks more like an act is the right one half of the time."""
    rng = np.random.default_rng(1)
    told: dict[bool, list[float]] = {True: [], False: []}
    for video in worlds:
        for number in range(len(video.items)):
            for _, track, act in asked_tracks(video, number):
                frame = int(rng.integers(track.first, track.last + 1))
                told[acts_at(track, act, frame)].append(odds.get(look(track, frame), 0.0))
    acting, resting = (rng.permutation(told[kind])[:2000] for kind in (True, False))
    assert len(acting) == len(resting) == 2000
    right = 100 * float(np.mean((acting > resting) + 0.5 * (acting == resting)))
    assert abs(right - 50) <= NEAR


@pytest.mark.parametrize("family", [EVENT_COUNTING, TEMPORAL_ORDERING])
def test_who_judges_each_presence_by_a_single_frame_is_at_chance(
    worlds: list[TwinVideo], odds: dict[Look, float], family: str
) -> None:
    right = []
    for place, video in enumerate(worlds):
        for number, item in enumerate(video.items):
            if item.question.family != family:
                continue
            rng = np.random.default_rng([place, number])
            judged: dict[str, list[tuple[float, int]]] = defaultdict(list)
            for name, track, _ in asked_tracks(video, number):
                frame = int(rng.integers(track.first, track.last + 1))
                judged[name].append((odds.get(look(track, frame), 0.0), frame))
            if family == EVENT_COUNTING:
                (looks,) = judged.values()
                likely = sum(each >= median(odds.values()) for each, _ in looks)
                guess = nearest(item, likely, rng)
            else:
                guess = fitting(item, {name: float(max(looks)[1]) for name, looks in judged.items()}, rng)
            right.append(LETTERS[guess] == item.answer)
    assert len(right) == 300 * len(SEEDS)
    assert abs(100 * fmean(right) - CHANCE) <= NEAR
