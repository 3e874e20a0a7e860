"""Bootstrap over questions and over videos. All runs share the same resamples, so comparisons are paired."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.ves.report import ComparisonFigures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trace_ves.ves.metrics import Columns

    Matrix = NDArray[np.float64]

Progress = Callable[[str, int, int], None]

RESAMPLES_AT_ONCE: Final = 64  # resamples whose weights are in memory at a time
LARGEST_PRODUCT: Final = 2**18
"""Multiplications in one matrix product. Up to this size, OpenBLAS uses only the calling thread; for larger products,
its threads busy-wait for each other, which is many times slower on a loaded machine."""
CONFIDENCE_PERCENTILES: Final = (2.5, 97.5)
NO_DIFFERENCE: Final = 1e-9  # smaller differences of means are rounding errors and count as 0


def bootstrap(
    values: Matrix,
    *,
    resamples: int,
    seed: int,
    clusters: NDArray[np.int64] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Matrix:
    """The means of the columns of `values`, one row per resample; with `clusters`, whole clusters are drawn."""
    count, width = values.shape
    units = count if clusters is None else int(clusters.max()) + 1
    generator = np.random.default_rng(seed)
    means = np.empty((resamples, width))
    for start in range(0, resamples, RESAMPLES_AT_ONCE):
        weights = np.empty((min(RESAMPLES_AT_ONCE, resamples - start), count))  # how often each row is drawn
        stop = start + len(weights)
        for row in weights:
            drawn = np.bincount(generator.integers(0, units, size=units, dtype=np.int32), minlength=units)
            row[:] = drawn if clusters is None else drawn[clusters]
        means[start:stop] = _product(weights, values) / weights.sum(axis=1)[:, np.newaxis]
        if on_progress is not None:
            on_progress(stop, resamples)
    return means


def _product(weights: Matrix, values: Matrix) -> Matrix:
    """Multiply weights and values, a block of rows at a time."""
    sums = np.zeros((len(weights), values.shape[1]))
    rows = max(1, LARGEST_PRODUCT // sums.size)
    for at in range(0, len(values), rows):
        sums += weights[:, at : at + rows] @ values[at : at + rows]
    return sums


def percentile_interval(values: Matrix) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile."""
    low, high = np.percentile(values, CONFIDENCE_PERCENTILES)
    return float(low), float(high)


def paired_difference(a: Matrix, b: Matrix) -> Matrix:
    """The difference a - b per resample."""
    difference = a - b
    difference[np.abs(difference) < NO_DIFFERENCE] = 0.0
    return difference


def two_sided_p(differences: Matrix) -> float:
    """Twice the smaller share of resamples on one side of zero, with one resample added to each side.

    The smallest value with B resamples is 2 / (B + 1); resamples without a difference count for both sides.
    """
    smaller = min(int(np.sum(differences <= 0)), int(np.sum(differences >= 0)))
    return min(1.0, 2 * (smaller + 1) / (len(differences) + 1))


class Statistics:
    """The bootstraps of all runs, computed together."""

    def __init__(
        self,
        table: Mapping[str, Columns],
        *,
        videos: NDArray[np.int64],
        resamples: int,
        seed: int,
        on_progress: Progress | None = None,
    ) -> None:
        """`videos` is the index of each question's video, from 0."""
        self.table = table
        self.means = {name: columns.means() for name, columns in table.items()}
        keys = [(name, metric) for name, of in table.items() for metric, has in of.metrics.items() if has]
        self._at = {key: place for place, key in enumerate(keys)}
        values = np.stack([table[name].column(metric) for name, metric in keys], axis=1)
        draw = partial(bootstrap, values, resamples=resamples, seed=seed)

        def report(done: int, _total: int) -> None:
            if on_progress is not None:
                on_progress("resampling questions and videos", done, 2 * resamples)

        self.by_question = draw(on_progress=report)
        self.by_video = draw(clusters=videos, on_progress=lambda done, total: report(total + done, total))

    def intervals(self, name: str, means: Matrix) -> dict[str, tuple[float, float] | None]:
        """The 95% interval of every metric of a run."""
        return {
            metric: percentile_interval(means[:, self._at[name, metric]]) if applies else None
            for metric, applies in self.table[name].metrics.items()
        }

    def comparisons(self) -> tuple[ComparisonFigures, ...]:
        """Compare every pair of runs in every metric except the buckets, which follow from Acc and ECA."""
        return tuple(
            self._compare(a, b, metric)
            for a, b in combinations(self.table, 2)
            for metric in self.table[a].metrics
            if "Corr" not in metric and metric != "Wrong"
        )

    def _compare(self, a: str, b: str, metric: str) -> ComparisonFigures:
        mean_a, mean_b = self.means[a][metric], self.means[b][metric]
        if mean_a is None or mean_b is None:
            return ComparisonFigures(a, b, metric, difference=None, ci95=None, p=None)
        differences = paired_difference(*(self.by_question[:, self._at[name, metric]] for name in (a, b)))
        bounds, p = percentile_interval(differences), two_sided_p(differences)
        return ComparisonFigures(a, b, metric, difference=mean_a - mean_b, ci95=bounds, p=p)
