"""Bar charts: buckets, families, search endings, and the layout of a bench."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core.display import PALETTE
from trace_ves.core.interval import union_length
from trace_ves.ves.figures.style import COLUMN_INCHES, ERROR_BARS, GREY, error_bar, means_with_bars, shaded_colours
from trace_ves.ves.tables import family_title
from trace_ves.ves.terminal import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from trace_ves.records import Item
    from trace_ves.ves.report import RunFigures

BUCKET_COLOURS: Final = {"Cov-Corr": "#0f5fa6", "Uncov-Corr": "#9cc3e6", "Wrong": "#e4e4e4"}
ENDING_COLOURS: Final = {
    "stable-prefix-found": PALETTE["blue"],
    "no-stable-prefix": PALETTE["vermillion"],
    "exhausted": PALETTE["orange"],
    "self-reported": PALETTE["purple"],
    "single-pass": "#b9bdc2",
}
"""The endings of a search in the order of the bars; others are grey."""
NO_ENDING: Final = "not recorded"
MOST_FAMILIES: Final = 8
DARK: Final = "#333333"
MEAN_COLOUR: Final = PALETTE["vermillion"]


def buckets_figure(runs: Sequence[RunFigures], k: int) -> Figure:
    """The buckets at density k: right and covered (error bar: 95% interval of ECA@k), right only, wrong."""
    shares = {
        bucket: [run.metrics[metric] or 0.0 for run in runs]
        for bucket, metric in (("Cov-Corr", f"Cov-Corr@{k}"), ("Uncov-Corr", f"Uncov-Corr@{k}"), ("Wrong", "Wrong"))
    }
    figure, axes = _stacked(runs, shares, BUCKET_COLOURS, f"questions (%) at k = {k}")
    covered, heights = shares["Cov-Corr"], -0.27 - np.arange(len(runs))
    bars = [error_bar(value, run.ci95.get(f"ECA@{k}")) for value, run in zip(covered, runs, strict=True)]
    axes.errorbar(covered, heights, xerr=np.array(bars).T, fmt="none", ecolor=DARK, **ERROR_BARS)
    return figure


def endings_figure(runs: Sequence[RunFigures]) -> Figure:
    """How the searches of each run ended, in percent of its questions."""
    counts = [Counter(row.termination or NO_ENDING for row in run.rows) for run in runs]
    endings = {ending for count in counts for ending in count}
    order = [*(ending for ending in ENDING_COLOURS if ending in endings), *sorted(endings - ENDING_COLOURS.keys())]
    shares = {
        ending: [100.0 * count[ending] / max(1, len(run.rows)) for run, count in zip(runs, counts, strict=True)]
        for ending in order
    }
    return _stacked(runs, shares, ENDING_COLOURS, "questions (%)")[0]


def _stacked(
    runs: Sequence[RunFigures], shares: Mapping[str, Sequence[float]], colours: Mapping[str, str], label: str
) -> tuple[Figure, Axes]:
    """A stacked bar of 100 percent for each run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(COLUMN_INCHES, 0.75 + 0.24 * len(runs)))
    axes = figure.add_subplot()
    positions = [-float(index) for index in range(len(runs))]
    left = [0.0] * len(runs)
    for part, widths in shares.items():
        colour = colours.get(part, "#e4e4e4")
        text = part.replace("-", " ") if part in ENDING_COLOURS else printable(part)
        axes.barh(positions, widths, left=left, height=0.72, color=colour, label=text)
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        ink = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else DARK
        for y, start, width in zip(positions, left, widths, strict=True):
            if width >= 6:
                axes.text(start + width / 2, y, f"{width:.1f}", ha="center", va="center", fontsize=6, color=ink)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(positions, [printable(run.name) for run in runs])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 100)
    axes.set_ylim(positions[-1] - 0.5, 0.5)
    axes.set_xlabel(label)
    axes.spines["left"].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, handlelength=1.0, columnspacing=1.2)
    return figure, axes


def families_figure(runs: Sequence[RunFigures], items: Sequence[Item], k: int) -> Figure:
    """ECA@k of every run in each family; bars are 95% bootstrap intervals over the questions of the family."""
    from matplotlib.figure import Figure

    measured = [item.question.family if item.evidence else None for item in items]
    sizes = Counter(family for family in measured if family is not None)
    families = [family for family, _ in sizes.most_common(MOST_FAMILIES)]
    colours = shaded_colours(runs)
    figure = Figure(figsize=(2 * COLUMN_INCHES, 2.4), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(runs)
    for at, run in enumerate(runs):
        hits = np.array([[100.0 * (bool(row.correct) and row.density >= k)] for row in run.rows])
        shares = [means_with_bars(hits[[each == family for each in measured]]) for family in families]
        places = [place + width * (at - (len(runs) - 1) / 2) for place in range(len(families))]
        axes.bar(
            places,
            np.concatenate([mean for mean, _ in shares]),
            width=0.92 * width,
            yerr=np.hstack([bars for _, bars in shares]),
            color=colours[run.name],
            error_kw={"ecolor": DARK, **ERROR_BARS},
            label=printable(run.name),
        )
    names = [f"{printable(family_title(family))} (n = {sizes[family]})" for family in families]
    axes.set_xticks(range(len(families)), names)
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"ECA@{k} (%)")
    axes.grid(axis="y")
    figure.legend(loc="outside right center", handlelength=1.0)
    return figure


def bench_figure(items: Sequence[Item]) -> Figure:
    """Histograms of video durations, evidence intervals per question, their lengths, and evidence shares."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(2 * COLUMN_INCHES, 3.2), layout="constrained")
    panels = figure.subplots(2, 2)
    measured = [item for item in items if item.evidence]
    durations = {item.question.video: item.duration for item in measured}
    lengths = [interval.length for item in measured for interval in item.evidence]
    shares = [100 * union_length(item.evidence) / item.duration for item in measured]
    _histogram(panels[0, 0], np.array(list(durations.values())), "video duration (s)", "videos")
    counts = np.bincount([len(item.evidence) for item in measured])[1:]
    panels[0, 1].bar(range(1, len(counts) + 1), counts, color=GREY)
    panels[0, 1].set_xlabel(f"evidence intervals of a question, mean {len(lengths) / len(measured):.1f}")
    panels[0, 1].set_ylabel("questions")
    _histogram(panels[1, 0], np.array(lengths), "interval length (s)", "intervals")
    _histogram(panels[1, 1], np.array(shares), "evidence in the video (%)", "questions")
    for axis in (*(axes.yaxis for axes in panels.flat), panels[0, 1].xaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _histogram(axes: Axes, values: NDArray[np.float64], label: str, unit: str) -> None:
    """A histogram up to the 99th percentile, with the number of values beyond it, and the mean as a line."""
    top = np.sort(values)[min(len(values) - 1, math.ceil(0.99 * len(values)))]
    beyond = int(np.count_nonzero(values > top))
    mean = math.fsum(values) / len(values)
    axes.hist(values[values <= top], bins=30, color=GREY)
    axes.axvline(mean, color=MEAN_COLOUR, lw=1)
    axes.set_xlabel(f"{label}, mean {mean:.1f}" + (f" ({beyond} beyond the axis)" if beyond else ""))
    axes.set_ylabel(unit)
    axes.set_xlim(left=0)
