"""How coverage and evidence-covered accuracy fall as more frames are asked of every evidence interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core.method_colours import is_trace
from trace_ves.report.figures.style import COLUMN_INCHES, ERROR_BARS, means_with_bars, shaded_colours
from trace_ves.report.tables import uniform_frames
from trace_ves.report.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from trace_ves.ves.report import RunReport

DENSITIES: Final = tuple(range(1, 9))


def k_sweep_figure(runs: Sequence[RunReport], measured: NDArray[np.bool_], k: int) -> Figure:
    """Cov@k and ECA@k of every run that looked at frames, for k from 1 to 8, over the questions with evidence."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(2 * COLUMN_INCHES, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    looking = [run for run in runs if run.metrics["Fr"]]
    colours = shaded_colours(looking)
    for at, run in enumerate(looking):
        offset = 0.05 * (at - len(looking) / 2)  # a little apart, so that bars do not hide one another
        _draw(left, run, measured, colours[run.name], offset, scored=False)
        if not run.is_sampler:
            _draw(right, run, measured, colours[run.name], offset, scored=True)
    for axes, name in ((left, "Cov@k (%)"), (right, "ECA@k (%)")):
        axes.set_ylabel(name)
        axes.set_xticks(DENSITIES)
        axes.set_ylim(bottom=0)
        axes.grid(visible=True)
        axes.axvline(k, color="#cccccc", lw=3, zorder=0)
    figure.supxlabel("k: frames that every evidence interval must hold", fontsize=8)
    if looking:
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", handlelength=2.2)
    return figure


def _draw(axes: Axes, run: RunReport, measured: NDArray[np.bool_], colour: str, offset: float, *, scored: bool) -> None:
    rows = run.rows.where(measured)
    values = 100 * (rows.density[:, np.newaxis] >= np.array(DENSITIES)).astype(np.float64)
    if scored:
        values *= (rows.correct == 1)[:, np.newaxis]
    means, bars = means_with_bars(values)
    is_sweep = run.is_sampler or uniform_frames(run) is not None
    axes.errorbar(
        np.array(DENSITIES) + offset,
        means,
        yerr=bars,
        fmt="--" if run.is_sampler else "-",
        marker="o" if is_sweep else "D",
        ms=2.4,
        lw=1.1,
        color=colour,
        zorder=3 if is_trace(run.method) else 2,
        label=printable(run.name) + (" (sampler)" if run.is_sampler else ""),
        **ERROR_BARS,
    )
