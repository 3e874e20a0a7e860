"""All numbers of a report as CSV: one line for each run, family and metric, easy to load anywhere."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING, Final

from trace_ves.ves.report import rounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trace_ves.ves.report import AuditReport, RunReport

HEADER: Final = ("run", "family", "questions", "metric", "value", "ci95_low", "ci95_high", "signature")


def report_csv(report: AuditReport) -> str:
    """The report as CSV; an empty value is `--`, an empty family is the whole bench."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for run in report.runs:
        writer.writerows((*line, report.signature) for line in _lines(run, report))
    return out.getvalue()


def _lines(run: RunReport, report: AuditReport) -> Iterator[tuple[object, ...]]:
    for metric, value in run.metrics.items():
        low, high = run.ci95[metric] or (None, None)
        yield run.name, "", run.questions, metric, rounded(value), rounded(low), rounded(high)
    for family, metrics in run.families.items():
        for metric, value in metrics.items():
            yield run.name, family, report.bench.families[family], metric, rounded(value), None, None
