"""Seats: an assignment that nobody works on goes back to the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.judging import RefusedError
from trace_ves.construction.stages import Stage

from .teams import ACCEPT

if TYPE_CHECKING:
    from collections.abc import Callable

    from .teams import Team


def test_an_absent_annotators_item_goes_back(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob", "cat", seat_hours=1.0)
    team.propose("c1")
    held = Assignment("c1", Stage.VERIFICATION)
    assert [team.next(name) for name in ("ann", "bob", "cat")] == [held, held, None]
    team.clock.now += 3000
    team.play("bob", "c1", [[0, 1]])  # bob is at work
    team.clock.now += 1000
    assert team.next("cat") == held
    assert team.desk.assignment(team["ann"]) is None
    assert team.desk.assignment(team["bob"]) == held
    with pytest.raises(RefusedError, match="not the assignment"):
        team.desk.verify(team["ann"], "c1", ACCEPT, revision=0, seconds=1)
    told = [entry.after for entry in team.desk.store.ledger().entries if entry.slot.startswith("seat/")]
    assert {"released": "ann", "reason": "absent"} in told


def test_an_operator_releases_by_command(team: Team) -> None:
    team.propose("c1")
    held = team.next("ann")
    assert held is not None
    assert team.desk.queue.release(held, "ann", by="build", reason="ill")
    assert not team.desk.queue.release(held, "ann", by="build", reason="ill")
    assert team.next("ann") == held  # who comes back may take it again
