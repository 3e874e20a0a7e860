"""The two figures of the first page as plain geometry: the frame-ECA frontier and the three buckets of each run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.core.display import method_colours
from trace_ves.ves.figures.frontier import Box, place_labels
from trace_ves.ves.tables import in_paper_order, uniform_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trace_ves.ves import AuditReport, RunReport

WIDTH: Final = 560
HEIGHT: Final = 300
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 14, 40
LETTER_WIDTH: Final = 6.3
LETTER_HEIGHT: Final = 14


@dataclass(frozen=True, slots=True)
class Mark:
    """A run on the frontier, with the place of its name."""

    key: str
    name: str
    x: float
    y: float
    label_x: float
    label_y: float
    frames: float
    value: float
    is_uniform: bool
    colour: str
    """The colour of its method."""
    bar: tuple[float, float] | None
    """The ends of its 95% interval, on the same axis as `y`."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Frames supplied on a log axis against ECA."""

    marks: tuple[Mark, ...]
    sweep: str
    """The uniform sweep as the points of a polyline; empty where there is none."""
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    title: str

    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


@dataclass(frozen=True, slots=True)
class BucketBar:
    """One run's answers: right and covered, right without coverage, wrong; in percent."""

    key: str
    name: str
    covered: float
    uncovered: float
    wrong: float


def bucket_bars(report: AuditReport, keys: Mapping[str, str]) -> tuple[BucketBar, ...]:
    """The buckets of every run that answered; none where the bench has no evidence."""
    if report.bench.ep_ref is None:
        return ()
    return tuple(
        BucketBar(
            keys[run.name],
            run.name,
            run.metrics[f"Cov-Corr@{report.k}"] or 0.0,
            run.metrics[f"Uncov-Corr@{report.k}"] or 0.0,
            run.metrics["Wrong"] or 0.0,
        )
        for run in in_paper_order(report.runs)
        if run.name in keys
    )


def frontier(report: AuditReport, keys: Mapping[str, str]) -> Frontier | None:
    """The frontier of a report; None where nothing can be placed on it."""
    metric = f"ECA@{report.k}"
    if report.bench.ep_ref is None:
        metric = "Acc"
    shown = [run for run in in_paper_order(report.runs) if run.metrics["Fr"] and run.name in keys]
    if not shown:
        return None
    frames = [run.metrics["Fr"] or 1.0 for run in shown]
    values = [run.metrics[metric] or 0.0 for run in shown]
    low, high = math.floor(math.log2(min(frames))), math.ceil(math.log2(max(frames)))
    high = max(high, low + 1)
    highest = max(
        bounds[1] if (bounds := run.ci95.get(metric)) else value for run, value in zip(shown, values, strict=True)
    )
    ceiling = next(top for top in (10, 20, 25, 50, 75, 100) if top >= highest or top == 100)

    def x(count: float) -> float:
        return LEFT + 12 + (WIDTH - RIGHT - LEFT - 24) * (math.log2(count) - low) / (high - low)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / ceiling

    places = [(x(count), y(value)) for count, value in zip(frames, values, strict=True)]
    step = max(1, (high - low) // 7)
    sweep = sorted(place for run, place in zip(shown, places, strict=True) if uniform_frames(run) is not None)
    return Frontier(
        marks=_marks(
            shown,
            keys,
            places,
            list(zip(frames, values, strict=True)),
            [_bar(run.ci95.get(metric), y) for run in shown],
        ),
        sweep=" ".join(f"{across:.1f},{down:.1f}" for across, down in sweep) if len(sweep) > 1 else "",
        x_ticks=tuple((x(2.0**power), f"{2.0**power:g}") for power in range(low, high + 1, step)),
        y_ticks=tuple((y(ceiling * part / 5), f"{ceiling * part / 5:g}") for part in range(6)),
        title=metric,
    )


def _bar(bounds: tuple[float, float] | None, y: Callable[[float], float]) -> tuple[float, float] | None:
    return None if bounds is None else (y(bounds[0]), y(bounds[1]))


def _marks(
    runs: Sequence[RunReport],
    keys: Mapping[str, str],
    places: Sequence[tuple[float, float]],
    figures: Sequence[tuple[float, float]],
    bars: Sequence[tuple[float, float] | None],
) -> tuple[Mark, ...]:
    """Every name is put where it hides least."""
    colours = method_colours(run.method or run.name for run in runs)
    sizes = [(LETTER_WIDTH * len(run.name[:28]) + 4, float(LETTER_HEIGHT)) for run in runs]
    points = [Box(across - 5, down - 5, across + 5, down + 5) for across, down in places]
    frame = Box(LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM)
    labels = place_labels(places, sizes, points, frame, gap=8)
    return tuple(
        Mark(
            keys[run.name],
            run.name if len(run.name) <= 28 else run.name[:27] + "…",
            *place,
            *label,
            *figure,
            uniform_frames(run) is not None,
            colours[run.method or run.name],
            bar,
        )
        for run, place, label, figure, bar in zip(runs, places, labels, figures, bars, strict=True)
    )
