"""Bootstrap over questions and over videos: percentile intervals, and paired p-values between runs.

Knows columns of numbers, not what they measure. All runs share the same resamples, which is what makes them paired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

CHUNK_BYTES: Final = 64 * 1024 * 1024
"""Memory for the weights of the resamples that are drawn at one time."""
CONFIDENCE_PERCENTILES: Final = (2.5, 97.5)
NO_DIFFERENCE: Final = 1e-9
"""A smaller difference of two means is rounding, and counts as none."""


@dataclass(frozen=True, slots=True)
class Resamples:
    """Which metric had which mean in which resample: one row for each resample, one column for each input column."""

    means: Matrix

    def interval(self, column: int) -> tuple[float, float]:
        """The 95% percentile interval of one column."""
        return percentile_interval(self.means[:, column])

    def difference(self, a: int, b: int) -> Matrix:
        """Column a minus column b, resample by resample."""
        difference = self.means[:, a] - self.means[:, b]
        difference[np.abs(difference) < NO_DIFFERENCE] = 0.0
        return difference


def bootstrap(
    values: Matrix,
    *,
    resamples: int,
    seed: int,
    clusters: NDArray[np.int64] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Resamples:
    """Means of the columns of `values` over resampled rows; with `clusters`, whole groups of rows are resampled.

    A resample is a vector of weights, so a chunk of them times the values is one matrix product.
    """
    if clusters is None:
        units, sizes = values, np.ones(len(values))
    else:
        units = np.zeros((int(clusters.max()) + 1, values.shape[1]))
        np.add.at(units, clusters, values)
        sizes = np.bincount(clusters).astype(np.float64)
    count = len(units)
    generator = np.random.default_rng(seed)
    means = np.empty((resamples, values.shape[1]))
    rows_per_chunk = max(1, min(resamples, CHUNK_BYTES // (8 * count)))
    weights = np.empty((rows_per_chunk, count))
    for start in range(0, resamples, rows_per_chunk):
        stop = min(start + rows_per_chunk, resamples)
        chunk = weights[: stop - start]
        for row in chunk:
            row[:] = np.bincount(generator.integers(0, count, size=count, dtype=np.int32), minlength=count)
        means[start:stop] = (chunk @ units) / (chunk @ sizes)[:, np.newaxis]
        if on_progress is not None:
            on_progress(stop, resamples)
    return Resamples(means)


def percentile_interval(values: Matrix) -> tuple[float, float]:
    """The values between which the middle 95% lie."""
    low, high = np.percentile(values, CONFIDENCE_PERCENTILES)
    return float(low), float(high)


def two_sided_p(differences: Matrix) -> float:
    """Twice the smaller share of resamples on the other side of zero, one imagined resample added to each side.

    The smallest value with B resamples is 2 / (B + 1); resamples with no difference count for both sides.
    """
    smaller = min(int(np.sum(differences <= 0)), int(np.sum(differences >= 0)))
    return min(1.0, 2 * (smaller + 1) / (len(differences) + 1))
