"""Accuracy by the group keys that a bench carries, for benches that publish such tables and have no evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.core.question import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.ves.report import GroupAccuracy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trace_ves.records import Item

GROUP_KEYS: Final = ("duration_group", "domain", "category", "question_types")
"""Keys of a bench line whose values are words, or lists of words where a question stands in several groups."""


def family_order(families: Iterable[str]) -> list[str]:
    """Each family once: the paper's two as the paper has them, then others by the alphabet."""
    paper = (TEMPORAL_ORDERING, EVENT_COUNTING)
    return sorted(set(families), key=lambda name: (paper.index(name) if name in paper else len(paper), name))


def accuracy(correct: Sequence[bool | None]) -> GroupAccuracy:
    """Accuracy in percent over these answers; None where there are none to score."""
    if not correct or None in correct:
        return GroupAccuracy(len(correct), None)
    return GroupAccuracy(len(correct), 100 * sum(map(bool, correct)) / len(correct))


def accuracy_by_group(
    items: Sequence[Item], correct: Sequence[bool | None]
) -> Mapping[str, Mapping[str, GroupAccuracy]]:
    """For each group key of the bench, accuracy over the questions of each of its values."""
    members: dict[str, dict[str, list[bool | None]]] = {}
    for item, right in zip(items, correct, strict=True):
        for key in GROUP_KEYS:
            for value in _words(item.extra.get(key)):
                members.setdefault(key, {}).setdefault(value, []).append(right)
    return {
        key: {value: accuracy(answers) for value, answers in sorted(groups.items(), key=_natural)}
        for key, groups in members.items()
    }


def _words(value: object) -> list[str]:
    """The groups that a value names; what is no word or whole number names none."""
    values = value if isinstance(value, list) else [value]
    return [str(each) for each in values if isinstance(each, (str, int)) and not isinstance(each, bool) and each != ""]


_ORDER: Final = {"short": 0, "medium": 1, "long": 2}


def _natural(entry: tuple[str, object]) -> tuple[int, int, str]:
    """Numbers by size, short before long, other words by the alphabet."""
    name = entry[0]
    if name.isascii() and name.isdigit():
        return (0, int(name[:18]), name)
    return (1, _ORDER.get(name, len(_ORDER)), name)
