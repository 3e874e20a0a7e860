"""The VES-Bench audit: which evidence the frames of a method covered. Needs no decoder and no model client."""

from trace_ves.records.run_file import Run, load_run, load_runs
from trace_ves.ves.audit import audit, summarise
from trace_ves.ves.report import AuditReport
from trace_ves.ves.report import BenchFigures as BenchSummary
from trace_ves.ves.report import ComparisonFigures as Comparison
from trace_ves.ves.report import RunFigures as RunReport
from trace_ves.ves.rows import AuditRow, ScoredRun, row_of_prediction, row_of_sampler, score_files

__all__ = [
    "AuditReport",
    "AuditRow",
    "BenchSummary",
    "Comparison",
    "Run",
    "RunReport",
    "ScoredRun",
    "audit",
    "load_run",
    "load_runs",
    "row_of_prediction",
    "row_of_sampler",
    "score_files",
    "summarise",
]
