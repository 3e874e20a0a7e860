"""A world of actors: questions ask about acts, and the actor is also at rest before, after and elsewhere.

For every act there are other stretches in which it could have happened, so presence does not reveal the act.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from trace_ves.core import EVENT_COUNTING
from trace_ves.twin.synthetic.layout import FITTED, FPS, OPTIONS, QuestionLayout, VideoLayout
from trace_ves.twin.synthetic.tracks import ACTS, REST, Act, Track
from trace_ves.twin.synthetic.vocabulary import Sprite, vocabulary

Rng = np.random.Generator
Span = tuple[int, int]

SIZES_PX: Final = ((0.14, 14, 19), (0.32, 20, 33), (0.36, 34, 59), (0.18, 60, 100))  # share, least, greatest
SCENE_S: Final = 34.0  # median length of a scene
SHORTEST_SCENE_S: Final = 8.0
AT_HOME: Final = 0.88  # how often an event happens in a scene where it is expected
LOOKALIKE: Final = 0.6  # how often an asked event has a look-alike in its video; a quarter have two
PASSER_BY: Final = 0.3  # how often a scene contains something that no question asks about
CLOSED_DECOYS: Final = 2.0  # from this number of rests per actor on, presence reveals nothing about the answer
AROUND_S: Final = (4.0, 14.0)  # how long an actor rests before and after its act
OTHER_ACT: Final = 0.3  # how often an actor does something else where the asked act could have happened
SPARE_S: Final = (5.0, 15.0)  # length of look-alikes and of extra rests
LOOKALIKE_ACTS: Final = 0.5  # how often a look-alike acts


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

    spans: tuple[Span, ...]
    places: list[str | None]
    used: set[str] = field(default_factory=set)

    def at(self, frame: int) -> int:
        """The number of the scene that shows this frame."""
        return next(number for number, (_, last) in enumerate(self.spans) if frame <= last)


@dataclass(frozen=True, slots=True)
class Hints:
    """How much the world hints at its events."""

    around: float = 0.8  # share of acts with a rest before and after
    elsewhere: float = CLOSED_DECOYS  # mean number of rests elsewhere per actor


@dataclass(frozen=True, slots=True)
class Chance:
    """A stretch in which an actor acts, or could have acted."""

    span: Span
    actor: int  # index of the actor, which is that of its interval; 0 for a count
    real: bool


@dataclass(frozen=True, slots=True)
class Stay:
    """A stretch in which an actor is present, around one chance."""

    scene: Span
    span: Span
    act: Act | None


def make_world(layout: VideoLayout, ids: Sequence[str], seed: Sequence[int], hints: Hints) -> VideoWorld:
    """A world for this layout and the ids of its questions; the same seed gives the same world."""
    rng = np.random.default_rng(seed)
    chances = [
        _draw_counted(rng, question, layout.frames, hints)
        if question.family == EVENT_COUNTING
        else _draw_ordered(rng, question, hints)
        for question in layout.questions
    ]
    chances = [_add_spare(rng, group, layout.frames, hints) for group in chances]
    spans = _cut_scenes(rng, layout.frames, [chance.span for group in chances for chance in group])
    draft = Draft(spans, [None] * len(spans))
    sprites = _choose_sprites(rng, draft, layout)
    places = list(vocabulary().scenes)
    scenes = tuple(  # those without an event get a random place
        SceneSpan(place or str(rng.choice(places)), *span) for place, span in zip(draft.places, spans, strict=True)
    )
    asked = [_choose_acts(rng, question, names) for question, names in zip(layout.questions, sprites, strict=True)]
    tracks = [
        track
        for number, group in enumerate(chances)
        for actor in sorted({chance.actor for chance in group})
        for track in _make_tracks(
            rng, ids[number], asked[number][actor], [c for c in group if c.actor == actor], scenes=spans, hints=hints
        )
    ]
    extras = [*_make_lookalikes(rng, draft, scenes), *_make_passers_by(rng, draft)]
    return VideoWorld(layout.frames, scenes, (*extras, *tracks), tuple(asked))


def _choose_acts(rng: Rng, question: QuestionLayout, sprites: Sequence[str]) -> tuple[Event, ...]:
    """What happens in each interval; a count has the same act each time."""
    acts = [str(act) for act in rng.choice(list(ACTS), len(sprites))]
    return tuple(map(Event, sprites, acts[:1] * len(acts) if question.family == EVENT_COUNTING else acts))


def _is_visible(rng: Rng, hints: Hints) -> bool:
    """Whether the actor is present at a chance where it does not act: below `CLOSED_DECOYS` only at some."""
    return bool(rng.random() < hints.elsewhere / CLOSED_DECOYS)


def _draw_ordered(rng: Rng, question: QuestionLayout, hints: Hints) -> list[Chance]:
    """All actors of an order are present in each of its intervals, and one of them acts."""
    return [
        Chance(span, actor, actor == place)
        for place, span in enumerate(question.intervals)
        for actor in range(len(question.intervals))
        if actor == place or _is_visible(rng, hints)
    ]


def _draw_counted(rng: Rng, question: QuestionLayout, frames: int, hints: Hints) -> list[Chance]:
    """Whatever the true count is, the number of chances is the highest option or one more."""
    lengths = [last - first for first, last in question.intervals]
    highest = question.lowest_option + OPTIONS - 1
    taken = list(question.intervals)
    for _ in range(highest - len(lengths) + int(rng.random() < 0.5)):
        spread = float(np.exp(FITTED.counting_sigma_within * rng.standard_normal()))
        span = _find_room(rng, taken, round(float(rng.choice(lengths)) * spread), frames)
        if span is not None and _is_visible(rng, hints):
            taken.append(span)
    return [Chance(span, 0, number < len(lengths)) for number, span in enumerate(taken)]


def _add_spare(rng: Rng, chances: list[Chance], frames: int, hints: Hints) -> list[Chance]:
    """The chances, with extra rests anywhere else."""
    number = max(0.0, hints.elsewhere - CLOSED_DECOYS)
    spare = list(chances)
    for actor in sorted({chance.actor for chance in chances}):
        for _ in range(int(number) + int(rng.random() < number % 1)):
            taken = [chance.span for chance in spare if chance.actor == actor]
            if span := _find_room(rng, taken, round(rng.uniform(*SPARE_S) * FPS), frames):
                spare.append(Chance(span, actor, real=False))
    return spare


def _find_room(rng: Rng, taken: Sequence[Span], length: int, frames: int) -> Span | None:
    """A free stretch of this length, or shorter, away from what is taken; None if there is no room."""
    gap, margin, shortest = (round(s * FPS) for s in (FITTED.gap_s, FITTED.margin_s, FITTED.shortest_s))
    starts = [margin, *(last + gap for _, last in sorted(taken))]
    ends = [*(first - gap for first, _ in sorted(taken)), frames - 1 - margin]
    room = np.array(ends) - np.array(starts)
    length = min(max(length, shortest), int(room.max()))
    if length < shortest:
        return None
    free = np.maximum(room - length + 1, 0)
    place = int(rng.choice(len(free), p=free / free.sum()))
    first = starts[place] + int(rng.integers(free[place]))
    return first, first + length


def _make_tracks(
    rng: Rng, question: str, event: Event, chances: Sequence[Chance], *, scenes: Sequence[Span], hints: Hints
) -> Iterator[Track]:
    """The tracks of an actor: one for each stretch in which it is present, with its acts."""
    groups: list[list[Stay]] = []
    for chance in sorted(chances, key=lambda chance: chance.span):
        act: str | None = event.act
        if not chance.real:
            others = [other for other in ACTS if other != event.act]
            act = str(rng.choice(others)) if rng.random() < OTHER_ACT else None
        scene = next(each for each in scenes if chance.span[0] <= each[1])
        span = chance.span
        before, after = (round(seconds * FPS) for seconds in rng.uniform(*AROUND_S, 2))
        if rng.random() < hints.around:
            span = max(scene[0], span[0] - before), min(scene[1], span[1] + after)
        evidence_for = question if chance.real else None
        stay = Stay(scene, span, Act(act, *chance.span, evidence_for) if act else None)
        # stretches that touch are one: an actor that rests until its next act does not leave
        if groups and scene == groups[-1][-1].scene and span[0] <= groups[-1][-1].span[1] + 1:
            groups[-1].append(stay)
        else:
            groups.append([stay])
    for joined in groups:
        first, last = joined[0].span[0], max(stay.span[1] for stay in joined)
        track = _make_track(rng, vocabulary().sprites[event.sprite], first, last)
        yield replace(track, motion=REST, acts=tuple(stay.act for stay in joined if stay.act))


def _choose_sprites(rng: Rng, draft: Draft, layout: VideoLayout) -> list[tuple[str, ...]]:
    """For each question, the sprite of each of its intervals."""
    asked: dict[int, tuple[str, ...]] = {}
    # A count needs one event at home in many places, so it chooses first.
    for number in sorted(range(len(layout.questions)), key=lambda n: layout.questions[n].family != EVENT_COUNTING):
        question = layout.questions[number]
        choose = _choose_counted if question.family == EVENT_COUNTING else _choose_ordered
        asked[number] = choose(rng, draft, question)
    return [asked[number] for number in range(len(layout.questions))]


def _cut_scenes(rng: Rng, frames: int, events: Iterable[Span]) -> tuple[Span, ...]:
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


def _make_lookalikes(rng: Rng, draft: Draft, scenes: Sequence[SceneSpan]) -> Iterator[Track]:
    """Sprites at rest that look like an asked event; every other one also acts."""
    for name in sorted(draft.used):
        event = vocabulary().events[name]
        choices = [other for other in event.resembles if other not in draft.used]
        if not choices or rng.random() >= LOOKALIKE:
            continue
        home = [number for number, scene in enumerate(scenes) if scene.scene in event.homes]
        for _ in range(1 + int(rng.random() < 0.25)):
            span = draft.spans[int(rng.choice(home or range(len(scenes))))]
            sprite = vocabulary().sprites[str(rng.choice(choices))]
            track = replace(_make_extra(rng, sprite, span, SPARE_S), motion=REST)
            if rng.random() < LOOKALIKE_ACTS:
                quarter = (track.last - track.first) // 4
                act = Act(str(rng.choice(list(ACTS))), track.first + quarter, track.last - quarter)
                track = replace(track, acts=(act,))
            yield track


def _make_passers_by(rng: Rng, draft: Draft) -> list[Track]:
    """Things that no question asks about."""
    free = [sprite for sprite in vocabulary().sprites.values() if sprite.name not in draft.used]
    return [
        _make_extra(rng, free[int(rng.integers(len(free)))], span) for span in draft.spans if rng.random() < PASSER_BY
    ]


def _make_extra(rng: Rng, sprite: Sprite, span: Span, seconds: tuple[float, float] = (3.0, 10.0)) -> Track:
    """Something that is present for some seconds of this stretch."""
    length = min(round(rng.uniform(*seconds) * FPS), span[1] - span[0])
    first = int(rng.integers(span[0], span[1] - length, endpoint=True))
    return _make_track(rng, sprite, first, first + length)


def _make_track(rng: Rng, sprite: Sprite, first: int, last: int) -> Track:
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
