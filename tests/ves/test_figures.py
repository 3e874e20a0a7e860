"""The figures: error bars as wide as the report's intervals, one colour for TRACE, curves that meet the tables."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex
from tests.ves.test_tables import small_bench, small_report

from trace_ves.core import InputError
from trace_ves.core.display import PALETTE
from trace_ves.records import Prediction
from trace_ves.ves import audit
from trace_ves.ves.figures import draw_figures
from trace_ves.ves.figures.bars import (
    BUCKET_COLOURS,
    DARK,
    bench_figure,
    buckets_figure,
    endings_figure,
    families_figure,
)
from trace_ves.ves.figures.frontier import (
    Box,
    Point,
    boxes_along,
    frame_ticks,
    frontier_figure,
    k_sweep_figure,
    place_labels,
)
from trace_ves.ves.figures.style import METADATA, STYLE


def test_figures_have_error_bars_and_trace_keeps_its_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever place TRACE stands, it is blue; and the bars have the width of the report's own intervals."""
    items = small_bench()
    lines = [Prediction(i.question.id, "A", (1.0,), 4, method="trace", termination="exhausted") for i in items]
    other = [replace(line, method="zeta", answer="AB"[n % 2], termination=None) for n, line in enumerate(lines)]
    for runs in ({"trace": lines}, {"zeta": other, "trace": lines}):
        report = audit(items, runs, resamples=50)
        with mpl.rc_context(STYLE):
            axes = frontier_figure(report.runs, "Acc").axes[0]
        colours = {line.get_color() for line in axes.lines if line.get_marker() == "D"}
        assert PALETTE["blue"] in colours
        assert len(colours) == len(runs)
        low, high = report.run("trace").ci95["Acc"] or (0, 0)
        reach = [c.get_segments()[0] for c in axes.collections if tuple(c.get_segments()[0][:, 1]) == (low, high)]
        assert reach
    monkeypatch.setattr("trace_ves.ves.figures.METADATA", {"svg": METADATA["svg"]})  # the others take longer
    drawn = draw_figures(report, items, tmp_path)
    names = {"bench", "buckets", "coverage", "endings", "families", "frontier", "k-sweep"}
    assert {path.stem for path in drawn} == names
    assert "ECA@2 (%)" in (tmp_path / "frontier.svg").read_text()
    assert ">exhausted<" in (tmp_path / "endings.svg").read_text()
    assert ">not said<" in (tmp_path / "endings.svg").read_text()


def test_a_k_sweep_starts_where_the_report_stands() -> None:
    items = small_bench()
    lines = [
        Prediction(each.question.id, "A", tuple(i.start + 0.1 * n for i in each.evidence for n in range(at % 5)), 9)
        for at, each in enumerate(items)
    ]
    report = audit(items, {"m": lines}, resamples=20)
    with mpl.rc_context(STYLE):
        left, right = k_sweep_figure(report.runs, np.ones(len(items), np.bool_), 2).axes
    for axes, metric in ((left, "Cov"), (right, "ECA")):
        curve = next(line for line in axes.lines if line.get_marker() == "D").get_ydata()
        assert list(curve[:3]) == pytest.approx([report.runs[0].metrics[f"{metric}@{k}"] for k in (1, 2, 3)])
        assert list(curve) == sorted(curve, reverse=True)
        assert axes.collections  # error bars


def test_bars_of_runs_stand_apart_and_their_numbers_can_be_read() -> None:
    items, report = small_bench(), small_report()
    runs = [run for run in report.runs if not run.is_sampler]
    with mpl.rc_context(STYLE):
        families = families_figure(runs, items, 2).axes[0]
        buckets, endings = buckets_figure(runs, 2).axes[0], endings_figure(runs).axes[0]
    assert [bar.get_width() for bar in endings.patches] == [100.0] * len(runs)  # nothing is said of any search
    assert endings.get_xlim() == buckets.get_xlim() == (0, 100)
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in families.patches)
    assert len(spans) == 2 * len(runs)
    assert all(end < start for (_, end), (start, _) in pairwise(spans))
    assert sum(map(sum, spans)) / 2 == pytest.approx(len(runs) * (0 + 1))  # around the name of their family
    inks = {}
    for text in buckets.texts:
        [bar] = [each for each in buckets.patches if each.get_bbox().contains(*text.get_position())]
        inks[to_hex(bar.get_facecolor())] = text.get_color()
    assert inks == dict(zip(BUCKET_COLOURS.values(), ("white", DARK, DARK), strict=True))


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


def test_labels_keep_off_points_and_one_another() -> None:
    points = [(50.0, 50.0), (52.0, 50.0), (50.0, 53.0)]
    obstacles = [Box(x - 2, y - 2, x + 2, y + 2) for x, y in points]
    centres = place_labels(points, [(20.0, 6.0)] * 3, obstacles, Box(0, 0, 100, 100), gap=4)
    boxes = [Box(x - 10, y - 3, x + 10, y + 3) for x, y in centres]
    for index, box in enumerate(boxes):
        assert all(box.overlap(other) == 0 for other in [*obstacles, *boxes[:index]])
        assert box.overlap(Box(0, 0, 100, 100)) == pytest.approx(120)


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
