"""From sightings in single frames to acts: the one rule by which something acts, rests, or was only seen.

The same for every method and stage. Two sightings no farther apart than `CLOSE_SECONDS` are a pair; a pair between which
the thing moved or grew shows an act, any other shows rest, and a sighting without a partner settles nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
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
GROWN: Final = 1.25
"""What is larger by this factor has grown."""
STILL_SECONDS: Final = 6.0
"""An act is over when it has been still for longer than this: two frames of an act can look alike by chance."""
UNWATCHED_SECONDS: Final = 10.0
"""Two bouts of an act with nothing seen between them are one up to this far apart, in one scene."""
OFTEN: Final = 0.25
"""A way counts if this part of the pairs that show a change go it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sightings of a thing, one after the other and close."""

    before: Moment
    after: Moment
    weight: float
    ways: frozenset[Way]
    """How it changed between them; none at rest."""


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
    bouts = _merged([bout for run in runs for bout in _bouts(name, run)])
    paired = {m.seconds for run in runs for pair in run for m in (pair.before, pair.after)}
    rests = tuple(_visit(name, run) for run in runs if not any(pair.ways for pair in run))
    alone = (Visit(name, m.seconds, m.seconds, s.score) for m, s in seen if m.seconds not in paired)
    return Conduct(tuple((act, visit) for act, visit, _ in bouts), rests, tuple(alone))


def _seen(name: str, moment: Moment) -> Sighting | None:
    sighting = moment.view.best(name)
    return sighting if sighting is not None and sighting.score >= SEEN else None


def _pair(before: Moment, one: Sighting, after: Moment, other: Sighting) -> Pair | None:
    """The pair, or None where they are too far apart or in different scenes."""
    if after.seconds - before.seconds > CLOSE_SECONDS or not _one_scene(before, after):
        return None
    ways: set[Way] = set()
    (x, y, size), (later_x, later_y, later_size) = _placed(one, before.aspect), _placed(other, after.aspect)
    unit = max((size + later_size) / 2, 1e-9)
    if abs(later_x - x) > MOVED * unit:
        ways.add("across")
    if abs(later_y - y) > MOVED * unit:
        ways.add("up")
    if max(size, later_size) > GROWN * max(min(size, later_size), 1e-9):
        ways.add("growth")
    return Pair(before, after, other.score, frozenset(ways))


def _placed(sighting: Sighting, aspect: float) -> tuple[float, float, float]:
    """The middle across, the foot, and the longer side of a box, all as parts of the picture's height."""
    left, top, right, bottom = sighting.box
    return aspect * (left + right) / 2, bottom, max(aspect * (right - left), bottom - top)


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
    for pair in (pair for pair in run if pair.ways):
        if bout and pair.before.seconds - bout[-1].after.seconds > STILL_SECONDS:
            yield _act(bout), _visit(name, bout), bout[-1].after
            bout = []
        bout.append(pair)
    if bout:
        yield _act(bout), _visit(name, bout), bout[-1].after


def _act(pairs: Sequence[Pair]) -> str:
    """The simplest act that goes these ways."""
    counts = Counter(way for pair in pairs for way in pair.ways)
    ways = {way for way, count in counts.items() if count >= OFTEN * len(pairs)}
    if {"across", "up"} <= ways:
        return "dance"
    return "dash" if "across" in ways else "jump" if "up" in ways else "swell"


def _visit(name: str, pairs: Sequence[Pair]) -> Visit:
    return Visit(name, pairs[0].before.seconds, pairs[-1].after.seconds, sum(pair.weight for pair in pairs))


def _merged(bouts: Sequence[Bout]) -> list[Bout]:
    """Bouts of one act with no frame between them are one if they are near, and in one scene."""
    merged: list[Bout] = []
    for act, visit, moment in bouts:
        if merged and merged[-1][0] == act:
            _, last, end = merged[-1]
            gap = visit.start - last.end
            if CLOSE_SECONDS < gap <= UNWATCHED_SECONDS and _one_scene(end, moment):
                joined = Visit(visit.name, last.start, visit.end, last.weight + visit.weight)
                merged[-1] = (act, joined, moment)
                continue
        merged.append((act, visit, moment))
    return merged
