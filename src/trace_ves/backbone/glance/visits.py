"""From sightings in single frames to visits: stretches of time in which one thing was there.

The stated rules by which two sightings of a name are one visit or two stand here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.glance.sightings import SEEN, Sighting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trace_ves.backbone.glance.sightings import Moment, SeenClip

AWAY_SECONDS: Final = 4.0
"""What is out of sight for no longer than this has not left, unless the scene changed: eyes may miss a frame."""
UNWATCHED_SECONDS: Final = 20.0
"""Two sightings with no frame between them are one visit up to this far apart, if scene and size are the same."""
MISSED_SECONDS: Final = 10.0
"""Two sightings with one frame between them that lacks it are one visit up to this far apart, on the same terms."""
SAME_SIZE: Final = 1.25
"""Two sizes within this ratio are the same."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One stretch in which a thing was seen: from its first sighting to its last."""

    name: str
    start: float
    end: float
    weight: float = 1.0
    """The scores of its sightings, added up."""

    @property
    def centre(self) -> float:
        """The moment halfway."""
        return (self.start + self.end) / 2


Visits = dict[str, tuple[Visit, ...]]
"""The visits of each name, in order of time."""


def moments_of(clips: Iterable[SeenClip]) -> tuple[Moment, ...]:
    """All moments of some clips in order of time, each once."""
    return tuple(sorted({m.seconds: m for clip in clips for m in clip.moments}.values(), key=lambda m: m.seconds))


def visits_of(names: Iterable[str], moments: Sequence[Moment], *, threshold: float = SEEN) -> Visits:
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
    if len({before.view.scene, after.view.scene} - {None}) > 1:
        return False
    if seconds <= AWAY_SECONDS:
        return True
    sizes = [sighting.size for moment in (before, after) if (sighting := _sighting(name, moment))]
    longest = {0: UNWATCHED_SECONDS, 1: MISSED_SECONDS}.get(len(stretch) - 2, 0.0)
    return seconds <= longest and max(sizes) <= SAME_SIZE * max(min(sizes), 1e-9)


def merged(pieces: Iterable[Visit]) -> Visits:
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


def everything(visits: Mapping[str, Sequence[Visit]]) -> list[Visit]:
    """All visits in order of time."""
    return sorted((visit for group in visits.values() for visit in group), key=lambda visit: (visit.start, visit.end))
