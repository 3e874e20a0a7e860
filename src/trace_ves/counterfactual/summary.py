"""How often answers change without their evidence, and how often without as much of anything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trace_ves.counterfactual.check import is_reproduced
from trace_ves.records.counterfactual import CLIPS
from trace_ves.ves.audit import RESAMPLES
from trace_ves.ves.statistics import bootstrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.records.counterfactual import Masked, Outcome


@dataclass(frozen=True, slots=True)
class FlipRate:
    """Changed answers in percent, over so many questions, with the 95% bootstrap interval."""

    questions: int
    percent: float | None
    ci95: tuple[float, float] | None
    no_answer: float | None = None
    """Questions in percent that got no answer any more; none of them counts as changed."""

    def to_json(self) -> dict[str, object]:
        """As `--json` prints it."""
        ci95 = None if self.ci95 is None else [round(bound, 4) for bound in self.ci95]
        return {
            "questions": self.questions,
            "changed": _rounded(self.percent),
            "ci95": ci95,
            "no_answer": _rounded(self.no_answer),
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """Both rates, and what did not count towards them."""

    eligible: int
    """Predictions that are correct and covered."""
    not_reproduced: int
    """Of those, the ones whose clips alone did not give the answer again."""
    no_mask: int
    """Reproduced, but no evidence frame among the clips, or no frames to stand in."""
    no_control: int
    """Masked, but the log has no span outside the evidence with as many frames."""
    failed: int
    evidence: FlipRate
    control: FlipRate
    older: int
    """Of the masked ones, those of a log of version 0.1, whose control was drawn from the clips alone."""

    def to_json(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "eligible": self.eligible,
            "not_reproduced": self.not_reproduced,
            "no_mask": self.no_mask,
            "no_control": self.no_control,
            "failed": self.failed,
            "older": self.older,
            "evidence": self.evidence.to_json(),
            "control": self.control.to_json(),
        }


def summarise(outcomes: Sequence[Outcome], *, resamples: int = RESAMPLES, seed: int = 0) -> Summary:
    """Count the changes."""
    counted = [outcome for outcome in outcomes if outcome.error is None and is_reproduced(outcome)]
    masked = [outcome for outcome in counted if outcome.evidence is not None]
    return Summary(
        eligible=len(outcomes),
        not_reproduced=sum(outcome.error is None and not is_reproduced(outcome) for outcome in outcomes),
        no_mask=len(counted) - len(masked),
        no_control=sum(outcome.control is None for outcome in masked),
        failed=sum(outcome.error is not None for outcome in outcomes),
        evidence=_rate([outcome.evidence for outcome in masked], resamples, seed),
        control=_rate([outcome.control for outcome in masked], resamples, seed),
        older=sum(outcome.control_of == CLIPS for outcome in masked),
    )


def _rate(masked: Sequence[Masked | None], resamples: int, seed: int) -> FlipRate:
    found = [each for each in masked if each is not None]
    if not found:
        return FlipRate(0, None, None)
    changed = np.array([[100.0 * each.changed] for each in found])
    interval = bootstrap(changed, resamples=resamples, seed=seed).interval(0)
    no_answer = 100.0 * sum(each.answer is None for each in found) / len(found)
    return FlipRate(len(found), float(changed.mean()), interval, no_answer)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
