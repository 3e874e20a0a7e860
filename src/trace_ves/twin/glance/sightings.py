"""Sightings in one picture and in the moments of a video, and the visits and acts that they show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trace_ves.core import Interval

SEEN: Final = 0.4  # from this score on something counts as seen; precision and recall are measured here
GLIMPSED: Final = 0.2  # from this score on a sighting is worth another look, but settles nothing

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One thing in one picture."""

    name: str
    score: float  # from 0 to 1
    box: Box = (0.0, 0.0, 0.0, 0.0)  # left, top, right, bottom, as parts of the picture's sides

    @property
    def size(self) -> float:
        """The longer side of the box, as a part of the picture's side."""
        left, top, right, bottom = self.box
        return max(right - left, bottom - top)


@dataclass(frozen=True, slots=True)
class View:
    """Everything that the eyes report about one picture."""

    sightings: tuple[Sighting, ...] = ()
    scene: str | None = None  # the kind of place, if the eyes are sure

    def best(self, name: str) -> Sighting | None:
        """The sighting of this name with the highest score."""
        return max((s for s in self.sightings if s.name == name), key=lambda s: s.score, default=None)

    def score(self, name: str) -> float:
        """How surely something of this name is in the picture; 0 if it is not there."""
        best = self.best(name)
        return best.score if best else 0.0

    def shows(self, name: str) -> bool:
        """Whether this thing or scene is seen."""
        return self.score(name) >= SEEN or self.scene == name


Eyes: TypeAlias = "Callable[[NDArray[np.uint8]], View]"  # from pixels (height x width x 3) to a view


@dataclass(frozen=True, slots=True)
class Moment:
    """A view and its time in the video."""

    seconds: float
    view: View
    aspect: float = 16 / 9  # width over height


@dataclass(frozen=True, slots=True)
class SeenClip:
    """A clip of the call with what was seen in it."""

    span: Interval
    moments: tuple[Moment, ...]  # in order of time

    @property
    def spacing_seconds(self) -> float:
        """The mean time between two frames; the whole span if there is only one."""
        if len(self.moments) < 2:
            return self.span.length
        return (self.moments[-1].seconds - self.moments[0].seconds) / (len(self.moments) - 1)


AWAY_SECONDS: Final = 4.0  # shorter gaps do not end a visit: the eyes may miss a frame
UNWATCHED_SECONDS: Final = 20.0  # longest gap in a visit without a frame in between, if scene and size match
MISSED_SECONDS: Final = 10.0  # the same with one frame in between that does not show it
SAME_SIZE: Final = 1.25  # two sizes within this ratio are the same


@dataclass(frozen=True, slots=True)
class Visit:
    """A stretch in which a thing was seen, from its first sighting to its last."""

    name: str
    start: float
    end: float
    weight: float = 1.0  # sum of the scores of its sightings

    @property
    def centre(self) -> float:
        """The moment halfway."""
        return (self.start + self.end) / 2


Visits = dict[str, tuple[Visit, ...]]  # the visits of each name, in order of time


def moments_of(clips: Iterable[SeenClip]) -> tuple[Moment, ...]:
    """All moments of these clips in order of time, each once."""
    return tuple(sorted({m.seconds: m for clip in clips for m in clip.moments}.values(), key=lambda m: m.seconds))


def find_visits(names: Iterable[str], moments: Sequence[Moment], *, threshold: float = SEEN) -> Visits:
    """The visits of these names among moments in order of time."""
    return {name: _visits(name, moments, threshold) for name in names}


def _visits(name: str, moments: Sequence[Moment], threshold: float) -> tuple[Visit, ...]:
    visits: list[Visit] = []
    last_place = -1
    for place, moment in enumerate(moments):
        sighting = _sighting(name, moment)
        if sighting is None or sighting.score < threshold:
            continue
        if visits and _is_same_visit(name, moments[last_place : place + 1]):
            visits[-1] = Visit(name, visits[-1].start, moment.seconds, visits[-1].weight + sighting.score)
        else:
            visits.append(Visit(name, moment.seconds, moment.seconds, sighting.score))
        last_place = place
    return tuple(visits)


def _sighting(name: str, moment: Moment) -> Sighting | None:
    return Sighting(name, 1.0) if moment.view.scene == name else moment.view.best(name)


def _is_same_visit(name: str, stretch: Sequence[Moment]) -> bool:
    """Whether the thing stayed between the first and the last of these moments; those between do not show it."""
    before, after = stretch[0], stretch[-1]
    seconds = after.seconds - before.seconds
    if not _one_scene(before, after):
        return False
    if seconds <= AWAY_SECONDS:
        return True
    sizes = [sighting.size for moment in (before, after) if (sighting := _sighting(name, moment))]
    longest = {0: UNWATCHED_SECONDS, 1: MISSED_SECONDS}.get(len(stretch) - 2, 0.0)
    return seconds <= longest and max(sizes) <= SAME_SIZE * max(min(sizes), 1e-9)


def merge_visits(pieces: Iterable[Visit]) -> Visits:
    """Merge the visits of several reports: those of a name that touch, or nearly touch, become one."""
    account: dict[str, list[Visit]] = {}
    for piece in sorted(pieces, key=lambda visit: (visit.start, visit.end)):
        known = account.setdefault(piece.name, [])
        if known and piece.start <= known[-1].end + AWAY_SECONDS:
            last = known[-1]
            known[-1] = Visit(piece.name, last.start, max(last.end, piece.end), max(last.weight, piece.weight))
        else:
            known.append(piece)
    return {name: tuple(known) for name, known in account.items()}


def strongest(visits: Sequence[Visit]) -> Visit | None:
    """The visit with the greatest weight; the earliest of equal ones."""
    return max(visits, key=lambda visit: (visit.weight, -visit.start), default=None)


def sort_visits(visits: Mapping[str, Sequence[Visit]]) -> list[Visit]:
    """All visits in order of time."""
    return sorted((visit for group in visits.values() for visit in group), key=lambda visit: (visit.start, visit.end))


Way = Literal["across", "up", "growth"]

CLOSE_SECONDS: Final = 5.1  # frames at most this far apart can show a change: five seconds and a frame
# 0.35 and 1.25 find 2 to 8 points more of the acts, with two to six times as many errors: tools/measure_acts.py
MOVED: Final = 0.5  # a move, across or up, as a part of its longer side; less is swaying
GROWN: Final = 1.35  # growth, as a factor
STILL_SECONDS: Final = 6.0  # a longer rest ends an act; two frames of an act can look alike by chance
UNWATCHED_SECONDS_ACTS: Final = 10.0  # longest gap in an act with nothing seen in between, in one scene


@dataclass(frozen=True, slots=True)
class Spot:
    """One sighting of a thing, with its position and size as parts of the picture's height."""

    moment: Moment
    score: float
    across: float  # the middle of its box
    foot: float
    size: float  # its longer side


Pair = tuple[Spot, Spot]  # two consecutive sightings that are close in time


@dataclass(frozen=True, slots=True)
class Conduct:
    """What a thing did, as far as it was seen."""

    bouts: tuple[tuple[str, Visit], ...] = ()  # each act with its time, in order of time
    rests: tuple[Visit, ...] = ()  # when it was at rest
    unsettled: tuple[Visit, ...] = ()  # when it was seen, but what it did is unclear

    def doing(self, act: str) -> tuple[Visit, ...]:
        """When it did this."""
        return tuple(visit for done, visit in self.bouts if done == act)


def observe_conduct(name: str, moments: Sequence[Moment]) -> Conduct:
    """What the thing of this name did, among moments in order of time."""
    stretches: list[list[Spot]] = []  # sightings that are close in time and in one scene
    for moment in moments:
        sighting = moment.view.best(name)
        if sighting is None or sighting.score < SEEN:
            continue
        left, top, right, bottom = sighting.box
        across, size = moment.aspect * (left + right) / 2, max(moment.aspect * (right - left), bottom - top)
        before = stretches[-1][-1].moment if stretches else None
        if before is None or moment.seconds - before.seconds > CLOSE_SECONDS or not _one_scene(before, moment):
            stretches.append([])
        stretches[-1].append(Spot(moment, sighting.score, across, bottom, size))
    alone = tuple(_visit(name, [(spot, spot)]) for spot, *others in stretches if not others)
    runs = [list(pairwise(stretch)) for stretch in stretches if len(stretch) > 1]
    rests = tuple(_visit(name, run) for run in runs if not any(map(ways_between, run)))
    bouts = _merge_bouts([_bouts(name, run) for run in runs])
    return Conduct(tuple((act, visit) for act, visit, _ in bouts), rests, alone)


def ways_between(spots: Sequence[Spot]) -> frozenset[Way]:
    """How a thing changed between these sightings; empty at rest."""
    across, feet, sizes = zip(*((spot.across, spot.foot, spot.size) for spot in spots), strict=True)
    unit = max(fmean(sizes), 1e-9)
    gone: dict[Way, bool] = {
        "across": max(across) - min(across) > MOVED * unit,
        "up": max(feet) - min(feet) > MOVED * unit,
        "growth": max(sizes) > GROWN * max(min(sizes), 1e-9),
    }
    return frozenset(way for way, far in gone.items() if far)


def _one_scene(one: Moment, other: Moment) -> bool:
    return len({one.view.scene, other.view.scene} - {None}) < 2


Bout = tuple[str, Visit, "Moment"]  # an act, its time, and the last moment of it


def _bouts(name: str, run: Sequence[Pair]) -> list[Bout]:
    """The acts of a run: pairs that show a change, with no long rest in between."""
    bouts: list[list[Pair]] = []
    for before, after in filter(ways_between, run):
        if not bouts or before.moment.seconds - bouts[-1][-1][1].moment.seconds > STILL_SECONDS:
            bouts.append([])
        bouts[-1].append((before, after))
    return [(_act(bout), _visit(name, bout), bout[-1][1].moment) for bout in bouts]


def _act(pairs: Sequence[Pair]) -> str:
    """The act that explains how these sightings differ."""
    ways = ways_between([spot for pair in pairs for spot in pair])
    if {"across", "up"} <= ways:
        return "dance"
    return "dash" if "across" in ways else "jump" if "up" in ways else "swell"


def _visit(name: str, pairs: Sequence[Pair]) -> Visit:
    start, end = pairs[0][0].moment.seconds, pairs[-1][1].moment.seconds
    return Visit(name, start, end, sum(after.score for _, after in pairs))


def _merge_bouts(runs: Sequence[Sequence[Bout]]) -> list[Bout]:
    """The bouts of all runs; close bouts of one act in one scene, with nothing seen in between, become one."""
    merged: list[Bout] = []
    for run in runs:
        rest = list(run)
        if merged and rest:
            (act, last, before), (next_act, visit, after) = merged[-1], rest[0]
            near = visit.start - last.end <= UNWATCHED_SECONDS_ACTS
            if near and act == next_act and _one_scene(before, after):
                merged[-1] = act, Visit(visit.name, last.start, visit.end, last.weight + visit.weight), after
                del rest[0]
        merged += rest
    return merged
