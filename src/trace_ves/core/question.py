"""A question as a method may see it, and the same with its gold answer and evidence as an auditor sees it."""

from __future__ import annotations

import math
import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trace_ves.core.fields import (
    DirtyEvidenceError,
    FieldError,
    as_name,
    as_number,
    as_numbers,
    as_text,
    each,
    require,
    shown,
)
from trace_ves.core.interval import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

LETTERS: Final = string.ascii_uppercase
MIN_OPTIONS: Final = 2
MAX_OPTIONS: Final = len(LETTERS)

TEMPORAL_ORDERING: Final = "temporal-ordering"
EVENT_COUNTING: Final = "event-counting"


@dataclass(frozen=True, slots=True)
class Question:
    """What a method may see: never the answer, never the evidence set."""

    id: str
    video: str
    text: str
    options: tuple[str, ...] = ()
    """Two to twenty-six options, lettered from A; empty for an open question."""
    family: str = ""
    """`temporal-ordering`, `event-counting`, or any other word."""

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters that are answers; empty for an open question."""
        return tuple(LETTERS[: len(self.options)])

    @property
    def is_open(self) -> bool:
        """Whether the answer is free text instead of an option."""
        return not self.options

    def option(self, letter: str) -> str:
        """The words of the option with this letter."""
        return self.options[self.letters.index(letter)]


@dataclass(frozen=True, slots=True)
class Item:
    """A question with its gold answer and its jointly necessary evidence set G."""

    question: Question
    answer: str
    """The letter of the right option."""
    evidence: tuple[Interval, ...]
    """Empty where a benchmark has no evidence: such an item can be scored for accuracy alone."""
    duration: float
    """Seconds of the source video, from the benchmark's metadata; `math.inf` where a benchmark does not publish it."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """Keys of the bench file that this package does not know, kept as they were."""

    def to_json(self) -> dict[str, object]:
        """The item as it stands in a bench file; keys that nobody set are left out."""
        question = self.question
        record: dict[str, object] = {
            "id": question.id,
            "video": question.video,
            "duration": self.duration if math.isfinite(self.duration) else None,
            "family": question.family,
            "question": question.text,
            "options": list(question.options),
            "answer": self.answer,
            "evidence": [[interval.start, interval.end] for interval in self.evidence],
        }
        return record | dict(self.extra)

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> Item:
        """The line of a bench file. Dirty evidence is a `DirtyEvidenceError`, any other fault a plain `FieldError`."""
        options = each("options", require(record, "options"), as_text)
        if not MIN_OPTIONS <= len(options) <= MAX_OPTIONS:
            raise FieldError(f"'options' must hold {MIN_OPTIONS} to {MAX_OPTIONS} options, found {len(options)}")
        question = Question(
            id=as_name("id", require(record, "id")),
            video=as_name("video", require(record, "video")),
            text=as_text("question", require(record, "question")),
            options=options,
            family=as_text("family", record.get("family", "")),
        )
        answer = as_text("answer", require(record, "answer")).strip().upper()
        if answer not in question.letters:
            raise FieldError(
                f"'answer' must be one of {question.letters[0]}-{question.letters[-1]}, found {shown(record['answer'])}"
            )
        raw_duration = record.get("duration")
        duration = math.inf if raw_duration is None else as_number("duration", raw_duration)
        if duration <= 0:
            raise FieldError(f"'duration' must be more than 0 seconds, found {shown(raw_duration)}")
        evidence = evidence_from_json(record.get("evidence", []), duration, duration_precision(record))
        if evidence and not math.isfinite(duration):
            raise FieldError("the key 'duration' is missing, and a question with evidence needs it")
        return cls(
            question=question,
            answer=answer,
            evidence=evidence,
            duration=duration,
            extra={key: value for key, value in record.items() if key not in _KNOWN_KEYS},
        )


_KNOWN_KEYS: Final = {"id", "video", "duration", "family", "question", "options", "answer", "evidence"}


def duration_precision(record: Mapping[str, object]) -> float:
    """Seconds by which a bench's `duration` may be off, where the bench says that it is a rounded one; else 0."""
    return max(0.0, as_number("duration_precision", record.get("duration_precision", 0.0)))


def evidence_from_json(value: object, duration: float, precision: float = 0.0) -> tuple[Interval, ...]:
    """Evidence intervals as pairs of seconds, each with a length and inside the video but for a second of rounding."""
    return tuple(_interval(pair, duration, precision) for pair in each("evidence", value, as_numbers))


def _interval(pair: tuple[float, ...], duration: float, precision: float) -> Interval:
    if len(pair) != 2:
        raise FieldError(f"an evidence interval needs two numbers, start and end, found {shown(list(pair))}")
    start, end = pair
    if start > end:
        raise DirtyEvidenceError(f"evidence interval {start:g}-{end:g} s is reversed")
    if start == end:
        raise DirtyEvidenceError(f"evidence interval {start:g}-{end:g} s has no length")
    if start < -END_SLACK_SECONDS or end <= 0:
        raise DirtyEvidenceError(f"evidence interval {start:g}-{end:g} s starts before the video")
    if end > duration + max(precision, END_SLACK_SECONDS) or start >= duration + precision:
        raise DirtyEvidenceError(
            f"evidence interval {start:g}-{end:g} s ends after the video, which has {duration:g} s"
        )
    return Interval(max(0.0, start), end)


END_SLACK_SECONDS: Final = 1.0
"""Benches round: evidence and timestamps may pass an end of their video by this much before they are refused."""

END_TOLERANCE_SECONDS: Final = 1e-6
"""So that 0.1 + 0.2 does not end after 0.3."""
