"""What the audit says of one question, before anything is averaged. Every metric is a mean over these rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_ves.core.interval import Interval, centred_uniform, union
from trace_ves.records.record import FieldError, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.records import Item, Prediction


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One question of one run: was it right, and what was looked at."""

    question_id: str
    correct: bool | None
    """None for a sampler without a model: there is no answer to score."""
    frames_supplied: int
    frames_distinct: int
    """|F|: distinct source timestamps that were decoded for the model."""
    frames_inside: int
    """Of those, the ones inside any evidence interval."""
    density: int
    """Frames inside the least observed evidence interval: Cov@k asks for density >= k. 0 where there is no evidence."""
    termination: str | None = None
    """How the search ended, where the run says so."""

    @property
    def precision(self) -> float:
        """The share of the distinct frames that is inside the evidence; 0 where nothing was decoded."""
        return self.frames_inside / self.frames_distinct if self.frames_distinct else 0.0


def row_of_prediction(item: Item, prediction: Prediction | None) -> AuditRow:
    """Audit one prediction; a missing one is wrong and unobserved. What cannot be is a `FieldError`."""
    if prediction is None:
        return AuditRow(
            item.question.id, correct=False, frames_supplied=0, frames_distinct=0, frames_inside=0, density=0
        )
    seen = _distinct_inside(item, prediction)
    return _row(
        item,
        seen,
        correct=answered(item, prediction) == item.answer,
        frames_supplied=prediction.frames_supplied,
        termination=prediction.termination,
    )


def row_of_sampler(item: Item, count: int) -> AuditRow:
    """Audit the centred uniform schedule of `count` frames: fixed by the bench, the same for every model."""
    seen = centred_uniform(Interval(0.0, item.duration), count)
    return _row(item, seen, correct=None, frames_supplied=count)


def row_of_schedule(item: Item, timestamps: Sequence[float]) -> AuditRow:
    """Audit the frames that a schedule without a model chose; one that it chose twice was supplied twice."""
    return _row(item, sorted(set(timestamps)), correct=None, frames_supplied=len(timestamps))


def answered(item: Item, prediction: Prediction) -> str | None:
    """The letter that was answered, None for no answer; anything that is no option is a `FieldError`."""
    if prediction.answer is None:
        return None
    letter = prediction.answer.strip().upper()
    letters = item.question.letters
    if letter not in letters:
        raise FieldError(
            f"'answer' {shown(prediction.answer)} is no option of question {shown(item.question.id)}; "
            f"write a letter {letters[0]}-{letters[-1]}, or null for no answer"
        )
    return letter


def _distinct_inside(item: Item, prediction: Prediction) -> Sequence[float]:
    """F in order of time, once it is sure that the video has these moments."""
    seen = sorted(set(prediction.timestamps))
    latest = item.duration + item.slack_seconds
    if seen and not (seen[0] >= 0 and seen[-1] <= latest):
        outside = seen[0] if not seen[0] >= 0 else seen[-1]
        raise FieldError(
            f"timestamp {outside:g} lies outside the video of question {shown(item.question.id)}, "
            f"which has 0-{item.duration:g} s; timestamps are seconds from its first frame"
        )
    if prediction.frames_supplied < len(seen):
        raise FieldError(
            f"'frames_supplied' is {prediction.frames_supplied}, less than the {len(seen)} distinct timestamps; "
            "it counts every frame of every call"
        )
    return seen


def _row(
    item: Item, seen: Sequence[float], *, correct: bool | None, frames_supplied: int, termination: str | None = None
) -> AuditRow:
    return AuditRow(
        item.question.id,
        correct=correct,
        frames_supplied=frames_supplied,
        frames_distinct=len(seen),
        frames_inside=sum(_count(seen, interval) for interval in union(item.evidence)),
        density=min((_count(seen, interval) for interval in item.evidence), default=0),
        termination=termination,
    )


def _count(seen: Sequence[float], interval: Interval) -> int:
    """Frames inside a closed interval, of timestamps in order of time."""
    return bisect_right(seen, interval.end) - bisect_left(seen, interval.start)
