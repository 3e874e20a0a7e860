"""The text of questions: fair options that need every interval, and the correct letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core import EVENT_COUNTING
from trace_ves.core.question import LETTERS
from trace_ves.twin.synthetic.layout import OPTIONS, QuestionLayout
from trace_ves.twin.synthetic.vocabulary import vocabulary, with_article

if TYPE_CHECKING:
    from trace_ves.twin.synthetic.world import Event

Order = tuple[int, ...]  # events by number, in the order in which they happen


@cache
def fair_order_sets(events: int) -> tuple[tuple[Order, ...], ...]:
    """All sets of orders of which at least two remain possible without any one event, whichever is correct."""

    def is_fair(orders: tuple[Order, ...]) -> bool:
        for unseen in range(events):
            remaining = [tuple(event for event in order if event != unseen) for order in orders]
            if any(remaining.count(order) < 2 for order in remaining):
                return False
        return True

    return tuple(filter(is_fair, combinations(permutations(range(events)), OPTIONS)))


Rng = np.random.Generator

_COUNTING: Final = (  # an act lasts a while, so questions count how often it starts
    "On how many separate occasions does {event} {plain}?",
    "How many separate times does {event} {plain} in the video?",
    "Over the whole video, how often does {event} begin to {plain}?",
    "How many times in the video does {event} start to {plain}?",
    "Throughout the video, on how many occasions does {event} {plain}?",
)
_ORDERING: Final = (
    "In what order do these things happen: {events}?",
    "The following happen once each: {events}. Which order is right?",
    "Which option gives the order in which these happen: {events}?",
    "Put these in the order in which they are seen: {events}.",
    "What is the right chronological order of these events: {events}?",
)
_JOINTS: Final = (" → ", ", then ")  # separators of the events of an option; one kind per question


@dataclass(frozen=True, slots=True)
class Wording:
    """The text of a question."""

    text: str
    options: tuple[str, ...]
    answer: str  # the letter of the right option


def word_question(layout: QuestionLayout, events: Sequence[Event], seed: Sequence[int]) -> Wording:
    """The text of a question about these events, one per interval; the same seed gives the same text."""
    word = _word_counting if layout.family == EVENT_COUNTING else _word_ordering
    return word(np.random.default_rng(seed), layout, events)


def _word_counting(rng: Rng, layout: QuestionLayout, events: Sequence[Event]) -> Wording:
    event = events[0]
    noun = _choose_noun(rng, event)
    plain, _ = _choose_action(rng, event)
    # consecutive, so that with one occurrence unseen at least two counts remain possible
    counts = tuple(range(layout.lowest_option, layout.lowest_option + OPTIONS))
    text = str(rng.choice(_COUNTING)).format(event=with_article(noun), plain=plain)
    return Wording(text, tuple(map(str, counts)), LETTERS[counts.index(len(layout.intervals))])


def _word_ordering(rng: Rng, _: QuestionLayout, events: Sequence[Event]) -> Wording:
    nouns = [_choose_noun(rng, event) for event in events]
    doing = [vocabulary().acts[event.act].doing for event in events]
    offered = [f"the {act} {noun}" for act, noun in zip(doing, nouns, strict=True)]
    orders = _draw_orders(rng, len(events))
    joint = str(rng.choice(_JOINTS))
    options = tuple(joint.join(offered[number] for number in order) for order in orders)
    right = orders.index(tuple(range(len(events))))
    described = [
        f"{with_article(noun)} {_choose_action(rng, event)[1]}" for noun, event in zip(nouns, events, strict=True)
    ]
    shuffled = [described[number] for number in rng.permutation(len(events))]
    listed = f"{', '.join(shuffled[:-1])} and {shuffled[-1]}" if rng.random() < 0.5 else "; ".join(shuffled)
    return Wording(str(rng.choice(_ORDERING)).format(events=listed), options, LETTERS[right])


def _draw_orders(rng: Rng, events: int) -> tuple[tuple[int, ...], ...]:
    """A fair set of orders, shuffled, with events numbered by time: (0, 1, 2, ...) is correct."""
    sets = fair_order_sets(events)
    chosen = sets[int(rng.integers(len(sets)))]
    orders = [chosen[number] for number in rng.permutation(OPTIONS)]
    rank = {event: time for time, event in enumerate(orders[int(rng.integers(OPTIONS))])}
    return tuple(tuple(rank[event] for event in order) for order in orders)


def _choose_noun(rng: Rng, event: Event) -> str:
    return str(rng.choice(vocabulary().events[event.sprite].nouns))


def _choose_action(rng: Rng, event: Event) -> tuple[str, str]:
    """Words for what it does."""
    choices = vocabulary().acts[event.act].actions
    return choices[int(rng.integers(len(choices)))]
