"""The figures: error bars as wide as the report's intervals, one colour for TRACE, curves that meet the tables."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from tests.ves.test_golden import GOLDEN, bench, everything
from tests.ves.test_tables import paper_report, small_bench

from trace_ves.core import InputError
from trace_ves.records import Prediction
from trace_ves.ves import audit
from trace_ves.ves.figures import draw_figures
from trace_ves.ves.figures.bars import bench_figure
from trace_ves.ves.figures.frontier import Box, Point, boxes_along, frame_ticks, frontier_figure, place_labels
from trace_ves.ves.figures.style import STYLE


def described_legend(legend: Legend) -> str:
    box = [round(each) for each in legend.get_bbox_to_anchor().bounds]
    place = legend._loc, legend._ncols, legend.borderaxespad, legend.handlelength, legend.get_frame_on()  # type: ignore[attr-defined]
    return f"legend {[(text.get_text(), text.get_fontsize()) for text in legend.get_texts()]} {place} {box}"


def described(axes: Axes) -> Iterator[str]:
    """What is drawn and where, to four digits, whatever the version of matplotlib."""

    def numbers(values: Any) -> str:
        return " ".join(f"{value:.4g}" for value in np.ravel(values))

    yield f"axes {numbers([*axes.get_xlim(), *axes.get_ylim()])} | {axes.get_xlabel()} | {axes.get_ylabel()}"
    words = axes.title, axes.xaxis.label, axes.yaxis.label
    yield f"title {[(text.get_text(), text.get_fontsize()) for text in words]}"
    yield f"ticks {numbers(axes.get_xticks())} {[text.get_text() for text in axes.get_yticklabels()]}"
    yield f"tick {[dict(sorted(axis.get_tick_params().items())) for axis in (axes.xaxis, axes.yaxis)]}"
    yield f"grid {axes.xaxis.get_gridlines()[0].get_visible()} {axes.spines['left'].get_visible()} {axes.get_xscale()}"
    yield from map(described_legend, filter(None, [axes.get_legend()]))
    for bar in axes.patches:
        look = to_hex(bar.get_edgecolor()), bar.get_linewidth(), bar.get_alpha(), bar.get_zorder()
        yield f"bar {numbers(bar.get_bbox().extents)} {to_hex(bar.get_facecolor())} {look}"
    for line in axes.lines:
        look = line.get_linestyle(), line.get_marker(), line.get_linewidth(), line.get_markersize(), line.get_zorder()
        yield f"line {numbers(line.get_xydata())} {to_hex(line.get_color())} {look}"
    for lines in axes.collections:
        yield f"reach {numbers(lines.get_segments())} {lines.get_linewidth()} {lines.get_alpha()} {lines.get_zorder()}"
    for text in axes.texts:
        place = text.get_ha(), text.get_va(), text.get_fontsize(), text.get_weight(), text.get_zorder()
        yield f"text {text.get_text()!r} {numbers(text.get_position())} {to_hex(text.get_color())} {place}"


def test_every_figure_is_drawn_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    def save(figure: Figure, _: Path, name: str) -> tuple[Path, ...]:
        words = [f"{text.get_text()} {text.get_fontsize()}" for text in figure.texts]
        words += map(described_legend, figure.legends)
        layout = type(figure.get_layout_engine()).__name__
        found.append(f"{name} {figure.get_size_inches().tolist()} {layout} {words}")
        found.extend(line for axes in figure.axes for line in described(axes))
        return ()

    monkeypatch.setattr("trace_ves.ves.figures._save", save)
    draw_figures(everything(), bench(3), Path())
    for below, above in ((4, 5), (0, 0)):
        known = [(run, run.metrics["Acc"] or 0.0) for run in paper_report().runs]
        crowd = [replace(run, ci95={"Acc": (value - below, value + above)}) for run, value in known]
        with mpl.rc_context(STYLE):
            save(frontier_figure(crowd, "Acc"), Path(), "crowd")
    sizes = [(10 + n % 3, 4 + n % 2) for n in range(40)]
    labels = place_labels([(n * 37 % 100, n * 61 % 100) for n in range(40)], sizes, [], Box(0, 0, 100, 100), gap=2)
    found.append(" ".join(f"{x:g},{y:g}" for x, y in labels))
    assert "\n".join([*found, ""]) == (GOLDEN / "figures.txt").read_text(encoding="utf-8")


def test_a_histogram_says_what_lies_beyond_its_axis() -> None:
    items = [replace(small_bench()[0], duration=1e5 if n == 0 else 100.0 + n) for n in range(300)]
    items = [replace(each, question=replace(each.question, video=str(n))) for n, each in enumerate(items)]
    with mpl.rc_context(STYLE):
        durations, *others = bench_figure(items).axes
    assert [(axes.get_xlabel(), axes.get_ylabel()) for axes in (durations, *others)] == [
        ("video duration (s), mean 582.5 (2 beyond the axis)", "videos"),
        ("evidence intervals of a question, mean 2.0", "questions"),
        ("interval length (s), mean 10.0", "intervals"),
        ("evidence in the video (%), mean 9.2 (2 beyond the axis)", "questions"),
    ]
    assert [bar.get_height() for bar in others[0].patches] == [0, 300]
    assert durations.get_xlim()[0] == 0


def test_figures_are_drawn_as_svg_png_and_pdf_and_again_alike_whatever_the_names(tmp_path: Path) -> None:
    items = [replace(each, question=replace(each.question, family="")) for each in small_bench()]
    report = audit(items, {"$x_ \x1b evil-8": [Prediction("q1", "A", (15.0,), 1)]}, resamples=2)
    report = replace(report, runs=tuple(replace(run, is_sampler=True) for run in report.runs))
    drawn = draw_figures(report, items, tmp_path / "one")
    assert sorted(path.name for path in drawn) == [
        f"{name}.{kind}" for name in ("bench", "coverage") for kind in ("pdf", "png", "svg")
    ]
    for path, again in zip(drawn, draw_figures(report, items, tmp_path / "two"), strict=True):
        content = again.read_bytes()
        assert path.read_bytes() == content
        assert content.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[path.suffix])
        assert b"\x1b" not in content or path.suffix != ".svg"
    words = "".join(ET.parse(tmp_path / "one" / "coverage.svg").getroot().itertext())  # as a browser reads it
    assert "Cov@2 (%)" in words
    assert "$x_ \N{REPLACEMENT CHARACTER} evil sampler" in words
    with pytest.raises(InputError, match="this bench has no evidence intervals, so there is nothing to draw"):
        draw_figures(replace(report, bench=replace(report.bench, ep_ref=None)), items, tmp_path)


def test_a_label_stays_inside_the_frame_and_hides_as_little_as_it_can() -> None:
    frame, size = Box(0, 0, 100, 100), (20.0, 6.0)
    places = {  # left, right, above, below, then the corners
        (50, 50): ([], (36, 50)),
        (10, 50): ([], (24, 50)),
        (2, 50): ([Box(0, 46, 100, 54)], (16, 57)),
        (2, 98): ([Box(0, 94, 100, 100)], (16, 91)),
        (98, 98): ([Box(0, 94, 100, 100)], (84, 91)),
        (98, 2): ([Box(0, 0, 100, 6)], (84, 9)),
        (49, 50): ([Box(0, 40, 100, 60)], (49, 61.8)),
    }
    found = {point: place_labels([point], [size], taken, frame, gap=4)[0] for point, (taken, _) in places.items()}
    assert found == {point: pytest.approx(centre) for point, (_, centre) in places.items()}


def test_boxes_lie_along_a_line_as_far_apart_as_they_are_wide() -> None:
    assert boxes_along([(0, 0), (8, 4), (8, 5)], 2) == [
        *(Box(x - 2, y - 2, x + 2, y + 2) for x, y in ((0, 0), (4, 2), (8, 4), (8, 4), (8, 5))),
    ]
    touching = Box(0, 0, 4, 4)
    others = {Box(3, 2, 9, 9): 2.0, Box(4, 0, 9, 9): 0.0, Box(0, 4, 9, 9): 0.0, Box(5, 5, 9, 9): 0.0}
    assert {other: touching.overlap(other) for other in others} == others


@pytest.mark.parametrize(
    ("frames", "ticks"),
    [
        ([8.0], [8, 16]),
        ([8.0, 9.0], [8, 16]),
        ([5.0, 64.0], [4, 8, 16, 32, 64]),
        ([0.5, 0.6], [0.5, 1]),
        ([1.0, 2.0**13], [2.0**power for power in range(14)]),
        ([1.0, 2.0**14], [2.0**power for power in range(0, 15, 2)]),
    ],
)
def test_frames_are_ticked_at_powers_of_two(frames: list[float], ticks: list[float]) -> None:
    [run] = audit(small_bench(), samplers=(8,), resamples=1).runs
    assert frame_ticks([Point(run, each, 0.0, (0.0, 0.0)) for each in frames]) == ticks
