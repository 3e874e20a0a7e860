"""From sightings in single frames to acts: the one rule by which something acts, rests, or was only seen.

The same for every method and stage. Two sightings at most `CLOSE_SECONDS` apart are a pair. A pair between which the
thing moved or grew shows an act, any other shows rest, and a sighting without a partner settles nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Final, Literal

from trace_ves.backbone.glance.sightings import SEEN
from trace_ves.backbone.glance.visits import Visit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trace_ves.backbone.glance.sightings import Moment, Sighting

Way = Literal["across", "up", "growth"]

CLOSE_SECONDS: Final = 5.1
"""Frames so far apart can show a change: five seconds, and a frame's worth."""
MOVED: Final = 0.5
"""What moved by this part of its longer side, across or up, has not just swayed."""
GROWN: Final = 1.35
"""What is larger by this factor has grown."""
STILL_SECONDS: Final = 6.0
"""An act is over when it has been still for longer than this: two frames of an act can look alike by chance."""
UNWATCHED_SECONDS: Final = 10.0
"""Two bouts of an act with nothing seen between them are one up to this far apart, in one scene."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thing is in a picture, and how large; all as parts of the picture's height."""

    across: float
    """The middle of its box."""
    foot: float
    size: float
    """Its longer side."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sightings of a thing, one after the other and close."""

    before: Moment
    after: Moment
    places: tuple[Place, Place]
    weight: float

    @property
    def changed(self) -> bool:
        """Whether it moved or grew between them."""
        return bool(ways_between(self.places))


@dataclass(frozen=True, slots=True)
class Conduct:
    """What a thing was seen to do."""

    bouts: tuple[tuple[str, Visit], ...] = ()
    """Each act with its time, in order of time."""
    rests: tuple[Visit, ...] = ()
    """Where it was told to be at rest."""
    unsettled: tuple[Visit, ...] = ()
    """Where it was seen, and nothing tells what it did."""

    def doing(self, act: str) -> tuple[Visit, ...]:
        """When it did this."""
        return tuple(visit for done, visit in self.bouts if done == act)


def conduct_of(name: str, moments: Sequence[Moment]) -> Conduct:
    """What the thing of this name did, among moments in order of time."""
    seen = [(moment, sighting) for moment in moments if (sighting := _seen(name, moment))]
    runs = _runs([_pair(*earlier, *later) for earlier, later in pairwise(seen)])
    bouts = _merged([list(_bouts(name, run)) for run in runs])
    paired = {m.seconds for run in runs for pair in run for m in (pair.before, pair.after)}
    rests = tuple(_visit(name, run) for run in runs if not any(pair.changed for pair in run))
    alone = (Visit(name, m.seconds, m.seconds, s.score) for m, s in seen if m.seconds not in paired)
    return Conduct(tuple((act, visit) for act, visit, _ in bouts), rests, tuple(alone))


def _seen(name: str, moment: Moment) -> Sighting | None:
    sighting = moment.view.best(name)
    return sighting if sighting is not None and sighting.score >= SEEN else None


def _pair(before: Moment, one: Sighting, after: Moment, other: Sighting) -> Pair | None:
    """The pair, or None where they are too far apart or in different scenes."""
    if after.seconds - before.seconds > CLOSE_SECONDS or not _one_scene(before, after):
        return None
    return Pair(before, after, (_placed(one, before.aspect), _placed(other, after.aspect)), other.score)


def ways_between(places: Sequence[Place]) -> frozenset[Way]:
    """How a thing changed among these places; not at all at rest."""
    sizes = [place.size for place in places]
    unit = max(fmean(sizes), 1e-9)
    gone: dict[Way, bool] = {
        "across": _spread([place.across for place in places]) > MOVED * unit,
        "up": _spread([place.foot for place in places]) > MOVED * unit,
        "growth": max(sizes) > GROWN * max(min(sizes), 1e-9),
    }
    return frozenset(way for way, far in gone.items() if far)


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _placed(sighting: Sighting, aspect: float) -> Place:
    left, top, right, bottom = sighting.box
    return Place(aspect * (left + right) / 2, bottom, max(aspect * (right - left), bottom - top))


def _one_scene(one: Moment, other: Moment) -> bool:
    return len({one.view.scene, other.view.scene} - {None}) < 2


def _runs(pairs: Sequence[Pair | None]) -> list[list[Pair]]:
    """Pairs that follow one another without a gap."""
    runs: list[list[Pair]] = [[]]
    for pair in pairs:
        if pair is None:
            runs.append([])
        else:
            runs[-1].append(pair)
    return [run for run in runs if run]


Bout = tuple[str, Visit, "Moment"]
"""An act, its time, and the last moment of it."""


def _bouts(name: str, run: Sequence[Pair]) -> Iterator[Bout]:
    """The acts of a run: pairs that show a change, together while it was not still for long between them."""
    bout: list[Pair] = []
    for pair in (pair for pair in run if pair.changed):
        if bout and pair.before.seconds - bout[-1].after.seconds > STILL_SECONDS:
            yield _act(bout), _visit(name, bout), bout[-1].after
            bout = []
        bout.append(pair)
    if bout:
        yield _act(bout), _visit(name, bout), bout[-1].after


def _act(pairs: Sequence[Pair]) -> str:
    """The act that goes the ways gone between any two of these sightings."""
    ways = ways_between([place for pair in pairs for place in pair.places])
    if {"across", "up"} <= ways:
        return "dance"
    return "dash" if "across" in ways else "jump" if "up" in ways else "swell"


def _visit(name: str, pairs: Sequence[Pair]) -> Visit:
    return Visit(name, pairs[0].before.seconds, pairs[-1].after.seconds, sum(pair.weight for pair in pairs))


def _merged(runs: Sequence[Sequence[Bout]]) -> list[Bout]:
    """The bouts of all runs; two of one act with nothing seen between them are one if they are near, in one scene."""
    merged: list[Bout] = []
    for run in runs:
        rest = list(run)
        if merged and rest and _is_same_bout(merged[-1], rest[0]):
            (act, last, _), (_, visit, moment) = merged[-1], rest.pop(0)
            merged[-1] = act, Visit(visit.name, last.start, visit.end, last.weight + visit.weight), moment
        merged += rest
    return merged


def _is_same_bout(earlier: Bout, later: Bout) -> bool:
    near = later[1].start - earlier[1].end <= UNWATCHED_SECONDS
    return near and earlier[0] == later[0] and _one_scene(earlier[2], later[2])
