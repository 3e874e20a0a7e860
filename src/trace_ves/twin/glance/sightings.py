"""What eyes report of one picture, what was seen at a moment of a video, and the visits and acts that it shows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from trace_ves.core import Interval

SEEN: Final = 0.4  # a sighting with this score counts as seen; precision and recall are measured at it
GLIMPSED: Final = 0.2  # a sighting with this score is worth another look, and settles nothing

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
    """Everything that eyes report of one picture."""

    sightings: tuple[Sighting, ...] = ()
    scene: str | None = None  # the kind of place, where the eyes are sure of it

    def best(self, name: str) -> Sighting | None:
        """The sighting of this name with the highest score."""
        return max((s for s in self.sightings if s.name == name), key=lambda s: s.score, default=None)

    def score(self, name: str) -> float:
        """How surely something of this name is in the picture; 0 where it is not."""
        best = self.best(name)
        return best.score if best else 0.0

    def shows(self, name: str) -> bool:
        """Whether this is seen: a thing, or the scene itself."""
        return self.score(name) >= SEEN or self.scene == name


Eyes: TypeAlias = "Callable[[NDArray[np.uint8]], View]"  # turns the pixels (height x width x 3) of a picture into it


@dataclass(frozen=True, slots=True)
class Moment:
    """A view, and when in the video it was."""

    seconds: float
    view: View
    aspect: float = 16 / 9  # the picture's width over its height: boxes are parts of its sides


@dataclass(frozen=True, slots=True)
class SeenClip:
    """A clip of the call, after looking."""

    span: Interval
    moments: tuple[Moment, ...]  # in order of time

    @property
    def spacing_seconds(self) -> float:
        """The usual time between two frames; the whole span where there is only one."""
        if len(self.moments) < 2:
            return self.span.length
        return (self.moments[-1].seconds - self.moments[0].seconds) / (len(self.moments) - 1)


AWAY_SECONDS: Final = 4.0  # what is out of sight for no longer has not left its scene: eyes may miss a frame
UNWATCHED_SECONDS: Final = 20.0  # sightings with no frame between are one visit up to here, if scene and size match
MISSED_SECONDS: Final = 10.0  # and sightings with one frame between them that lacks it, on the same terms
SAME_SIZE: Final = 1.25  # two sizes within this ratio are the same


@dataclass(frozen=True, slots=True)
class Visit:
    """One stretch in which a thing was seen: from its first sighting to its last."""

    name: str
    start: float
    end: float
    weight: float = 1.0  # the scores of its sightings, added up

    @property
    def centre(self) -> float:
        """The moment halfway."""
        return (self.start + self.end) / 2


Visits = dict[str, tuple[Visit, ...]]  # the visits of each name, in order of time


def moments_of(clips: Iterable[SeenClip]) -> tuple[Moment, ...]:
    """All moments of some clips in order of time, each once."""
    return tuple(sorted({m.seconds: m for clip in clips for m in clip.moments}.values(), key=lambda m: m.seconds))


def find_visits(names: Iterable[str], moments: Sequence[Moment], *, threshold: float = SEEN) -> Visits:
    """The visits of these names among moments in order of time."""
    return {name: _visits(name, moments, threshold) for name in names}


def _visits(name: str, moments: Sequence[Moment], threshold: float) -> tuple[Visit, ...]:
    found: list[Visit] = []
    last_place = -1
    for place, moment in enumerate(moments):
        sighting = _sighting(name, moment)
        if sighting is None or sighting.score < threshold:
            continue
        if found and _is_same_visit(name, moments[last_place : place + 1]):
            found[-1] = Visit(name, found[-1].start, moment.seconds, found[-1].weight + sighting.score)
        else:
            found.append(Visit(name, moment.seconds, moment.seconds, sighting.score))
        last_place = place
    return tuple(found)


def _sighting(name: str, moment: Moment) -> Sighting | None:
    return Sighting(name, 1.0) if moment.view.scene == name else moment.view.best(name)


def _is_same_visit(name: str, stretch: Sequence[Moment]) -> bool:
    """Whether the thing in the first and in the last of these moments, and in none between, never left."""
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
    """Visits from several reports as one account: those of a name that touch, or nearly, are one."""
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
    """The visit with the greatest weight, the earliest among equals."""
    return max(visits, key=lambda visit: (visit.weight, -visit.start), default=None)


def sort_visits(visits: Mapping[str, Sequence[Visit]]) -> list[Visit]:
    """All visits in order of time."""
    return sorted((visit for group in visits.values() for visit in group), key=lambda visit: (visit.start, visit.end))


Way = Literal["across", "up", "growth"]

CLOSE_SECONDS: Final = 5.1  # frames so far apart can show a change: five seconds, and a frame's worth
# 0.35 and 1.25 find 2 to 8 points more of the acts and two to six times as many that are none: tools/measure_acts.py
MOVED: Final = 0.5  # what moved by this part of its longer side, across or up, has not just swayed
GROWN: Final = 1.35  # what is larger by this factor has grown
STILL_SECONDS: Final = 6.0  # of stillness end an act: two frames of an act can look alike by chance
UNWATCHED_SECONDS_ACTS: Final = 10.0  # bouts of an act with nothing seen between them are one up to here, in one scene


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thing is in a picture, and how large; all as parts of the picture's height."""

    across: float  # the middle of its box
    foot: float
    size: float  # its longer side


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

    bouts: tuple[tuple[str, Visit], ...] = ()  # each act with its time, in order of time
    rests: tuple[Visit, ...] = ()  # where it was seen to be at rest
    unsettled: tuple[Visit, ...] = ()  # where it was seen, and nothing tells what it did

    def doing(self, act: str) -> tuple[Visit, ...]:
        """When it did this."""
        return tuple(visit for done, visit in self.bouts if done == act)


def observe_conduct(name: str, moments: Sequence[Moment]) -> Conduct:
    """What the thing of this name did, among moments in order of time."""
    best = ((moment, moment.view.best(name)) for moment in moments)
    seen = [(moment, sighting) for moment, sighting in best if sighting is not None and sighting.score >= SEEN]
    runs = _runs([_pair(*earlier, *later) for earlier, later in pairwise(seen)])
    bouts = _merge_bouts([list(_bouts(name, run)) for run in runs])
    paired = {m.seconds for run in runs for pair in run for m in (pair.before, pair.after)}
    rests = tuple(_visit(name, run) for run in runs if not any(pair.changed for pair in run))
    alone = (Visit(name, m.seconds, m.seconds, s.score) for m, s in seen if m.seconds not in paired)
    return Conduct(tuple((act, visit) for act, visit, _ in bouts), rests, tuple(alone))


def _pair(before: Moment, one: Sighting, after: Moment, other: Sighting) -> Pair | None:
    """The pair, or None where they are too far apart or in different scenes."""
    if after.seconds - before.seconds > CLOSE_SECONDS or not _one_scene(before, after):
        return None
    return Pair(before, after, (_locate(one, before.aspect), _locate(other, after.aspect)), other.score)


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


def _locate(sighting: Sighting, aspect: float) -> Place:
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


Bout = tuple[str, Visit, "Moment"]  # an act, its time, and the last moment of it


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


def _merge_bouts(runs: Sequence[Sequence[Bout]]) -> list[Bout]:
    """The bouts of all runs; two of one act with nothing seen between them are one if they are near, in one scene."""
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
