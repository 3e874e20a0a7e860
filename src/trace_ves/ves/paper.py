"""The paper's figures, and its main table next to ours. `tools/tables.py` makes the other tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from trace_ves.core.display import simulation_notes
from trace_ves.ves.metrics import DENSITIES
from trace_ves.ves.table import Column, Row, Section, Table, Value, as_value
from trace_ves.ves.tables import in_paper_order

if TYPE_CHECKING:
    from trace_ves.ves.report import AuditReport, RunFigures

UNIFORM_FRAMES: Final = (16, 32, 64, 128, 256)
MAIN_METHODS: Final = ("random", "blind", *(f"uniform-{frames}" for frames in UNIFORM_FRAMES), "vca", "avp", "trace")

NOTE: Final = (
    "Each cell is ours / the paper's. The paper's are Gemini-3-Flash on VES-Bench, Blind GPT-4-Turbo; "
    "ours are the bench and backbone named above."
)


@cache
def paper() -> dict[str, Any]:
    """The content of `paper.toml`."""
    return tomllib.loads(files("trace_ves.ves").joinpath("paper.toml").read_text(encoding="utf-8"))


def paper_main_table(report: AuditReport) -> Table:
    """The paper's main table next to ours; without sections if the report has none of its methods."""
    metrics = ("Fr", "Acc", "EP", "AR", *(f"{name}@{level}" for name in ("Cov", "ECA") for level in DENSITIES))
    ours = {run.name: run.metrics for run in report.runs}
    runs = runs_of(report, MAIN_METHODS)
    return compare("paper-main", "Main audit", metrics, runs=runs, theirs=paper()["methods"], ours=ours)


def runs_of(report: AuditReport, methods: Sequence[str]) -> list[RunFigures]:
    """The runs of these methods in the order of the paper."""
    return [run for run in in_paper_order(report.runs) if run.method in methods and not run.is_sampler]


def compare(
    key: str,
    title: str,
    metrics: Sequence[str],
    *,
    runs: Sequence[RunFigures],
    theirs: Mapping[str, Mapping[str, Any]],
    ours: Mapping[str, Mapping[str, float | None]],
) -> Table:
    """A table with a row for each run; `theirs` has a method as key, `ours` the name of a run."""
    rows = tuple(
        Row(run.name, tuple(_cell(metric, ours[run.name].get(metric), theirs[run.method]) for metric in metrics))
        for run in runs
    )
    return beside(key, title, metrics, rows, simulation_notes(run.backbone for run in runs))


def beside(key: str, title: str, metrics: Sequence[str], rows: tuple[Row, ...], note: str = "") -> Table:
    """A table whose cells are ours / the paper's."""
    return Table(
        key=key,
        title=f"{title}: ours / the paper's",
        columns=tuple(Column(metric) for metric in metrics),
        sections=(Section("", rows),) if rows else (),
        note=f"{NOTE} {note}".rstrip(),
    )


def _cell(metric: str, ours: float | None, theirs: Mapping[str, Any]) -> tuple[Value, ...]:
    shape = "{:.2f}".format if metric == "AR" else "{:.1f}".format
    name, _, level = metric.partition("@")
    value = theirs.get(name)
    return as_value(ours, shape), as_value(value[int(level) - 1] if value is not None and level else value, shape)
