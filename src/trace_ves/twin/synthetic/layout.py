"""When things happen: durations, families and evidence intervals with the statistics of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING

if TYPE_CHECKING:
    from numpy.typing import NDArray

FPS: Final = 10  # enough for motion, and fast to encode

WIDTH, HEIGHT = 640, 360
PAPER_VIDEOS, PAPER_QUESTIONS = 348, 600
OPTIONS: Final = 4


@dataclass(frozen=True, slots=True)
class LayoutParameters:
    """The shape of the layout, fitted to the paper's Cov@k, scale and EP_ref with `tools/layout_table.py`."""

    duration_median_s: float = 402.0
    duration_sigma: float = 0.40  # of the lognormal; the paper gives only the mean, 434 seconds
    ordering_length_s: tuple[float, float] = (4.0, 8.9)  # uniform, per question
    ordering_spread: float = 0.25  # maximum relative deviation of each event
    four_events_share: float = 0.15  # share of ordering questions with four events instead of three
    counting_length_s: float = 17.5  # median length of an occurrence, in a video of 400 s
    counting_duration_power: float = 0.80  # how it grows with the video: 0 not at all, 1 in proportion
    counting_sigma_between: float = 0.68  # spread of the (log) length from question to question
    counting_sigma_within: float = 0.43  # spread of the (log) length within one question
    lowest_option_shares: tuple[tuple[int, float], ...] = ((2, 0.77), (3, 0.14), (4, 0.09))  # option, how often
    shortest_s: float = 3.5
    gap_s: float = 5.0  # minimum time between two intervals of a question
    margin_s: float = 2.0  # minimum distance from the ends of the video
    most_evidence: float = 0.6  # maximum share of the video; intervals are shortened to fit


FITTED: Final = LayoutParameters()


@dataclass(frozen=True, slots=True)
class QuestionLayout:
    """The family and intervals of one question, and the lowest option of a count."""

    family: str
    intervals: tuple[tuple[int, int], ...]  # first and last frame of each, inclusive, in order of time
    lowest_option: int = 0


@dataclass(frozen=True, slots=True)
class VideoLayout:
    """The length of a video in frames, and its questions."""

    frames: int
    questions: tuple[QuestionLayout, ...]

    @property
    def duration_s(self) -> float:
        """Seconds from the first frame to the end of the last."""
        return self.frames / FPS


def draw_layout(questions: int, seed: Sequence[int]) -> tuple[VideoLayout, ...]:
    """Videos for this many questions, in the paper's ratio of 348 to 600; half of the questions are counting.

    Values are spread evenly over their distributions, so that statistics vary little.
    """
    rng = np.random.default_rng(seed)
    videos = max(1, round(questions * PAPER_VIDEOS / PAPER_QUESTIONS))
    # one duration from each of `videos` equal slices of the lognormal, in random order
    normal = NormalDist(np.log(FITTED.duration_median_s), FITTED.duration_sigma)
    slices = (np.arange(videos) + rng.uniform(0.25, 0.75, videos)) / videos
    durations = rng.permutation(np.array([np.exp(normal.inv_cdf(float(part))) for part in slices]))
    owners = np.concatenate([np.arange(videos), rng.permutation(videos)[: questions - videos]])
    families = rng.permutation(np.arange(questions) % 2)
    drawn: dict[int, QuestionLayout] = {}
    for family, draw in ((0, _draw_ordering), (1, _draw_counting)):
        slots = np.flatnonzero(families == family)
        # A lattice over (duration, count, length): neighbours in duration get counts and lengths far apart.
        by_duration = slots[np.argsort(durations[owners[slots]], kind="stable")]
        shifts = rng.random(2)
        for rank, slot in enumerate(by_duration):
            first, second = (shifts + (rank + 1) * _LATTICE) % 1.0
            drawn[int(slot)] = draw(rng, float(durations[owners[slot]]), first, second)
    return tuple(
        VideoLayout(round(durations[video] * FPS), tuple(drawn[int(slot)] for slot in np.flatnonzero(owners == video)))
        for video in range(videos)
    )


_LATTICE: Final = np.array([0.7548776662466927, 0.5698402909980532])  # 1/g and 1/g^2, where g^3 = g + 1


def _draw_ordering(rng: np.random.Generator, duration: float, first: float, second: float) -> QuestionLayout:
    events = 4 if first < FITTED.four_events_share else 3
    shortest, longest = FITTED.ordering_length_s
    spread = rng.uniform(1 - FITTED.ordering_spread, 1 + FITTED.ordering_spread, size=events)
    lengths = (shortest + (longest - shortest) * second) * spread
    return QuestionLayout(TEMPORAL_ORDERING, _place(rng, lengths, duration))


def _draw_counting(rng: np.random.Generator, duration: float, first: float, second: float) -> QuestionLayout:
    lowest, count = _draw_count(first)
    typical = FITTED.counting_length_s * (duration / 400.0) ** FITTED.counting_duration_power
    between = FITTED.counting_sigma_between * NormalDist().inv_cdf(min(max(second, 1e-4), 1 - 1e-4))
    lengths = typical * np.exp(between + FITTED.counting_sigma_within * rng.standard_normal(count))
    lengths *= min(1.0, FITTED.most_evidence * duration / lengths.sum())
    return QuestionLayout(EVENT_COUNTING, _place(rng, lengths, duration), lowest)


def _draw_count(part: float) -> tuple[int, int]:
    """The lowest option and the true count for a number in [0, 1); the count is uniform over the options."""
    for lowest, share in FITTED.lowest_option_shares:
        if part < share:
            return lowest, lowest + int(OPTIONS * part / share)
        part -= share
    return FITTED.lowest_option_shares[0][0], FITTED.lowest_option_shares[0][0]


def _place(rng: np.random.Generator, lengths: NDArray[np.float64], duration: float) -> tuple[tuple[int, int], ...]:
    """Place intervals of these lengths in random order, with random gaps."""
    lengths = np.maximum(rng.permutation(lengths), FITTED.shortest_s)
    fixed = lengths.sum() + FITTED.gap_s * (len(lengths) - 1) + 2 * FITTED.margin_s
    gaps = rng.dirichlet(np.ones(len(lengths) + 1)) * max(0.0, duration - fixed)
    starts = FITTED.margin_s + np.cumsum(gaps[:-1]) + np.cumsum(lengths + FITTED.gap_s) - lengths - FITTED.gap_s
    return tuple(
        (round(start * FPS), round((start + length) * FPS)) for start, length in zip(starts, lengths, strict=True)
    )


FRAME_COUNTS: Final = (16, 32, 64, 128, 256)
DENSITIES: Final = (1, 2, 3)

PAPER_COVERAGE: Final = (  # percent of questions covered; rows are FRAME_COUNTS, columns DENSITIES
    (19.8, 4.0, 1.7),
    (48.0, 13.2, 5.2),
    (82.2, 34.3, 16.3),
    (97.8, 74.7, 45.0),
    (99.7, 95.5, 81.8),
)


ALLOWED: Final = {  # the paper's figures, and the allowed deviation
    "duration_s": (434.0, 10.0),
    "intervals": (3.4, 0.15),
    "interval_s": (16.2, 0.8),
    "ep_ref": (13.7, 0.5),
}
ALLOWED_CELL: Final = 4.0  # allowed deviation of a coverage cell, in points


@dataclass(frozen=True, slots=True)
class LayoutTable:
    """The figures that the paper gives for its benchmark."""

    duration_s: float  # mean over videos
    intervals: float  # mean over questions
    interval_s: float  # mean over all intervals
    ep_ref: float  # percent
    coverage: tuple[tuple[float, ...], ...]  # percent, laid out as `PAPER_COVERAGE`

    @property
    def misfit(self) -> float:
        """The largest deviation from the paper, as a multiple of the allowed one."""
        worst_cell = float(np.abs(np.array(self.coverage) - np.array(PAPER_COVERAGE)).max()) / ALLOWED_CELL
        scale = (abs(float(getattr(self, name)) - paper) / near for name, (paper, near) in ALLOWED.items())
        return max(worst_cell, *scale)


def choose_layout(questions: int, seed: int) -> tuple[VideoLayout, ...]:
    """The one of twelve random layouts that is nearest to the paper's figures."""
    drawn = [draw_layout(questions, [seed, attempt]) for attempt in range(12)]
    return min(drawn, key=lambda layout: measure_layout(layout).misfit)


def measure_layout(videos: Sequence[VideoLayout], family: str | None = None) -> LayoutTable:
    """The figures of a layout, for all questions or one family."""
    pairs = [(video, q) for video in videos for q in video.questions if family in (None, q.family)]
    spans = [np.array(question.intervals, dtype=float) / FPS for _, question in pairs]
    durations = np.array([video.duration_s for video, _ in pairs])
    lengths = [span[:, 1] - span[:, 0] for span in spans]
    sizes = [len(span) for span in spans]
    starts, ends = np.concatenate(spans).T
    whole = np.repeat(durations, sizes)
    first = np.cumsum([0, *sizes[:-1]])  # the place of each question's first interval
    coverage = []
    for frames in FRAME_COUNTS:
        # Counts the uniform moments (j + 1/2) T/n in each interval without listing them.
        counts = np.floor(ends * frames / whole - 0.5) - np.ceil(starts * frames / whole - 0.5) + 1
        fewest = np.minimum.reduceat(counts, first)
        coverage.append(tuple(100.0 * float((fewest >= density).mean()) for density in DENSITIES))
    return LayoutTable(
        duration_s=float(np.mean([video.duration_s for video in videos])),
        intervals=float(np.mean(sizes)),
        interval_s=float(np.concatenate(lengths).mean()),
        ep_ref=100.0 * float(np.mean([length.sum() / T for length, T in zip(lengths, durations, strict=True)])),
        coverage=tuple(coverage),
    )
