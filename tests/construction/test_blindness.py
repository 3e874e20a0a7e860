"""Who may judge a partial set: nobody who has had more of its video on screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.judging import RefusedError, Verdict
from trace_ves.construction.people import Role, invite, revoke
from trace_ves.construction.reports import report
from trace_ves.construction.stages import Stage
from trace_ves.core import Interval

from .histories import proposal

if TYPE_CHECKING:
    from collections.abc import Callable

    from .teams import Team


def test_who_saw_the_video_never_judges_its_partial_sets(team: Team) -> None:
    """In the same item, in another item, before or after: the video counts, not the route."""
    team.propose("c1", "c2")
    team.verified("c1")
    team.verified("c2")  # by the same two, so that the others stay fresh
    assert team.next("ann") is None
    assert team.next("bob") is None
    for name in ("cat", "dan"):
        held = team.next(name)
        assert held is not None
        assert held.stage is Stage.LEAVE_ONE_OUT


def test_partial_sets_of_two_items_over_one_video_are_kept_apart(make_team: Callable[..., Team]) -> None:
    """The second item's evidence shows what the first one's partial sets hide."""
    team = make_team("ann", "bob", "cat")
    team.propose("c1")
    other = (Interval(10.5, 13.5), Interval(60, 64), Interval(81, 84))
    team.propose("c2", made=proposal(evidence=other))
    team.verified("c1")
    for name in ("ann", "bob"):
        assert team.next(name) == Assignment("c2", Stage.VERIFICATION)
        team.verify(name, "c2", Verdict("accept", [[span.start, span.end] for span in other]))
    held = team.next("cat")
    assert held is not None
    while held is not None:
        team.answer("cat", held)
        held = team.next("cat")
    answers = [entry for entry in team.desk.store.ledger().entries if entry.slot.startswith("without/cat/")]
    assert len(answers) >= 3
    shown: list[tuple[str, list[float]]] = []
    for entry in answers:
        assert entry.after is not None
        left_out = int(entry.slot.rpartition("/")[2])
        hidden = entry.after["evidence"][left_out]
        assert not [
            item for item, span in shown if item != entry.subject and span[0] < hidden[1] and hidden[0] < span[1]
        ]
        shown += [(entry.subject, span) for place, span in enumerate(entry.after["evidence"]) if place != left_out]


def test_one_partial_set_for_each_person_where_people_suffice(make_team: Callable[..., Team]) -> None:
    names = ["ann", "bob", *(f"p{n}" for n in range(6))]
    team = make_team(*names)
    team.propose("c1")
    team.verified()
    taken = []
    for name in names[2:]:
        held = team.next(name)
        assert held is not None
        taken.append(held.left_out)
        team.answer(name, held)
        assert team.next(name) is None
    assert sorted(map(str, taken)) == ["0", "0", "1", "1", "2", "2"]
    found = report(team.desk.store.ledger())
    assert (found.not_blind, found.partial_answers) == (0, 6)


def test_too_few_people_answer_twice_and_the_report_says_so(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob", "cat", "dan")
    team.propose("c1")
    team.verified()
    while held := (team.next("cat") or team.next("dan")):
        name = "cat" if team.next("cat") else "dan"
        team.answer(name, held)
    judged, standing = team.desk.item("c1")
    assert all(len(judged.answers_to(standing.evidence, left_out)) == 2 for left_out in range(3))
    found = report(team.desk.store.ledger())
    assert (found.not_blind, found.partial_answers) == (4, 6)


def test_with_two_annotators_partial_sets_wait_for_others(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob")
    team.propose("c1")
    team.verified()
    assert team.next("ann") is None
    invite(team.desk.store, "cat", Role.ANNOTATOR)
    assert team.next("cat") is not None


def test_no_second_answer_after_seeing_more(team: Team) -> None:
    team.propose("c1")
    team.verified()
    held = team.next("cat")
    assert held is not None
    team.answer("cat", held)
    team.desk.undo(team["cat"], "c1")  # at once, nothing was seen since
    assert team.next("cat") == held
    team.answer("cat", held, revision=2)
    team.propose("c2")  # over the same video
    revoke(team.desk.store, "ann")  # so that c2 needs somebody new
    assert team.next("bob") == Assignment("c2", Stage.VERIFICATION)
    while (more := team.next("cat")) is not None and more.stage is Stage.LEAVE_ONE_OUT:
        team.answer("cat", more)
    assert more == Assignment("c2", Stage.VERIFICATION)
    with pytest.raises(RefusedError, match="seen more of the video since"):
        team.desk.undo(team["cat"], "c1")
