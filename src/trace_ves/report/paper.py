"""The paper's numbers beside ours: the main audit, the families and the ablations, method by method."""

from __future__ import annotations

import tomllib
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from trace_ves.report.table import Column, Row, Section, Table, number
from trace_ves.report.tables import family_title, in_paper_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trace_ves.report.table import Value
    from trace_ves.ves.report import AuditReport, RunReport

MAIN_METHODS: Final = (
    "random",
    "blind",
    "uniform-16",
    "uniform-32",
    "uniform-64",
    "uniform-128",
    "uniform-256",
    "vca",
    "avp",
    "trace",
)
ABLATIONS: Final = (
    "trace",
    "trace-without-replay",
    "trace-without-trajectory",
    "trace-without-expand",
    "trace-fixed-rounds",
)
PAPER_METHODS: Final = (*MAIN_METHODS, *ABLATIONS[1:])
"""Every row of the paper's audit tables, as methods."""

LEVELS: Final = (1, 2, 3)
NOTE: Final = (
    "Each cell is ours / the paper's. The paper's are Gemini-3-Flash on VES-Bench, Blind GPT-4-Turbo; "
    "ours are the bench and backbone named above."
)


@cache
def paper() -> dict[str, Any]:
    """Everything in `paper.toml`."""
    return tomllib.loads(files("trace_ves.report").joinpath("paper.toml").read_text(encoding="utf-8"))


def paper_tables(report: AuditReport) -> tuple[Table, ...]:
    """The tables that the report has rows for."""
    methods, families = paper()["methods"], paper()["families"]
    main = ("Fr", "Acc", "EP", "AR", *(f"{name}@{level}" for name in ("Cov", "ECA") for level in LEVELS))
    ablation = ("Acc", "EP", *(f"{name}@{level}" for name in ("Cov", "ECA") for level in LEVELS))
    by_family = ("Acc", *(f"ECA@{level}" for level in LEVELS))
    found = [
        _table(key, title, columns, runs=_runs(report, names), theirs=methods, ours=lambda run: run.metrics)
        for key, title, columns, names in (
            ("paper-main", "Main audit", main, MAIN_METHODS),
            ("paper-ablation", "Ablations", ablation, ABLATIONS),
        )
    ]
    for family, theirs in families.items():
        runs = [run for run in _runs(report, tuple(theirs)) if family in run.families]
        ours = partial(_of_family, family)
        found.append(_table(f"paper-{family}", family_title(family), by_family, runs=runs, theirs=theirs, ours=ours))
    return tuple(table for table in found if table.sections)


def _of_family(family: str, run: RunReport) -> Mapping[str, float | None]:
    return run.families[family]


def _runs(report: AuditReport, methods: Sequence[str]) -> list[RunReport]:
    return [run for run in in_paper_order(report.runs) if run.method in methods and not run.is_sampler]


def _table(
    key: str,
    title: str,
    metrics: Sequence[str],
    *,
    runs: Sequence[RunReport],
    theirs: Mapping[str, Mapping[str, Any]],
    ours: Callable[[RunReport], Mapping[str, float | None]],
) -> Table:
    rows = tuple(
        Row(run.name, tuple(_cell(metric, ours(run).get(metric), theirs[run.method]) for metric in metrics))
        for run in runs
    )
    return Table(
        key=key,
        title=f"{title}: ours / the paper's",
        first_column="Method",
        columns=tuple(Column(metric) for metric in metrics),
        sections=(Section("", rows),) if rows else (),
        note=NOTE,
    )


def _cell(metric: str, ours: float | None, theirs: Mapping[str, Any]) -> tuple[Value, ...]:
    shape = "{:.2f}".format if metric == "AR" else "{:.1f}".format
    name, _, level = metric.partition("@")
    value = theirs.get(name)
    return number(ours, shape), number(value[int(level) - 1] if value is not None and level else value, shape)
