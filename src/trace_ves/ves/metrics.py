"""The paper's metrics as per-question columns. A metric is the mean of its column, in percent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core.question import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.ves.report import GroupFigures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trace_ves.records import Item
    from trace_ves.ves.rows import AuditRow

    Floats = NDArray[np.float64]

DENSITIES: Final = (1, 2, 3)  # the density levels k in every report
HEADLINE_DENSITY: Final = 2


def densities(k: int) -> tuple[int, ...]:
    """1, 2, 3 and the headline density, if it is not one of these."""
    return tuple(sorted({*DENSITIES, k}))


class Columns:
    """The metrics of one run, question by question, in the order of the bench."""

    def __init__(self, rows: Sequence[AuditRow], ep_ref: float | None, k: int, *, frames_known: bool) -> None:
        """`ep_ref` is in percent; None if the bench has no evidence."""
        self.ep_ref, self.k, self._frames_known = ep_ref, k, frames_known
        self.questions = len(rows)
        self._is_scored = all(row.correct is not None for row in rows)
        self._has_frames = any(row.frames_distinct for row in rows)
        self._correct = np.array([bool(row.correct) for row in rows], np.bool_)
        self._density = np.array([row.density for row in rows], np.int64)
        self._supplied = np.array([row.frames_supplied for row in rows], np.float64)
        self._precision = np.array([row.precision for row in rows], np.float64)

    @property
    def metrics(self) -> dict[str, bool]:
        """All metrics in order, and whether each applies to this run."""
        decoded = self.ep_ref is not None and self._has_frames
        joint = self._is_scored and self.ep_ref is not None
        levels = densities(self.k)
        return {
            "Fr": self._frames_known,
            "Acc": self._is_scored,
            "EP": decoded,
            "AR": decoded and bool(self.ep_ref),
            **{f"Cov@{level}": decoded for level in levels},
            **{f"ECA@{level}": joint for level in levels},
            f"Cov-Corr@{self.k}": joint,
            f"Uncov-Corr@{self.k}": joint,
            "Wrong": self._is_scored,
        }

    def column(self, metric: str) -> Floats:
        """The values of a metric that applies to this run."""
        kind, _, level = metric.partition("@")
        match kind:
            case "Fr":
                return self._supplied
            case "EP":
                return 100 * self._precision
            case "AR":
                return 100 * self._precision / (self.ep_ref or math.nan)
        counted = _SHARES[kind](self._correct, self._density >= int(level or 0))
        return 100 * counted.astype(np.float64)

    def means(self, mask: NDArray[np.bool_] | None = None) -> dict[str, float | None]:
        """The mean of each metric over all questions, or over those of a mask."""
        means: dict[str, float | None] = {}
        for metric, applies in self.metrics.items():
            column = self.column(metric) if applies else None
            means[metric] = None if column is None else float(np.mean(column if mask is None else column[mask]))
        return means


_SHARES: Final[dict[str, Callable[[NDArray[np.bool_], NDArray[np.bool_]], NDArray[np.bool_]]]] = {
    "Acc": lambda correct, _: correct,
    "Wrong": lambda correct, _: ~correct,
    "Cov": lambda _, covered: covered,
    "ECA": np.logical_and,
    "Cov-Corr": np.logical_and,
    "Uncov-Corr": lambda correct, covered: correct & ~covered,
}
"""The questions that a metric counts, from the masks of correct and of covered questions."""


def family_order(families: Iterable[str]) -> list[str]:
    """Sort families: the paper's two in the paper's order, then others alphabetically."""
    paper = (TEMPORAL_ORDERING, EVENT_COUNTING)
    return sorted(set(families), key=lambda name: (paper.index(name) if name in paper else len(paper), name))


LONGEST_SECONDS: Final = {"under 2 min": 120.0, "2 to 15 min": 900.0, "15 to 60 min": 3600.0, "over 60 min": math.inf}
"""The default duration classes, with their upper limits."""


def class_masks(items: Sequence[Item]) -> dict[str, dict[str, NDArray[np.bool_]]]:
    """Masks of the questions by duration class and by number of evidence intervals, if there are several classes."""

    def duration_class(item: Item) -> str:
        stated = item.extra.get("duration_group")
        by_length = next(name for name, end in LONGEST_SECONDS.items() if item.duration < end or math.isinf(end))
        return str(stated) if isinstance(stated, (str, int)) and stated != "" else by_length

    words = {
        "duration": [duration_class(item) for item in items],
        "intervals": [str(len(item.evidence)) if len(item.evidence) < 4 else "4 or more" for item in items],
    }
    return {
        key: {word: np.array([each == word for each in column]) for word, _ in sorted(counts.items(), key=_natural)}
        for key, column in words.items()
        if len(counts := Counter(column)) > 1
    }


def group_accuracy(items: Sequence[Item], rows: Sequence[AuditRow]) -> GroupFigures | None:
    """The share of question groups with only correct answers; None for a bench without `question_group`."""
    groups: dict[str, list[AuditRow]] = {}
    for item, row in zip(items, rows, strict=True):
        if (name := item.extra.get("question_group")) not in (None, ""):
            groups.setdefault(str(name), []).append(row)
    if not groups or any(row.correct is None for row in rows):
        return None
    right = sum(all(row.correct for row in of_group) for of_group in groups.values())
    return GroupFigures(len(groups), 100 * right / len(groups))


def accuracy(rows: Sequence[AuditRow]) -> GroupFigures:
    """Accuracy in percent over these rows; None if there are no answers to score."""
    if not rows or any(row.correct is None for row in rows):
        return GroupFigures(len(rows), None)
    return GroupFigures(len(rows), 100 * sum(bool(row.correct) for row in rows) / len(rows))


GROUP_KEYS: Final = ("duration_group", "domain", "category", "question_types")
"""Keys of a bench line that name groups; a value is a string or an integer, or a list for several groups."""


def accuracy_by_group(items: Sequence[Item], rows: Sequence[AuditRow]) -> dict[str, dict[str, GroupFigures]]:
    """Accuracy by the values of each group key of the bench."""
    groups: dict[str, dict[str, list[AuditRow]]] = {}
    for item, row in zip(items, rows, strict=True):
        stated = item.extra if any(key in item.extra for key in GROUP_KEYS) else row.groups or {}
        for key in GROUP_KEYS if stated else ():
            value = stated.get(key)
            for word in value if isinstance(value, list) else [value]:
                if isinstance(word, (str, int)) and not isinstance(word, bool) and word != "":
                    groups.setdefault(key, {}).setdefault(str(word), []).append(row)
    return {
        key: {word: accuracy(own) for word, own in sorted(words.items(), key=_natural)} for key, words in groups.items()
    }


_ORDER: Final = {name: at for at, name in enumerate(("short", "medium", "long", *LONGEST_SECONDS))}


def _natural(entry: tuple[str, object]) -> tuple[int, int, str]:
    """A sort key: numbers by size, short before medium before long, other words alphabetically."""
    name = entry[0]
    if name.isascii() and name.isdigit():
        return (0, int(name[:18]), name)
    return (1, _ORDER.get(name, len(_ORDER)), name)
