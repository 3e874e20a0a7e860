"""The figures of a layout beside the paper's: scale, EP_ref, and Cov@k of the canonical uniform sampler.

A second reckoning of what the audit measures from logged frames, from interval arithmetic alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.synthetic.layout import FPS, draw_layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.synthetic.layout import VideoLayout

FRAME_COUNTS: Final = (16, 32, 64, 128, 256)
DENSITIES: Final = (1, 2, 3)

PAPER_COVERAGE: Final = (
    (19.8, 4.0, 1.7),
    (48.0, 13.2, 5.2),
    (82.2, 34.3, 16.3),
    (97.8, 74.7, 45.0),
    (99.7, 95.5, 81.8),
)
"""Percent of questions with every interval covered k times: a row for each number of frames, a column for each k."""


ALLOWED: Final = {
    "duration_s": (434.0, 10.0),
    "intervals": (3.4, 0.15),
    "interval_s": (16.2, 0.8),
    "ep_ref": (13.7, 0.5),
}
"""The paper's figures of scale, and how far the twin may lie from each."""
ALLOWED_CELL: Final = 4.0
"""How many points a coverage cell may lie from the paper's."""


@dataclass(frozen=True, slots=True)
class LayoutTable:
    """What the paper tells of its benchmark's layout."""

    duration_s: float
    """Mean over videos."""
    intervals: float
    """Mean over questions."""
    interval_s: float
    """Mean over all intervals."""
    ep_ref: float
    """Percent."""
    coverage: tuple[tuple[float, ...], ...]
    """Percent, laid out as `PAPER_COVERAGE`."""

    @property
    def misfit(self) -> float:
        """The largest distance from a figure of the paper's, as a multiple of what is allowed: 1 or less is near."""
        worst_cell = float(np.abs(np.array(self.coverage) - np.array(PAPER_COVERAGE)).max()) / ALLOWED_CELL
        scale = (abs(float(getattr(self, name)) - paper) / near for name, (paper, near) in ALLOWED.items())
        return max(worst_cell, *scale)


def fitted_layout(questions: int, seed: int) -> tuple[VideoLayout, ...]:
    """Of a dozen layouts drawn from this seed, the one nearest to the paper's figures."""
    drawn = [draw_layout(questions, [seed, attempt]) for attempt in range(12)]
    return min(drawn, key=lambda layout: layout_table(layout).misfit)


def layout_table(videos: Sequence[VideoLayout], family: str | None = None) -> LayoutTable:
    """The figures of a layout, of all its questions or of one family's."""
    pairs = [(video, q) for video in videos for q in video.questions if family in (None, q.family)]
    spans = [np.array(question.intervals, dtype=float) / FPS for _, question in pairs]
    durations = np.array([video.duration_s for video, _ in pairs])
    lengths = [span[:, 1] - span[:, 0] for span in spans]
    coverage = []
    for frames in FRAME_COUNTS:
        # The moments (j + 1/2) T/n of an interval are those j between its ends, measured in steps of T/n.
        fewest = np.array(
            [
                (np.floor(span[:, 1] * frames / T - 0.5) - np.ceil(span[:, 0] * frames / T - 0.5) + 1).min()
                for span, T in zip(spans, durations, strict=True)
            ]
        )
        coverage.append(tuple(100.0 * float((fewest >= density).mean()) for density in DENSITIES))
    return LayoutTable(
        duration_s=float(np.mean([video.duration_s for video in videos])),
        intervals=float(np.mean([len(length) for length in lengths])),
        interval_s=float(np.concatenate(lengths).mean()),
        ep_ref=100.0 * float(np.mean([length.sum() / T for length, T in zip(lengths, durations, strict=True)])),
        coverage=tuple(coverage),
    )
