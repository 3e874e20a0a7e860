"""The bootstrap: the paper's half-widths, determinism, pairing, clusters, bounded memory."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trace_ves.core import Interval, Question
from trace_ves.records import Item, Prediction
from trace_ves.ves import audit
from trace_ves.ves.metrics import Columns
from trace_ves.ves.statistics import bootstrap, paired_difference, percentile_interval, two_sided_p


def paper_run(correct: int, covered: int, both: int, n: int = 600) -> tuple[list[Item], list[Prediction]]:
    """Rows with the published counts: `both` right and covered, the rest right or covered alone, or neither."""
    items, predictions = [], []
    for index in range(n):
        is_right = index < correct
        is_covered = index < both or correct <= index < correct + covered - both
        items.append(Item(Question(f"q{index}", f"v{index % 348}", "?", ("a", "b")), "A", (Interval(10, 20),), 100.0))
        seen = (11.0, 12.0) if is_covered else (50.0,)
        predictions.append(Prediction(f"q{index}", "A" if is_right else "B", seen, 2))
    return items, predictions


def test_the_half_widths_of_the_papers_table() -> None:
    """TRACE's row: 63.5 ±3.9, Cov@2 78.5 ±3.3, ECA@2 50.7 ±4.0."""
    items, predictions = paper_run(correct=381, covered=471, both=304)
    run = audit(items, {"trace": predictions}, resamples=4000).runs[0]
    assert [f"{run.metrics[m]:.1f}" for m in ("Acc", "Cov@2", "ECA@2")] == ["63.5", "78.5", "50.7"]
    assert [run.half_width(m) for m in ("Acc", "Cov@2", "ECA@2")] == pytest.approx([3.9, 3.3, 4.0], abs=0.1)


def test_a_seed_draws_today_what_it_drew_when_results_were_published() -> None:
    values = np.arange(10.0)[:, np.newaxis]
    assert bootstrap(values, resamples=4, seed=0)[:, 0].tolist() == [3.3, 6.7, 4.6, 3.2]
    pairs = bootstrap(values, resamples=4, seed=0, clusters=np.arange(10) // 2)
    assert pairs[:, 0].tolist() == [4.9, 2.1, 6.9, 6.1]


def test_parts_of_the_work_do_not_change_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random((50, 3))
    whole = bootstrap(values, resamples=100, seed=2)
    for name, small in (("RESAMPLES_AT_ONCE", 9), ("LARGEST_PRODUCT", 100)):
        monkeypatch.setattr(f"trace_ves.ves.statistics.{name}", small)
        assert bootstrap(values, resamples=100, seed=2) == pytest.approx(whole)


def test_progress_is_told_for_both_bootstraps_and_may_end_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_ves.ves.statistics.RESAMPLES_AT_ONCE", 40)
    items, predictions = paper_run(30, 20, 10, n=50)
    told: list[tuple[str, int, int]] = []
    audit(items, {"r": predictions}, resamples=100, on_progress=lambda *said: told.append(said))
    assert told == [("resampling questions and videos", done, 200) for done in (40, 80, 100, 140, 180, 200)]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit(items, {"r": predictions}, resamples=30, on_progress=interrupt)


def test_clusters_of_one_change_nothing_and_clusters_of_copies_widen_the_interval() -> None:
    values = np.repeat(np.random.default_rng(0).integers(0, 2, 100), 6)[:, np.newaxis] * 100.0
    by_row = percentile_interval(bootstrap(values, resamples=2000, seed=0))
    alone = percentile_interval(bootstrap(values, resamples=2000, seed=0, clusters=np.arange(600)))
    by_copy = percentile_interval(bootstrap(values, resamples=2000, seed=0, clusters=np.repeat(np.arange(100), 6)))
    assert alone == pytest.approx(by_row)
    assert (by_copy[1] - by_copy[0]) / (by_row[1] - by_row[0]) == pytest.approx(np.sqrt(6), rel=0.1)


def test_clusters_of_unequal_size_are_means_over_questions() -> None:
    values = np.array([[0.0], [100.0], [100.0], [100.0]])
    means = bootstrap(values, resamples=500, seed=0, clusters=np.array([0, 1, 1, 1]))[:, 0]
    assert set(np.round(means, 6)) == {0.0, 75.0, 100.0}


def test_comparisons_are_antisymmetric_and_a_run_equals_itself() -> None:
    items, predictions = paper_run(60, 50, 30, n=100)
    other = [Prediction(p.question_id, "A", (15.0,), 1) for p in predictions]
    there = audit(items, {"a": predictions, "b": other}).comparisons
    back = audit(items, {"b": other, "a": predictions}).comparisons
    for one, two in zip(there, back, strict=True):
        assert one.difference == pytest.approx(-two.difference)
        assert one.p == two.p
    p = {each.metric: each.p for each in there}
    assert p["AR"] == p["EP"]
    same = audit(items, {"a": predictions, "b": predictions}).comparisons
    assert {(c.difference, c.p) for c in same} == {(0.0, 1.0)}


def test_every_metrics_interval_is_that_of_its_own_column() -> None:
    """AR and the buckets are not resampled themselves; they follow from what is."""
    items, predictions = paper_run(60, 50, 30, n=100)
    report = audit(items, {"a": predictions, "b": predictions[::-1]}, k=1, resamples=60, seed=3)
    for run in report.runs:
        columns = Columns(run.rows, report.bench.ep_ref, 1, frames_known=True)
        for metric, interval in run.ci95.items():
            alone = percentile_interval(bootstrap(columns.column(metric)[:, np.newaxis], resamples=60, seed=3))
            assert interval == pytest.approx(alone), metric
    assert report.runs[0].ci95["Wrong"][1] > report.runs[0].ci95["Wrong"][0] > 0


def test_intervals_by_video_resample_whole_videos() -> None:
    items, predictions = paper_run(60, 50, 30, n=100)
    items = [replace(each, question=replace(each.question, video=f"v{at // 7}")) for at, each in enumerate(items)]
    report = audit(items, {"a": predictions}, resamples=60, seed=3)
    [run] = report.runs
    videos = {item.question.id: item.question.video for item in items}
    seen = [videos[row.question_id] for row in run.rows]
    clusters = np.array([list(dict.fromkeys(seen)).index(video) for video in seen])
    column = Columns(run.rows, report.bench.ep_ref, 2, frames_known=True).column("Acc")[:, np.newaxis]
    expected = percentile_interval(bootstrap(column, resamples=60, seed=3, clusters=clusters))
    assert run.ci95_by_video["Acc"] == pytest.approx(expected)
    assert run.ci95_by_video["Acc"] != pytest.approx(run.ci95["Acc"])


def test_runs_are_compared_in_every_metric_but_the_buckets_where_both_have_it() -> None:
    items, predictions = paper_run(60, 50, 30, n=100)
    blind = [Prediction(p.question_id, p.answer) for p in predictions]
    found = {c.metric: c for c in audit(items, {"a": predictions, "blind": blind}, resamples=20).comparisons}
    levels = [f"{kind}@{level}" for kind in ("Cov", "ECA") for level in (1, 2, 3)]
    assert list(found) == ["Fr", "Acc", "EP", "AR", *levels]
    hidden = [metric for metric, each in found.items() if each.p is None]
    assert hidden == ["EP", "AR", *levels[:3]]
    assert all(found[metric].difference is found[metric].ci95 is None for metric in hidden)
    assert found["Fr"].difference == 2


@pytest.mark.parametrize(
    ("differences", "p"), [([1.0] * 999, 2 / 1000), ([1.0] * 998 + [-1.0], 4 / 1000), ([0.0] * 9, 1.0), ([1, -1], 1.0)]
)
def test_p_counts_the_resamples_beyond_zero_with_one_more_on_each_side(differences: Any, p: Any) -> None:
    assert two_sided_p(np.array(differences, dtype=float)) == pytest.approx(p)


def test_a_difference_below_a_billionth_is_rounding() -> None:
    a, b = np.array([0.5e-9, -0.5e-9, 1e-9, 0.0]), np.array([0.0, 0.0, 0.0, 1.5e-9])
    assert paired_difference(a, b).tolist() == [0.0, 0.0, 1e-9, -1.5e-9]


def test_p_is_honest_when_there_is_no_difference() -> None:
    """200 pairs of methods of one true accuracy: p below 0.05 for about one of twenty."""
    values = 100.0 * (np.random.default_rng(11).random((200, 400)) < 0.5)
    drawn = bootstrap(values, resamples=400, seed=0)
    assert 2 <= sum(two_sided_p(paired_difference(*pair)) < 0.05 for pair in drawn.T.reshape(200, 2, 400)) <= 22


def test_memory_stays_bounded() -> None:
    values = np.random.default_rng(0).random((20_000, 12))
    tracemalloc.start()
    bootstrap(values, resamples=200, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20
