"""The rules of the stages that build benchmarks: captions of what is seen, and items made from captions."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.core.question import LETTERS
from trace_ves.twin.glance.judgement import guess
from trace_ves.twin.glance.prompt_reading import caption_text, read_caption
from trace_ves.twin.glance.sightings import SEEN, everything, merged, visits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.twin.glance.prompt_reading import CallContext
    from trace_ves.twin.glance.sightings import Visit, Visits

ORDERS: Final = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0))
"""Four orders of three things: without any one of the three, at least two of the orders stay possible."""
APART_SECONDS: Final = 5.0
"""Things whose order is asked for must be this far apart."""
MOST_ITEMS: Final = 8


def caption(context: CallContext) -> dict[str, Any]:
    """Where it is, and everything that is seen, from when to when."""
    names = {s.name for moment in context.moments for s in moment.view.sightings if s.score >= SEEN}
    scenes = list(dict.fromkeys(moment.view.scene for moment in context.moments if moment.view.scene))
    return {"caption": caption_text(scenes, everything(visits_of(sorted(names), context.moments)))}


def propose_items(context: CallContext) -> dict[str, Any]:
    """Questions of the wanted family that the captions support."""
    said = [visit for entry in context.variables["captions"] for visit in read_caption(str(entry["caption"]))]
    make = _MAKERS.get(str(context.variables["family"]))
    return {"items": make(merged(said))[:MOST_ITEMS] if make else []}


def answer_from_summary(context: CallContext) -> dict[str, Any]:
    """A forced choice from a summary of the video, as far as it is in these words; like blind otherwise."""
    said = merged(read_caption(str(context.variables.get("summary", ""))))
    return {"answer": guess(context.asked, said, sample=context.sample)}


def _orderings(visits: Visits) -> list[dict[str, Any]]:
    """Three things that come once each, one after the other."""
    once = sorted((group[0] for group in visits.values() if len(group) == 1), key=lambda visit: visit.start)
    items = []
    for first in range(0, len(once) - 2, 3):
        three = once[first : first + 3]
        if any(later.start - earlier.end < APART_SECONDS for earlier, later in pairwise(three)):
            continue
        options = [" → ".join(f"the {three[place].name}" for place in order) for order in ORDERS]
        listed = "; ".join(sorted(visit.name for visit in three))
        items.append(_item(f"In which order are these seen: {listed}?", options, 0, three, shuffled=True))
    return items


def _countings(visits: Visits) -> list[dict[str, Any]]:
    """A thing that comes twice or more."""
    items = []
    for name, group in visits.items():
        if len(group) < 2:
            continue
        question = f"How many separate times is the {name} seen?"
        lowest = max(1, len(group) - _number(question, 4))
        options = [str(lowest + step) for step in range(4)]
        items.append(_item(question, options, len(group) - lowest, group, shuffled=False))
    return items


_MAKERS: Final[dict[str, Callable[[Visits], list[dict[str, Any]]]]] = {
    TEMPORAL_ORDERING: _orderings,
    EVENT_COUNTING: _countings,
}


def _item(
    question: str, options: Sequence[str], right: int, visits: Sequence[Visit], *, shuffled: bool
) -> dict[str, Any]:
    turn = _number(question, len(options)) if shuffled else 0
    return {
        "question": question,
        "options": [*options[turn:], *options[:turn]],
        "answer": LETTERS[(right - turn) % len(options)],
        "evidence": [[visit.start, visit.end] for visit in visits],
        "rationales": [f"the {visit.name} is seen here" for visit in visits],
    }


def _number(text: str, below: int) -> int:
    """A number that depends on the text alone."""
    return hashlib.sha256(text.encode()).digest()[0] % below
