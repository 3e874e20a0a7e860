"""Stage 5: disagreements between annotators, shown side by side, and the adjudicator's decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_ves.construction.visual_verification import Evidence, Verification
from trace_ves.records.base import Counts, Flag, Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.construction.judged_item import JudgedItem

# Kinds of disagreement: whether the events are there, where their edges are, whether a partial set decides.
GROUNDING, BOUNDARIES, SUFFICIENCY = "grounding", "boundaries", "sufficiency"


@dataclass(frozen=True, slots=True)
class Settlement(Record):
    """The adjudicator's decision on a disagreement."""

    keep: Flag
    about: Counts  # numbers of the history's entries that disagreed; other numbers are another disagreement
    evidence: Evidence = ()  # the final intervals, if the disagreement was about them
    reason: str = ""
    answer: str = ""  # the right option, if it is not the proposed one


@dataclass(frozen=True, slots=True)
class Dispute:
    """A disagreement that waits for the adjudicator."""

    kind: str
    about: tuple[int, ...]
    evidence: Evidence = ()  # the final intervals, for a disagreement about sufficiency


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a disagreement."""

    name: str
    verdict: Verification | None = None
    answers: Mapping[int, str | None] | None = None  # the option chosen without each interval, None for undecided


def list_sides(judged: JudgedItem, dispute: Dispute) -> list[Side]:
    """The verdicts that disagree; for sufficiency, the answers of annotators and model."""
    if not dispute.evidence:
        return [Side(who, verdict) for who, verdict in judged.verifications.items()]
    people = [
        Side(who, answers={left_out: each.answer for left_out, each in sorted(answers.items())})
        for who, answers in judged.answers_about(dispute.evidence).items()
    ]
    model = {
        left_out: judged.proposal.answer if probe.determines else None
        for left_out, probe in judged.probes_about(dispute.evidence).items()
    }
    return [*people, Side("the model", answers=model)]
