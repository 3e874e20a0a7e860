"""Makes the records of a trajectory comparable by meaning instead of wording, so that rules apply to them.

- A fact with a closed list of values has one of them, however it was worded.
- Different free texts are one value while the answers that they support are the same.
- Different wordings of open answers are compared by one text-only call.
- A count stays open, whatever a record says, until exploration leaves no room for more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from pydantic import BaseModel

from trace_ves.agent.anchors import Inquiry, load_prompt
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import fold_words, same_answer
from trace_ves.records.search import AtLeast, Claim, ClaimKind, PrefixRecord, Trajectory

PROMPT: Final = load_prompt("same-answer")

_CHANGES_THE_MEANING: Final = frozenset(
    "no not never none nobody nothing without neither nor zero one two three four five six seven eight nine ten".split()  # noqa: SIM905  shorter than a list
)


class MatchReply(BaseModel):
    """Which of the known answers says the same, by its number from 1."""

    same_as: int | None


def same_words(one: str, other: str) -> bool:
    """Whether two wordings mean the same by rule: one only adds words that neither negate nor count."""
    first, second = set(fold_words(one)), set(fold_words(other))
    if not first <= second and not second <= first:
        return False
    return not any(word in _CHANGES_THE_MEANING or word.isdigit() for word in first ^ second)


def closed_value(said: str, values: Sequence[str]) -> str | None:
    """The value of a closed list that this wording means; None if it matches none or several."""
    exact = [value for value in values if same_answer(said, value)]
    alike = exact or [value for value in values if same_words(said, value)]
    return alike[0] if len(alike) == 1 else None


@dataclass(slots=True)
class Wordings:
    """The answers so far, each in its first wording. Only open questions need it."""

    inquiry: Inquiry
    known: dict[str, str] = field(default_factory=dict)

    def first_wording(self, answer: str | None) -> str | None:
        """The first wording of this answer: by rule, else by asking the model."""
        if answer is None or not self.inquiry.question.is_open:
            return answer
        if answer not in self.known:
            first = list(dict.fromkeys(self.known.values()))
            same = next((wording for wording in first if same_words(wording, answer)), None)
            self.known[answer] = same or self._asked(answer, first) or answer
        return self.known[answer]

    def _asked(self, answer: str, known: Sequence[str]) -> str | None:
        if not known:
            return None
        variables = {"question": self.inquiry.question.text, "answer": answer, "known": dict(enumerate(known, 1))}
        (reply,) = self.inquiry.observer.ask([Request(PROMPT, variables, MatchReply)])
        if isinstance(reply, ModelFault) or reply.same_as is None or not 1 <= reply.same_as <= len(known):
            return None
        return known[reply.same_as - 1]

    def agree(self, one: str | None, other: str | None) -> bool:
        """Whether two answers mean the same; a missing answer equals none."""
        return same_answer(self.first_wording(one), self.first_wording(other))


def by_meaning(trajectory: Trajectory, claims: Iterable[Claim], wordings: Wordings) -> Trajectory:
    """The records with one wording for answers and texts that mean the same."""
    worded = {claim.id: claim.values for claim in claims if claim.kind is ClaimKind.FACT}
    unified: list[PrefixRecord] = []
    for record in trajectory:
        answer = wordings.first_wording(record.answer)
        facts = dict(record.facts)
        for claim, closed in worded.items():
            if isinstance(said := facts.get(claim), str) and said not in closed:
                facts[claim] = _first_value(claim, said, answer, unified)
        unified.append(replace(record, answer=answer, facts=facts))
    return tuple(unified)


def _first_value(claim: str, said: str, answer: str | None, earlier: Sequence[PrefixRecord]) -> str:
    """The earlier value of a claim that this one repeats: the same text, or another for the same answer."""
    for record in earlier:
        known = record.facts.get(claim)
        if isinstance(known, str) and (same_words(known, said) or answer is None or same_answer(record.answer, answer)):
            return known
    return said


def with_completeness(
    trajectory: Trajectory, claims: Iterable[Claim], *, explored: bool, elsewhere: Sequence[float] = ()
) -> Trajectory:
    """The records, with the claim of completeness open wherever an occurrence may be missing or counted twice.

    `elsewhere` are moments that do not show what is counted: only they separate two occurrences with certainty.
    """
    needs = frozenset(claim.id for claim in claims if claim.kind is ClaimKind.EXPLORED)
    return tuple(
        record
        if not needs or (explored and _counts_nothing_twice(record, elsewhere))
        else replace(record, unmet_needs=record.unmet_needs | needs)
        for record in trajectory
    )


def _counts_nothing_twice(record: PrefixRecord, elsewhere: Sequence[float]) -> bool:
    """Whether something else was seen between any two consecutive occurrences."""
    counts = [value for value in record.facts.values() if isinstance(value, AtLeast)]
    return bool(counts) and all(
        len(value.spans) == value.count
        and all(any(a.end < moment < b.start for moment in elsewhere) for a, b in pairwise(sorted(value.spans)))
        for value in counts
    )
