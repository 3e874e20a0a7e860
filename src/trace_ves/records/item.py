"""A question with its gold answer and evidence, and its line in a bench file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from pydantic import Field

from trace_ves.core.interval import Interval
from trace_ves.core.question import LETTERS, MAX_OPTIONS, MIN_OPTIONS, Question
from trace_ves.records.base import FieldError, JsonObject, Name, Number, Numbers, OpenRecord, shown

END_SLACK_SECONDS: Final = 1.0
"""Benches round: evidence and timestamps may pass an end of their video by this much before they are refused."""

END_TOLERANCE_SECONDS: Final = 1e-6  # So that 0.1 + 0.2 does not end after 0.3


class DirtyEvidenceError(FieldError):
    """A line is well-formed, but its evidence intervals are none: reversed, without length or beyond the video."""


@dataclass(frozen=True, slots=True)
class Item:
    """A question with its gold answer and its jointly necessary evidence set G."""

    question: Question
    answer: str  # the letter of the right option; for an open question, the answer as text
    evidence: tuple[Interval, ...]
    """Empty where a benchmark has no evidence: such an item can only be scored for accuracy."""
    duration: float
    """Seconds of the source video, from the benchmark's metadata; `math.inf` where a benchmark does not publish it."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """Keys of the bench file that this package does not know, kept as they were."""
    duration_precision: float = 0.0
    """Seconds by which the duration may be off, where the bench says that it is a rounded one."""
    accepted: tuple[str, ...] | None = None
    """Other wordings of the answer that are right, for an open question; None for a question with options."""

    @property
    def slack_seconds(self) -> float:
        """How far beyond the duration a moment of this video may lie."""
        return max(END_SLACK_SECONDS, self.duration_precision)

    def to_json(self) -> dict[str, object]:
        """The item as a line of a bench file."""
        return BenchLine.of(self).to_json()

    @classmethod
    def from_json(cls, value: object) -> Item:
        """The item in a line of a bench file. Dirty evidence is a `DirtyEvidenceError`, all else a `FieldError`."""
        return BenchLine.from_json(value).item()


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchLine(OpenRecord):
    """One line of a bench file."""

    nulls: ClassVar[frozenset[str]] = frozenset({"duration"})

    id: Name
    video: Name
    """Where the video lies, from the folder of the file."""
    duration: Annotated[Number | None, Field(json_schema_extra={"exclusiveMinimum": 0})] = None
    """Seconds of the video; a question with evidence needs it."""
    family: str = ""
    question: str
    options: Annotated[
        tuple[str, ...],
        Field(json_schema_extra={"anyOf": [{"maxItems": 0}, {"minItems": MIN_OPTIONS, "maxItems": MAX_OPTIONS}]}),
    ]
    """Two or more; none for an open question, which has `accepted`."""
    answer: Annotated[str, Field(json_schema_extra={"minLength": 1})]
    """The letter of the right option, from A; for an open question, the answer as text."""
    accepted: tuple[str, ...] | None = None
    """Other wordings that are right, for an open question; it may be empty."""
    evidence: tuple[Annotated[Numbers, Field(json_schema_extra={"minItems": 2, "maxItems": 2})], ...] = ()
    """The start and end in seconds of every interval that the answer depends on."""
    duration_precision: Number | None = None
    """Seconds by which the duration may be off, where it is a rounded one."""
    extra: JsonObject = field(default_factory=dict)

    @classmethod
    def of(cls, item: Item) -> BenchLine:
        """The line of an item."""
        question = item.question
        return cls(
            id=question.id,
            video=question.video,
            duration=item.duration if math.isfinite(item.duration) else None,
            family=question.family,
            question=question.text,
            options=question.options,
            answer=item.answer,
            accepted=item.accepted,
            evidence=tuple((interval.start, interval.end) for interval in item.evidence),
            duration_precision=item.duration_precision or None,
            extra=item.extra,
        )

    def item(self) -> Item:
        """The item, once the line follows the rules of a bench."""
        is_open = not self.options and self.accepted is not None
        if not is_open and not MIN_OPTIONS <= len(self.options) <= MAX_OPTIONS:
            raise FieldError(f"'options' must hold {MIN_OPTIONS} to {MAX_OPTIONS} options, found {len(self.options)}")
        letters = LETTERS[: len(self.options)]
        answer = self.answer.strip() if is_open else self.answer.strip().upper()
        if is_open and not answer:
            raise FieldError("'answer' is empty")
        if not is_open and (len(answer) != 1 or answer not in letters):
            raise FieldError(f"'answer' must be one of {letters[0]}-{letters[-1]}, found {shown(self.answer)}")
        if self.duration is not None and self.duration <= 0:
            raise FieldError(f"'duration' must be more than 0 seconds, found {shown(self.duration)}")
        if self.evidence and self.duration is None:
            raise FieldError("the key 'duration' is missing, and a question with evidence needs it")
        duration, precision = math.inf if self.duration is None else self.duration, self._precision
        return Item(
            Question(self.id, self.video, self.question, self.options, self.family),
            answer,
            tuple([_interval(pair, duration, precision) for pair in self.evidence]),
            duration,
            self.extra,
            precision,
            self.accepted if is_open else None,
        )

    @property
    def passes_an_end(self) -> bool:
        """Whether the evidence begins before its video or ends after it, by no more than benches are rounded."""
        latest = (self.duration or math.inf) + max(END_TOLERANCE_SECONDS, self._precision)
        return any(start < 0 or end > latest for start, end in self.evidence)

    @property
    def _precision(self) -> float:
        return max(0.0, self.duration_precision or 0.0)


def _interval(pair: tuple[float, ...], duration: float, precision: float) -> Interval:
    """An evidence interval, if it has a length and lies inside the video, up to the rounding of benches."""
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
