"""Judgements: which edits are taken, what can be undone and until when, what is skipped, what must be played."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.judged_item import Verification
from trace_ves.construction.judging import JudgementError, Verdict
from trace_ves.construction.ledger import Stage, StaleError
from trace_ves.construction.looking import Looking
from trace_ves.construction.people import RefusedError
from trace_ves.core import EVENT_COUNTING

from .histories import ACCEPT, EVIDENCE, SPANS, Team, proposal


def test_no_undo_once_another_verdict_or_a_settlement_rests_on_it(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    team.next("bob")
    team.verify("ann", "c1")
    team.judgements.undo(team["ann"], "c1")
    team.verify("ann", "c1", revision=2)
    team.verify("bob", "c1", Verdict("reject", reason="not there"))
    for name in ("ann", "bob"):
        with pytest.raises(RefusedError, match="other judgements depend on it"):
            team.judgements.undo(team[name], "c1")
    dispute = team.judgements.item("c1").state.dispute
    team.play("dora", "c1")
    settle = partial(team.judgements.settle, team["dora"], "c1", evidence=SPANS, reason="", about=dispute.about)
    settle(keep=True)
    with pytest.raises(RefusedError, match="other judgements depend on it"):
        team.judgements.undo(team["ann"], "c1")
    team.judgements.undo(team["dora"], "c1")
    settle(keep=True)
    team.answer("cat", team.next("cat"))
    with pytest.raises(RefusedError, match="other judgements depend on it"):
        team.judgements.undo(team["dora"], "c1")


def test_intervals_that_are_none_are_refused(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    team.play("ann", "c1", SPANS)
    for spans, reason in (
        ([[0, 120]] * 3, "the interval 0-120 s must be 0.1 to 60 s long"),
        ([*SPANS[:2], [80, 120.1]], "every interval must lie in 0-120 s and end after its start"),
        ([[14, 14], *SPANS[1:]], "every interval must lie in 0-120 s and end after its start"),
    ):
        with pytest.raises(JudgementError, match=f"^These intervals are not valid: {reason}.$"):
            team.judgements.verify(team["ann"], "c1", Verdict("accept", spans), revision=0)
    with pytest.raises(JudgementError, match=r"^The answer must be one of A-D\.$"):
        team.judgements.verify(team["ann"], "c1", Verdict("accept", SPANS, answer="E"), revision=0)
    with pytest.raises(JudgementError, match=r"^Say why, in a few words\.$"):
        team.judgements.verify(team["ann"], "c1", Verdict("unsure"), revision=0)
    assert "ann" not in team.judgements.item("c1").verifications


def test_an_interval_can_be_added_and_the_count_has_to_fit(team: Team) -> None:
    team.propose("c1", made=replace(proposal(), family=EVENT_COUNTING, options=("1", "2", "3", "4"), answer="C"))
    more = [*SPANS, [100, 104]]
    for name in ("ann", "bob"):
        team.next(name)
        with pytest.raises(JudgementError, match="right count is '3', but there are 4"):
            team.verify(name, "c1", Verdict("accept", more))
        team.judgements.verify(team[name], "c1", Verdict("accept", more, answer="D"), revision=0)
    state = team.judgements.item("c1").state
    assert (state.answer, len(state.evidence)) == ("D", 4)


def test_corrections_doubts_and_comments_reach_the_adjudicator(team: Team) -> None:
    team.propose("c1", "c2")
    for name, item, verdict in (
        ("ann", "c1", ACCEPT),
        ("bob", "c1", Verdict("accept", SPANS, answer="C", comment="look at 0:42")),
        ("ann", "c2", Verdict("unsure", reason="too dark")),
        ("bob", "c2", Verdict("reject", reason="nothing there")),
    ):
        team.next(name)
        team.verify(name, item, verdict)
    unsure, reject = team.judgements.item("c2").verifications.values()
    assert (unsure.reason, unsure.is_unsure, reject.is_unsure) == ("too dark", True, False)
    dispute = team.judgements.item("c1").state.dispute
    settle = partial(team.judgements.settle, team["dora"], "c1", evidence=SPANS, reason="", about=dispute.about)
    with pytest.raises(JudgementError, match="not played yet"):
        settle(keep=True, answer="C")
    with pytest.raises(JudgementError, match="needs a reason"):
        settle(keep=False)
    team.play("dora", "c1")
    settle(keep=True, answer="C")
    assert team.judgements.item("c1").state.answer == "C"


def test_what_is_skipped_goes_to_somebody_else(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    with pytest.raises(JudgementError, match="Say why"):
        team.judgements.skip(team["ann"], "c1", "")
    team.judgements.skip(team["ann"], "c1", "I know these people")
    assert team.next("ann") is None
    assert team.judgements.item("c1").skipped == {"ann": "I know these people"}
    assert {team.next("bob"), team.next("cat")} == {Assignment("c1", Stage.VERIFICATION)}
    team.judgements.undo(team["ann"], "c1")
    assert team.judgements.item("c1").skipped == {}


def test_only_the_assignment_that_is_held_can_be_judged(team: Team) -> None:
    team.propose("c1", "c2")
    judgements, ann = team.judgements, team["ann"]
    with pytest.raises(RefusedError, match="not the assignment"):
        judgements.verify(ann, "c1", ACCEPT, revision=0)
    assert team.next("ann") == Assignment("c1", Stage.VERIFICATION)
    with pytest.raises(RefusedError, match="Only annotators have a queue"):
        team.next("dora")
    with pytest.raises(StaleError, match="changed after it was shown"):
        team.verify("ann", "c1", revision=1)
    team.verify("ann", "c1")
    with pytest.raises(RefusedError):
        judgements.verify(ann, "c1", ACCEPT, revision=1)
    judgements.undo(ann, "c1")
    assert judgements.queue.current("ann") == Assignment("c1", Stage.VERIFICATION)
    with pytest.raises(StaleError, match="nothing of yours"):
        judgements.undo(team["bob"], "c1")
    with pytest.raises(RefusedError, match="Only an adjudicator"):
        judgements.settle(ann, "c1", keep=True, evidence=[], reason="", about=[])
    with pytest.raises(StaleError, match="settled already"):
        judgements.settle(team["dora"], "c1", keep=True, evidence=[], reason="", about=[])


def test_nobody_accepts_what_they_have_not_played(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    with pytest.raises(JudgementError, match=r"not played yet: 10.0-14.0 s, 40.0-46.0 s, 80.0-85.0 s"):
        team.judgements.verify(team["ann"], "c1", ACCEPT, revision=0)
    team.play("ann", "c1", [[10, 14], [40, 43]])
    with pytest.raises(JudgementError, match=r"not played yet: 40.0-46.0 s, 80.0-85.0 s"):
        team.judgements.verify(team["ann"], "c1", ACCEPT, revision=0)
    team.play("ann", "c1", [[43.05, 45.8], [80, 85]])
    moved = Verdict("accept", [*SPANS[:2], [80, 86]])
    with pytest.raises(JudgementError, match=r"80\.0-86\.0"):
        team.judgements.verify(team["ann"], "c1", moved, revision=0)
    team.judgements.verify(team["ann"], "c1", ACCEPT, revision=0)
    looking = Looking(watched_share=0.967, took_seconds=80, clip_seconds=15)
    assert team.judgements.item("c1").verifications["ann"] == Verification(True, EVIDENCE, looking=looking)


def test_nobody_plays_faster_than_a_player_can(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    team.clock.now += 1
    with pytest.raises(JudgementError, match="than can be played"):
        team.report("ann", "c1")
    team.clock.now += 100_000  # a long silence earns one report's credit, not all of the time
    with pytest.raises(JudgementError, match="than can be played"):
        team.report("ann", "c1", [[0, 120]])
    assert team.judgements.watched(team["ann"], "c1") == []
    for _ in range(5):
        team.report("ann", "c1")
    with pytest.raises(JudgementError, match="than can be played"):  # the credit is spent
        team.report("ann", "c1")


def test_leave_one_out_needs_every_clip_an_option_and_the_set_that_is_held(team: Team) -> None:
    team.verified()
    held = team.next("cat")
    hidden = SPANS[held.left_out]
    others = [span for span in SPANS if span != hidden]
    team.play("cat", "c1", [hidden, others[0]])
    assert team.judgements.watched(team["cat"], "c1") == [others[0]]  # what they were not shown, they have not seen
    with pytest.raises(JudgementError, match="not played yet"):
        team.judgements.answer_without(team["cat"], "c1", held.left_out, answer=None, revision=0)
    with pytest.raises(JudgementError, match="A-D"):
        team.answer("cat", held, "E")
    with pytest.raises(RefusedError):
        team.judgements.answer_without(team["cat"], "c1", (held.left_out + 1) % 3, answer=None, revision=0)
    team.answer("cat", held)


def test_clips_that_are_reported_at_the_same_moment_all_count(make_team: Callable[..., Team], tmp_path: Path) -> None:
    team = make_team("ann", url=f"sqlite:///{tmp_path / 'build.sqlite'}")
    team.propose("c1")
    team.next("ann")
    team.clock.now += 40
    spans = [[[start, start + 1.0]] for start in range(0, 48, 3)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: team.report("ann", "c1", each), spans))
    assert team.judgements.watched(team["ann"], "c1") == [span for each in spans for span in each]


def test_what_is_undone_comes_back_before_what_was_taken_since(team: Team) -> None:
    team.propose("c2", "c1")  # the queue takes c1 first
    assert team.next("ann") == Assignment("c1", Stage.VERIFICATION)
    team.verify("ann", "c1", Verdict("reject", reason="no"))
    team.clock.now += 1
    assert team.next("ann") == Assignment("c2", Stage.VERIFICATION)
    team.judgements.undo(team["ann"], "c1")
    assert team.judgements.queue.current("ann") == Assignment("c1", Stage.VERIFICATION)
