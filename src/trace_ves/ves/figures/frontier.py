"""Figures of a rate against supplied frames, and of coverage against k. The web chart shares the geometry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from trace_ves.core.display import is_trace
from trace_ves.ves.figures.style import (
    COLUMN_INCHES,
    ERROR_BARS,
    GREY,
    PIXELS_PER_INCH,
    error_bar,
    means_with_bars,
    run_colours,
    shaded_colours,
)
from trace_ves.ves.tables import uniform_frames
from trace_ves.ves.terminal import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trace_ves.ves.report import RunFigures


class Box(NamedTuple):
    """A rectangle by its lower left and upper right corner."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """The area that two boxes share."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return width * height if width > 0 and height > 0 else 0.0


SIDES: Final = ((-1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, -1.0), (-1.0, -1.0))
"""Left, right, above, below, then the corners: the order is the preference among equals."""
REACHES: Final = (1.0, 2.2)
OUTSIDE_COST: Final = 3.0  # the cost of a pixel outside the frame, in hidden pixels


def place_labels(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    obstacles: Sequence[Box],
    frame: Box,
    *,
    gap: float,
) -> list[tuple[float, float]]:
    """The centre of each label: next to its point, on the side where it hides least."""
    occupied = list(obstacles)
    centres = []
    for (x, y), (width, height) in zip(points, sizes, strict=True):
        candidates = [
            (x + side * (reach * gap + width / 2), y + rise * (reach * gap + height / 2))
            for reach in REACHES
            for side, rise in SIDES
        ]
        boxes = [Box(cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2) for cx, cy in candidates]
        best = min(range(len(boxes)), key=lambda index: _cost(boxes[index], occupied, frame))
        centres.append(candidates[best])
        occupied.append(boxes[best])
    return centres


def _cost(box: Box, occupied: Sequence[Box], frame: Box) -> float:
    area = (box.right - box.left) * (box.top - box.bottom)
    return sum(box.overlap(other) for other in occupied) + OUTSIDE_COST * (area - box.overlap(frame))


def boxes_along(points: Sequence[tuple[float, float]], radius: float) -> list[Box]:
    """Small boxes along the line through the points, as obstacles for labels."""
    boxes = []
    for (x0, y0), (x1, y1) in pairwise(points):
        steps = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / (2 * radius)))
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
            boxes.append(Box(x - radius, y - radius, x + radius, y + radius))
    return boxes


class Point(NamedTuple):
    """A run on the frontier, with the lengths of its error bar below and above."""

    run: RunFigures
    frames: float
    value: float
    bar: tuple[float, float]

    @property
    def is_sweep(self) -> bool:
        """Whether the run belongs to the uniform sweep or is a sampler."""
        return self.run.is_sampler or uniform_frames(self.run) is not None


def points_of(runs: Sequence[RunFigures], metric: str) -> list[Point]:
    """The points of the runs that used frames."""
    values = [(run, run.metrics["Fr"], run.metrics[metric] or 0.0) for run in runs]
    return [Point(run, frames, rate, error_bar(rate, run.ci95.get(metric))) for run, frames, rate in values if frames]


def sweeps_of(points: Sequence[Point]) -> dict[str, list[Point]]:
    """The uniform sweep of each backbone in order of frames, by its legend."""
    sweeps: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda point: point.frames):
        run = point.run
        name = f"uniform sweep, {printable(run.backbone)}" if run.backbone else "uniform sweep"
        if run.is_sampler:
            name = f"{printable(run.name).rpartition('-')[0]} sampler"
        if point.is_sweep:
            sweeps.setdefault(name, []).append(point)
    return sweeps


def frame_ticks(points: Sequence[Point]) -> list[float]:
    """At most nine powers of two that enclose the frames of all points."""
    frames = [point.frames for point in points]
    low = math.floor(math.log2(min(frames)))
    high = max(math.ceil(math.log2(max(frames))), low + 1)
    return [2.0**power for power in range(low, high + 1, max(1, (high - low) // 7))]


class Label(NamedTuple):
    """The label of a point."""

    text: str
    point: Point
    colour: str
    points_high: float


def frontier_figure(runs: Sequence[RunFigures], metric: str) -> Figure:
    """A metric against frames, with 95% intervals: the uniform sweep as a curve, other runs as labelled points."""
    from matplotlib.figure import Figure

    colours = run_colours(runs)
    points = points_of(runs, metric)
    sweeps = sweeps_of(points)
    others = sorted((point for point in points if not point.is_sweep), key=lambda point: -point.value)
    figure = Figure(figsize=(COLUMN_INCHES, 2.5), dpi=PIXELS_PER_INCH)
    axes = figure.add_subplot()
    _axes(axes, points, metric)
    for index, (name, sweep) in enumerate(sweeps.items()):
        line = ("-", "--", ":", "-.")[index % 4]
        _draw_points(axes, sweep, fmt=line, marker="o", ms=3, lw=1.2, color=GREY, label=name)
    for point in others:
        _draw_points(axes, [point], fmt="D", ms=4.5, color=colours[point.run.name], zorder=3)
    labels = [Label(f"{printable(p.run.name)} {p.value:.1f}", p, colours[p.run.name], 7.0) for p in others]
    labels += [Label(f"{p.value:.1f}", p, GREY, 6.0) for sweep in sweeps.values() for p in sweep]
    _write_labels(axes, labels, list(sweeps.values()))
    if sweeps:
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), borderaxespad=0.2)
    return figure


def _draw_points(axes: Axes, points: Sequence[Point], **look: Any) -> None:
    frames, values = [point.frames for point in points], [point.value for point in points]
    axes.errorbar(frames, values, yerr=np.array([point.bar for point in points]).T, **look, **ERROR_BARS)


def _axes(axes: Axes, points: Sequence[Point], metric: str) -> None:
    from matplotlib.ticker import NullLocator, ScalarFormatter

    ticks = frame_ticks(points)
    top = max(10.0, 1.12 * max(point.value for point in points), 1.02 * max(p.value + p.bar[1] for p in points))
    axes.set_xscale("log")
    axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(ticks[0] / 1.3, ticks[-1] * 1.3)
    axes.set_ylim(-0.04 * top, top)
    axes.set_xlabel("frames supplied for a question (log scale)")
    axes.set_ylabel(f"{metric} (%)")
    axes.grid()


def _write_labels(axes: Axes, labels: Sequence[Label], lines: Sequence[Sequence[Point]]) -> None:
    """Place and write labels. Their sizes are estimated from the number of letters, without a renderer."""
    pixels_per_point = PIXELS_PER_INCH / 72
    to_pixels = axes.transData.transform
    lines_in_pixels = [[tuple(to_pixels((point.frames, point.value))) for point in line] for line in lines]
    centres = [tuple(to_pixels((label.point.frames, label.point.value))) for label in labels]
    radius = 2.5 * pixels_per_point
    obstacles = [box for line in lines_in_pixels for box in boxes_along(line, 0.8 * pixels_per_point)]
    obstacles += [Box(x - radius, y - radius, x + radius, y + radius) for x, y in centres]
    for label in labels:
        ends = [
            to_pixels((label.point.frames, label.point.value + d)) for d in (-label.point.bar[0], label.point.bar[1])
        ]
        obstacles += boxes_along([(x, y) for x, y in ends], 0.8 * pixels_per_point)
    sizes = [
        (0.62 * label.points_high * len(label.text) * pixels_per_point, 1.1 * label.points_high * pixels_per_point)
        for label in labels
    ]
    frame = Box(*axes.bbox.extents)
    label_centres = place_labels(centres, sizes, obstacles, frame, gap=4 * pixels_per_point)
    for label, centre in zip(labels, label_centres, strict=True):
        axes.annotate(
            label.text,
            tuple(axes.transData.inverted().transform(centre)),
            ha="center",
            va="center",
            color=label.colour,
            fontsize=label.points_high,
        )


DENSITIES: Final = tuple(range(1, 9))


def k_sweep_figure(runs: Sequence[RunFigures], measured: Sequence[bool], k: int) -> Figure:
    """Cov@k and ECA@k of every run that used frames, for k from 1 to 8, over the questions with evidence."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2 * COLUMN_INCHES, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    with_frames = [run for run in runs if run.metrics["Fr"]]
    colours = shaded_colours(with_frames)
    for at, run in enumerate(with_frames):
        offset = 0.05 * (at - len(with_frames) / 2)  # so that bars do not hide one another
        _draw(left, run, measured, colours[run.name], offset, scored=False)
        if not run.is_sampler:
            _draw(right, run, measured, colours[run.name], offset, scored=True)
    for axes, name in ((left, "Cov@k (%)"), (right, "ECA@k (%)")):
        axes.set_ylabel(name)
        axes.set_xticks(DENSITIES)
        axes.set_ylim(bottom=0)
        axes.grid()
        axes.axvline(k, color="#cccccc", lw=3, zorder=0)
    figure.supxlabel("k: frames needed in every evidence interval", fontsize=8)
    if with_frames:
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", handlelength=2.2)
    return figure


def _draw(axes: Axes, run: RunFigures, measured: Sequence[bool], colour: str, offset: float, *, scored: bool) -> None:
    rows = [row for row, is_measured in zip(run.rows, measured, strict=True) if is_measured]
    hits = [[row.density >= level and (not scored or bool(row.correct)) for level in DENSITIES] for row in rows]
    means, bars = means_with_bars(100.0 * np.array(hits))
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
