"""The parts of a world: scenes, asked events, look-alikes and passers-by. `actors` puts them together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core import EVENT_COUNTING
from trace_ves.twin.synthetic.layout import FPS
from trace_ves.twin.synthetic.tracks import Track
from trace_ves.twin.synthetic.vocabulary import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trace_ves.twin.synthetic.layout import QuestionLayout, VideoLayout
    from trace_ves.twin.synthetic.vocabulary import Sprite

Rng = np.random.Generator

SIZES_PX: Final = ((0.14, 14, 19), (0.32, 20, 33), (0.36, 34, 59), (0.18, 60, 100))  # share, least, greatest
SCENE_S: Final = 34.0  # median length of a scene
SHORTEST_SCENE_S: Final = 8.0
AT_HOME: Final = 0.88  # how often an event happens in a scene where it is expected
LOOKALIKE: Final = 0.6  # how often an asked event has a look-alike in its video; a quarter have two
PASSER_BY: Final = 0.3  # how often a scene contains something that no question asks about


@dataclass(frozen=True, slots=True)
class SceneSpan:
    """A stretch of the video in one place."""

    scene: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Event:
    """What happens in an interval: a sprite acts."""

    sprite: str
    act: str


@dataclass(frozen=True, slots=True)
class VideoWorld:
    """Everything that can be seen in one video."""

    frames: int
    scenes: tuple[SceneSpan, ...]
    tracks: tuple[Track, ...]
    asked: tuple[tuple[Event, ...], ...]  # for each question, the events of its intervals, in order of time


@dataclass(slots=True)
class Draft:
    """A video while it is made: the place of each scene, and the events already used."""

    spans: tuple[tuple[int, int], ...]
    places: list[str | None]
    used: set[str] = field(default_factory=set)

    def at(self, frame: int) -> int:
        """The number of the scene that shows this frame."""
        return next(number for number, (_, last) in enumerate(self.spans) if frame <= last)


def choose_sprites(rng: Rng, draft: Draft, layout: VideoLayout) -> list[tuple[str, ...]]:
    """For each question, the sprite of each of its intervals."""
    asked: dict[int, tuple[str, ...]] = {}
    # A count needs one event at home in many places, so it chooses first.
    for number in sorted(range(len(layout.questions)), key=lambda n: layout.questions[n].family != EVENT_COUNTING):
        question = layout.questions[number]
        choose = _choose_counted if question.family == EVENT_COUNTING else _choose_ordered
        asked[number] = choose(rng, draft, question)
    return [asked[number] for number in range(len(layout.questions))]


def settle_scenes(rng: Rng, draft: Draft) -> tuple[SceneSpan, ...]:
    """The scenes of a video; those without an event get a random place."""
    places = list(vocabulary().scenes)
    return tuple(
        SceneSpan(place or str(rng.choice(places)), *span)
        for place, span in zip(draft.places, draft.spans, strict=True)
    )


def cut_scenes(rng: Rng, frames: int, events: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """First and last frame of each scene. No cut lies in an event or within a second of one."""
    free = np.ones(frames, bool)
    for first, last in events:
        free[max(0, first - FPS) : last + FPS + 1] = False
    free[: round(SHORTEST_SCENE_S * FPS)] = False
    free[frames - round(SHORTEST_SCENE_S * FPS) :] = False
    starts = [0]
    while True:
        wanted = starts[-1] + max(SHORTEST_SCENE_S, SCENE_S * np.exp(0.4 * rng.standard_normal())) * FPS
        later = np.flatnonzero(free[round(wanted) :])
        if not len(later):
            break
        starts.append(round(wanted) + int(later[0]))
    return tuple(zip(starts, [start - 1 for start in starts[1:]] + [frames - 1], strict=True))


def _choose_counted(rng: Rng, draft: Draft, question: QuestionLayout) -> tuple[str, ...]:
    """One event for all intervals: one that is expected in most of the scenes already chosen."""
    numbers = [draft.at(first) for first, _ in question.intervals]
    settled = [place for number in numbers if (place := draft.places[number])]
    free = [event for event in vocabulary().events.values() if event.name not in draft.used]
    fitting = [sum(place in event.homes for place in settled) for event in free]
    event = free[int(rng.choice(np.flatnonzero(np.array(fitting) == max(fitting))))]
    for number in numbers:
        _settle(rng, draft, number, event)
    draft.used.add(event.name)
    return (event.name,) * len(question.intervals)


def _choose_ordered(rng: Rng, draft: Draft, question: QuestionLayout) -> tuple[str, ...]:
    """A different event for each interval, usually expected in its scene."""
    names = []
    for first, _ in question.intervals:
        number = draft.at(first)
        place = draft.places[number]
        free = [event for event in vocabulary().events.values() if event.name not in draft.used]
        home = [event for event in free if place is None or place in event.homes]
        choices = home if home and rng.random() < AT_HOME else free
        event = choices[int(rng.integers(len(choices)))]
        _settle(rng, draft, number, event)
        draft.used.add(event.name)
        names.append(event.name)
    return tuple(names)


def _settle(rng: Rng, draft: Draft, number: int, event: Sprite) -> None:
    """Choose a place for a scene, if it has none: usually one where the event is expected."""
    if draft.places[number] is None:
        choices = event.homes if rng.random() < AT_HOME else tuple(vocabulary().scenes)
        draft.places[number] = str(rng.choice(choices))


def choose_lookalikes(rng: Rng, draft: Draft, scenes: Sequence[SceneSpan]) -> Iterator[tuple[Sprite, tuple[int, int]]]:
    """Sprites that look like an asked event, each with its scene."""
    for name in sorted(draft.used):
        event = vocabulary().events[name]
        choices = [other for other in event.resembles if other not in draft.used]
        if not choices or rng.random() >= LOOKALIKE:
            continue
        home = [number for number, scene in enumerate(scenes) if scene.scene in event.homes]
        for _ in range(1 + int(rng.random() < 0.25)):
            span = draft.spans[int(rng.choice(home or range(len(scenes))))]
            yield vocabulary().sprites[str(rng.choice(choices))], span


def make_passers_by(rng: Rng, draft: Draft) -> list[Track]:
    """Things that no question asks about."""
    free = [sprite for sprite in vocabulary().sprites.values() if sprite.name not in draft.used]
    return [
        make_extra(rng, free[int(rng.integers(len(free)))], span) for span in draft.spans if rng.random() < PASSER_BY
    ]


def make_extra(rng: Rng, sprite: Sprite, span: tuple[int, int], seconds: tuple[float, float] = (3.0, 10.0)) -> Track:
    """Something that is present for some seconds of this stretch."""
    length = min(round(rng.uniform(*seconds) * FPS), span[1] - span[0])
    first = int(rng.integers(span[0], span[1] - length, endpoint=True))
    return make_track(rng, sprite, first, first + length)


def make_track(rng: Rng, sprite: Sprite, first: int, last: int) -> Track:
    """A track of random size and place."""
    size = _draw_size(rng)
    depth = float(np.clip(size / 100 + rng.normal(0.1, 0.2), 0.0, 1.0))
    return Track(
        sprite.name, sprite.motion, first, last, size, float(rng.random()), depth, rightward=bool(rng.random() < 0.5)
    )


def _draw_size(rng: Rng) -> int:
    part = rng.random()
    for share, low, high in SIZES_PX:
        if part < share:
            return int(rng.integers(low, high, endpoint=True))
        part -= share
    return SIZES_PX[-1][2]
