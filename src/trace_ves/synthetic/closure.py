"""Evidence closure: which options stay possible when one interval is not seen.

Pure rules over options and truth. An option set is fair when it is closed whichever of its options is the right one,
so that nothing about the options tells the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from typing import Protocol

Order = tuple[int, ...]
"""Events by number, in the order in which they happen."""


class ItemTruth(Protocol):
    """What must be known of a question to judge its closure."""

    @property
    def intervals(self) -> int:
        """How many evidence intervals it has."""

    def possible_without(self, missing: int) -> tuple[int, ...]:
        """The options, by number, that all other intervals allow when this one, in order of time, is not seen."""


@dataclass(frozen=True, slots=True)
class OrderingTruth:
    """A Temporal Ordering question: the orders offered, and which is right."""

    options: tuple[Order, ...]
    right: int

    @property
    def intervals(self) -> int:
        """One for each event."""
        return len(self.options[self.right])

    def possible_without(self, missing: int) -> tuple[int, ...]:
        """The orders that agree with the right one on all events but the missing one."""
        unseen = self.options[self.right][missing]
        known = _without(self.options[self.right], unseen)
        return tuple(number for number, order in enumerate(self.options) if _without(order, unseen) == known)


@dataclass(frozen=True, slots=True)
class CountingTruth:
    """An Event Counting question: the counts offered, and which is right."""

    options: tuple[int, ...]
    right: int

    @property
    def intervals(self) -> int:
        """One for each occurrence."""
        return self.options[self.right]

    def possible_without(self, missing: int) -> tuple[int, ...]:  # noqa: ARG002  all occurrences weigh the same
        """All counts that are not below what was seen: what is not seen may hide any number of occurrences."""
        seen = self.options[self.right] - 1
        return tuple(number for number, count in enumerate(self.options) if count >= seen)


def leaves_options_open(truth: ItemTruth) -> bool:
    """Whether the absence of any one interval leaves at least two options possible."""
    return all(len(truth.possible_without(missing)) >= 2 for missing in range(truth.intervals))


@cache
def fair_order_sets(events: int, options: int = 4) -> tuple[tuple[Order, ...], ...]:
    """All sets of so many orders of so many events that leave options open, whichever of their orders is right."""
    return tuple(
        orders
        for orders in combinations(tuple(permutations(range(events))), options)
        if all(leaves_options_open(OrderingTruth(orders, right)) for right in range(options))
    )


def _without(order: Order, event: int) -> Order:
    return tuple(number for number in order if number != event)
