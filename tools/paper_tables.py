"""The paper's tables beside ours, for `tools/tables.py`: every one that a run of a bench can be compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.core.errors import InputError
from trace_ves.ves.metrics import DENSITIES
from trace_ves.ves.paper import MAIN_METHODS, beside, compare, paper, paper_main_table, runs_of
from trace_ves.ves.table import Column, Row, Section, Table, as_value
from trace_ves.ves.tables import family_title, in_paper_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trace_ves.ves.report import AuditReport

_VARIANTS = ("without-replay", "without-trajectory", "without-expand", "fixed-rounds")
ABLATIONS = ("trace", *(f"trace-{variant}" for variant in _VARIANTS))
PAPER_METHODS = (*MAIN_METHODS, *ABLATIONS[1:])  # Every row of the paper's audit tables, as methods


def paper_tables(report: AuditReport) -> tuple[Table, ...]:
    """The tables that the report has rows for."""
    methods, families = paper()["methods"], paper()["families"]
    metrics = {run.name: run.metrics for run in report.runs}
    ablation = ("Acc", "EP", *(f"{name}@{level}" for name in ("Cov", "ECA") for level in DENSITIES))
    by_family = ("Acc", *(f"ECA@{level}" for level in DENSITIES))
    ablated = runs_of(report, ABLATIONS)
    found = [
        paper_main_table(report),
        compare("paper-ablation", "Ablations", ablation, runs=ablated, theirs=methods, ours=metrics),
    ]
    for family, theirs in families.items():
        runs = [run for run in runs_of(report, tuple(theirs)) if family in run.families]
        ours = {run.name: run.families[family] for run in runs}
        found.append(compare(f"paper-{family}", family_title(family), by_family, runs=runs, theirs=theirs, ours=ours))
    widths = {"Acc": "Acc", "EP": "EP", "Cov": "Cov@2", "ECA": "ECA@2"}
    intervals = {
        run.name: [(run.half_width(ours), methods[run.method]["half_width"][name]) for name, ours in widths.items()]
        for run in runs_of(report, [name for name, row in methods.items() if "half_width" in row])
    }
    metric = "Uncov-Corr@2"  # the part of the paper's figure that its text gives in numbers
    buckets = {
        run.name: [(run.metrics.get(metric), methods[run.method]["Uncov-Corr"])]
        for run in runs_of(report, [name for name, row in methods.items() if "Uncov-Corr" in row])
    }
    found += [
        beside("paper-intervals", "Half-widths of the 95% intervals", tuple(widths.values()), _pair_rows(intervals)),
        beside("paper-buckets", "Correct without cover", (metric,), _pair_rows(buckets)),
        _direct_table(report),
    ]
    return tuple(table for table in found if table.sections)


def _number_rows(rows: Iterable[tuple[str, Sequence[float | None]]]) -> tuple[Row, ...]:
    return tuple(Row(name, tuple((as_value(value),) for value in row)) for name, row in rows)


def _pair_rows(pairs: Mapping[str, Sequence[tuple[float | None, float | None]]]) -> tuple[Row, ...]:
    return tuple(Row(name, tuple((as_value(a), as_value(b)) for a, b in cells)) for name, cells in pairs.items())


def public_table(report: AuditReport, benchmark: str) -> Table:
    """Our accuracy on a public benchmark, and below it what the paper lists for it."""
    known = paper()["public"]
    if benchmark not in {name for row in known.values() for name in row}:
        raise InputError(f"the paper has no column {benchmark!r}; it has video-mme, lvbench and longvideobench.")
    ours = _number_rows((run.name, [run.answer_only.acc]) for run in in_paper_order(report.runs))
    theirs = _number_rows((name, [row.get(benchmark)]) for name, row in known.items())
    return Table(
        key="paper-public",
        title=f"Answer accuracy on {benchmark}",
        columns=(Column("Acc", "(%)"),),
        sections=(Section("Ours", ours), Section("The paper's", theirs)),
        note="The paper's rows are the numbers that their sources report, on the models they name.",
    )


def _direct_table(report: AuditReport) -> Table:
    """Other models at 64 uniform frames: the paper's rows, below every model that was run so here."""
    metrics = ("Acc", *(f"ECA@{level}" for level in DENSITIES))
    runs = runs_of(report, ["uniform-64"])
    ours = _number_rows((run.backbone or run.name, [run.metrics.get(metric) for metric in metrics]) for run in runs)
    theirs = _number_rows((name, [row["Acc"], *row["ECA"]]) for name, row in paper()["direct"].items())
    return Table(
        key="paper-direct",
        title="Direct answering from 64 uniform frames",
        first_column="Model",
        columns=tuple(Column(metric) for metric in metrics),
        sections=(Section("Ours", ours), Section("The paper's", theirs)) if ours else (),
    )
