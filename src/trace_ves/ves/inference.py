"""All runs bootstrapped together: intervals, means by family, and the comparison of every pair of runs."""

from __future__ import annotations

from itertools import combinations
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from trace_ves.core.daemon_pool import run_in_daemons
from trace_ves.ves.metrics import derived
from trace_ves.ves.report import Comparison
from trace_ves.ves.statistics import Resamples, bootstrap, percentile_interval, two_sided_p

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Event

    from numpy.typing import NDArray

    from trace_ves.ves.metrics import Columns

    Progress = Callable[[str, int, int], None]


class Statistics:
    """The bootstraps of all runs at once, and where the column of each metric stands in them."""

    def __init__(
        self,
        table: Mapping[str, Columns],
        *,
        videos: NDArray[np.int32],
        families: Mapping[str, NDArray[np.bool_]],
        resamples: int,
        seed: int,
        on_progress: Progress | None = None,
    ) -> None:
        """`videos` numbers the video of each question, `families` says which questions each has."""
        self.table = table
        self._families = families
        self._means = {name: columns.means() for name, columns in table.items()}
        drawn = _Drawn(table)
        done: dict[int, int] = {}
        telling = Lock()

        def draw(task: tuple[int, NDArray[np.int64] | None], stop: Event) -> Resamples:
            place, clusters = task

            def report(count: int, _total: int) -> None:
                if stop.is_set():
                    raise InterruptedError  # nobody waits for the result
                with telling:  # so that what is told only grows
                    done[place] = count
                    if on_progress is not None:
                        on_progress("resampling questions and videos", sum(done.values()), 2 * resamples)

            return bootstrap(drawn, resamples=resamples, seed=seed, clusters=clusters, on_progress=report)

        made = dict(run_in_daemons(draw, [(0, None), (1, _in_order_of_appearance(videos))], workers=2))
        self._at, self.by_question = drawn.spread(made[0])
        _, self.by_video = drawn.spread(made[1])

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
        return self.table[name].means_where(self._families)

    def comparisons(self) -> tuple[Comparison, ...]:
        """Every pair of runs in every metric but the buckets, which repeat Acc and ECA."""
        return tuple(
            self._compare(a, b, metric)
            for a, b in combinations(self.table, 2)
            for metric in self.table[a].metrics
            if "Corr" not in metric and metric != "Wrong"
        )

    def _compare(self, a: str, b: str, metric: str) -> Comparison:
        mean_a, mean_b = self._means[a][metric], self._means[b][metric]
        if mean_a is None or mean_b is None:
            return Comparison(a, b, metric, difference=None, ci95=None, p=None)
        differences = self.by_question.difference(self._at[a, metric], self._at[b, metric])
        return Comparison(
            a,
            b,
            metric,
            difference=mean_a - mean_b,
            ci95=percentile_interval(differences),
            p=two_sided_p(differences),
        )


class _Drawn:
    """The columns that are resampled, side by side: those of every run from which its other metrics follow."""

    def __init__(self, table: Mapping[str, Columns]) -> None:
        self._table = table
        self._all = [(name, metric) for name, of in table.items() for metric, has in of.metrics.items() if has]
        self._columns = [(name, metric) for name, metric in self._all if self._source(name, metric)[0] == metric]

    @property
    def shape(self) -> tuple[int, int]:
        """Questions and columns."""
        return len(next(iter(self._table.values())).rows), len(self._columns)

    def block(self, start: int, stop: int) -> NDArray[np.float64]:
        """The columns for some of the questions."""
        made = np.empty((stop - start, len(self._columns)))
        for at, (name, metric) in enumerate(self._columns):
            made[:, at] = self._table[name].column(metric, start, stop)
        return made

    def spread(self, resamples: Resamples) -> tuple[dict[tuple[str, str], int], Resamples]:
        """The means of all metrics from those of the columns, and where each of them stands."""
        at = {key: place for place, key in enumerate(self._columns)}
        spread = np.empty((len(resamples.means), len(self._all)))
        for place, (name, metric) in enumerate(self._all):
            source, factor, added, taken = self._source(name, metric)
            means = resamples.means[:, at[name, source]]
            spread[:, place] = factor * (means - resamples.means[:, at[name, taken]] if taken else means) + added
        return {key: place for place, key in enumerate(self._all)}, Resamples(spread)

    def _source(self, name: str, metric: str) -> tuple[str, float, float, str]:
        of = self._table[name]
        return derived(metric, ep_ref=of.ep_ref, k=of.k)


def _in_order_of_appearance(codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """The same groups, numbered from 0 as they come."""
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[group]
