"""The records of a trajectory made comparable, so that rules can be applied to them: by meaning, not by wording.

- A fact with a closed list of values has one of them, however it was worded.
- Free words that differ are one value while the answers they support are the same.
- Answers to an open question that differ in words are compared by one call of text alone.
- A count stays open, whatever a record says about its clips, until what was explored leaves no room for more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel

from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.replies import folded, same_answer
from trace_ves.records.search import AtLeast, ClaimKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trace_ves.agent.anchors import Inquiry
    from trace_ves.records.search import Claim, PrefixRecord, Trajectory

PROMPT: Final = Prompt.load(resources.files("trace_ves.agent") / "prompts", "same-answer")

_CHANGES_THE_MEANING: Final = frozenset(
    "no not never none nobody nothing without neither nor zero one two three four five six seven eight nine ten".split()  # noqa: SIM905  a list would be a page
)


class MatchReply(BaseModel):
    """Which of the known answers says the same, by its number from 1."""

    same_as: int | None


def same_words(one: str, other: str) -> bool:
    """Whether two wordings say the same by rule: the same words, or one adds words that neither negate nor count."""
    first, second = set(folded(one)), set(folded(other))
    if not first <= second and not second <= first:
        return False
    return not any(word in _CHANGES_THE_MEANING or word.isdigit() for word in first ^ second)


def closed_value(said: str, values: Sequence[str]) -> str | None:
    """The value of a closed list that this wording means; None where it is none of them, or could be two."""
    exact = [value for value in values if same_answer(said, value)]
    alike = exact or [value for value in values if same_words(said, value)]
    return alike[0] if len(alike) == 1 else None


@dataclass(slots=True)
class Wordings:
    """The answers given so far, each under its first wording. Options have letters, so only open questions need it."""

    inquiry: Inquiry
    known: dict[str, str] = field(default_factory=dict)

    def first_wording(self, answer: str | None) -> str | None:
        """The wording under which this answer was first given: by rule, else by asking whether one means the same."""
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
        """Whether two answers mean the same; no answer agrees with nothing."""
        return same_answer(self.first_wording(one), self.first_wording(other))


def by_meaning(trajectory: Trajectory, claims: Iterable[Claim], wordings: Wordings) -> Trajectory:
    """The records with answers and free words under one wording wherever they mean the same."""
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
    """The earlier value of a claim that this one repeats: in the same words, or in others for the same answer."""
    for record in earlier:
        known = record.facts.get(claim)
        if isinstance(known, str) and (same_words(known, said) or answer is None or same_answer(record.answer, answer)):
            return known
    return said


def with_completeness(
    trajectory: Trajectory, claims: Iterable[Claim], *, explored: bool, elsewhere: Sequence[float] = ()
) -> Trajectory:
    """The records, with the claim of completeness open in each that could miss an occurrence or count one twice.

    `elsewhere` are moments that were seen without what is counted: only they tell two occurrences apart for certain.
    """
    needs = frozenset(claim.id for claim in claims if claim.kind is ClaimKind.EXPLORED)
    return tuple(
        record
        if not needs or (explored and _counts_nothing_twice(record, elsewhere))
        else replace(record, unmet_needs=record.unmet_needs | needs)
        for record in trajectory
    )


def _counts_nothing_twice(record: PrefixRecord, elsewhere: Sequence[float]) -> bool:
    """Whether something else was seen between any two occurrences that follow one another."""
    counts = [value for value in record.facts.values() if isinstance(value, AtLeast)]
    return bool(counts) and all(
        len(value.spans) == value.count
        and all(any(a.end < moment < b.start for moment in elsewhere) for a, b in pairwise(sorted(value.spans)))
        for value in counts
    )
