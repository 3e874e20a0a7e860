"""Gold items: items whose right judgement is known, mixed into the queue to see how well people look.

Some are right as they are; in the others, one interval is moved to where nothing happens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trace_ves.construction.judged_item import GoldAnswer, ProposedItem
from trace_ves.construction.ledger import GOLD_SLOT, MACHINE, PROPOSAL_SLOT, Change
from trace_ves.construction.proposal import DraftError, ItemDraft, check_draft
from trace_ves.construction.visual_verification import AGREEING_IOU, mean_iou
from trace_ves.core import InputError, Interval
from trace_ves.core.jsonl import read_jsonl
from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trace_ves.construction.judged_item import JudgedItem
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store

APART_SECONDS: Final = 2.0  # a moved interval keeps this distance from every true one


class GoldLine(BaseModel):
    """A line of a file of gold items: a line of a bench, and its right judgement."""

    model_config = ConfigDict(extra="ignore")

    video: str
    question: str
    options: list[str]
    answer: str
    evidence: list[list[float]]
    family: str = ""
    rationales: list[str] = Field(default_factory=list)  # by default, a sentence that fits any interval
    accept: bool | None = None  # whether the item is right as it is; by default, every other one is made wrong
    without: dict[int, str | None] = Field(default_factory=dict)
    """By interval left out, from 0: the option that the other clips decide, null if they decide none."""


def add_gold(project: Project, store: Store, file: Path) -> tuple[int, int]:
    """Add the items of a file; returns how many are to be accepted, and how many to be rejected."""
    changes: list[Change] = []
    wanted = {True: 0, False: 0}
    first = len(store.ledger().subjects(PROPOSAL_SLOT)) + 1
    for place, line in enumerate(read_jsonl(file)):
        try:
            made = GoldLine.model_validate(line.record)
            is_right = made.accept if made.accept is not None else bool(made.without) or place % 2 == 0
            proposal = _proposal(project, made)
            if not is_right and made.accept is None:
                proposal = move_interval(proposal)
        except (ValidationError, DraftError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise InputError(f"{file}:{line.number}: {reason}.") from None
        name = f"c{first + place:04}"
        changes += [
            Change(name, PROPOSAL_SLOT, MACHINE, proposal.to_json(), expected=0),
            Change(name, GOLD_SLOT, MACHINE, GoldAnswer(is_right, made.without).to_json(), expected=0),
        ]
        wanted[is_right] += 1
    if not changes:
        raise InputError(f"{file}: no item in this file.")
    store.append(changes)
    return wanted[True], wanted[False]


def _proposal(project: Project, line: GoldLine) -> ProposedItem:
    with open_video(project.need_path(line.video)) as video:
        duration = video.duration
    rationales = line.rationales or ["What the question asks about is seen here."] * len(line.evidence)
    draft = ItemDraft(
        question=line.question,
        options=line.options,
        answer=line.answer,
        evidence=line.evidence,
        rationales=rationales,
    )
    return check_draft(draft, video=line.video, duration=duration, family=line.family)


def move_interval(proposal: ProposedItem) -> ProposedItem:
    """The same item with one interval moved to where the event does not happen."""
    for place, interval in enumerate(proposal.evidence):
        others = (*proposal.evidence[:place], *proposal.evidence[place + 1 :])
        low = others[place - 1].end if place else 0.0
        high = others[place].start if place < len(others) else proposal.duration
        for start in (low + APART_SECONDS, max(0.0, high - APART_SECONDS - interval.length)):
            moved = Interval(round(start, 3), round(start + interval.length, 3))
            apart = moved.end + APART_SECONDS <= interval.start or interval.end + APART_SECONDS <= moved.start
            if apart and low <= moved.start and moved.end <= high:
                return replace(proposal, evidence=(*others[:place], moved, *others[place:]))
    raise DraftError("no interval of this item can be moved to where nothing happens; say accept true or false")


def gold_results(judged: JudgedItem) -> Iterator[tuple[str, bool]]:
    """The annotators who judged a gold item, and whether they were right."""
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
