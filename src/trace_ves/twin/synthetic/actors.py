"""A world of actors: questions ask about acts, and the actor is also at rest before, after and elsewhere.

For every act there are other stretches in which it could have happened, so presence does not reveal the act.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core import EVENT_COUNTING, InputError
from trace_ves.twin.synthetic.layout import FITTED, FPS, OPTIONS
from trace_ves.twin.synthetic.tracks import ACTS, REST, Act
from trace_ves.twin.synthetic.vocabulary import vocabulary
from trace_ves.twin.synthetic.world import (
    Draft,
    Event,
    VideoWorld,
    choose_lookalikes,
    choose_sprites,
    cut_scenes,
    make_extra,
    make_passers_by,
    make_track,
    settle_scenes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trace_ves.twin.synthetic.layout import QuestionLayout, VideoLayout
    from trace_ves.twin.synthetic.tracks import Track
    from trace_ves.twin.synthetic.vocabulary import Sprite

Rng = np.random.Generator
Span = tuple[int, int]

CLOSED_DECOYS: Final = 2.0  # from this number of rests per actor on, presence reveals nothing about the answer
AROUND_S: Final = (4.0, 14.0)  # how long an actor rests before and after its act
OTHER_ACT: Final = 0.3  # how often an actor does something else where the asked act could have happened
SPARE_S: Final = (5.0, 15.0)  # length of look-alikes and of extra rests
LOOKALIKE_ACTS: Final = 0.5  # how often a look-alike acts


@dataclass(frozen=True, slots=True)
class Hints:
    """How much the world hints at its events."""

    around: float = 0.8  # share of acts with a rest before and after
    elsewhere: float = CLOSED_DECOYS  # mean number of rests elsewhere per actor

    def __post_init__(self) -> None:
        if not (0 <= self.around <= 1 and 0 <= self.elsewhere <= 20):
            raise InputError("A twin needs hints from 0 to 1 and decoys from 0 to 20.")


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


def make_world(layout: VideoLayout, seed: Sequence[int], hints: Hints) -> VideoWorld:
    """A world for this layout; the same seed gives the same world."""
    rng = np.random.default_rng(seed)
    chances = [
        _draw_counted(rng, question, layout.frames, hints)
        if question.family == EVENT_COUNTING
        else _draw_ordered(rng, question, hints)
        for question in layout.questions
    ]
    chances = [_add_spare(rng, group, layout.frames, hints) for group in chances]
    spans = cut_scenes(rng, layout.frames, [chance.span for group in chances for chance in group])
    draft = Draft(spans, [None] * len(spans))
    sprites = choose_sprites(rng, draft, layout)
    scenes = settle_scenes(rng, draft)
    asked = [_choose_acts(rng, question, names) for question, names in zip(layout.questions, sprites, strict=True)]
    tracks = [
        track
        for number, group in enumerate(chances)
        for actor in sorted({chance.actor for chance in group})
        for track in _make_tracks(
            rng, number, asked[number][actor], [c for c in group if c.actor == actor], scenes=spans, hints=hints
        )
    ]
    extras = [_make_lookalike(rng, sprite, span) for sprite, span in choose_lookalikes(rng, draft, scenes)]
    extras += make_passers_by(rng, draft)
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
    rng: Rng, question: int, event: Event, chances: Sequence[Chance], *, scenes: Sequence[Span], hints: Hints
) -> Iterator[Track]:
    """The tracks of an actor: one for each stretch in which it is present, with its acts."""
    stays: list[Stay] = []
    for chance in sorted(chances, key=lambda chance: chance.span):
        act: str | None = event.act
        if not chance.real:
            others = [other for other in ACTS if other != event.act]
            act = str(rng.choice(others)) if rng.random() < OTHER_ACT else None
        scene = next(each for each in scenes if chance.span[0] <= each[1])
        span = _add_rest(rng, chance.span, scene, hints)
        evidence_for = question if chance.real else None
        stays.append(Stay(scene, span, Act(act, *chance.span, evidence_for) if act else None))
    for joined in _join_stays(stays):
        first, last = joined[0].span[0], max(stay.span[1] for stay in joined)
        track = make_track(rng, vocabulary().sprites[event.sprite], first, last)
        yield replace(track, motion=REST, acts=tuple(stay.act for stay in joined if stay.act))


def _add_rest(rng: Rng, span: Span, scene: Span, hints: Hints) -> Span:
    """The stretch, usually with a rest before and after it, within its scene."""
    before, after = (round(seconds * FPS) for seconds in rng.uniform(*AROUND_S, 2))
    if rng.random() >= hints.around:
        return span
    return max(scene[0], span[0] - before), min(scene[1], span[1] + after)


def _join_stays(stays: Sequence[Stay]) -> list[list[Stay]]:
    """Join stretches that touch: an actor that rests until its next act does not leave."""
    groups: list[list[Stay]] = []
    for stay in stays:
        if groups and stay.scene == groups[-1][0].scene and stay.span[0] <= groups[-1][-1].span[1] + 1:
            groups[-1].append(stay)
        else:
            groups.append([stay])
    return groups


def _make_lookalike(rng: Rng, sprite: Sprite, scene: Span) -> Track:
    """A look-alike at rest; every other one also acts."""
    track = replace(make_extra(rng, sprite, scene, SPARE_S), motion=REST)
    if rng.random() >= LOOKALIKE_ACTS:
        return track
    quarter = (track.last - track.first) // 4
    act = Act(str(rng.choice(list(ACTS))), track.first + quarter, track.last - quarter)
    return replace(track, acts=(act,))
