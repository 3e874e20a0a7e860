"""What people write: each judgement is checked against the task they have open, then goes to the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.construction.adjudication import settlement_value
from trace_ves.construction.assignments import Assignment, current_assignment, take_next
from trace_ves.construction.leave_one_out import HumanAnswer
from trace_ves.construction.ledger import Change, StaleError
from trace_ves.construction.people import Role
from trace_ves.construction.stages import Stage, human_slot, settlement_slot, verification_slot
from trace_ves.construction.visual_verification import Verification
from trace_ves.core import Interval, TraceVesError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.construction.item_index import IndexedItem, ItemIndex
    from trace_ves.construction.people import Person
    from trace_ves.construction.proposed_item import ProposedItem
    from trace_ves.construction.store import Store
    from trace_ves.construction.visual_verification import Evidence

JUDGEMENTS: Final = ("verification/", "without/", "settlement/")
"""Slots that people write."""


class RefusedError(TraceVesError):
    """A person is not allowed to do or see this."""


class JudgementError(TraceVesError):
    """A judgement with values that are not valid."""


class Desk:
    """The judgements of all people over one store. Threads may share it."""

    def __init__(self, store: Store, index: ItemIndex) -> None:
        self.store = store
        self.items = index

    def item(self, item: str) -> IndexedItem:
        """An item and where it stands; a `RefusedError` where there is none."""
        try:
            return self.items.one(self.store.ledger(), item)
        except KeyError:
            raise RefusedError(f"There is no item {item[:40]!r}.") from None

    def assignment(self, person: Person) -> Assignment | None:
        """What an annotator has open."""
        return current_assignment(self.items.all(self.store.ledger()), person.name)

    def next_assignment(self, person: Person) -> Assignment | None:
        """What an annotator has open, or something new."""
        if person.role is not Role.ANNOTATOR:
            raise RefusedError("Adjudicators settle disagreements; the queue is for annotators.")
        return take_next(self.store, self.items, person.name)

    def verify(
        self,
        person: Person,
        item: str,
        *,
        evidence: Sequence[Sequence[float]],
        reason: str,
        revision: int,
        **time: float,
    ) -> None:
        """Note a verdict on the intervals: a reason rejects, intervals without one accept."""
        self._need(person, Assignment(item, Stage.VERIFICATION))
        proposal = self.item(item)[0].proposal
        if reason:
            verdict = Verification(accepted=False, reason=reason)
        else:
            verdict = Verification(accepted=True, evidence=checked_evidence(evidence, proposal))
        self._write(person, item, verification_slot(person.name), verdict.to_json(), revision, **time)

    def answer_without(
        self, person: Person, item: str, left_out: int, *, answer: str | None, revision: int, **time: float
    ) -> None:
        """Note an answer from the clips without one interval; None says that they do not decide."""
        self._need(person, Assignment(item, Stage.LEAVE_ONE_OUT, left_out))
        judged, standing = self.item(item)
        letters = judged.proposal.question(item).letters
        if answer is not None and answer not in letters:
            raise JudgementError(f"The answer must be one of {letters[0]}-{letters[-1]} or none.")
        value = HumanAnswer(standing.evidence, answer).to_json()
        self._write(person, item, human_slot(person.name, left_out), value, revision, **time)

    def settle(
        self,
        person: Person,
        item: str,
        *,
        keep: bool,
        evidence: Sequence[Sequence[float]],
        reason: str,
        about: Sequence[int],
        **time: float,
    ) -> None:
        """Note the adjudicator's word on the disagreement that they were shown."""
        self.need_adjudicator(person)
        judged, standing = self.item(item)
        dispute = standing.dispute
        if dispute is None or tuple(about) != dispute.about:
            raise StaleError(f"{item}: this disagreement is settled already, or it is another one now.")
        final = checked_evidence(evidence, judged.proposal) if keep and not dispute.evidence else ()
        if not keep and not reason:
            raise JudgementError("A rejection needs a reason.")
        slot = settlement_slot(dispute.kind)
        revision = self.store.ledger().slot(item, slot).revision
        value = settlement_value(dispute, keep=keep, evidence=final, reason=reason)
        self._write(person, item, slot, value, revision, **time)

    def undo(self, person: Person, item: str) -> None:
        """Take back a person's newest judgement of an item, by one more entry of the history."""
        self.item(item)
        ledger = self.store.ledger()
        mine = [
            entry
            for prefix in JUDGEMENTS
            for entry in ledger.standing(item, prefix.rstrip("/")).values()
            if entry.who == person.name
        ]
        if not mine:
            raise StaleError(f"{item}: there is nothing of yours to undo.")
        newest = max(mine, key=lambda entry: entry.number)
        self.store.undo(item, newest.slot, person.name)

    def need_adjudicator(self, person: Person) -> None:
        """Refuse everybody else."""
        if person.role is not Role.ADJUDICATOR:
            raise RefusedError("Only an adjudicator may do this.")

    def _need(self, person: Person, task: Assignment) -> None:
        if self.assignment(person) != task:
            raise RefusedError(f"{task.item[:40]}: this is not the task that you have open; go to your queue.")

    def _write(
        self, person: Person, item: str, slot: str, value: dict[str, object], revision: int, *, seconds: float
    ) -> None:
        self.store.append([Change(item, slot, person.name, value, expected=revision, seconds=seconds)])


def checked_evidence(pairs: Sequence[Sequence[float]], proposal: ProposedItem) -> Evidence:
    """As many intervals as were proposed, each with a length and inside the video."""
    if len(pairs) != len(proposal.evidence):
        raise JudgementError(f"The item has {len(proposal.evidence)} intervals, found {len(pairs)}.")
    for start, end in pairs:
        if not 0 <= start < end <= proposal.duration:
            raise JudgementError(f"The interval {start:g}-{end:g} s does not lie in 0-{proposal.duration:g} s.")
    return tuple(Interval(start, end) for start, end in pairs)
