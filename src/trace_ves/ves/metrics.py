"""The paper's metrics as per-question columns: the value of a metric is the mean of its column.

Rates are in percent. A column is None where the metric has no meaning for a run (printed as `--`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core.question import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.ves.report import GroupAccuracy
from trace_ves.ves.row_table import UNSCORED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from trace_ves.records.item_table import ItemTable
    from trace_ves.ves.row_table import RowTable

    Floats = NDArray[np.float64]

DENSITIES: Final = (1, 2, 3)
"""The density levels k that every report shows."""
HEADLINE_DENSITY: Final = 2


def densities(k: int) -> tuple[int, ...]:
    """1, 2, 3 and the headline density where it is another."""
    return tuple(sorted({*DENSITIES, k}))


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The metrics of one run, question by question, in the order of the bench. A column is made when it is needed."""

    rows: RowTable
    ep_ref: float | None
    """In percent; None says that the bench has no evidence."""
    k: int

    @property
    def metrics(self) -> dict[str, bool]:
        """Every metric in its order, and whether it has a meaning for this run."""
        answered = self.rows.is_scored
        decoded = self.ep_ref is not None and bool(np.any(self.rows.frames_distinct))
        joint = answered and self.ep_ref is not None
        levels = densities(self.k)
        return {
            "Fr": True,
            "Acc": answered,
            "EP": decoded,
            "AR": decoded and bool(self.ep_ref),
            **{f"Cov@{level}": decoded for level in levels},
            **{f"ECA@{level}": joint for level in levels},
            f"Cov-Corr@{self.k}": joint,
            f"Uncov-Corr@{self.k}": joint,
            "Wrong": answered,
        }

    def column(self, metric: str, start: int = 0, stop: int | None = None) -> Floats:
        """The values of a metric that has a meaning for this run, for all questions or for a stretch of them."""
        rows = self.rows if stop is None else self.rows.within(start, stop)
        kind, _, level = metric.partition("@")
        if kind in _OF_FRAMES:
            return _OF_FRAMES[kind](rows, self.ep_ref or math.nan)
        counted = _SHARES[kind](rows.correct == 1, rows.density >= int(level or 0))
        return 100 * counted.astype(np.float64)

    def means(self) -> dict[str, float | None]:
        """Each metric over all questions."""
        return {name: float(np.mean(self.column(name))) if has else None for name, has in self.metrics.items()}

    def means_where(self, masks: Mapping[str, NDArray[np.bool_]]) -> dict[str, dict[str, float | None]]:
        """Each metric over the questions of each mask."""
        found: dict[str, dict[str, float | None]] = {name: {} for name in masks}
        for metric, has_meaning in self.metrics.items():
            column = self.column(metric) if has_meaning else None
            for name, mask in masks.items():
                found[name][metric] = None if column is None else float(np.mean(column[mask]))
        return found


_OF_FRAMES: Final[dict[str, Callable[[RowTable, float], Floats]]] = {
    "Fr": lambda rows, _: rows.frames_supplied.astype(np.float64),
    "EP": lambda rows, _: 100 * rows.precision,
    "AR": lambda rows, ep_ref: 100 * rows.precision / ep_ref,
}
_SHARES: Final[dict[str, Callable[[NDArray[np.bool_], NDArray[np.bool_]], NDArray[np.bool_]]]] = {
    "Acc": lambda correct, _: correct,
    "Wrong": lambda correct, _: ~correct,
    "Cov": lambda _, covered: covered,
    "ECA": np.logical_and,
    "Cov-Corr": np.logical_and,
    "Uncov-Corr": lambda correct, covered: correct & ~covered,
}
"""Which questions a metric counts, of those with a right answer and those that were covered."""


def derived(metric: str, *, ep_ref: float | None, k: int) -> tuple[str, float, float, str]:
    """A metric whose mean follows from another's: that one, a factor, what is added, and a metric to take away first.

    Resampling those others is enough: AR from EP, the buckets from Acc and ECA.
    """
    match metric:
        case "AR":
            return "EP", 1 / ep_ref if ep_ref else math.nan, 0.0, ""
        case "Wrong":
            return "Acc", -1.0, 100.0, ""
    if metric == f"Cov-Corr@{k}":
        return f"ECA@{k}", 1.0, 0.0, ""
    if metric == f"Uncov-Corr@{k}":
        return "Acc", 1.0, 0.0, f"ECA@{k}"
    return metric, 1.0, 0.0, ""


def family_order(families: Iterable[str]) -> list[str]:
    """Each family once: the paper's two as the paper has them, then others by the alphabet."""
    paper = (TEMPORAL_ORDERING, EVENT_COUNTING)
    return sorted(set(families), key=lambda name: (paper.index(name) if name in paper else len(paper), name))


def accuracy(correct: NDArray[np.int8]) -> GroupAccuracy:
    """Accuracy in percent over these answers of a `RowTable`; None where there are none to score."""
    if not len(correct) or np.any(correct == UNSCORED):
        return GroupAccuracy(len(correct), None)
    return GroupAccuracy(len(correct), 100 * int(np.count_nonzero(correct)) / len(correct))


def accuracy_by_group(table: ItemTable, correct: NDArray[np.int8]) -> Mapping[str, Mapping[str, GroupAccuracy]]:
    """For each group key of the bench, accuracy over the questions of each of its values."""
    return {
        key: {value: accuracy(correct[at]) for value, at in sorted(groups.items(), key=_natural)}
        for key, groups in table.groups.items()
    }


_ORDER: Final = {"short": 0, "medium": 1, "long": 2}


def _natural(entry: tuple[str, object]) -> tuple[int, int, str]:
    """Numbers by size, short before long, other words by the alphabet."""
    name = entry[0]
    if name.isascii() and name.isdigit():
        return (0, int(name[:18]), name)
    return (1, _ORDER.get(name, len(_ORDER)), name)
