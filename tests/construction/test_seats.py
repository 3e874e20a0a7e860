"""Seats: an assignment that nobody works on goes back to the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.ledger import Stage
from trace_ves.construction.people import RefusedError

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
    assert team.judgements.assignment(team["ann"]) is None
    assert team.judgements.assignment(team["bob"]) == held
    with pytest.raises(RefusedError, match="not the assignment"):
        team.judgements.verify(team["ann"], "c1", ACCEPT, revision=0, seconds=1)
    told = [entry.after for entry in team.judgements.store.ledger().entries if entry.slot.startswith("seat/")]
    assert {"released": "ann", "reason": "absent"} in told


def test_an_operator_releases_by_command(team: Team) -> None:
    team.propose("c1")
    held = team.next("ann")
    assert held is not None
    assert team.judgements.queue.release(held, "ann", by="build", reason="ill")
    assert not team.judgements.queue.release(held, "ann", by="build", reason="ill")
    assert team.next("ann") == held  # who comes back may take it again


def test_an_item_is_given_to_a_person_by_name(team: Team) -> None:
    team.propose("c1", "c2")
    queue, held = team.judgements.queue, Assignment("c1", Stage.VERIFICATION)
    assert queue.assign("c1", "eve", by="olga") == held
    assert team.next("eve") == held
    assert queue.assign("c1", "dan", by="olga", instead_of="eve") == held
    assert team.judgements.assignment(team["eve"]) is None
    assert team.judgements.assignment(team["dan"]) == held
    told = [
        (entry.who, entry.after) for entry in team.judgements.store.ledger().entries if entry.slot.startswith("seat/")
    ]
    assert told == [
        ("olga", {"who": "eve"}),
        ("olga", {"who": "dan", "instead_of": "eve"}),
    ]
    team.verify("dan", "c1")
    queue.exposures.update(team.judgements.store.ledger())
    # eve held it, and so has had the video on screen
    assert queue.exposures.whole_viewers("videos/a.mp4") == {"eve", "dan"}


def test_nobody_is_given_what_the_queue_would_not_give_them(team: Team) -> None:
    team.propose("c1")
    queue = team.judgements.queue
    for item, who, instead_of, reason in (
        ("c1", "nobody", "", "is no annotator"),
        ("c1", "dora", "", "is no annotator"),
        ("c9", "ann", "", "no item 'c9'"),
        ("c1", "ann", "bob", "bob does not hold c1"),
    ):
        with pytest.raises(RefusedError, match=reason):
            queue.assign(item, who, by="olga", instead_of=instead_of)
    team.verified()
    with pytest.raises(RefusedError, match="ann may not judge c1 now"):
        queue.assign("c1", "ann", by="olga")
    given = queue.assign("c1", "cat", by="olga")
    with pytest.raises(RefusedError, match="cat holds c1; one assignment at a time"):
        queue.assign("c1", "cat", by="olga")
    with pytest.raises(RefusedError, match="bob may not judge"):
        queue.assign("c1", "bob", by="olga", instead_of="cat")
    assert team.judgements.assignment(team["cat"]) == given  # what was refused changed nothing
    moved = queue.assign("c1", "dan", by="olga", instead_of="cat")
    assert moved == given
    assert team.next("cat") == given  # the other seat of the same set, of whose video cat has seen no more
