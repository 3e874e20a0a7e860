"""The layout of a bench: durations, evidence intervals of a question, their lengths, the share that is evidence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core.display import PALETTE
from trace_ves.core.interval import union_length
from trace_ves.ves.figures.style import COLUMN_INCHES, GREY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from trace_ves.records import Item

MEAN_COLOUR: Final = PALETTE["vermillion"]


def bench_figure(items: Sequence[Item]) -> Figure:
    """Durations of the videos, intervals of a question, their lengths, and where in the video they lie."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2 * COLUMN_INCHES, 3.2), layout="constrained")
    panels = figure.subplots(2, 2)
    measured = [item for item in items if item.evidence]
    durations = {item.question.video: item.duration for item in measured}
    lengths = [interval.length for item in measured for interval in item.evidence]
    shares = [100 * union_length(item.evidence) / item.duration for item in measured]
    _histogram(panels[0, 0], np.array(list(durations.values())), "video duration (s)", "videos")
    _counts(panels[0, 1], np.array([len(item.evidence) for item in measured]))
    _histogram(panels[1, 0], np.array(lengths), "interval length (s)", "intervals")
    _histogram(panels[1, 1], np.array(shares), "evidence in the video (%)", "questions")
    return figure


def _histogram(axes: Axes, values: NDArray[np.float64], label: str, unit: str) -> None:
    """A histogram up to the 99th percentile, with what lies beyond said, and the mean as a line."""
    from matplotlib.ticker import MaxNLocator

    top = np.sort(values)[min(len(values) - 1, math.ceil(0.99 * len(values)))]
    beyond = int(np.count_nonzero(values > top))
    mean = math.fsum(values) / len(values)
    axes.hist(values[values <= top], bins=30, color=GREY)
    axes.axvline(mean, color=MEAN_COLOUR, lw=1)
    axes.set_xlabel(f"{label}, mean {mean:.1f}" + (f" ({beyond} beyond the axis)" if beyond else ""))
    axes.set_ylabel(unit)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(left=0)


def _counts(axes: Axes, values: NDArray[np.int64]) -> None:
    from matplotlib.ticker import MaxNLocator

    counts = np.bincount(values)[1:]
    mean = float(values.mean())
    axes.bar(range(1, len(counts) + 1), counts, color=GREY)
    axes.set_xlabel(f"evidence intervals of a question, mean {mean:.1f}")
    axes.set_ylabel("questions")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
