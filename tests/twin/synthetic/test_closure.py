"""Evidence closure: one interval less leaves at least two options, whichever option of a fair set is right."""

from __future__ import annotations

from itertools import permutations

import pytest

from trace_ves.core import EVENT_COUNTING
from trace_ves.twin.synthetic.bench import make_twin
from trace_ves.twin.synthetic.questions import fair_order_sets


def test_a_count_that_one_occurrence_less_tells_is_never_asked() -> None:
    items = [item for video in make_twin(120, 5) for item in video.items if item.question.family == EVENT_COUNTING]
    for item in items:
        counts = [int(option) for option in item.question.options]
        assert item.answer == "ABCD"[counts.index(len(item.evidence))]
        assert sum(count >= len(item.evidence) - 1 for count in counts) >= 2


def test_an_order_that_two_events_tell_is_not_fair() -> None:
    # Only the first option has 0 before 1, so event 2 need not be seen.
    assert ((0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 1, 0)) not in fair_order_sets(3)


@pytest.mark.parametrize("events", [3, 4])
def test_fair_sets_are_closed_for_every_option(events: int) -> None:
    sets = fair_order_sets(events)
    assert sets
    for orders in sets:
        assert len(set(orders)) == 4
        assert set(orders) <= set(permutations(range(events)))
        for right, order in enumerate(orders):
            for unseen in order:
                rest = [event for event in order if event != unseen]
                alike = [o for o in orders if [event for event in o if event != unseen] == rest]
                assert len(alike) >= 2, (orders, right, unseen)
