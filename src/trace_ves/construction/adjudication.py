"""Stage 5: what annotators disagree about, shown side by side, and the adjudicator's word on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trace_ves.construction.judged_item import Settlement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.construction.judged_item import Dispute, JudgedItem
    from trace_ves.construction.visual_verification import Evidence, Verification


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a disagreement."""

    name: str
    verdict: Verification | None = None
    answers: Mapping[int, str | None] | None = None
    """Without each interval: the option that was chosen, None where nothing was decided."""


def sides(judged: JudgedItem, dispute: Dispute) -> list[Side]:
    """The verdicts that disagree, and for a disagreement about sufficiency what the model said."""
    if not dispute.evidence:
        return [Side(who, verdict) for who, (verdict, _) in judged.verifications.items()]
    people = judged.answered(dispute.evidence)
    found = [
        Side(who, answers={left_out: each.answer for left_out, each in sorted(mine.items())})
        for who, mine in people.items()
    ]
    probes = judged.probes_of(dispute.evidence)
    said = {left_out: judged.proposal.answer if probe.determines else None for left_out, probe in probes.items()}
    return [*found, Side("the model", answers=said)]


def settlement_value(dispute: Dispute, *, keep: bool, evidence: Evidence, reason: str, answer: str) -> dict[str, Any]:
    """An adjudicator's decision as it stands in the history."""
    return Settlement(keep, dispute.about, evidence, reason, answer).to_json()
