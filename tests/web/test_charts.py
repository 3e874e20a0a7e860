"""The two figures of the first page: where each run is drawn, computed by hand."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from trace_ves.ves.figures.frontier import Box, place_labels
from trace_ves.web.charts import BucketBar, make_bucket_bars, make_frontier


def run(name: str, frames: float | None, eca: float | None, bounds: Any = None, **others: Any) -> SimpleNamespace:
    metrics = {"Fr": frames, "ECA@2": eca, "Acc": 80.0, "Cov-Corr@2": eca, "Uncov-Corr@2": None, "Wrong": 12.5}
    given = {"method": name, "backbone": "lab", "is_sampler": False} | others
    return SimpleNamespace(name=name, metrics=metrics, ci95={"ECA@2": bounds}, **given)


def report(*runs: SimpleNamespace, ep_ref: float | None = 9.0) -> Any:
    return SimpleNamespace(bench=SimpleNamespace(ep_ref=ep_ref), k=2, runs=runs)


RUNS = (
    run("trace", 32.0, 30.0, (24.0, 38.0)),
    run("uniform-64", 64.0, 20.0),
    run("uniform-16", 16.0, 10.0),
    run("text-only", None, 0.0),
    run("left out", 8.0, 90.0),
)
KEYS = {each.name: f"key of {each.name}" for each in RUNS if each.name != "left out"}


def rounded(*numbers: float) -> tuple[float, ...]:
    return tuple(round(number, 6) for number in numbers)


def test_a_run_is_drawn_by_frames_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_ves.web.charts.place_labels", placed := Mock(side_effect=place_labels))
    figure = make_frontier(report(*RUNS), KEYS)
    assert figure.title == "ECA@2"
    assert [(mark.key, mark.name, mark.colour) for mark in figure.marks] == [
        ("key of uniform-16", "uniform-16", "grey"),
        ("key of uniform-64", "uniform-64", "grey"),
        ("key of trace", "trace", figure.marks[2].colour),
    ]
    assert figure.marks[2].colour != "grey"
    # 478 pixels between the first and the last tick, from 56; 246 pixels from 260 up to a rate of 50
    assert [rounded(mark.x, mark.y) for mark in figure.marks] == [(56, 210.8), (534, 161.6), (295, 112.4)]
    assert [mark.bar and rounded(*mark.bar) for mark in figure.marks] == [None, None, (141.92, 73.04)]
    dots, area = placed.call_args.args[2:]
    expected = [Box(mark.x - 5, mark.y - 5, mark.x + 5, mark.y + 5) for mark in figure.marks]
    assert (dots, area) == (expected, Box(44, 14, 546, 267))
    # 8 pixels beside the point, on the left where there is room; 6.3 for each letter and 4 more
    labels = [rounded(mark.label_x, mark.label_y) for mark in figure.marks]
    assert labels == [(56 + 8 + 33.5, 210.8), (534 - 8 - 33.5, 161.6), (295 - 8 - 17.75, 112.4)]
    assert figure.sweeps == ("56.0,210.8 534.0,161.6",)
    assert figure.x_ticks == ((56.0, "16"), (295.0, "32"), (534.0, "64"))
    assert rounded(*(at for at, _ in figure.y_ticks)) == (260, 210.8, 161.6, 112.4, 63.2, 14)
    assert [words for _, words in figure.y_ticks] == ["0", "10", "20", "30", "40", "50"]


def test_a_name_between_two_points_is_above_them_and_a_long_one_is_cut() -> None:
    runs = [run(name, frames, 8.0) for name, frames in (("a" * 29, 30.0), ("b" * 28, 32.0), ("c", 34.0))]
    figure = make_frontier(report(*runs), {each.name: "" for each in runs})
    assert [mark.name for mark in figure.marks] == ["a" * 27 + "…", "b" * 28, "c"]
    first, second, _ = figure.marks
    assert rounded(first.label_x, first.label_y) == rounded(first.x - 8 - 90.2, first.y)
    assert rounded(second.label_x, second.label_y) == rounded(second.x, second.y + 8 + 7)
    at_zero = [run(name, 16.0, 0.0) for name in ("a", "b")]
    first, second = make_frontier(report(*at_zero, run("c", 64.0, 8.0)), {each.name: "" for each in at_zero}).marks
    assert rounded(first.label_x, first.label_y, second.label_y) == rounded(first.x + 8 + 5.15, first.y, second.y - 15)


@pytest.mark.parametrize(
    ("highest", "ceiling"), [(10.0, 10), (10.1, 20), (25.0, 25), (26.0, 50), (51.0, 75), (76.0, 100), (130.0, 100)]
)
def test_the_axis_ends_at_a_round_number(highest: float, ceiling: int) -> None:
    figure = make_frontier(report(run("trace", 32.0, 5.0, (0.0, highest))), {"trace": ""})
    assert figure.y_ticks[-1] == (14.0, f"{ceiling}")


def test_a_bench_without_evidence_has_accuracy_and_no_buckets() -> None:
    figure = make_frontier(report(*RUNS, ep_ref=None), KEYS)
    assert (figure.title, {mark.y for mark in figure.marks}) == ("Acc", {260 - 246 * 0.8})
    assert {mark.bar for mark in figure.marks} == {None}
    assert make_bucket_bars(report(*RUNS, ep_ref=None), KEYS) == ()
    assert make_frontier(report(RUNS[3], RUNS[4]), KEYS) is None


def test_a_run_without_a_method_is_coloured_by_its_name_and_one_point_makes_no_sweep() -> None:
    figure = make_frontier(report(run("trace", 20.0, 5.0, method=""), RUNS[1]), KEYS)
    assert figure.marks[0].colour == "grey"
    assert figure.marks[1].colour == make_frontier(report(RUNS[0]), KEYS).marks[0].colour
    assert figure.sweeps == ()


def test_buckets_are_those_of_the_audit() -> None:
    bars = make_bucket_bars(report(*RUNS), KEYS)
    assert [bar.name for bar in bars] == ["uniform-16", "uniform-64", "trace", "text-only"]
    assert bars[2] == BucketBar("key of trace", "trace", 30.0, 0.0, 12.5)
