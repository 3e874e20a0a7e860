"""Bootstrap over questions and over videos: percentile intervals, and paired p-values between runs.

Knows columns of numbers, not what they measure. All runs share the same resamples, which is what makes them paired.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core.threads import run_in_daemons
from trace_ves.ves.metrics import derived
from trace_ves.ves.report import ComparisonFigures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Event

    from numpy.typing import NDArray

    from trace_ves.ves.metrics import Columns

    Matrix = NDArray[np.float64]
    Progress = Callable[[str, int, int], None]

CHUNK_BYTES: Final = 2**27  # Memory for the weights of the resamples that are drawn at one time
BLOCK_ROWS: Final = 8192  # Rows of weights that are floating-point numbers at one time
MOST_RESAMPLES_AT_ONCE: Final = 64  # Resamples in one matrix product
LARGEST_PRODUCT: Final = 2**18
"""Multiplications in one matrix product: OpenBLAS computes it in the calling thread up to this size. Its own threads
wait for each other by spinning, and on a busy machine that takes many times what the product does."""
CONFIDENCE_PERCENTILES: Final = (2.5, 97.5)
NO_DIFFERENCE: Final = 1e-9  # A smaller difference of two means is rounding, and counts as none


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


def _product(weights: NDArray[np.uint8], values: Matrix) -> Matrix:
    """Weights times values, a block of rows at a time."""
    count, width = values.shape
    sums = np.zeros((len(weights), width))
    for start in range(0, count, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, count)
        block = values[start:stop]
        for first in range(0, len(weights), MOST_RESAMPLES_AT_ONCE):
            drawn = slice(first, first + MOST_RESAMPLES_AT_ONCE)
            here = weights[drawn, start:stop].astype(np.float64)
            rows = max(1, LARGEST_PRODUCT // sums[drawn].size)
            for at in range(0, len(block), rows):
                sums[drawn] += here[:, at : at + rows] @ block[at : at + rows]
    return sums


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


class Statistics:
    """The bootstraps of all runs at once, and the column of each metric in them."""

    def __init__(
        self,
        table: Mapping[str, Columns],
        *,
        videos: NDArray[np.int64],
        families: Mapping[str, NDArray[np.bool_]],
        resamples: int,
        seed: int,
        on_progress: Progress | None = None,
    ) -> None:
        """`videos` numbers the video of each question from 0 on, `families` masks the questions of each."""
        self.table = table
        self._families = families
        self._means = {name: columns.means() for name, columns in table.items()}
        columns = _ResampledColumns(table)
        values = columns.values
        done: dict[int, int] = {}
        telling = Lock()

        def draw(task: tuple[int, NDArray[np.int64] | None], stop: Event) -> Resamples:
            place, clusters = task

            def report(count: int, _total: int) -> None:
                if stop.is_set():
                    raise InterruptedError  # no one waits for the result
                with telling:  # so that the count only grows
                    done[place] = count
                    if on_progress is not None:
                        on_progress("resampling questions and videos", sum(done.values()), 2 * resamples)

            return bootstrap(values, resamples=resamples, seed=seed, clusters=clusters, on_progress=report)

        made = dict(run_in_daemons(draw, [(0, None), (1, videos)], workers=2))
        self._at, self.by_question = columns.derive(made[0])
        _, self.by_video = columns.derive(made[1])

    def means(self, name: str) -> dict[str, float | None]:
        """Every metric of a run."""
        return self._means[name]

    def intervals(self, name: str, resamples: Resamples) -> dict[str, tuple[float, float] | None]:
        """The 95% interval of every metric of a run."""
        return {
            metric: resamples.interval(self._at[name, metric]) if has_meaning else None
            for metric, has_meaning in self.table[name].metrics.items()
        }

    def families(self, name: str) -> dict[str, dict[str, float | None]]:
        """Every metric of a run within each family."""
        return {family: self.table[name].means(chosen) for family, chosen in self._families.items()}

    def comparisons(self) -> tuple[ComparisonFigures, ...]:
        """Every pair of runs in every metric but the buckets, which repeat Acc and ECA."""
        return tuple(
            self._compare(a, b, metric)
            for a, b in combinations(self.table, 2)
            for metric in self.table[a].metrics
            if "Corr" not in metric and metric != "Wrong"
        )

    def _compare(self, a: str, b: str, metric: str) -> ComparisonFigures:
        mean_a, mean_b = self._means[a][metric], self._means[b][metric]
        if mean_a is None or mean_b is None:
            return ComparisonFigures(a, b, metric, difference=None, ci95=None, p=None)
        differences = self.by_question.difference(self._at[a, metric], self._at[b, metric])
        return ComparisonFigures(
            a,
            b,
            metric,
            difference=mean_a - mean_b,
            ci95=percentile_interval(differences),
            p=two_sided_p(differences),
        )


class _ResampledColumns:
    """The columns that are resampled, side by side: those of every run from which its other metrics follow."""

    def __init__(self, table: Mapping[str, Columns]) -> None:
        self._table = table
        self._all = [(name, metric) for name, of in table.items() for metric, has in of.metrics.items() if has]
        self._columns = [(name, metric) for name, metric in self._all if self._source(name, metric)[0] == metric]

    @property
    def values(self) -> Matrix:
        """One row for each question."""
        return np.stack([self._table[name].column(metric) for name, metric in self._columns], axis=1)

    def derive(self, resamples: Resamples) -> tuple[dict[tuple[str, str], int], Resamples]:
        """The means of all metrics from those of the columns, and the column of each."""
        at = {key: place for place, key in enumerate(self._columns)}
        derived_means = np.empty((len(resamples.means), len(self._all)))
        for place, (name, metric) in enumerate(self._all):
            source, factor, added, subtracted = self._source(name, metric)
            means = resamples.means[:, at[name, source]]
            if subtracted:
                means = means - resamples.means[:, at[name, subtracted]]
            derived_means[:, place] = factor * means + added
        return {key: place for place, key in enumerate(self._all)}, Resamples(derived_means)

    def _source(self, name: str, metric: str) -> tuple[str, float, float, str]:
        of = self._table[name]
        return derived(metric, ep_ref=of.ep_ref, k=of.k)
