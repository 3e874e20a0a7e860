"""What an audit found, as plain values: readable with `print`, and ready for JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trace_ves.records.audit_report import AuditFigures, BenchFigures, ComparisonFigures, GroupFigures, RunFigures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    from trace_ves.ves.rows import AuditRow

    Metrics = Mapping[str, float | None]
    Bounds = Mapping[str, tuple[float, float] | None]

JSON_DECIMALS: Final = 6


@dataclass(frozen=True, slots=True)
class BenchSummary:
    """The benchmark itself: its size, and the constant that targeting is compared with."""

    questions: int
    measured: int
    """Questions with evidence; all metrics but those of an answer-only report are over these."""
    videos: int
    ep_ref: float | None
    """Mean share of a video that is evidence, in percent; None where the bench has no evidence."""
    families: Mapping[str, int]
    """Questions of each family, of those that the metrics are over."""
    mean_duration: float | None
    mean_intervals: float | None
    """Evidence intervals of a question, on average."""
    mean_interval_length: float | None
    """Seconds of an evidence interval, on average."""

    @property
    def figures(self) -> BenchFigures:
        """As it stands under `bench` in `audit --json`."""
        return BenchFigures(
            questions=self.questions,
            questions_with_evidence=self.measured,
            videos=self.videos,
            EP_ref=rounded(self.ep_ref),
            families=dict(self.families),
            mean_duration=rounded(self.mean_duration),
            mean_intervals=rounded(self.mean_intervals),
            mean_interval_length=rounded(self.mean_interval_length),
        )


@dataclass(frozen=True, slots=True)
class GroupAccuracy:
    """Accuracy over the questions that share one value of a key, such as a duration group."""

    questions: int
    acc: float | None

    @property
    def figures(self) -> GroupFigures:
        """As it stands in `audit --json`."""
        return GroupFigures(self.questions, rounded(self.acc))


@dataclass(frozen=True, slots=True)
class RunReport:
    """What the audit says of one run."""

    name: str
    method: str
    backbone: str
    is_sampler: bool
    """A schedule without a model: nothing was answered."""
    questions: int
    """Questions that the metrics are over."""
    metrics: Metrics
    ci95: Bounds
    ci95_by_video: Bounds
    """The same intervals with whole videos resampled."""
    families: Mapping[str, Metrics]
    answer_only: GroupAccuracy
    """Accuracy over every question of the bench, evidence or not."""
    groups: Mapping[str, Mapping[str, GroupAccuracy]] = field(default_factory=dict)
    """Accuracy by the bench's own group keys: key -> value -> accuracy."""
    frames_by_stage: Mapping[str, float] = field(default_factory=dict)
    """Fr split by the stage of the call, where the run logged its calls."""
    unanswered: int = 0
    """Questions of the bench without an answer: null, ended in an error, or missing. They count as wrong."""
    has_budget: bool = True
    """False for somebody's own method that ran without a limit on its frames."""
    reconstructed: str | None = None
    """Where the timestamps were not logged: the schedule that they follow from, and the frames it chose among."""
    rows: Sequence[AuditRow] = field(default=(), repr=False)
    """Every question of the bench, in order of its id; not in the JSON."""

    def figures(self, signature: str) -> RunFigures:
        """As it stands under `runs` in `audit --json`."""
        groups = {key: {value: group.figures for value, group in groups.items()} for key, groups in self.groups.items()}
        return RunFigures(
            name=self.name,
            method=self.method,
            backbone=self.backbone,
            sampler=self.is_sampler,
            signature=signature,
            questions=self.questions,
            unanswered=self.unanswered,
            metrics=_rates(self.metrics),
            ci95={name: _pair(bounds) for name, bounds in self.ci95.items()},
            ci95_by_video={name: _pair(bounds) for name, bounds in self.ci95_by_video.items()},
            families={family: _rates(metrics) for family, metrics in self.families.items()},
            answer_only=self.answer_only.figures,
            groups=groups or None,
            frames_by_stage=_rates(self.frames_by_stage) or None,
            reconstructed=self.reconstructed,
        )

    def half_width(self, metric: str, *, by_video: bool = False) -> float | None:
        """Half of the 95% interval of a metric: the number after the plus-minus sign."""
        bounds = (self.ci95_by_video if by_video else self.ci95).get(metric)
        return None if bounds is None else (bounds[1] - bounds[0]) / 2


@dataclass(frozen=True, slots=True)
class Comparison:
    """Run a minus run b in one metric, on the same questions and the same resamples."""

    a: str
    b: str
    metric: str
    difference: float | None
    ci95: tuple[float, float] | None
    p: float | None
    """Two-sided, from the paired bootstrap."""

    @property
    def figures(self) -> ComparisonFigures:
        """As it stands under `comparisons` in `audit --json`."""
        return ComparisonFigures(
            self.a, self.b, self.metric, rounded(self.difference), _pair(self.ci95), rounded(self.p)
        )


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The whole audit. `print` it to read it."""

    bench: BenchSummary
    runs: tuple[RunReport, ...]
    comparisons: tuple[Comparison, ...]
    signature: str
    k: int
    warnings: tuple[str, ...] = ()
    """What was counted but not refused, one sentence each."""

    def to_json(self) -> dict[str, object]:
        """The report as `audit --json` prints it: rates in percent, null for `--`."""
        return AuditFigures(
            signature=self.signature,
            bench=self.bench.figures,
            runs=tuple(run.figures(self.signature) for run in self.runs),
            comparisons=tuple(comparison.figures for comparison in self.comparisons),
            warnings=self.warnings,
        ).to_json()

    def run(self, name: str) -> RunReport:
        """The run of this name."""
        return next(run for run in self.runs if run.name == name)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the report to a file; its suffix says how: .json, .csv, .md, .tex, .html or .txt."""
        from trace_ves.ves.renderers import save_report  # needed for writing alone

        return save_report(self, path)

    def _repr_html_(self) -> str:
        from trace_ves.ves.renderers import report_html  # needed in notebooks alone

        return report_html(self)

    def __str__(self) -> str:
        from trace_ves.ves.terminal import report_text  # rich is needed for printing alone

        return report_text(self)


def rounded(value: float | None) -> float | None:
    """A number without the noise of its last bits."""
    return None if value is None else round(value, JSON_DECIMALS)


def _rates(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: rounded(value) for name, value in values.items()}


def _pair(bounds: tuple[float, float] | None) -> tuple[float | None, float | None] | None:
    return None if bounds is None else (rounded(bounds[0]), rounded(bounds[1]))
