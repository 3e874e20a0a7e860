"""The types of an audit report. `print` shows a report as tables; `audit --json` writes it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, PlainSerializer, Strict, WithJsonSchema, WrapSerializer
from pydantic.json_schema import SkipJsonSchema

from trace_ves.records.base import Count, Flag, Record, SparseRecord
from trace_ves.ves.rows import AuditRow

JSON_DECIMALS: Final = 6


def round_rate(value: float | None) -> float | None:
    """Round a number to remove floating-point noise."""
    return None if value is None else round(value, JSON_DECIMALS)


Rate = Annotated[float, Strict(), PlainSerializer(round_rate)]
Rates = dict[str, Rate | None]
Bound = Annotated[Rate, WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "null"}]})]  # as version 0.1.0 had it
Bounds = tuple[Bound, Bound] | None
OrAbsent = WrapSerializer(lambda value, write: write(value) if value else None)  # an empty object is left out


@dataclass(frozen=True, slots=True)
class BenchFigures(Record):
    """The figures of the bench: its size, and EP_ref, which EP is compared with."""

    questions: Count
    measured: Annotated[Count, Field(alias="questions_with_evidence")]
    videos: Count
    ep_ref: Annotated[Rate | None, Field(alias="EP_ref")]
    """Mean share of a video that is evidence, in percent."""
    families: dict[str, Count]
    """Number of questions with evidence in each family."""
    mean_duration: Rate | None
    """Seconds."""
    mean_intervals: Rate | None
    """Mean number of evidence intervals per question."""
    mean_interval_length: Rate | None
    """Seconds."""


@dataclass(frozen=True, slots=True)
class GroupFigures(Record):
    """Accuracy over a subset of the questions."""

    questions: Count
    acc: Annotated[Rate | None, Field(alias="Acc")]


@dataclass(frozen=True, slots=True)
class ClassFigures(Record):
    """Every metric over a subset of the questions with evidence."""

    questions: Count
    metrics: Rates


@dataclass(frozen=True, slots=True)
class RunFigures(SparseRecord):
    """The figures of one run."""

    name: str
    method: str
    backbone: str
    is_sampler: Annotated[Flag, Field(alias="sampler")]
    """Whether this is a schedule without a model, which has no answers."""
    signature: str
    """Version, bench and settings of the audit; figures with the same signature are comparable."""
    questions: Count
    """Questions that the metrics cover."""
    metrics: Rates
    ci95: dict[str, Bounds]
    ci95_by_video: dict[str, Bounds]
    """The same intervals with whole videos resampled."""
    families: dict[str, Rates]
    answer_only: GroupFigures
    """Accuracy over all questions of the bench, with or without evidence."""
    unanswered: Count | None = None
    """Questions of the bench without an answer; they count as wrong. Version 0.1.0 did not count them."""
    missing: Count | None = None
    """Questions of the bench without a line in the run."""
    groups: Annotated[dict[str, dict[str, GroupFigures]] | None, OrAbsent] = None
    """Accuracy by the group keys of the bench, or of the log if the bench has none."""
    question_groups: GroupFigures | None = None
    """Share of question groups, such as those of Video-MME-v2, with only correct answers."""
    classes: Annotated[dict[str, dict[str, ClassFigures]] | None, OrAbsent] = None
    """Every metric by duration class and by number of evidence intervals."""
    read_by: Annotated[dict[str, Count] | None, OrAbsent] = None
    """Number of answers that each rule read from the text of a log, and of those that no rule could read."""
    frames_by_stage: Annotated[Rates | None, OrAbsent] = None
    """Supplied frames by the stage of the call, if the run logged its calls."""
    reconstructed: str | None = None
    """What the timestamps were computed from, if they were not logged."""
    has_budget: Annotated[SkipJsonSchema[bool], Field(exclude=True)] = True
    """Whether the method has a frame budget."""
    rows: Annotated[SkipJsonSchema[Sequence[AuditRow]], Field(exclude=True)] = field(default=(), repr=False)
    """One row for each question of the bench, sorted by id."""

    def half_width(self, metric: str, *, by_video: bool = False) -> float | None:
        """Half of the width of a metric's 95% interval, which tables show after the plus-minus sign."""
        bounds = (self.ci95_by_video if by_video else self.ci95).get(metric)
        return None if bounds is None else (bounds[1] - bounds[0]) / 2


@dataclass(frozen=True, slots=True)
class ComparisonFigures(Record):
    """Run a minus run b in one metric, on the same questions and the same resamples."""

    a: str
    b: str
    metric: str
    difference: Rate | None
    ci95: Bounds
    p: Rate | None
    """Two-sided, from the paired bootstrap."""


@dataclass(frozen=True, slots=True)
class AgreementFigures(Record):
    """How often two runs agree, in percent of the questions for which both have a value."""

    a: str
    b: str
    questions: Count
    answers: Rate | None
    responses: Rate | None
    """What the model wrote, if both runs recorded it."""
    frames: Rate | None
    """The set of distinct timestamps, if both runs recorded it."""


@dataclass(frozen=True, slots=True)
class AuditReport(Record):
    """The result of an audit. `print` shows its tables."""

    signature: str
    bench: BenchFigures
    runs: tuple[RunFigures, ...]
    comparisons: tuple[ComparisonFigures, ...]
    warnings: tuple[str, ...]
    """Problems that did not stop the audit, one sentence each."""
    k: Annotated[SkipJsonSchema[int], Field(exclude=True)]
    agreement: tuple[AgreementFigures, ...] = ()
    """Agreement of every pair of runs."""

    def run(self, name: str) -> RunFigures:
        """The run of this name."""
        return next(run for run in self.runs if run.name == name)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the report to a file; its suffix selects the format: .json, .csv, .md, .tex, .html or .txt."""
        from trace_ves.ves.renderers import save_report  # needed only for writing

        return save_report(self, path)

    def _repr_html_(self) -> str:
        from trace_ves.ves.renderers import report_html  # needed only in notebooks

        return report_html(self)

    def __str__(self) -> str:
        from trace_ves.ves.terminal import report_text  # rich is needed only for printing

        return report_text(self)
