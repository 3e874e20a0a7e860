"""The paper's figures from a report: the frame-ECA frontier, the three buckets, the layout of the bench.

Needs matplotlib (extra `figures`), which is imported when a figure is drawn and not before.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trace_ves.core.errors import InputError, MissingExtraError
from trace_ves.core.interval import union_length
from trace_ves.report.labels import Box, boxes_along, place_labels
from trace_ves.report.tables import in_paper_order, uniform_frames
from trace_ves.report.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trace_ves.records import Item
    from trace_ves.ves.report import AuditReport, RunReport

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
    "svg.fonttype": "none",
    "svg.hashsalt": "trace-ves",
    "text.parse_math": False,
}
GREY: Final = "#8a8a8a"
AGENT_COLOURS: Final = ("#0f5fa6", "#c8501e", "#2a8a57", "#7b4fa3", "#a8841a", "#b03a6e", "#3a8ea8", "#5a5a5a")
BUCKET_COLOURS: Final = {"Cov-Corr": "#0f5fa6", "Uncov-Corr": "#9cc3e6", "Wrong": "#e4e4e4"}
PNG_DOTS_PER_INCH: Final = 300
PIXELS_PER_INCH: Final = 100
"""While labels are placed; files have their own."""
COLUMN_INCHES: Final = 3.4
"""The width of one column of a two-column paper."""


def draw_figures(report: AuditReport, items: Sequence[Item], folder: Path) -> tuple[Path, ...]:
    """Draw every figure that the report has numbers for, each as SVG and PNG; gives the files."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  heavy, and an optional part
    except ImportError:
        raise MissingExtraError("Drawing figures", "figures") from None
    if report.bench.ep_ref is None:
        raise InputError("this bench has no evidence intervals, so there is nothing to draw; leave --figures out.")
    answered = [run for run in in_paper_order(report.runs) if not run.is_sampler]
    with mpl.rc_context(STYLE):
        figures = {"bench": bench_figure(items)}
        if answered:
            figures["buckets"] = buckets_figure(answered, report.k)
        if any(run.metrics["Fr"] for run in answered):
            figures["frontier"] = frontier_figure(answered, report.k)
        return tuple(path for name, figure in figures.items() for path in _save(figure, folder, name))


def _save(figure: Figure, folder: Path, name: str) -> Iterator[Path]:
    metadata = {"svg": {"Date": None, "Creator": "trace-ves"}, "png": {"Software": "trace-ves"}}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, facts in metadata.items():
            path = folder / f"{name}.{suffix}"
            figure.savefig(path, dpi=PNG_DOTS_PER_INCH, metadata=facts, bbox_inches="tight", pad_inches=0.03)
            yield path
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}.") from None


def frontier_figure(runs: Sequence[RunReport], k: int) -> Figure:
    """Supplied frames on a log axis against ECA@k: the uniform sweep as a curve, the others as labelled points."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    points = [Point(run, run.metrics["Fr"] or 0.0, run.metrics[f"ECA@{k}"] or 0.0) for run in runs]
    shown = [point for point in points if point.frames > 0]
    sweeps = _sweeps([point for point in shown if uniform_frames(point.run) is not None])
    others = sorted((p for p in shown if uniform_frames(p.run) is None), key=lambda point: -point.value)
    figure = Figure(figsize=(COLUMN_INCHES, 2.5), dpi=PIXELS_PER_INCH)
    axes = figure.add_subplot()
    _frontier_axes(axes, shown, k)
    for index, (backbone, sweep) in enumerate(sweeps.items()):
        axes.plot(
            [point.frames for point in sweep],
            [point.value for point in sweep],
            ("-", "--", ":", "-.")[index % 4],
            marker="o",
            ms=3,
            lw=1.2,
            color=GREY,
            label=f"uniform sweep, {printable(backbone)}" if backbone else "uniform sweep",
        )
    for index, point in enumerate(others):
        axes.plot([point.frames], [point.value], "D", ms=4.5, color=_colour(index), zorder=3)
    labels = [Label(f"{printable(p.run.name)} {p.value:.1f}", p, _colour(i), 7.0) for i, p in enumerate(others)]
    labels += [Label(f"{p.value:.1f}", p, GREY, 6.0) for sweep in sweeps.values() for p in sweep]
    _write_labels(axes, labels, list(sweeps.values()))
    if sweeps:
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), borderaxespad=0.2)
    return figure


class Point(NamedTuple):
    """A run as it stands on the frontier."""

    run: RunReport
    frames: float
    value: float


class Label(NamedTuple):
    """What is written beside a point."""

    text: str
    point: Point
    colour: str
    points_high: float


def _colour(index: int) -> str:
    return AGENT_COLOURS[index % len(AGENT_COLOURS)]


def _frontier_axes(axes: Axes, shown: Sequence[Point], k: int) -> None:
    from matplotlib.ticker import NullLocator, ScalarFormatter  # noqa: PLC0415

    ticks = _powers_of_two([point.frames for point in shown])
    top = max(10.0, 1.12 * max(point.value for point in shown))
    axes.set_xscale("log")
    axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(ticks[0] / 1.3, ticks[-1] * 1.3)
    axes.set_ylim(-0.04 * top, top)
    axes.set_xlabel("frames supplied for a question (log scale)")
    axes.set_ylabel(f"ECA@{k} (%)")
    axes.grid(visible=True)


def _write_labels(axes: Axes, labels: Sequence[Label], lines: Sequence[Sequence[Point]]) -> None:
    """Put each label where it hides least; sizes are estimated from the letters, so no renderer is needed."""
    pixels_per_point = PIXELS_PER_INCH / 72
    to_pixels = axes.transData.transform
    lines_in_pixels = [[tuple(to_pixels((point.frames, point.value))) for point in line] for line in lines]
    centres = [tuple(to_pixels((label.point.frames, label.point.value))) for label in labels]
    radius = 2.5 * pixels_per_point
    obstacles = [box for line in lines_in_pixels for box in boxes_along(line, 0.8 * pixels_per_point)]
    obstacles += [Box(x - radius, y - radius, x + radius, y + radius) for x, y in centres]
    sizes = [
        (0.62 * label.points_high * len(label.text) * pixels_per_point, 1.1 * label.points_high * pixels_per_point)
        for label in labels
    ]
    frame = Box(*axes.bbox.extents)
    placed = place_labels(centres, sizes, obstacles, frame, gap=4 * pixels_per_point)
    for label, centre in zip(labels, placed, strict=True):
        axes.annotate(
            label.text,
            tuple(axes.transData.inverted().transform(centre)),
            ha="center",
            va="center",
            color=label.colour,
            fontsize=label.points_high,
        )


def _sweeps(points: Sequence[Point]) -> dict[str, list[Point]]:
    """The runs of the uniform sweep by backbone, each in order of frames."""
    sweeps: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda point: point.frames):
        sweeps.setdefault(point.run.backbone, []).append(point)
    return sweeps


def _powers_of_two(values: Sequence[float]) -> list[float]:
    low, high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    step = max(1, (max(high, low + 1) - low) // 7)
    return [2.0**power for power in range(low, max(high, low + 1) + 1, step)]


def buckets_figure(runs: Sequence[RunReport], k: int) -> Figure:
    """Every prediction at density k as covered and right, right without coverage, or wrong."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(COLUMN_INCHES, 0.75 + 0.24 * len(runs)))
    axes = figure.add_subplot()
    names = {"Cov-Corr": f"Cov-Corr@{k}", "Uncov-Corr": f"Uncov-Corr@{k}", "Wrong": "Wrong"}
    positions = [-float(index) for index in range(len(runs))]
    left = [0.0] * len(runs)
    for bucket, metric in names.items():
        widths = [run.metrics[metric] or 0.0 for run in runs]
        axes.barh(positions, widths, left=left, height=0.72, color=BUCKET_COLOURS[bucket], label=bucket)
        for y, start, width in zip(positions, left, widths, strict=True):
            if width >= 6:
                colour = "white" if bucket == "Cov-Corr" else "#333333"
                axes.text(start + width / 2, y, f"{width:.1f}", ha="center", va="center", fontsize=6, color=colour)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(positions, [printable(run.name) for run in runs])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 100)
    axes.set_ylim(positions[-1] - 0.5, 0.5)
    axes.set_xlabel(f"questions (%) at k = {k}")
    axes.spines["left"].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, handlelength=1.0, columnspacing=1.2)
    return figure


def bench_figure(items: Sequence[Item]) -> Figure:
    """Durations of the videos, intervals of a question, their lengths, and where in the video they lie."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(2 * COLUMN_INCHES, 3.2), layout="constrained")
    panels = figure.subplots(2, 2)
    measured = [item for item in items if item.evidence]
    durations = {item.question.video: item.duration for item in measured}
    intervals = [(interval, item.duration) for item in measured for interval in item.evidence]
    _histogram(panels[0, 0], list(durations.values()), "video duration (s)", "videos")
    _counts(panels[0, 1], [len(item.evidence) for item in measured])
    _histogram(panels[1, 0], [interval.length for interval, _ in intervals], "interval length (s)", "intervals")
    shares = [100 * union_length(item.evidence) / item.duration for item in measured]
    _histogram(panels[1, 1], shares, "evidence in the video (%)", "questions")
    return figure


def _histogram(axes: Axes, values: Sequence[float], label: str, unit: str) -> None:
    """A histogram up to the 99th percentile, with what lies beyond said, and the mean as a line."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    top = sorted(values)[min(len(values) - 1, math.ceil(0.99 * len(values)))]
    beyond = sum(value > top for value in values)
    mean = math.fsum(values) / len(values)
    axes.hist([value for value in values if value <= top], bins=30, color=AGENT_COLOURS[0], alpha=0.85)
    axes.axvline(mean, color=AGENT_COLOURS[1], lw=1)
    axes.set_xlabel(f"{label}, mean {mean:.1f}" + (f" ({beyond} beyond the axis)" if beyond else ""))
    axes.set_ylabel(unit)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(left=0)


def _counts(axes: Axes, values: Sequence[int]) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    most = max(values)
    mean = sum(values) / len(values)
    axes.bar(range(1, most + 1), [values.count(n) for n in range(1, most + 1)], color=AGENT_COLOURS[0], alpha=0.85)
    axes.set_xlabel(f"evidence intervals of a question, mean {mean:.1f}")
    axes.set_ylabel("questions")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
