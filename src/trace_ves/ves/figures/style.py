"""The style of all figures, and the intervals of their error bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trace_ves.core.display import PALETTE, method_colours
from trace_ves.ves.statistics import CONFIDENCE_PERCENTILES, bootstrap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trace_ves.ves.report import RunFigures

STYLE: Final[dict[Any, Any]] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.5,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "trace-ves",
    "text.parse_math": False,
}
METADATA: Final[dict[str, dict[str, Any]]] = {
    "svg": {"Date": None, "Creator": "trace-ves"},
    "png": {"Software": "trace-ves"},
    "pdf": {"CreationDate": None, "Creator": "trace-ves", "Producer": None},
}
"""File formats with their metadata. There is no date, so that the same report gives the same bytes."""
PNG_DOTS_PER_INCH: Final = 300
PIXELS_PER_INCH: Final = 100  # for the placement of labels; files have their own resolution
COLUMN_INCHES: Final = 3.4  # the width of a column in a two-column paper
GREY: Final = "#8a8a8a"
ERROR_BARS: Final[dict[str, Any]] = {"elinewidth": 0.7, "capsize": 1.6, "capthick": 0.7}


def run_colours(runs: Sequence[RunFigures]) -> dict[str, str]:
    """The colour of each run's method, by the name of the run."""
    names = method_colours(run.method or run.name for run in runs)
    return {run.name: PALETTE[names[run.method or run.name]] for run in runs}


def shaded_colours(runs: Sequence[RunFigures]) -> dict[str, str]:
    """Like `run_colours`, but grey runs get different shades: the more frames, the darker."""
    colours = run_colours(runs)
    grey = sorted((run for run in runs if colours[run.name] == PALETTE["grey"]), key=lambda run: run.metrics["Fr"] or 0)
    levels = np.linspace(0.78, 0.28, max(2, len(grey)))
    return colours | {run.name: str(level) for run, level in zip(grey, levels, strict=False)}


def error_bar(value: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """The lengths of an error bar below and above a value."""
    return (0.0, 0.0) if bounds is None else (max(0.0, value - bounds[0]), max(0.0, bounds[1] - value))


def means_with_bars(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean of each column, and the lengths of its 95% bootstrap interval below and above."""
    means = values.mean(axis=0)
    low, high = np.percentile(bootstrap(values, resamples=1000, seed=0), CONFIDENCE_PERCENTILES, axis=0)
    return means, np.maximum(0.0, np.stack([means - low, high - means]))
