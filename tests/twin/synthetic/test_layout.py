"""The layout has the paper's figures, for any seed, and the audit's own reckoning agrees with ours."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.twin.synthetic.bench import make_twin
from trace_ves.twin.synthetic.layout import (
    FITTED,
    FPS,
    FRAME_COUNTS,
    PAPER_COVERAGE,
    choose_layout,
    draw_layout,
    measure_layout,
)
from trace_ves.twin.synthetic.vocabulary import vocabulary
from trace_ves.ves import audit


@pytest.mark.parametrize("seed", [7, 2024])
def test_figures_are_the_papers(seed: int) -> None:
    layout = choose_layout(600, seed)
    table = measure_layout(layout)
    assert len(layout) == 348
    assert table.duration_s == pytest.approx(434, abs=10)
    assert table.intervals == pytest.approx(3.4, abs=0.15)
    assert table.interval_s == pytest.approx(16.2, abs=0.8)
    assert table.ep_ref == pytest.approx(13.7, abs=0.5)
    for ours, paper in zip(table.coverage, PAPER_COVERAGE, strict=True):
        assert ours == pytest.approx(paper, abs=4.0)
    assert table.misfit <= 1.0
    ordering, counting = measure_layout(layout, TEMPORAL_ORDERING), measure_layout(layout, EVENT_COUNTING)
    assert 5 < ordering.interval_s < 8
    assert 18 < counting.interval_s < 28
    sixty_four = FRAME_COUNTS.index(64)
    assert ordering.coverage[sixty_four][1] < 20
    assert counting.coverage[sixty_four][1] > 50


def test_the_audit_agrees_with_the_table() -> None:
    twin = make_twin(120, 3)
    items = [item for video in twin for item in video.items]
    report = audit(items, samplers=FRAME_COUNTS, resamples=1)
    table = measure_layout(choose_layout(120, 3))
    for row, frames in enumerate(FRAME_COUNTS):
        metrics = report.run(f"uniform-{frames}").metrics
        assert isinstance(metrics, dict)
        assert [metrics[f"Cov@{k}"] for k in (1, 2, 3)] == pytest.approx(list(table.coverage[row]), abs=0.06)


@settings(max_examples=40, deadline=None)
@given(questions=st.integers(2, 60), seed=st.integers(0, 10_000))
def test_every_layout_is_sound(questions: int, seed: int) -> None:
    layout = draw_layout(questions, [seed])
    asked = [question for video in layout for question in video.questions]
    assert len(asked) == questions
    assert sum(question.family == EVENT_COUNTING for question in asked) == questions // 2
    assert all(1 <= len(video.questions) <= 2 for video in layout)
    for video in layout:
        for question in video.questions:
            ends = [0, *(frame for interval in question.intervals for frame in interval), video.frames - 1]
            assert ends == sorted(ends)
            gaps = [later[0] - earlier[1] for earlier, later in pairwise(question.intervals)]
            assert all(gap >= FITTED.gap_s * FPS - 1 for gap in gaps)
            if question.family == EVENT_COUNTING:
                assert question.lowest_option <= len(question.intervals) < question.lowest_option + 4
            else:
                assert len(question.intervals) in (3, 4)


ROOT = Path(__file__).parents[3]
MEASURED = (ROOT / "docs/measurements.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/twin.md").read_text(encoding="utf-8")


def test_the_layout_table_is_what_the_tool_prints() -> None:
    shown = re.search(r"^\$ python (tools/layout_table\.py .*)\n((?:.*\n)*?)```", MEASURED, re.MULTILINE)
    assert shown is not None
    printed = subprocess.run(
        [sys.executable, *shown[1].split()], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert shown[2].strip() == printed.strip()


def test_the_vocabulary_is_counted_right() -> None:
    words = vocabulary()
    counts = f"{len(words.events)} events with the words for them, {len(words.lookalikes)} look-alikes"
    assert counts in PAGE
    assert f"{len(words.props)} props and {len(words.scenes)} scenes" in " ".join(PAGE.split())
