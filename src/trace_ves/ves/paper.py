"""The paper's numbers beside ours: every table of it that a run of a bench can be compared with."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from trace_ves.core.display import simulation_notes
from trace_ves.core.errors import InputError
from trace_ves.ves.metrics import DENSITIES
from trace_ves.ves.table import Column, Row, Section, Table, number
from trace_ves.ves.tables import family_title, in_paper_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trace_ves.ves.report import AuditReport, RunFigures
    from trace_ves.ves.table import Value

UNIFORM_FRAMES: Final = (16, 32, 64, 128, 256)
MAIN_METHODS: Final = ("random", "blind", *(f"uniform-{frames}" for frames in UNIFORM_FRAMES), "vca", "avp", "trace")
_VARIANTS: Final = ("without-replay", "without-trajectory", "without-expand", "fixed-rounds")
ABLATIONS: Final = ("trace", *(f"trace-{variant}" for variant in _VARIANTS))
PAPER_METHODS: Final = (*MAIN_METHODS, *ABLATIONS[1:])  # Every row of the paper's audit tables, as methods

NOTE: Final = (
    "Each cell is ours / the paper's. The paper's are Gemini-3-Flash on VES-Bench, Blind GPT-4-Turbo; "
    "ours are the bench and backbone named above."
)


@cache
def paper() -> dict[str, Any]:
    """Everything in `paper.toml`."""
    return tomllib.loads(files("trace_ves.ves").joinpath("paper.toml").read_text(encoding="utf-8"))


def paper_tables(report: AuditReport) -> tuple[Table, ...]:
    """The tables that the report has rows for."""
    methods, families = paper()["methods"], paper()["families"]
    metrics = {run.name: run.metrics for run in report.runs}
    main = ("Fr", "Acc", "EP", "AR", *(f"{name}@{level}" for name in ("Cov", "ECA") for level in DENSITIES))
    ablation = ("Acc", "EP", *(f"{name}@{level}" for name in ("Cov", "ECA") for level in DENSITIES))
    by_family = ("Acc", *(f"ECA@{level}" for level in DENSITIES))
    found = [
        _table(key, title, columns, runs=_runs(report, names), theirs=methods, ours=metrics)
        for key, title, columns, names in (
            ("paper-main", "Main audit", main, MAIN_METHODS),
            ("paper-ablation", "Ablations", ablation, ABLATIONS),
        )
    ]
    for family, theirs in families.items():
        runs = [run for run in _runs(report, tuple(theirs)) if family in run.families]
        ours = {run.name: run.families[family] for run in runs}
        found.append(_table(f"paper-{family}", family_title(family), by_family, runs=runs, theirs=theirs, ours=ours))
    widths = {"Acc": "Acc", "EP": "EP", "Cov": "Cov@2", "ECA": "ECA@2"}
    intervals = {
        run.name: [(run.half_width(ours), methods[run.method]["half_width"][name]) for name, ours in widths.items()]
        for run in _runs(report, [name for name, row in methods.items() if "half_width" in row])
    }
    metric = "Uncov-Corr@2"  # the part of the paper's figure that its text gives in numbers
    buckets = {
        run.name: [(run.metrics.get(metric), methods[run.method]["Uncov-Corr"])]
        for run in _runs(report, [name for name, row in methods.items() if "Uncov-Corr" in row])
    }
    found += [
        _beside("paper-intervals", "Half-widths of the 95% intervals", tuple(widths.values()), _pair_rows(intervals)),
        _beside("paper-buckets", "Correct without cover", (metric,), _pair_rows(buckets)),
        _direct_table(report),
    ]
    return tuple(table for table in found if table.sections)


def _number_rows(rows: Iterable[tuple[str, Sequence[float | None]]]) -> tuple[Row, ...]:
    return tuple(Row(name, tuple((number(value),) for value in row)) for name, row in rows)


def _pair_rows(pairs: Mapping[str, Sequence[tuple[float | None, float | None]]]) -> tuple[Row, ...]:
    return tuple(Row(name, tuple((number(a), number(b)) for a, b in cells)) for name, cells in pairs.items())


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
    runs = _runs(report, ["uniform-64"])
    ours = _number_rows((run.backbone or run.name, [run.metrics.get(metric) for metric in metrics]) for run in runs)
    theirs = _number_rows((name, [row["Acc"], *row["ECA"]]) for name, row in paper()["direct"].items())
    return Table(
        key="paper-direct",
        title="Direct answering from 64 uniform frames",
        first_column="Model",
        columns=tuple(Column(metric) for metric in metrics),
        sections=(Section("Ours", ours), Section("The paper's", theirs)) if ours else (),
    )


def _runs(report: AuditReport, methods: Sequence[str]) -> list[RunFigures]:
    return [run for run in in_paper_order(report.runs) if run.method in methods and not run.is_sampler]


def _table(
    key: str,
    title: str,
    metrics: Sequence[str],
    *,
    runs: Sequence[RunFigures],
    theirs: Mapping[str, Mapping[str, Any]],
    ours: Mapping[str, Mapping[str, float | None]],
) -> Table:
    rows = tuple(
        Row(run.name, tuple(_cell(metric, ours[run.name].get(metric), theirs[run.method]) for metric in metrics))
        for run in runs
    )
    return _beside(key, title, metrics, rows, simulation_notes(run.backbone for run in runs))


def _beside(key: str, title: str, metrics: Sequence[str], rows: tuple[Row, ...], note: str = "") -> Table:
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
    return number(ours, shape), number(value[int(level) - 1] if value is not None and level else value, shape)
