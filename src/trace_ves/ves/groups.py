"""Accuracy by the group keys that a bench carries, for benches that publish such tables and have no evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core.question import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.ves.report import GroupAccuracy
from trace_ves.ves.row_table import UNSCORED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from trace_ves.records.item_table import ItemTable


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
