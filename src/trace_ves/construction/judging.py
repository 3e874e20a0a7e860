"""The judgements of people: each is checked against the assignment they hold, then goes to the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trace_ves.construction.assignments import Assignment, AssignmentQueue
from trace_ves.construction.exposure import Blindness
from trace_ves.construction.judged_item import (
    Evidence,
    HumanAnswer,
    JudgedItem,
    ProposedItem,
    Settlement,
    Verification,
    evidence_to_json,
    judged_item,
    partial_set,
)
from trace_ves.construction.ledger import Change, Ledger, LedgerEntry, Stage, StaleError
from trace_ves.construction.looking import FASTEST_RATE, Looking, add_played, watched_share
from trace_ves.construction.people import Person, RefusedError, Role
from trace_ves.construction.proposal import DraftError, check_count, check_evidence
from trace_ves.core import Interval, TraceVesError
from trace_ves.core.interval import clipped

if TYPE_CHECKING:
    from trace_ves.construction.project import BuildSettings
    from trace_ves.construction.store import Check, Store


class JudgementError(TraceVesError):
    """A judgement with values that are not valid."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An annotator's verdict on an item's intervals, as it was sent."""

    kind: str = "accept"  # `accept`, `reject` or `unsure`
    evidence: Sequence[Sequence[float]] = ()
    answer: str = ""  # the right option; empty for the proposed one
    reason: str = ""
    comment: str = ""


class Judgements:
    """Takes the judgements of all people into one store. Threads may share it."""

    def __init__(self, store: Store, settings: BuildSettings) -> None:
        self.store = store
        self.settings = settings
        self.queue = AssignmentQueue(store, settings)

    def item(self, item: str) -> JudgedItem:
        """An item; a `RefusedError` if there is none of this id."""
        return judged_item(self.store.ledger(), item)

    def next_assignment(self, person: Person) -> Assignment | None:
        """The assignment that an annotator holds, or a new one."""
        if person.role is not Role.ANNOTATOR:
            raise RefusedError("Only annotators have a queue.")
        return self.queue.take_next(person.name)

    def note_watched(
        self, person: Person, item: str, spans: Sequence[Interval], *, sent: Sequence[Interval]
    ) -> list[list[float]]:
        """Add spans that a player reports as played, as far as they were sent; returns everything played so far."""
        key, since, allowed = self._watching(person, item)
        shown = [part for span in spans for part in clipped(span.start, span.end, allowed)]
        new = evidence_to_json([part for span in shown for part in clipped(span.start, span.end, sent)])

        def add(last: float, known: Mapping[str, Any]) -> dict[str, Any]:
            report = self._add_played(last, known, since, new)
            if report["credit"] < 0:
                raise JudgementError("More was reported as played than can be played in this time.")
            return report

        played: list[list[float]] = self.store.note_watched(item, key, person.name, add)["spans"]
        return played

    def watched(self, person: Person, item: str) -> list[list[float]]:
        """The spans of an item that an annotator has played."""
        return self._progress(person, item)[0]

    def _progress(self, person: Person, item: str) -> tuple[list[list[float]], float]:
        """What someone has played of an item, and the time they worked on it: long silences count in part."""
        key, since, _ = self._watching(person, item)
        last, known = self.store.watched(item, key, person.name)
        known = self._add_played(last, known, since)
        return known["spans"], known["active"]

    def _add_played(
        self, last: float, known: Mapping[str, Any], since: float, spans: Sequence[Sequence[float]] = ()
    ) -> dict[str, Any]:
        """Add to the last report of playing; one from before the assignment was taken counts no more."""
        now = self.store.clock()
        return add_played(known if last > since else {}, spans, now - (max(last, since) or now))

    def verify(self, person: Person, item: str, verdict: Verdict, *, revision: int) -> None:
        """Note a verdict on the intervals."""
        held = self._held(person, item, Assignment(item, Stage.VERIFICATION))
        proposal = self.item(item).proposal
        accepted = verdict.kind == "accept"
        if not accepted and not verdict.reason:
            raise JudgementError("Say why, in a few words.")
        answer = check_answer(verdict.answer, proposal) if accepted else ""
        evidence = parse_evidence(verdict.evidence, proposal, answer) if accepted else ()
        verification = Verification(
            accepted,
            evidence,
            reason="" if accepted else verdict.reason,
            answer=answer,
            is_unsure=verdict.kind == "unsure",
            comment=verdict.comment,
            looking=self._looking(person, held, evidence or proposal.evidence, must=accepted),
        )
        slot = f"verification/{person.name}"
        self._write(person, item, slot, verification.to_json(), revision=revision)

    def answer_without(self, person: Person, item: str, left_out: int, *, answer: str | None, revision: int) -> None:
        """Note an answer from the clips without one interval; None says that they do not decide."""
        held = self._held(person, item, Assignment(item, Stage.LEAVE_ONE_OUT, left_out))
        judged = self.item(item)
        letters = judged.proposal.question(item).letters
        if answer is not None and answer not in letters:
            raise JudgementError(f"The answer must be one of {letters[0]}-{letters[-1]} or none.")
        evidence = judged.partial_evidence
        looking = self._looking(person, held, partial_set(evidence, left_out), must=True)
        value = HumanAnswer(evidence, answer, looking).to_json()

        def check(ledger: Ledger) -> None:
            seen = self.queue.exposures.blindness(person.name, judged_item(ledger, item), left_out)
            if not self.queue.may_judge(seen):
                raise RefusedError(
                    f"{item}: you have seen more of this video; skip it, and another annotator will answer."
                )

        slot = f"without/{person.name}/{left_out}"
        self._write(person, item, slot, value, revision=revision, check=check)

    def skip(self, person: Person, item: str, reason: str) -> None:
        """Give an assignment back with a reason; it is not offered to this person again."""
        held = self._held(person, item)
        if not reason:
            raise JudgementError("Say why you skip it, in a few words.")
        value = {"reason": reason, "stage": held.stage.value}
        self._write(person, item, f"skip/{person.name}", value)
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
        answer: str = "",
    ) -> None:
        """Note the adjudicator's decision on the disagreement that they were shown."""
        person.require(Role.ADJUDICATOR)
        judged = self.item(item)
        dispute = judged.state.dispute
        if dispute is None or tuple(about) != dispute.about:
            raise StaleError(f"{item}: this disagreement is settled already, or it is another one now.")
        final: Evidence = ()
        if keep and not dispute.evidence:
            answer = check_answer(answer, judged.proposal)
            final = parse_evidence(evidence, judged.proposal, answer)
            self._require_watched(final, self.watched(person, item))
        if not keep and not reason:
            raise JudgementError("A rejection needs a reason.")
        value = Settlement(keep, dispute.about, final, reason, answer).to_json()
        self._write(person, item, f"settlement/{dispute.kind}", value)

    def undo(self, person: Person, item: str) -> None:
        """Undo an annotator's newest judgement of an item; refused once others judged it or the annotator saw more."""
        self.item(item)
        newest = max(self.store.ledger().judgements(item, person.name), key=lambda entry: entry.number, default=None)
        if newest is None:
            raise StaleError(f"{item}: there is nothing of yours to undo.")
        slot, entry = newest.slot, newest

        def check(ledger: Ledger) -> None:
            if reason := self.why_no_undo(ledger, entry):
                raise RefusedError(f"{item}: {reason}")

        self.store.undo(item, slot, person.name, check=check)

    def why_no_undo(self, ledger: Ledger, entry: LedgerEntry) -> str:
        """Why a judgement can no longer be undone; empty if it can."""
        kind, _, *place = entry.slot.split("/")
        for other in ledger.judgements(entry.subject):
            other_kind, _, *other_place = other.slot.split("/")
            is_same = (kind, place) == (other_kind, other_place)
            if other.who != entry.who and kind != "skip" and (other.number > entry.number or is_same):
                return "this can no longer be undone: other judgements depend on it."
        if kind == "without":
            judged = judged_item(ledger, entry.subject)
            seen = self.queue.exposures.blindness(entry.who, judged, int(place[0]), since=entry.number)
            if seen is not Blindness.FRESH:
                return "this can no longer be undone: you have seen more of the video since."
        return ""

    def _held(self, person: Person, item: str, wanted: Assignment | None = None) -> Assignment:
        """The assignment of this item that an annotator holds; a `RefusedError` if it is not the wanted one."""
        held = self.queue.current(person.name)
        if held is None or held.item != item or (wanted is not None and held != wanted):
            raise RefusedError(f"{item[:40]}: this is not the assignment that you hold; go to your queue.")
        return held

    def _watching(self, person: Person, item: str) -> tuple[str, float, Evidence]:
        """The key of an annotator's playing reports for an item, their start, and the spans they can have played."""
        judged = self.item(item)
        whole: Evidence = (Interval(0.0, judged.proposal.duration),)
        if person.role is Role.ADJUDICATOR:
            return Stage.ADJUDICATION.value, 0.0, whole
        held = self._held(person, item)
        key = held.key(judged)
        allowed = whole if held.left_out is None else partial_set(judged.partial_evidence, held.left_out)
        return key, judged.holders[key][person.name], allowed

    def _looking(self, person: Person, held: Assignment, evidence: Evidence, *, must: bool) -> Looking:
        """How an annotator viewed these intervals; with `must`, all of them have to be played."""
        spans, seconds = self._progress(person, held.item)
        total = sum(interval.length for interval in evidence)
        if must:
            self._require_watched(evidence, spans)
            if seconds < total / FASTEST_RATE:
                raise JudgementError(
                    f"{total:.0f} s of video cannot be played in {seconds:.1f} s; play every clip first."
                )
        share = min((watched_share(interval, spans) for interval in evidence), default=1.0)
        blindness = Blindness.FRESH  # who verifies sees everything
        if held.left_out is not None:
            blindness = self.queue.exposures.blindness(person.name, self.item(held.item), held.left_out)
        return Looking(share, seconds, total, is_blind=blindness is Blindness.FRESH)

    def _require_watched(self, evidence: Evidence, spans: Sequence[Sequence[float]]) -> None:
        if missing := [each for each in evidence if watched_share(each, spans) < self.settings.watched_share]:
            names = ", ".join(map(str, missing))
            raise JudgementError(f"Play every interval to its end first; not played yet: {names}.")

    def _write(
        self,
        person: Person,
        item: str,
        slot: str,
        value: Mapping[str, object],
        *,
        revision: int | None = None,
        check: Check | None = None,
    ) -> None:
        """Write a judgement, with the time that its author worked on it since their last one in this slot."""
        ledger = self.store.ledger()
        if revision is None:
            revision = ledger.slot(item, slot).revision
        before = sum(e.seconds for e in ledger.entries if (e.subject, e.slot, e.who) == (item, slot, person.name))
        seconds = max(0.0, round(self._progress(person, item)[1] - before, 3))
        change = Change(item, slot, person.name, value, expected=revision, seconds=seconds)
        self.store.append([change], check=check)


def check_answer(answer: str, proposal: ProposedItem) -> str:
    """The corrected option; empty for the proposed one."""
    letters = proposal.question("").letters
    if answer and answer not in letters:
        raise JudgementError(f"The answer must be one of {letters[0]}-{letters[-1]}.")
    return "" if answer == proposal.answer else answer


def parse_evidence(pairs: Sequence[Sequence[float]], proposal: ProposedItem, answer: str = "") -> Evidence:
    """Intervals that an annotator sent: in order, apart, inside the video, in the number that a counted answer says."""
    try:
        if any(not 0 <= start < end <= proposal.duration for start, end in pairs):
            raise DraftError(f"every interval must lie in 0-{proposal.duration:g} s and end after its start")
        evidence = tuple(Interval(start, end) for start, end in pairs)
        check_evidence(evidence, proposal.duration)
        check_count(proposal.family, proposal.question("").option(answer or proposal.answer), evidence)
    except DraftError as error:
        raise JudgementError(f"These intervals are not valid: {error}.") from None
    return evidence
