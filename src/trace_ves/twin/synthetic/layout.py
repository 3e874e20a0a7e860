"""When things happen: durations, families and evidence intervals in frames, whose statistics are the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FPS: Final = 10  # of every twin video: enough for motion, and two days of video are encoded in half an hour

WIDTH, HEIGHT = 640, 360
PAPER_VIDEOS, PAPER_QUESTIONS = 348, 600
OPTIONS: Final = 4


@dataclass(frozen=True, slots=True)
class LayoutParameters:
    """The shape of the layout, fitted to the paper's Cov@k, scale and EP_ref with `tools/layout_table.py`."""

    duration_median_s: float = 402.0
    duration_sigma: float = 0.40  # lognormal: the paper says "434 seconds on average" and nothing about the spread
    ordering_length_s: tuple[float, float] = (4.0, 8.9)  # of a question's events, uniform between the two
    ordering_spread: float = 0.25  # by which its events are shorter or longer than that, at most
    four_events_share: float = 0.15  # part of the ordering questions that name four events instead of three
    counting_length_s: float = 17.5  # median length of an occurrence, in a video of 400 s
    counting_duration_power: float = 0.80  # how that grows with the video: 0 not at all, 1 in proportion
    counting_sigma_between: float = 0.68  # spread of the (log) length from question to question
    counting_sigma_within: float = 0.43  # spread of the (log) length within one question
    lowest_option_shares: tuple[tuple[int, float], ...] = ((2, 0.77), (3, 0.14), (4, 0.09))  # option, how often
    shortest_s: float = 3.5
    gap_s: float = 5.0  # the least time between two intervals of one question
    margin_s: float = 2.0  # no interval lies nearer to the video's ends than this
    most_evidence: float = 0.6  # intervals are shortened where they would fill more than this part of the video


FITTED: Final = LayoutParameters()


@dataclass(frozen=True, slots=True)
class QuestionLayout:
    """The bones of one question: its family, its intervals, and for counting the lowest count offered."""

    family: str
    intervals: tuple[tuple[int, int], ...]  # first and last frame of each interval, both in it, in order of time
    lowest_option: int = 0


@dataclass(frozen=True, slots=True)
class VideoLayout:
    """One video's length in frames and the questions asked of it."""

    frames: int
    questions: tuple[QuestionLayout, ...]

    @property
    def duration_s(self) -> float:
        """Seconds from the first frame to the end of the last."""
        return self.frames / FPS


def draw_layout(questions: int, seed: Sequence[int], parameters: LayoutParameters = FITTED) -> tuple[VideoLayout, ...]:
    """Videos for this many questions, in the paper's proportion of 348 to 600; half of the questions are counting.

    Values are spread evenly over their distributions, so that 600 questions have nearly the same statistics.
    """
    rng = np.random.default_rng(seed)
    videos = max(1, round(questions * PAPER_VIDEOS / PAPER_QUESTIONS))
    # one duration from each of as many equal slices of the lognormal as there are videos, in random order
    normal = NormalDist(np.log(parameters.duration_median_s), parameters.duration_sigma)
    slices = (np.arange(videos) + rng.uniform(0.25, 0.75, videos)) / videos
    durations = rng.permutation(np.array([np.exp(normal.inv_cdf(float(part))) for part in slices]))
    owners = np.concatenate([np.arange(videos), rng.permutation(videos)[: questions - videos]])
    families = rng.permutation(np.arange(questions) % 2)
    drawn: list[tuple[int, QuestionLayout]] = []
    for family, draw in ((0, _draw_ordering), (1, _draw_counting)):
        slots = np.flatnonzero(families == family)
        # A lattice over (duration, count, length): neighbours in duration get counts and lengths far apart.
        by_duration = slots[np.argsort(durations[owners[slots]], kind="stable")]
        shifts = rng.random(2)
        for rank, slot in enumerate(by_duration):
            first, second = (shifts + (rank + 1) * _LATTICE) % 1.0
            drawn.append((int(slot), draw(rng, float(durations[owners[slot]]), first, second, parameters)))
    ordered = [question for _, question in sorted(drawn, key=lambda pair: pair[0])]
    return tuple(
        VideoLayout(
            round(durations[video] * FPS),
            tuple(ordered[slot] for slot in np.flatnonzero(owners == video)),
        )
        for video in range(videos)
    )


_LATTICE: Final = np.array([0.7548776662466927, 0.5698402909980532])  # 1/g and 1/g^2, where g^3 = g + 1


def _draw_ordering(
    rng: np.random.Generator, duration: float, first: float, second: float, parameters: LayoutParameters
) -> QuestionLayout:
    events = 4 if first < parameters.four_events_share else 3
    shortest, longest = parameters.ordering_length_s
    spread = rng.uniform(1 - parameters.ordering_spread, 1 + parameters.ordering_spread, size=events)
    lengths = (shortest + (longest - shortest) * second) * spread
    return QuestionLayout(TEMPORAL_ORDERING, _place(rng, lengths, duration, parameters))


def _draw_counting(
    rng: np.random.Generator, duration: float, first: float, second: float, parameters: LayoutParameters
) -> QuestionLayout:
    lowest, count = _draw_count(first, parameters)
    typical = parameters.counting_length_s * (duration / 400.0) ** parameters.counting_duration_power
    between = parameters.counting_sigma_between * NormalDist().inv_cdf(min(max(second, 1e-4), 1 - 1e-4))
    lengths = typical * np.exp(between + parameters.counting_sigma_within * rng.standard_normal(count))
    lengths *= min(1.0, parameters.most_evidence * duration / lengths.sum())
    return QuestionLayout(EVENT_COUNTING, _place(rng, lengths, duration, parameters), lowest)


def _draw_count(part: float, parameters: LayoutParameters) -> tuple[int, int]:
    """The lowest option and the true count for a number in [0, 1): the count is uniform over the four options."""
    for lowest, share in parameters.lowest_option_shares:
        if part < share:
            return lowest, lowest + int(OPTIONS * part / share)
        part -= share
    return parameters.lowest_option_shares[0][0], parameters.lowest_option_shares[0][0]


def _place(
    rng: np.random.Generator, lengths: NDArray[np.float64], duration: float, parameters: LayoutParameters
) -> tuple[tuple[int, int], ...]:
    """Put intervals of these lengths into the video in random order; the time left over is split at random."""
    lengths = np.maximum(rng.permutation(lengths), parameters.shortest_s)
    fixed = lengths.sum() + parameters.gap_s * (len(lengths) - 1) + 2 * parameters.margin_s
    gaps = rng.dirichlet(np.ones(len(lengths) + 1)) * max(0.0, duration - fixed)
    starts = (
        parameters.margin_s + np.cumsum(gaps[:-1]) + np.cumsum(lengths + parameters.gap_s) - lengths - parameters.gap_s
    )
    return tuple(
        (round(start * FPS), round((start + length) * FPS)) for start, length in zip(starts, lengths, strict=True)
    )


FRAME_COUNTS: Final = (16, 32, 64, 128, 256)
DENSITIES: Final = (1, 2, 3)

PAPER_COVERAGE: Final = (  # percent of questions covered k times: rows are numbers of frames, columns k
    (19.8, 4.0, 1.7),
    (48.0, 13.2, 5.2),
    (82.2, 34.3, 16.3),
    (97.8, 74.7, 45.0),
    (99.7, 95.5, 81.8),
)


ALLOWED: Final = {  # the paper's figures of scale, and how far the twin may lie from each
    "duration_s": (434.0, 10.0),
    "intervals": (3.4, 0.15),
    "interval_s": (16.2, 0.8),
    "ep_ref": (13.7, 0.5),
}
ALLOWED_CELL: Final = 4.0  # how many points a coverage cell may lie from the paper's


@dataclass(frozen=True, slots=True)
class LayoutTable:
    """What the paper tells of its benchmark's layout."""

    duration_s: float  # mean over videos
    intervals: float  # mean over questions
    interval_s: float  # mean over all intervals
    ep_ref: float  # percent
    coverage: tuple[tuple[float, ...], ...]  # percent, laid out as `PAPER_COVERAGE`

    @property
    def misfit(self) -> float:
        """The largest distance from a figure of the paper's, as a multiple of what is allowed: 1 or less is near."""
        worst_cell = float(np.abs(np.array(self.coverage) - np.array(PAPER_COVERAGE)).max()) / ALLOWED_CELL
        scale = (abs(float(getattr(self, name)) - paper) / near for name, (paper, near) in ALLOWED.items())
        return max(worst_cell, *scale)


def choose_layout(questions: int, seed: int) -> tuple[VideoLayout, ...]:
    """Of a dozen layouts drawn from this seed, the one nearest to the paper's figures."""
    drawn = [draw_layout(questions, [seed, attempt]) for attempt in range(12)]
    return min(drawn, key=lambda layout: measure_layout(layout).misfit)


def measure_layout(videos: Sequence[VideoLayout], family: str | None = None) -> LayoutTable:
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
