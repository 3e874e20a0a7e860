"""What people write: each judgement is checked against the assignment they hold, then goes to the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.adjudication import settlement_value
from trace_ves.construction.assignments import Assignment, AssignmentQueue, RefusedError, evidence_of, key_of
from trace_ves.construction.exposure import Blindness
from trace_ves.construction.judged_item import DraftError, check_count, check_evidence
from trace_ves.construction.leave_one_out import HumanAnswer, partial_set
from trace_ves.construction.ledger import Change, StaleError
from trace_ves.construction.looking import SLACK_SECONDS, Looking, joined, length, playable, unwatched, watched_share
from trace_ves.construction.people import Role
from trace_ves.construction.project import BuildSettings
from trace_ves.construction.stages import Stage, human_slot, settlement_slot, skip_slot, verification_slot
from trace_ves.construction.visual_verification import Verification
from trace_ves.core import Interval, TraceVesError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.construction.judged_item import IndexedItem, ItemIndex, ProposedItem
    from trace_ves.construction.ledger import Entry, Ledger
    from trace_ves.construction.people import Person
    from trace_ves.construction.store import Check, Store
    from trace_ves.construction.visual_verification import Evidence

JUDGEMENTS: Final = ("verification/", "without/", "settlement/", "skip/")
"""Slots that people write."""


class JudgementError(TraceVesError):
    """A judgement with values that are not valid."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an annotator says about an item's intervals, as it was sent."""

    kind: str = "accept"
    """`accept`, `reject` or `unsure`."""
    evidence: Sequence[Sequence[float]] = ()
    answer: str = ""
    """The right option; empty where it is the proposed one."""
    reason: str = ""
    comment: str = ""


class Desk:
    """The judgements of all people over one store. Threads may share it."""

    def __init__(self, store: Store, items: ItemIndex, settings: BuildSettings | None = None) -> None:
        self.store = store
        self.items = items
        self.settings = settings or BuildSettings()
        self.queue = AssignmentQueue(store, items, self.settings)

    def item(self, item: str) -> IndexedItem:
        """An item and where it stands; a `RefusedError` where there is none."""
        try:
            return self.items.one(self.store.ledger(), item)
        except KeyError:
            raise RefusedError(f"There is no item {item[:40]!r}.") from None

    def assignment(self, person: Person) -> Assignment | None:
        """What an annotator holds."""
        return self.queue.current(person.name)

    def next_assignment(self, person: Person) -> Assignment | None:
        """What an annotator holds, or something new."""
        if person.role is not Role.ANNOTATOR:
            raise RefusedError("Only annotators have a queue.")
        return self.queue.take_next(person.name)

    def note_watched(self, person: Person, item: str, spans: Sequence[Sequence[float]]) -> list[list[float]]:
        """Add what a player reports as played, in seconds of the video; gives all that was played so far."""
        key, since, allowed = self._watching(person, item)
        new = [span for each in spans for span in _inside(each, allowed)]
        played: list[list[float]] = []

        def added(last: float, known: Mapping[str, Any]) -> dict[str, object]:
            elapsed = self.store.clock() - max(last, since)
            credit = playable(float(known.get("credit", SLACK_SECONDS)), elapsed)
            if length(new) > credit:
                raise JudgementError("More was reported as played than anybody could play in this time.")
            played[:] = joined([*known.get("spans", []), *new])
            return {"spans": played, "credit": credit - length(new)}

        self.store.note_watched(item, key, person.name, added)
        return played

    def watched(self, person: Person, item: str) -> list[list[float]]:
        """What a person has played of the item before them."""
        key, _, _ = self._watching(person, item)
        spans: list[list[float]] = self.store.watched(item, key, person.name)[1].get("spans", [])
        return spans

    def verify(self, person: Person, item: str, verdict: Verdict, *, revision: int, seconds: float) -> None:
        """Note a verdict on the intervals."""
        held = Assignment(item, Stage.VERIFICATION)
        self._need(person, held)
        proposal = self.item(item)[0].proposal
        if verdict.kind == "accept":
            answer = checked_answer(verdict.answer, proposal)
            evidence = checked_evidence(verdict.evidence, proposal, answer)
            looking = self._looking(person, held, evidence, must=True)
            made = Verification(
                accepted=True, evidence=evidence, answer=answer, comment=verdict.comment, looking=looking
            )
        else:
            if not verdict.reason:
                raise JudgementError("Say why, in a few words.")
            made = Verification(
                accepted=False,
                reason=verdict.reason,
                is_unsure=verdict.kind == "unsure",
                comment=verdict.comment,
                looking=self._looking(person, held, proposal.evidence, must=False),
            )
        self._write(person, item, verification_slot(person.name), made.to_json(), revision=revision, seconds=seconds)

    def answer_without(
        self, person: Person, item: str, left_out: int, *, answer: str | None, revision: int, seconds: float
    ) -> None:
        """Note an answer from the clips without one interval; None says that they do not decide."""
        held = Assignment(item, Stage.LEAVE_ONE_OUT, left_out)
        self._need(person, held)
        judged, standing = self.item(item)
        letters = judged.proposal.question(item).letters
        if answer is not None and answer not in letters:
            raise JudgementError(f"The answer must be one of {letters[0]}-{letters[-1]} or none.")
        evidence = evidence_of(judged, standing)
        looking = self._looking(person, held, partial_set(evidence, left_out), must=True)
        value = HumanAnswer(evidence, answer, looking).to_json()

        def check(ledger: Ledger) -> None:
            if not self.queue.may_judge(self.queue.blindness(ledger, person.name, held)):
                raise RefusedError(f"{item}: you have seen more of this video; skip it, and somebody else will answer.")

        self._write(
            person, item, human_slot(person.name, left_out), value, revision=revision, seconds=seconds, check=check
        )

    def skip(self, person: Person, item: str, reason: str) -> None:
        """Give an assignment back unjudged, with a reason; it is not offered to this person again."""
        held = self.assignment(person)
        if held is None or held.item != item:
            raise RefusedError(f"{item[:40]}: this is not the assignment that you hold; go to your queue.")
        if not reason:
            raise JudgementError("Say why you skip it, in a few words.")
        revision = self.store.ledger().slot(item, skip_slot(person.name)).revision
        value = {"reason": reason, "stage": held.stage.value}
        self._write(person, item, skip_slot(person.name), value, revision=revision)
        self.queue.release(held, person.name, by=person.name, reason="skipped")

    def settle(
        self,
        person: Person,
        item: str,
        *,
        keep: bool,
        evidence: Sequence[Sequence[float]],
        reason: str,
        about: Sequence[int],
        seconds: float,
        answer: str = "",
    ) -> None:
        """Note the adjudicator's decision on the disagreement that they were shown."""
        self.need(person, Role.ADJUDICATOR)
        judged, standing = self.item(item)
        dispute = standing.dispute
        if dispute is None or tuple(about) != dispute.about:
            raise StaleError(f"{item}: this disagreement is settled already, or it is another one now.")
        final: Evidence = ()
        if keep and not dispute.evidence:
            answer = checked_answer(answer, judged.proposal)
            final = checked_evidence(evidence, judged.proposal, answer)
            self._need_watched(final, self.watched(person, item))
        if not keep and not reason:
            raise JudgementError("A rejection needs a reason.")
        slot = settlement_slot(dispute.kind)
        revision = self.store.ledger().slot(item, slot).revision
        value = settlement_value(dispute, keep=keep, evidence=final, reason=reason, answer=answer)
        self._write(person, item, slot, value, revision=revision, seconds=seconds)

    def undo(self, person: Person, item: str) -> None:
        """Take back a person's newest judgement of an item, by one more entry of the history.

        Refused once another person's judgement stands on it, and for a partial set once they have seen more.
        """
        self.item(item)
        mine = _judgements(self.store.ledger(), item, person.name)
        if not mine:
            raise StaleError(f"{item}: there is nothing of yours to undo.")
        newest = max(mine, key=lambda entry: entry.number)

        def check(ledger: Ledger) -> None:
            if reason := self.why_no_undo(ledger, newest):
                raise RefusedError(f"{item}: {reason}")

        self.store.undo(item, newest.slot, person.name, check=check)

    def why_no_undo(self, ledger: Ledger, entry: Entry) -> str:
        """Why a judgement cannot be taken back any more; empty where it can."""
        others = [each for each in _judgements(ledger, entry.subject) if each.who != entry.who]
        kind, _, rest = entry.slot.partition("/")
        place = rest.rpartition("/")[2]
        for other in others:
            other_kind, _, other_rest = other.slot.partition("/")
            same = kind == other_kind and (kind != "without" or other_rest.rpartition("/")[2] == place)
            if kind != "skip" and (other.number > entry.number or same):
                return "this can no longer be undone: other judgements rest on it."
        if kind == "without":
            held = Assignment(entry.subject, Stage.LEAVE_ONE_OUT, int(place))
            if self.queue.blindness(ledger, entry.who, held, since=entry.number) is not Blindness.FRESH:
                return "this can no longer be undone: you have seen more of the video since."
        return ""

    def need(self, person: Person, role: Role) -> None:
        """Refuse everybody who has another role."""
        if person.role is not role:
            raise RefusedError(f"Only an {role.value} may do this.")

    def _need(self, person: Person, held: Assignment) -> None:
        if self.assignment(person) != held:
            raise RefusedError(f"{held.item[:40]}: this is not the assignment that you hold; go to your queue.")

    def _watching(self, person: Person, item: str) -> tuple[str, float, Evidence]:
        """Under which key a person's playing of an item is kept, since when, and which spans they can have played."""
        judged, standing = self.item(item)
        whole = (Interval(0.0, judged.proposal.duration),)
        if person.role is Role.ADJUDICATOR:
            return Stage.ADJUDICATION.value, 0.0, whole
        held = self.assignment(person)
        if held is None or held.item != item:
            raise RefusedError(f"{item[:40]}: this is not the assignment that you hold; go to your queue.")
        key = key_of(held, (judged, standing))
        allowed: Evidence = whole
        if held.left_out is not None:
            allowed = partial_set(evidence_of(judged, standing), held.left_out)
        return key, judged.seats[key][person.name], allowed

    def _looking(self, person: Person, held: Assignment, evidence: Evidence, *, must: bool) -> Looking:
        """What stands behind a judgement about these intervals; with `must`, all of them have to be played."""
        _, since, _ = self._watching(person, held.item)
        spans = self.watched(person, held.item)
        if must:
            self._need_watched(evidence, spans)
        ledger = self.store.ledger()
        is_blind = held.left_out is None or self.queue.blindness(ledger, person.name, held) is Blindness.FRESH
        return Looking(
            min((watched_share(interval, spans) for interval in evidence), default=1.0),
            self.store.clock() - since,
            sum(interval.length for interval in evidence),
            is_blind,
        )

    def _need_watched(self, evidence: Evidence, spans: Sequence[Sequence[float]]) -> None:
        missing = unwatched(evidence, spans, self.settings.watched_share)
        if missing:
            names = ", ".join(f"{evidence[place].start:.1f}-{evidence[place].end:.1f} s" for place in missing)
            raise JudgementError(f"Play every interval to its end first; not played yet: {names}.")

    def _write(
        self,
        person: Person,
        item: str,
        slot: str,
        value: Mapping[str, object],
        *,
        revision: int,
        seconds: float = 0.0,
        check: Check | None = None,
    ) -> None:
        change = Change(item, slot, person.name, value, expected=revision, seconds=seconds)
        self.store.append([change], check=check)


def _judgements(ledger: Ledger, item: str, who: str | None = None) -> list[Entry]:
    """The judgements of people that stand about an item, of one person or of all."""
    return [
        entry
        for prefix in JUDGEMENTS
        for entry in ledger.standing(item, prefix.rstrip("/")).values()
        if who is None or entry.who == who
    ]


def _inside(span: Sequence[float], allowed: Evidence) -> list[list[float]]:
    """The parts of a span that lie in what a person was given to see."""
    start, end = span
    return [
        [max(start, each.start), min(end, each.end)] for each in allowed if min(end, each.end) > max(start, each.start)
    ]


def checked_answer(answer: str, proposal: ProposedItem) -> str:
    """The corrected option; empty where it is the proposed one."""
    letters = proposal.question("").letters
    if answer and answer not in letters:
        raise JudgementError(f"The answer must be one of {letters[0]}-{letters[-1]}.")
    return "" if answer == proposal.answer else answer


def checked_evidence(pairs: Sequence[Sequence[float]], proposal: ProposedItem, answer: str = "") -> Evidence:
    """Intervals that a person sent: in order, apart, inside the video, and as many as a counted answer says."""
    try:
        if any(not 0 <= start < end <= proposal.duration for start, end in pairs):
            raise DraftError(f"every interval must lie in 0-{proposal.duration:g} s and end after its start")
        evidence = tuple(Interval(start, end) for start, end in pairs)
        check_evidence(evidence, proposal.duration)
        question = proposal.question("")
        check_count(proposal.family, question.option(answer or proposal.answer), evidence)
    except DraftError as error:
        raise JudgementError(f"These intervals are not valid: {error}.") from None
    return evidence
