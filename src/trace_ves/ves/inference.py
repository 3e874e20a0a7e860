"""All runs bootstrapped together: intervals, means by family, and the comparison of every pair of runs."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from trace_ves.ves.groups import family_order
from trace_ves.ves.report import Comparison
from trace_ves.ves.statistics import Resamples, bootstrap, percentile_interval, two_sided_p

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from trace_ves.records import Item
    from trace_ves.ves.metrics import Columns

    Progress = Callable[[str, int, int], None]


class Statistics:
    """The bootstraps of all runs at once, and where the column of each metric stands in them."""

    def __init__(
        self,
        table: Mapping[str, Columns],
        items: Sequence[Item],
        *,
        resamples: int,
        seed: int,
        on_progress: Progress | None = None,
    ) -> None:
        self.table = table
        self._items = items
        self._at: dict[tuple[str, str], int] = {}
        stacked: list[NDArray[np.float64]] = []
        for name, columns in table.items():
            for metric, column in columns.by_metric.items():
                if column is not None:
                    self._at[name, metric] = len(stacked)
                    stacked.append(column)
        values = np.column_stack(stacked)
        codes: dict[str, int] = {}
        videos = np.array([codes.setdefault(item.question.video, len(codes)) for item in items], dtype=np.int64)
        self._point = values.mean(axis=0)
        self.by_question = bootstrap(
            values, resamples=resamples, seed=seed, on_progress=_labelled(on_progress, "resampling questions")
        )
        self.by_video = bootstrap(
            values,
            resamples=resamples,
            seed=seed,
            clusters=videos,
            on_progress=_labelled(on_progress, "resampling videos"),
        )

    def intervals(self, name: str, resamples: Resamples) -> dict[str, tuple[float, float] | None]:
        """The 95% interval of every metric of a run."""
        return {
            metric: resamples.interval(self._at[name, metric]) if (name, metric) in self._at else None
            for metric in self.table[name].by_metric
        }

    def families(self, name: str) -> dict[str, dict[str, float | None]]:
        """Every metric of a run within each family."""
        family = np.array([item.question.family for item in self._items])
        distinct = family_order(item.question.family for item in self._items)
        return {each: self.table[name].means(family == each) for each in distinct}

    def comparisons(self) -> tuple[Comparison, ...]:
        """Every pair of runs in every metric but the buckets, which repeat Acc and ECA."""
        return tuple(
            self._compare(a, b, metric)
            for a, b in combinations(self.table, 2)
            for metric in self.table[a].by_metric
            if "Corr" not in metric and metric != "Wrong"
        )

    def _compare(self, a: str, b: str, metric: str) -> Comparison:
        in_a, in_b = self._at.get((a, metric)), self._at.get((b, metric))
        if in_a is None or in_b is None:
            return Comparison(a, b, metric, difference=None, ci95=None, p=None)
        differences = self.by_question.difference(in_a, in_b)
        return Comparison(
            a,
            b,
            metric,
            difference=float(self._point[in_a] - self._point[in_b]),
            ci95=percentile_interval(differences),
            p=two_sided_p(differences),
        )


def _labelled(on_progress: Progress | None, label: str) -> Callable[[int, int], None] | None:
    return None if on_progress is None else lambda done, total: on_progress(label, done, total)
