"""How many more annotators a build needs: each partial set goes to two people who have seen nothing else of its video.

Pure but for the exposures, which follow from the history.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_ves.construction.judged_item import VERDICTS_NEEDED
from trace_ves.construction.stages import Stage, assignment_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trace_ves.construction.exposure import Exposures
    from trace_ves.construction.item_index import IndexedItem
    from trace_ves.construction.judged_item import JudgedItem, Standing
    from trace_ves.construction.settings import BuildSettings


@dataclass(frozen=True, slots=True)
class Shortage:
    """A video whose partial sets wait for people who have not seen it."""

    video: str
    items: tuple[str, ...]
    people: int
    """How many more are needed."""


def fewest_annotators(indexed: Iterable[IndexedItem], settings: BuildSettings) -> int:
    """Two who verify, and two for each partial set of the largest item that is not decided yet.

    Where people may judge several partial sets of one item, two others suffice.
    """
    sizes = [
        len(standing.evidence or judged.proposal.evidence)
        for judged, standing in indexed
        if standing.waits_at in {Stage.VERIFICATION, Stage.ADJUDICATION, Stage.LEAVE_ONE_OUT}
    ]
    pairs = 1 if settings.allow_not_blind else max(sizes, default=0)
    return VERDICTS_NEEDED * (1 + pairs) if sizes else 0


def shortages(indexed: Iterable[IndexedItem], exposures: Exposures, annotators: Sequence[str]) -> list[Shortage]:
    """Videos with more open seats in leave-one-out than people who have seen nothing of them."""
    seats: dict[str, dict[str, int]] = defaultdict(dict)
    for judged, standing in indexed:
        if standing.waits_at is Stage.LEAVE_ONE_OUT and (open_seats := _open_seats(judged, standing)):
            seats[judged.proposal.video][judged.id] = open_seats
    found = []
    for video, items in seats.items():
        fresh = sum(not exposures.has_seen(name, video) for name in annotators)
        if (missing := sum(items.values()) - fresh) > 0:
            found.append(Shortage(video, tuple(items), missing))
    return found


def _open_seats(judged: JudgedItem, standing: Standing) -> int:
    evidence = standing.evidence
    count = 0
    for left_out in range(len(evidence)):
        held = judged.seats.get(assignment_key(Stage.LEAVE_ONE_OUT, evidence, left_out), ())
        count += max(0, VERDICTS_NEEDED - len({*held, *judged.answers_to(evidence, left_out)}))
    return count
