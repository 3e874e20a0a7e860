"""Words for what happens: question texts, options, and the letter of the right one.

Closed by construction: option sets are fair (see `closure`), and every question is checked once it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.core.question import LETTERS
from trace_ves.twin.synthetic.layout import OPTIONS
from trace_ves.twin.synthetic.vocabulary import vocabulary, with_article

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.twin.synthetic.layout import QuestionLayout
    from trace_ves.twin.synthetic.world import Event

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


Rng = np.random.Generator

_COUNTING: Final = (
    "How many times does {event} {plain} in the video?",
    "How often does {event} {plain} over the whole video?",
    "In total, how many separate times does {event} {plain}?",
    "Throughout the video, how many times does {event} {plain}?",
    "On how many separate occasions does {event} {plain}?",
)
_COUNTING_ACTS: Final = (
    "On how many separate occasions does {event} {plain}?",
    "How many separate times does {event} {plain} in the video?",
    "Over the whole video, how often does {event} begin to {plain}?",
    "How many times in the video does {event} start to {plain}?",
    "Throughout the video, on how many occasions does {event} {plain}?",
)
"""An act goes on for a while, so what is counted is how often it begins."""
_ORDERING: Final = (
    "In what order do these things happen: {events}?",
    "The following happen once each: {events}. Which order is right?",
    "Which option gives the order in which these happen: {events}?",
    "Put these in the order in which they are seen: {events}.",
    "What is the right chronological order of these events: {events}?",
)
_JOINTS: Final = (" → ", ", then ")
"""How the events of an option are strung together; one kind in each question."""


@dataclass(frozen=True, slots=True)
class Wording:
    """A question in words."""

    text: str
    options: tuple[str, ...]
    answer: str
    """The letter of the right option."""


def word_question(layout: QuestionLayout, events: Sequence[Event], seed: Sequence[int]) -> Wording:
    """The words of a question about these events, one for each interval; the same seed finds the same words."""
    rng = np.random.default_rng(seed)
    wording, truth = _WORDINGS[layout.family](rng, layout, events)
    if not leaves_options_open(truth):
        raise AssertionError(f"a question that one interval less still answers: {wording}")
    return wording


def _word_counting(rng: Rng, layout: QuestionLayout, events: Sequence[Event]) -> tuple[Wording, ItemTruth]:
    event = events[0]
    noun = _noun(rng, event)
    plain, _ = _action(rng, event)
    counts = tuple(range(layout.lowest_option, layout.lowest_option + OPTIONS))
    truth = CountingTruth(counts, counts.index(len(layout.intervals)))
    text = str(rng.choice(_COUNTING_ACTS if event.act else _COUNTING)).format(event=with_article(noun), plain=plain)
    return Wording(text, tuple(map(str, counts)), LETTERS[truth.right]), truth


def _word_ordering(rng: Rng, _: QuestionLayout, events: Sequence[Event]) -> tuple[Wording, ItemTruth]:
    nouns = [_noun(rng, event) for event in events]
    offered = [f"the {_doing(event)}{noun}" for noun, event in zip(nouns, events, strict=True)]
    orders = _offered(rng, len(events))
    joint = str(rng.choice(_JOINTS))
    options = tuple(joint.join(offered[number] for number in order) for order in orders)
    truth = OrderingTruth(orders, orders.index(tuple(range(len(events)))))
    described = [f"{with_article(noun)} {_action(rng, event)[1]}" for noun, event in zip(nouns, events, strict=True)]
    shuffled = [described[number] for number in rng.permutation(len(events))]
    listed = f"{', '.join(shuffled[:-1])} and {shuffled[-1]}" if rng.random() < 0.5 else "; ".join(shuffled)
    return Wording(str(rng.choice(_ORDERING)).format(events=listed), options, LETTERS[truth.right]), truth


_WORDINGS: Final[dict[str, Callable[[Rng, QuestionLayout, Sequence[Event]], tuple[Wording, ItemTruth]]]] = {
    EVENT_COUNTING: _word_counting,
    TEMPORAL_ORDERING: _word_ordering,
}
"""For each family, what puts a question and its truth into words."""


def _offered(rng: Rng, events: int) -> tuple[tuple[int, ...], ...]:
    """A fair set of orders in random sequence, with events numbered as they happen: (0, 1, 2, ...) is right."""
    sets = fair_order_sets(events, OPTIONS)
    chosen = sets[int(rng.integers(len(sets)))]
    orders = [chosen[number] for number in rng.permutation(OPTIONS)]
    rank = {event: time for time, event in enumerate(orders[int(rng.integers(OPTIONS))])}
    return tuple(tuple(rank[event] for event in order) for order in orders)


def _noun(rng: Rng, event: Event) -> str:
    return str(rng.choice(vocabulary().events[event.sprite].nouns))


def _doing(event: Event) -> str:
    """What tells an actor in an option: its act, where it has one."""
    return f"{vocabulary().acts[event.act].doing} " if event.act else ""


def _action(rng: Rng, event: Event) -> tuple[str, str]:
    """Words for what it does: its act's; or those of its own motion, or now and then that it appears."""
    if event.act:
        choices = vocabulary().acts[event.act].actions
    else:
        motion = vocabulary().events[event.sprite].motion if rng.random() < 0.7 else "appear"
        choices = vocabulary().actions[motion]
    return choices[int(rng.integers(len(choices)))]
