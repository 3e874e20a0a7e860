"""VES-Bench's audit: which evidence the frames of a method really covered. Imports `trace_ves.core` alone."""

from trace_ves.ves.audit import audit, summarise
from trace_ves.ves.report import AuditReport, BenchSummary, Comparison, RunReport
from trace_ves.ves.rows import AuditRow, row_of_prediction, row_of_sampler
from trace_ves.ves.runs import Run, load_run, load_runs

__all__ = [
    "AuditReport",
    "AuditRow",
    "BenchSummary",
    "Comparison",
    "Run",
    "RunReport",
    "audit",
    "load_run",
    "load_runs",
    "row_of_prediction",
    "row_of_sampler",
    "summarise",
]
