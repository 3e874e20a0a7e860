"""Evidence closure: one interval less leaves at least two options, whichever option of a fair set is right."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.twin.synthetic.questions import CountingTruth, OrderingTruth, fair_order_sets, leaves_options_open


def test_an_order_that_two_events_tell_is_not_closed() -> None:
    # Only the right option has 0 before 1, so event 2 need not be seen.
    truth = OrderingTruth(((0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 1, 0)), right=0)
    assert truth.possible_without(2) == (0,)
    assert not leaves_options_open(truth)


def test_an_order_whose_neighbours_are_offered_is_closed() -> None:
    truth = OrderingTruth(((0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0)), right=0)
    assert truth.possible_without(0) == (0, 2)
    assert truth.possible_without(1) == (0, 1, 2)
    assert truth.possible_without(2) == (0, 1)
    assert leaves_options_open(truth)


def test_a_highest_count_without_its_neighbour_is_not_closed() -> None:
    assert not leaves_options_open(CountingTruth((2, 3, 4, 9), right=3))
    assert leaves_options_open(CountingTruth((2, 3, 4, 5), right=3))


@given(lowest=st.integers(1, 20), right=st.integers(0, 3))
def test_consecutive_counts_are_closed(lowest: int, right: int) -> None:
    truth = CountingTruth(tuple(range(lowest, lowest + 4)), right)
    assert leaves_options_open(truth)
    assert right in truth.possible_without(0)


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
