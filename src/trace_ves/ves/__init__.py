"""VES-Bench's audit: which evidence the frames of a method really covered. Needs no decoder and no model client."""

from trace_ves.records.runs import Run, load_run, load_runs
from trace_ves.ves.audit import audit, summarise
from trace_ves.ves.report import AuditReport, BenchSummary, Comparison, RunReport
from trace_ves.ves.row_table import RowTable
from trace_ves.ves.rows import AuditRow, row_of_prediction, row_of_sampler
from trace_ves.ves.scoring import ScoredRun
from trace_ves.ves.scoring_files import score_files

__all__ = [
    "AuditReport",
    "AuditRow",
    "BenchSummary",
    "Comparison",
    "RowTable",
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
