"""The figures of a report as SVG, PNG and PDF. matplotlib (extra `figures`) is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError, MissingExtraError, wrap_os_errors
from trace_ves.ves.figures.bars import bench_figure, buckets_figure, endings_figure, families_figure
from trace_ves.ves.figures.frontier import frontier_figure, k_sweep_figure
from trace_ves.ves.figures.style import METADATA, PNG_DOTS_PER_INCH, STYLE
from trace_ves.ves.tables import in_paper_order

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trace_ves.records import Item
    from trace_ves.ves.report import AuditReport

__all__ = ["draw_figures"]

PADDING_INCHES: Final = 0.03


def draw_figures(report: AuditReport, items: Sequence[Item], folder: Path) -> tuple[Path, ...]:
    """Draw every figure for which the report has data, each as SVG, PNG and PDF; returns the files."""
    try:
        import matplotlib as mpl  # heavy, and an optional part
    except ImportError:
        raise MissingExtraError("Drawing figures", "figures") from None
    if report.bench.ep_ref is None:
        raise InputError("this bench has no evidence intervals, so there is nothing to draw; leave --figures out.")
    items = sorted(items, key=lambda item: item.question.id)  # the order of the report's rows
    with mpl.rc_context(STYLE):
        return tuple(path for name, figure in _figures(report, items) for path in _save(figure, folder, name))


def _figures(report: AuditReport, items: Sequence[Item]) -> Iterator[tuple[str, Figure]]:
    runs = in_paper_order(report.runs)
    answered = [run for run in runs if not run.is_sampler]
    looking = [run for run in runs if run.metrics["Fr"]]
    yield "bench", bench_figure(items)
    if looking:
        yield "coverage", frontier_figure(looking, f"Cov@{report.k}")
    if not answered:
        return
    yield "buckets", buckets_figure(answered, report.k)
    if any(run.metrics["Fr"] for run in answered):
        yield "frontier", frontier_figure([run for run in answered if run.metrics["Fr"]], f"ECA@{report.k}")
    yield "k-sweep", k_sweep_figure(runs, [bool(item.evidence) for item in items], report.k)
    if len(report.bench.families) > 1:
        yield "families", families_figure(answered, items, report.k)
    if any(row.termination for run in answered for row in run.rows):
        yield "endings", endings_figure(answered)


def _save(figure: Figure, folder: Path, name: str) -> Iterator[Path]:
    figure.draw_without_rendering()
    figure.set_layout_engine(None)  # the layout is computed once, not again for each format
    edges = figure.get_tightbbox().padded(PADDING_INCHES)
    with wrap_os_errors(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, facts in METADATA.items():
            path = folder / f"{name}.{suffix}"
            figure.savefig(path, dpi=PNG_DOTS_PER_INCH, metadata=facts, bbox_inches=edges)
            yield path
