"""Bootstrap over questions and over videos: percentile intervals, and paired p-values between runs.

Knows columns of numbers, not what they measure. All runs share the same resamples, which is what makes them paired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

CHUNK_BYTES: Final = 2**27
"""Memory for the weights of the resamples that are drawn at one time."""
BLOCK_ROWS: Final = 8192
"""Rows of the values that are there as numbers at one time."""
MOST_RESAMPLES_AT_ONCE: Final = 64
"""Resamples in one matrix product."""
LARGEST_PRODUCT: Final = 2**18
"""Multiplications in one matrix product: OpenBLAS computes it in the calling thread up to this size. Its own threads
wait for each other by spinning, and on a busy machine that takes many times what the product does."""
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


class Blocks(Protocol):
    """A tall matrix that is made a few rows at a time."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def block(self, start: int, stop: int) -> Matrix:
        """Some of its rows."""
        ...


def bootstrap(
    values: Matrix | Blocks,
    *,
    resamples: int,
    seed: int,
    clusters: NDArray[np.int64] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Resamples:
    """Means of the columns of `values` over resampled rows; with `clusters`, whole groups of rows are resampled.

    A resample is a vector of weights, so a chunk of them times the values is a matrix product.
    """
    count, width = values.shape
    units = count if clusters is None else int(clusters.max()) + 1
    generator = np.random.default_rng(seed)
    means = np.empty((resamples, width))
    rows_per_chunk = max(1, min(resamples, CHUNK_BYTES // count))
    # How often a row is drawn is about Poisson with mean 1: 256 times does not happen.
    weights = np.empty((rows_per_chunk, count), np.uint8)
    for start in range(0, resamples, rows_per_chunk):
        stop = min(start + rows_per_chunk, resamples)
        chunk = weights[: stop - start]
        for row in chunk:
            drawn = np.bincount(generator.integers(0, units, size=units, dtype=np.int32), minlength=units)
            row[:] = drawn if clusters is None else drawn.astype(np.uint8)[clusters]
        means[start:stop] = _product(chunk, values) / chunk.sum(axis=1)[:, np.newaxis]
        if on_progress is not None:
            on_progress(stop, resamples)
    return Resamples(means)


def _product(weights: NDArray[np.uint8], values: Matrix | Blocks) -> Matrix:
    """Weights times values, with a block of either as real numbers at one time."""
    count, width = values.shape
    sums = np.zeros((len(weights), width))
    for start in range(0, count, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, count)
        block = values[start:stop] if isinstance(values, np.ndarray) else values.block(start, stop)
        for first in range(0, len(weights), MOST_RESAMPLES_AT_ONCE):
            here = slice(first, first + MOST_RESAMPLES_AT_ONCE)
            _add_product(sums[here], weights[here, start:stop].astype(np.float64), block)
    return sums


def _add_product(sums: Matrix, weights: Matrix, block: Matrix) -> None:
    """Add weights times a block to `sums`, by products that are small enough for one thread."""
    rows = max(1, LARGEST_PRODUCT // sums.size)
    for start in range(0, len(block), rows):
        here = slice(start, start + rows)
        sums += weights[:, here] @ block[here]


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
