"""Compares the records of a trajectory by meaning instead of wording, so that rules apply to them.

- A fact with a closed list of values gets one of them, for any wording.
- Different free texts count as one value if they support the same answer.
- One text-only call compares different wordings of an open answer.
- A count stays open until the video is explored.
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

_MEANINGFUL_WORDS: Final = frozenset(
    "no not never none nobody nothing without neither nor zero one two three four five six seven eight nine ten".split()  # noqa: SIM905  shorter than a list
)


class MatchReply(BaseModel):
    """Which of the known answers says the same, by its number from 1."""

    same_as: int | None


def same_words(one: str, other: str) -> bool:
    """Whether two wordings mean the same by rule: one of them only adds words that neither negate nor count."""
    first, second = set(fold_words(one)), set(fold_words(other))
    if not first <= second and not second <= first:
        return False
    return not any(word in _MEANINGFUL_WORDS or word.isdigit() for word in first ^ second)


def match_value(text: str, values: Sequence[str]) -> str | None:
    """The value of a closed list that this text means; None if it matches none or several."""
    exact = [value for value in values if same_answer(text, value)]
    matches = exact or [value for value in values if same_words(text, value)]
    return matches[0] if len(matches) == 1 else None


@dataclass(slots=True)
class Wordings:
    """The first wording of each answer so far. Only open questions need it."""

    inquiry: Inquiry
    by_answer: dict[str, str] = field(default_factory=dict)

    def first_wording(self, answer: str | None) -> str | None:
        """The first wording of this answer, found by rule or by the model."""
        if answer is None or not self.inquiry.question.is_open:
            return answer
        if answer not in self.by_answer:
            wordings = list(dict.fromkeys(self.by_answer.values()))
            same = next((wording for wording in wordings if same_words(wording, answer)), None)
            self.by_answer[answer] = same or self._ask(answer, wordings) or answer
        return self.by_answer[answer]

    def _ask(self, answer: str, wordings: Sequence[str]) -> str | None:
        if not wordings:
            return None
        variables = {"question": self.inquiry.question.text, "answer": answer, "known": dict(enumerate(wordings, 1))}
        (reply,) = self.inquiry.observer.ask([Request(PROMPT, variables, MatchReply)])
        if isinstance(reply, ModelFault) or reply.same_as is None or not 1 <= reply.same_as <= len(wordings):
            return None
        return wordings[reply.same_as - 1]

    def agree(self, one: str | None, other: str | None) -> bool:
        """Whether two answers mean the same; a missing answer equals none."""
        return same_answer(self.first_wording(one), self.first_wording(other))


def unify_wordings(trajectory: Trajectory, claims: Iterable[Claim], wordings: Wordings) -> Trajectory:
    """The records with one wording for answers and texts that mean the same."""
    values_by_claim = {claim.id: claim.values for claim in claims if claim.kind is ClaimKind.FACT}
    unified: list[PrefixRecord] = []
    for record in trajectory:
        answer = wordings.first_wording(record.answer)
        facts = dict(record.facts)
        for claim, values in values_by_claim.items():
            if isinstance(text := facts.get(claim), str) and text not in values:
                facts[claim] = _find_first_value(claim, text, answer, unified)
        unified.append(replace(record, answer=answer, facts=facts))
    return tuple(unified)


def _find_first_value(claim: str, text: str, answer: str | None, earlier: Sequence[PrefixRecord]) -> str:
    """The earlier value of a claim with the same meaning or the same answer; else the text."""
    for record in earlier:
        value = record.facts.get(claim)
        if isinstance(value, str) and (same_words(value, text) or answer is None or same_answer(record.answer, answer)):
            return value
    return text


def mark_completeness(
    trajectory: Trajectory, claims: Iterable[Claim], *, explored: bool, elsewhere: Sequence[float] = ()
) -> Trajectory:
    """The records, with the claim of completeness open if an occurrence may be missing or counted twice.

    `elsewhere` are moments that do not show the counted event: only they separate two occurrences with certainty.
    """
    needs = frozenset(claim.id for claim in claims if claim.kind is ClaimKind.EXPLORED)
    return tuple(
        record
        if not needs or (explored and _counts_nothing_twice(record, elsewhere))
        else replace(record, unmet_needs=record.unmet_needs | needs)
        for record in trajectory
    )


def _counts_nothing_twice(record: PrefixRecord, elsewhere: Sequence[float]) -> bool:
    """Whether a frame between any two consecutive occurrences shows something else."""
    counts = [value for value in record.facts.values() if isinstance(value, AtLeast)]
    return bool(counts) and all(
        len(value.spans) == value.count
        and all(any(a.end < moment < b.start for moment in elsewhere) for a, b in pairwise(sorted(value.spans)))
        for value in counts
    )
