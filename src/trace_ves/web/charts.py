"""The two figures of the start page in SVG coordinates: the frame-ECA frontier and the buckets of each run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.core.display import method_colours
from trace_ves.ves.figures.frontier import Box, Point, frame_ticks, place_labels, points_of, sweeps_of
from trace_ves.ves.tables import in_paper_order
from trace_ves.web.search_view import shorten

if TYPE_CHECKING:
    from trace_ves.ves import AuditReport

WIDTH: Final = 560
HEIGHT: Final = 300
LEFT, RIGHT, TOP, BOTTOM = 44, WIDTH - 14, 14, HEIGHT - 40
PADDING: Final = 12
LETTER_WIDTH: Final = 6.3
LETTER_HEIGHT: Final = 14
LONGEST_NAME: Final = 28


@dataclass(frozen=True, slots=True)
class Mark:
    """A run on the frontier, with the position of its label."""

    key: str
    name: str
    point: Point
    x: float
    y: float
    bar: tuple[float, float] | None  # the ends of its 95% interval, on the same axis as `y`
    label_x: float
    label_y: float
    colour: str  # the colour of its method


@dataclass(frozen=True, slots=True)
class Frontier:
    """ECA against frames supplied, on a logarithmic axis."""

    title: str
    marks: tuple[Mark, ...]
    sweeps: tuple[str, ...]  # each uniform sweep as the points of a polyline
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class BucketBar:
    """One run's answers in percent: right and covered, right but not covered, wrong."""

    key: str
    name: str
    covered: float
    uncovered: float
    wrong: float


def make_bucket_bars(report: AuditReport, keys: Mapping[str, str]) -> tuple[BucketBar, ...]:
    """Make the bar of each run; none if the bench has no evidence."""
    if report.bench.ep_ref is None:
        return ()
    names = (f"Cov-Corr@{report.k}", f"Uncov-Corr@{report.k}", "Wrong")
    return tuple(
        BucketBar(keys[run.name], run.name, *(run.metrics[name] or 0.0 for name in names))
        for run in in_paper_order(report.runs)
        if run.name in keys
    )


def make_frontier(report: AuditReport, keys: Mapping[str, str]) -> Frontier | None:
    """Make the frontier of a report; None if no run has the metric."""
    metric = f"ECA@{report.k}" if report.bench.ep_ref is not None else "Acc"
    points = points_of([run for run in in_paper_order(report.runs) if run.name in keys], metric)
    if not points:
        return None
    ticks = frame_ticks(points)
    low, high = math.log2(ticks[0]), math.log2(max(ticks[-1], *(point.frames for point in points)))
    highest = max(point.value + point.bar[1] for point in points)
    ceiling = next(top for top in (10, 20, 25, 50, 75, 100) if top >= highest or top == 100)

    def x(frames: float) -> float:
        return LEFT + PADDING + (RIGHT - LEFT - 2 * PADDING) * (math.log2(frames) - low) / (high - low)

    def y(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * value / ceiling

    def line(sweep: list[Point]) -> str:
        return " ".join(f"{x(point.frames):.1f},{y(point.value):.1f}" for point in sweep)

    places = [(x(point.frames), y(point.value)) for point in points]
    names = [shorten(point.run.name, LONGEST_NAME) for point in points]
    labels = place_labels(
        places,
        [(LETTER_WIDTH * len(name) + 4, float(LETTER_HEIGHT)) for name in names],
        [Box(across - 5, down - 5, across + 5, down + 5) for across, down in places],
        Box(LEFT, TOP, RIGHT, BOTTOM + LETTER_HEIGHT / 2),  # a point at 0 has room for a label beside it
        gap=8,
    )
    colours = method_colours(point.run.method or point.run.name for point in points)
    marks = [
        Mark(
            keys[point.run.name],
            name,
            point,
            *place,
            (y(point.value - point.bar[0]), y(point.value + point.bar[1])) if point.run.ci95.get(metric) else None,
            *label,
            colours[point.run.method or point.run.name],
        )
        for point, name, place, label in zip(points, names, places, labels, strict=True)
    ]
    return Frontier(
        metric,
        tuple(marks),
        tuple(line(sweep) for sweep in sweeps_of(points).values() if len(sweep) > 1),
        tuple((x(frames), f"{frames:g}") for frames in ticks),
        tuple((y(ceiling * part / 5), f"{ceiling * part / 5:g}") for part in range(6)),
    )
