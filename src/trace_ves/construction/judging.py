"""Judgements of people: each is checked against the assignment that they hold, then written to the history."""

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
from trace_ves.core.interval import clip_to_segments

if TYPE_CHECKING:
    from trace_ves.construction.project import BuildSettings
    from trace_ves.construction.store import Check, Store


class JudgementError(TraceVesError):
    """A judgement with values that are not valid."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An annotator's verdict on an item's intervals, as the page sends it."""

    kind: str = "accept"  # `accept`, `reject` or `unsure`
    evidence: Sequence[Sequence[float]] = ()
    answer: str = ""  # the right option; empty for the proposed one
    reason: str = ""
    comment: str = ""


class Judgements:
    """Writes judgements to one store. Threads may share it."""

    def __init__(self, store: Store, settings: BuildSettings) -> None:
        self.store = store
        self.settings = settings
        self.queue = AssignmentQueue(store, settings)

    def item(self, item: str) -> JudgedItem:
        """An item; a `RefusedError` if it does not exist."""
        return judged_item(self.store.ledger(), item)

    def next_assignment(self, person: Person) -> Assignment | None:
        """The assignment that an annotator holds, or a new one."""
        if person.role is not Role.ANNOTATOR:
            raise RefusedError("Only annotators have a queue.")
        return self.queue.take_next(person.name)

    def note_watched(
        self, person: Person, item: str, spans: Sequence[Interval], *, sent: Sequence[Interval]
    ) -> list[list[float]]:
        """Add spans that a player reports, limited to what was sent to it; returns all spans played so far."""
        key, since, allowed = self._watching(person, item)
        inside = [part for span in spans for part in clip_to_segments(span.start, span.end, allowed)]
        new = evidence_to_json([part for span in inside for part in clip_to_segments(span.start, span.end, sent)])

        def add(last: float, known: Mapping[str, Any]) -> dict[str, Any]:
            report = self._add_played(last, known, since, new)
            if report["credit"] < 0:
                raise JudgementError("The report contains more video than can be played in this time.")
            return report

        played: list[list[float]] = self.store.note_watched(item, key, person.name, add)["spans"]
        return played

    def watched(self, person: Person, item: str) -> list[list[float]]:
        """The spans of an item that an annotator has played."""
        return self._progress(person, item)[0]

    def _progress(self, person: Person, item: str) -> tuple[list[list[float]], float]:
        """The spans of an item that someone has played, and their working time, in which long pauses count in part."""
        key, since, _ = self._watching(person, item)
        last, known = self.store.watched(item, key, person.name)
        known = self._add_played(last, known, since)
        return known["spans"], known["active"]

    def _add_played(
        self, last: float, known: Mapping[str, Any], since: float, spans: Sequence[Sequence[float]] = ()
    ) -> dict[str, Any]:
        """Add spans to the last report; a report from before the assignment is ignored."""
        now = self.store.clock()
        return add_played(known if last > since else {}, spans, now - (max(last, since) or now))

    def verify(self, person: Person, item: str, verdict: Verdict, *, revision: int) -> None:
        """Record a verdict on the intervals."""
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
        """Record an answer from a partial set; None means that its clips do not decide."""
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
        """Give an assignment back with a reason; the item is not offered to this person again."""
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
        """Record the adjudicator's decision on the disagreement on their page."""
        person.require(Role.ADJUDICATOR)
        judged = self.item(item)
        dispute = judged.state.dispute
        if dispute is None or tuple(about) != dispute.about:
            raise StaleError(f"{item}: this disagreement is already settled or has changed.")
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
        """Undo an annotator's newest judgement of an item; refused if others depend on it or if they have seen more."""
        self.item(item)
        newest = max(self.store.ledger().judgements(item, person.name), key=lambda entry: entry.number, default=None)
        if newest is None:
            raise StaleError(f"{item}: you have no judgement to undo.")
        slot, entry = newest.slot, newest

        def check(ledger: Ledger) -> None:
            if reason := self.why_no_undo(ledger, entry):
                raise RefusedError(f"{item}: {reason}")

        self.store.undo(item, slot, person.name, check=check)

    def why_no_undo(self, ledger: Ledger, entry: LedgerEntry) -> str:
        """The reason why a judgement can no longer be undone; empty if it can."""
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

    def _held(self, person: Person, item: str, expected: Assignment | None = None) -> Assignment:
        """The assignment of this item that an annotator holds; a `RefusedError` if it is not the expected one."""
        held = self.queue.current(person.name)
        if held is None or held.item != item or (expected is not None and held != expected):
            raise RefusedError(f"{item[:40]}: this is not the assignment that you hold; go to your queue.")
        return held

    def _watching(self, person: Person, item: str) -> tuple[str, float, Evidence]:
        """The key of an annotator's playback reports for an item, when they begin, and the spans they may contain."""
        judged = self.item(item)
        whole: Evidence = (Interval(0.0, judged.proposal.duration),)
        if person.role is Role.ADJUDICATOR:
            return Stage.ADJUDICATION.value, 0.0, whole
        held = self._held(person, item)
        key = held.key(judged)
        allowed = whole if held.left_out is None else partial_set(judged.partial_evidence, held.left_out)
        return key, judged.holders[key][person.name], allowed

    def _looking(self, person: Person, held: Assignment, evidence: Evidence, *, must: bool) -> Looking:
        """How an annotator viewed these intervals; with `must`, an error if they did not play all of them."""
        spans, seconds = self._progress(person, held.item)
        total = sum(interval.length for interval in evidence)
        if must:
            self._require_watched(evidence, spans)
            if seconds < total / FASTEST_RATE:
                raise JudgementError(
                    f"{total:.0f} s of video cannot be played in {seconds:.1f} s; play every clip first."
                )
        share = min((watched_share(interval, spans) for interval in evidence), default=1.0)
        blindness = Blindness.FRESH  # verification need not be blind
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
        """Write a judgement, with the working time since the author's last one in this slot."""
        ledger = self.store.ledger()
        if revision is None:
            revision = ledger.slot(item, slot).revision
        before = sum(e.seconds for e in ledger.entries if (e.subject, e.slot, e.who) == (item, slot, person.name))
        seconds = max(0.0, round(self._progress(person, item)[1] - before, 3))
        change = Change(item, slot, person.name, value, expected=revision, seconds=seconds)
        self.store.append([change], check=check)


def check_answer(answer: str, proposal: ProposedItem) -> str:
    """Check an answer; returns it, or an empty string for the proposed one."""
    letters = proposal.question("").letters
    if answer and answer not in letters:
        raise JudgementError(f"The answer must be one of {letters[0]}-{letters[-1]}.")
    return "" if answer == proposal.answer else answer


def parse_evidence(pairs: Sequence[Sequence[float]], proposal: ProposedItem, answer: str = "") -> Evidence:
    """Check intervals from an annotator: order, overlap, length, and for a counting item their number."""
    try:
        if any(not 0 <= start < end <= proposal.duration for start, end in pairs):
            raise DraftError(f"every interval must lie in 0-{proposal.duration:g} s and end after its start")
        evidence = tuple(Interval(start, end) for start, end in pairs)
        check_evidence(evidence, proposal.duration)
        check_count(proposal.family, proposal.question("").option(answer or proposal.answer), evidence)
    except DraftError as error:
        raise JudgementError(f"These intervals are not valid: {error}.") from None
    return evidence
