"""The layout has the paper's figures, for any seed, and the audit's own reckoning agrees with ours."""

import re
import runpy
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.twin.synthetic.bench import make_twin
from trace_ves.twin.synthetic.layout import FITTED, FPS, FRAME_COUNTS, choose_layout, draw_layout, measure_layout
from trace_ves.twin.synthetic.vocabulary import vocabulary
from trace_ves.ves import audit

ROOT = Path(__file__).parents[3]
MEASURED = (ROOT / "docs/measurements.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/twin.md").read_text(encoding="utf-8")


def test_figures_are_the_papers() -> None:
    layout = choose_layout(600, 2024)
    assert len(layout) == 348
    assert measure_layout(layout).misfit <= 1.0
    ordering, counting = measure_layout(layout, TEMPORAL_ORDERING), measure_layout(layout, EVENT_COUNTING)
    assert 5 < ordering.interval_s < 8
    assert 18 < counting.interval_s < 28
    sixty_four = FRAME_COUNTS.index(64)
    assert ordering.coverage[sixty_four][1] < 20
    assert counting.coverage[sixty_four][1] > 50


def test_the_audit_agrees_with_the_table() -> None:
    items = [item for video in make_twin(120, 3) for item in video.items]
    report = audit(items, samplers=FRAME_COUNTS, resamples=1)
    for frames, coverage in zip(FRAME_COUNTS, measure_layout(choose_layout(120, 3)).coverage, strict=True):
        metrics = report.run(f"uniform-{frames}").metrics
        assert [metrics[f"Cov@{k}"] for k in (1, 2, 3)] == pytest.approx(coverage, abs=0.06)


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


def test_the_layout_table_is_what_the_tool_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = re.search(r"^\$ python (tools/layout_table\.py .*)\n((?:.*\n)*?)```", MEASURED, re.MULTILINE)
    assert shown is not None
    monkeypatch.setattr(sys, "argv", shown[1].split())
    runpy.run_path(str(ROOT / sys.argv[0]), run_name="__main__")
    assert shown[2].strip() == capsys.readouterr().out.strip()


def test_the_vocabulary_is_counted_right() -> None:
    words = vocabulary()
    counts = f"{len(words.events)} events with the words for them, {len(words.lookalikes)} look-alikes"
    assert counts in PAGE
    assert f"{len(words.props)} props and {len(words.scenes)} scenes" in " ".join(PAGE.split())
