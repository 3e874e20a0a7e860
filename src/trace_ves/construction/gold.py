"""Gold items: items whose correct verdict is known, mixed into the queue to measure how carefully annotators work.

Some are correct; in the others, one interval is moved to where nothing happens. All choices are random and independent,
so that annotators can neither recognise gold items nor tell correct ones from altered ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import Field, ValidationError

from trace_ves.construction.judged_item import (
    AGREEING_IOU,
    Evidence,
    GoldAnswer,
    JudgedItem,
    ProposedItem,
    list_items,
    mean_iou,
)
from trace_ves.construction.ledger import GOLD_SLOT, MACHINE, PROPOSAL_SLOT, Change
from trace_ves.construction.proposal import DraftError, ItemDraft, check_draft, check_evidence, new_item_id
from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING, InputError, Interval
from trace_ves.core.jsonl import read_jsonl
from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store

APART_SECONDS: Final = 2.0  # least distance of a moved interval from the true ones
_CHANCE: Final = random.SystemRandom()


class GoldLine(ItemDraft):
    """A line of a file of gold items: a bench line with rationales and its correct verdict."""

    video: str
    family: str = ""
    accept: bool | None = None  # whether the item is correct; by default, about half of the items are altered
    without: dict[int, str | None] = Field(default_factory=dict)
    """For each interval left out, from 0: the option that the other clips decide; null if they decide none."""


def add_gold(project: Project, store: Store, file: Path) -> tuple[int, int]:
    """Add the items of a file; returns how many are correct, and how many should be rejected."""
    changes: list[Change] = []
    counts = {True: 0, False: 0}
    durations: dict[str, float] = {}
    others = [judged.proposal for judged in list_items(store.ledger())]
    for line in read_jsonl(file):
        try:
            row = GoldLine.model_validate(line.record)
            if row.video not in durations:
                with open_video(project.need_path(row.video)) as video:
                    durations[row.video] = video.duration
            # The count of a counting item is checked, so items with numbers as options are checked as such.
            is_counting = all(option.strip().isdecimal() for option in row.options)
            family = row.family or (EVENT_COUNTING if is_counting else TEMPORAL_ORDERING)
            proposal = check_draft(row, video=row.video, duration=durations[row.video], family=family)
            proposal = match_decimals(proposal, _CHANCE.choice(others)) if others else proposal
            is_right = row.accept if row.accept is not None else bool(row.without) or _CHANCE.random() < 0.5
            if not is_right and row.accept is None:
                proposal = move_interval(proposal)
        except (ValidationError, DraftError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else None
            reason = f"{first['loc'][0]}: {first['msg']}" if first else error
            raise InputError(f"{file}:{line.number}: {reason}.") from None
        name = new_item_id()
        changes += [
            Change(name, PROPOSAL_SLOT, MACHINE, proposal.to_json(), expected=0),
            Change(name, GOLD_SLOT, MACHINE, GoldAnswer(is_right, row.without).to_json()),
        ]
        counts[is_right] += 1
    if not changes:
        raise InputError(f"{file}: no item in this file.")
    store.append(changes)
    return counts[True], counts[False]


def count_decimals(evidence: Evidence) -> int:
    """The number of decimals of the most precise edge."""
    return max(len(repr(edge).partition(".")[2].rstrip("0")) for span in evidence for edge in (span.start, span.end))


def match_decimals(proposal: ProposedItem, other: ProposedItem) -> ProposedItem:
    """Give the edges of an item as many decimals as another's, because different precision would reveal a gold item."""
    digits, shift = count_decimals(other.evidence), 0.5 * 10.0 ** -max(1, count_decimals(proposal.evidence))

    def rewrite(edge: float) -> float:
        return min(max(0.0, round(edge + _CHANCE.uniform(-shift, shift), digits)), proposal.duration)

    evidence = tuple(Interval(*sorted((rewrite(span.start), rewrite(span.end)))) for span in proposal.evidence)
    with suppress(DraftError):  # keep the edges if the new ones are invalid
        check_evidence(evidence, proposal.duration)
        return replace(proposal, evidence=evidence)
    return proposal


def move_interval(proposal: ProposedItem) -> ProposedItem:
    """Move a random interval to a random free place between its neighbours."""
    for place in _CHANCE.sample(range(len(proposal.evidence)), len(proposal.evidence)):
        interval = proposal.evidence[place]
        others = (*proposal.evidence[:place], *proposal.evidence[place + 1 :])
        low = others[place - 1].end + APART_SECONDS if place else 0.0
        high = others[place].start - APART_SECONDS if place < len(others) else proposal.duration
        gaps = [(low, interval.start - APART_SECONDS), (interval.end + APART_SECONDS, high)]
        starts = [(first, last - interval.length) for first, last in gaps if last - interval.length > first]
        if not starts:
            continue
        # Longer gaps are more likely, and the new start has as many decimals as the old one.
        first, last = _CHANCE.choices(starts, [last - first for first, last in starts])[0]
        digits = count_decimals((interval,))
        start = min(round(_CHANCE.uniform(first, last), digits), proposal.duration - interval.length)
        moved = Interval(round(start, 3), round(start + interval.length, 3))
        return replace(proposal, evidence=(*others[:place], moved, *others[place:]))
    raise DraftError("no interval of this item can be moved to a free place; set accept to true or false")


def gold_results(judged: JudgedItem) -> Iterator[tuple[str, bool]]:
    """Yield each annotator who judged a gold item, and whether they were right."""
    gold = judged.gold
    if gold is None:
        return
    for who, verdict in judged.verifications.items():
        is_right = verdict.accepted == gold.accept and not verdict.is_unsure
        if is_right and gold.accept:
            is_right = not verdict.answer and mean_iou(verdict.evidence, judged.proposal.evidence) >= AGREEING_IOU
        yield who, is_right
    for who, answers in judged.answers.items():
        for left_out, answer in answers.items():
            if left_out in gold.without:
                yield who, answer.answer == gold.without[left_out]
