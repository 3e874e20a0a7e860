"""The audit as a scorer of inspect_ai: Acc, Cov@k, ECA@k and Fr of each sample, by the rows of `trace-ves audit`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from inspect_ai.scorer import Score, mean, scorer, stderr

from trace_ves.integrations.inspect.sample import is_measured, item_of, kept
from trace_ves.ves.metrics import HEADLINE_DENSITY, densities
from trace_ves.ves.rows import row_of_prediction

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer, Target
    from inspect_ai.solver import TaskState

    from trace_ves.ves.rows import AuditRow


@scorer(metrics={"*": [mean(), stderr()]})
def audit(k: int = HEADLINE_DENSITY) -> Scorer:
    """Acc: a correct answer. Cov@k: at least k frames in every evidence interval. ECA@k: both. Fr: frames supplied.

    Rates are shares from 0 to 1, as elsewhere in inspect_ai. A sample whose solver left no prediction is wrong and
    unobserved, as a question without a line is to `trace-ves audit`.
    """

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001  the item has the answer too
        item, prediction = item_of(state), kept(state)
        row = row_of_prediction(item, prediction)
        measured = is_measured(state)
        values = _values(row, k, has_evidence=bool(item.evidence) or not measured)
        if not measured:
            values = dict.fromkeys(values, math.nan)  # inspect_ai leaves it out of the mean, as the audit does
        return Score(value=values, answer=prediction.answer if prediction else None, explanation=_words(row))

    return score


def _values(row: AuditRow, k: int, *, has_evidence: bool) -> dict[str, float]:
    correct, covered = bool(row.correct), {level: row.density >= level for level in densities(k)}
    found = {"Acc": float(correct)}
    if has_evidence:
        found |= {f"Cov@{level}": float(covered[level]) for level in covered}
        found |= {f"ECA@{level}": float(correct and covered[level]) for level in covered}
    return found | {"Fr": float(row.frames_supplied)}


def _words(row: AuditRow) -> str:
    return (
        f"{row.frames_supplied} frames supplied, {row.frames_distinct} of them distinct, {row.frames_inside} inside "
        f"the evidence, {row.density} in its least observed interval"
    )
