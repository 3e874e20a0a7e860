"""Who may judge what, and what goes back to the queue; which judgements are taken, undone and skipped."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.judged_item import Verification, evidence_to_json
from trace_ves.construction.judging import JudgementError, Verdict
from trace_ves.construction.ledger import Stage, StaleError
from trace_ves.construction.looking import Looking
from trace_ves.construction.next_steps import next_steps
from trace_ves.construction.people import RefusedError, Role, invite, revoke
from trace_ves.construction.reports import make_report
from trace_ves.core import EVENT_COUNTING, Interval

from .histories import ACCEPT, EVIDENCE, SPANS, StorePen, Team, new_team, proposal


def test_who_saw_the_video_never_judges_its_partial_sets(team: Team) -> None:
    """In the same item, in another item, before or after: the video counts, not the route."""
    team.verified("c1")
    team.verified("c2")  # by the same two, so that the others stay fresh
    team.propose("c0", made=proposal("videos/b.mp4"))
    held = [team.next(name) for name in ("cat", "dan", "eve", "ann", "bob")]
    assert [each.stage for each in held[:3]] == [Stage.LEAVE_ONE_OUT] * 3  # those who can answer one are the fewest
    assert held[3:] == [Assignment("c0", Stage.VERIFICATION)] * 2


def test_a_video_is_verified_by_as_few_people_as_possible(team: Team) -> None:
    team.propose("c1")
    for name in ("ann", "bob"):
        team.next(name)
        team.verify(name, "c1", Verdict("reject", reason="no"))
    team.propose("c2")
    held = Assignment("c2", Stage.VERIFICATION)
    assert [team.next(name) for name in ("cat", "ann", "cat", "bob")] == [None, held, None, held]
    team.judgements.skip(team["bob"], "c2", "no sound")
    assert team.next("cat") == held
    team.propose("c3")
    assert team.next("dan") is None
    assert team.judgements.queue.assign("c3", "dan", by="olga").item == "c3"  # an operator may decide otherwise


OTHER = (Interval(10.5, 13.5), Interval(60, 64), Interval(81, 84))
"""Evidence of a second item over the same video: it shows what partial sets of the first one hide."""


def steps_of(team: Team) -> list[str]:
    return next_steps(team.judgements.store.ledger(), team.judgements.queue, "DIR")


def answer_all(team: Team, name: str) -> int:
    """Let a person answer until nothing waits for them; how many answers they gave."""
    count = 0
    while (held := team.next(name)) is not None:
        team.answer(name, held)
        count += 1
    return count


def test_who_saw_a_clip_of_the_video_judges_no_second_set_of_it(make_team: Callable[..., Team]) -> None:
    """In no item over that video, whether or not the clip shows what the set hides; the item waits for others."""
    team = make_team("ann", "bob", "cat")
    team.verified("c1")
    team.verified("c2", OTHER)
    assert answer_all(team, "cat") == 1
    assert {item for item, _ in team.judgements.queue.stuck()} == {"c1", "c2"}
    assert steps_of(team)[0] == (
        "Invite 11 more annotators, who have seen nothing of videos/a.mp4 (for c1, c2):"
        " trace-ves build invite DIR NAME..."
    )
    for number in range(11):
        invite(team.judgements.store, f"p{number}", Role.ANNOTATOR)
        assert answer_all(team, f"p{number}") == 1
    for item in ("c1", "c2"):
        judged = team.judgements.item(item)
        assert all(len(judged.answers_without(judged.state.evidence, left_out)) == 2 for left_out in range(3))
    assert make_report(team.judgements.store.ledger()).not_blind == 0
    assert not team.judgements.queue.stuck()


def test_where_it_is_allowed_clips_that_show_what_is_hidden_still_count(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob", "cat", allow_not_blind=True)
    team.verified("c1")
    team.verified("c2", OTHER)
    assert answer_all(team, "cat") >= 3
    shown: list[tuple[str, list[float]]] = []
    for entry in [each for each in team.judgements.store.ledger().entries if each.slot.startswith("without/cat/")]:
        left_out = int(entry.slot.rpartition("/")[2])
        hidden = entry.after["evidence"][left_out]
        assert not [
            item for item, span in shown if item != entry.subject and span[0] < hidden[1] and hidden[0] < span[1]
        ]
        shown += [(entry.subject, span) for place, span in enumerate(entry.after["evidence"]) if place != left_out]


@settings(max_examples=15)
@given(st.data())
def test_whatever_people_do_nobody_judges_a_set_of_which_they_saw_more(data: st.DataObject) -> None:
    """Any order of taking, giving back, verifying and answering, over two items of one video."""
    names = [f"p{number}" for number in range(6)]
    team = new_team(*names)
    store = team.judgements.store
    team.propose("c1")
    team.propose("c2", made=proposal(evidence=OTHER))
    seen: dict[str, list[list[float]]] = {name: [] for name in names}
    not_blind: list[tuple[str, Assignment]] = []
    for _ in range(data.draw(st.integers(12, 30))):
        name = data.draw(st.sampled_from(names))
        held = team.next(name)
        if held is None:
            continue
        evidence = evidence_to_json(team.judgements.item(held.item).proposal.evidence)
        if held.left_out is not None:
            shown = [span for place, span in enumerate(evidence) if place != held.left_out]
            not_blind += [(name, held) for span in seen[name] if span not in shown]
            seen[name] += shown
        else:
            seen[name].append([0.0, 120.0])
        if data.draw(st.booleans()):
            team.judgements.queue.release(held, name, by="build", reason="tried")
        elif held.left_out is not None:
            team.answer(name, held, revision=store.ledger().slot(held.item, f"without/{name}/{held.left_out}").revision)
        else:
            team.verify(name, held.item, Verdict("accept", evidence))
    store.close()
    assert not_blind == []


def test_too_few_people_answer_twice_and_the_report_says_so(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob", "cat", "dan", allow_not_blind=True)
    team.verified()
    assert [answer_all(team, name) for name in ("cat", "dan")] == [3, 3]
    found = make_report(team.judgements.store.ledger())
    assert (found.not_blind, found.partial_answers) == (4, 6)
    assert "Invite" not in " ".join(steps_of(team))


def test_a_set_with_one_free_place_waits_for_one_who_has_seen_nothing(make_team: Callable[..., Team]) -> None:
    """Of c3, cat is offered the sets 1, 2 and 0, in this order, and dan 2 first."""
    team = make_team("ann", "bob", "cat", "dan", "eve", allow_not_blind=True)
    team.verified("c3")
    team.answer("cat", team.next("cat"))
    assert team.next("dan") == Assignment("c3", Stage.LEAVE_ONE_OUT, 2)
    assert team.next("cat") == Assignment("c3", Stage.LEAVE_ONE_OUT, 0)  # the other place of 2 is for eve
    team.answer("cat", Assignment("c3", Stage.LEAVE_ONE_OUT, 0))
    team.judgements.undo(team["cat"], "c3")  # what cat had seen before does not count


def test_no_second_answer_after_seeing_more(team: Team) -> None:
    team.verified()
    held = team.next("cat")
    team.answer("cat", held)
    team.judgements.undo(team["cat"], "c1")  # at once, nothing was seen since
    assert team.next("cat") == held
    team.answer("cat", held, revision=2)
    team.propose("c2")  # over the same video
    revoke(team.judgements.store, "ann")  # so that c2 needs somebody new
    assert team.next("bob") == team.next("cat") == Assignment("c2", Stage.VERIFICATION)
    with pytest.raises(RefusedError, match="seen more of the video since"):
        team.judgements.undo(team["cat"], "c1")


def seats_of(team: Team) -> list[tuple[str, object]]:
    """Who gave or took which seat, in the order of time."""
    entries = team.judgements.store.ledger().entries
    return [(entry.who, entry.after) for entry in entries if entry.slot.startswith("seat/")]


def test_an_absent_annotators_item_goes_back(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob", "cat", seat_hours=1.0)
    team.propose("c1")
    held = Assignment("c1", Stage.VERIFICATION)
    assert [team.next(name) for name in ("ann", "bob", "cat")] == [held, held, None]
    team.clock.now += 3000
    team.play("bob", "c1", [[0, 1]])  # bob is at work
    team.clock.now += 1000
    assert team.next("cat") == held
    assert [team.judgements.queue.current(name) for name in ("ann", "bob")] == [None, held]
    assert ("build", {"released": "ann", "reason": "absent"}) in seats_of(team)


def test_an_operator_releases_by_command(team: Team) -> None:
    team.propose("c1")
    held = team.next("ann")
    team.play("ann", "c1")
    assert team.judgements.queue.release(held, "ann", by="build", reason="ill")
    assert not team.judgements.queue.release(held, "ann", by="build", reason="ill")
    assert team.next("ann") == held  # ann may take it again after her return, from the beginning
    assert team.judgements.watched(team["ann"], "c1") == []


def test_an_item_is_given_to_a_person_by_name(team: Team) -> None:
    team.propose("c1", "c2")
    queue, held = team.judgements.queue, Assignment("c1", Stage.VERIFICATION)
    assert queue.assign("c1", "eve", by="olga") == held
    assert team.next("eve") == team.next("bob") == held  # both places are taken
    assert queue.assign("c1", "dan", by="olga", instead_of="eve") == held
    assert [queue.current(name) for name in ("eve", "dan")] == [None, held]
    by_olga = [("olga", {"who": "eve"}), ("olga", {"who": "dan", "instead_of": "eve"})]
    assert seats_of(team) == [by_olga[0], ("bob", {"who": "bob"}), by_olga[1]]
    team.verify("dan", "c1")
    # eve held it, and so has had the video on screen
    assert queue.exposures.whole_viewers["videos/a.mp4"] == {"eve", "bob", "dan"}


def test_nobody_is_given_what_the_queue_would_not_give_them(team: Team) -> None:
    team.verified()
    queue = team.judgements.queue
    given = queue.assign("c1", "cat", by="olga")
    for item, who, instead_of, reason in (
        ("c1", "nobody", "", "is not an annotator"),
        ("c1", "dora", "", "is not an annotator"),
        ("c9", "ann", "", "no item 'c9'"),
        ("c1", "dan", "bob", "bob does not hold c1"),
        ("c1", "ann", "", "ann may not judge c1 now"),
        ("c1", "bob", "cat", "bob may not judge"),
        ("c1", "cat", "", "cat holds c1; one assignment at a time"),
    ):
        with pytest.raises(RefusedError, match=reason):
            queue.assign(item, who, by="olga", instead_of=instead_of)
    assert queue.current("cat") == given  # what was refused changed nothing
    assert queue.assign("c1", "dan", by="olga", instead_of="cat") == given
    assert team.next("cat") == given  # the other seat of the same set, of whose video cat has seen no more


# --- judgements --------------------------------------------------------------------------------------


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
    with pytest.raises(StaleError, match="changed since you opened it"):
        team.verify("ann", "c1", revision=1)
    team.verify("ann", "c1")
    with pytest.raises(RefusedError):
        judgements.verify(ann, "c1", ACCEPT, revision=1)
    judgements.undo(ann, "c1")
    assert judgements.queue.current("ann") == Assignment("c1", Stage.VERIFICATION)
    for item, kind, sentence in (("c1", StaleError, "no judgement to undo"), ("c9", RefusedError, "no item 'c9'")):
        with pytest.raises(kind, match=sentence):
            judgements.undo(team["bob"], item)
    with pytest.raises(RefusedError, match="Only an adjudicator"):
        judgements.settle(ann, "c1", keep=True, evidence=[], reason="", about=[])
    with pytest.raises(StaleError, match="already settled"):
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
    team.judgements.undo(team["ann"], "c1")
    team.verify("ann", "c1", revision=2)
    assert [entry.seconds for entry in team.judgements.store.ledger().entries[-3:]] == [80, 0, 40]


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


# --- what to do next ----------------------------------------------------------------------------

INVITE = "trace-ves build invite DIR NAME"
OTHERWISE = (
    "To need fewer annotators, propose fewer items per video, use more videos, or set allow_not_blind = true in"
    " DIR/build.toml (then 4 are enough, and the report counts the answers of annotators"
    " who had seen other clips of the video)"
)


def judge_item(team: Team, item: str, *, until: Stage | None) -> None:
    """Propose an item over a video of its own, and bring it to a stage; None accepts it."""
    pen = StorePen(team.judgements.store).propose(item, proposal(f"videos/{item}.mp4"))
    if until is Stage.VERIFICATION:
        return
    pen.verify(item, "ann").verify(item, "bob", None if until is Stage.ADJUDICATION else EVIDENCE)
    if until is Stage.SHORTCUT or until is None:
        pen.probe(item, [False] * 3)
        for name in ("cat", "dan"):
            pen.answer(item, name, [None] * 3)
    if until is None:
        pen.shortcut(item)


def test_an_operator_reads_what_to_do(make_team: Callable[..., Team]) -> None:
    # Two verify a video, and two judge each of its three partial sets.
    team = make_team("ann", "bob", "cat", "dan", "eve", "fay", "gil", "hal")
    assert steps_of(team) == ["Propose items: trace-ves build propose DIR --captioner SPEC --proposer SPEC"]
    judge_item(team, "c0", until=Stage.ADJUDICATION)
    settle = "settle 1 disagreement: trace-ves build"
    assert steps_of(team) == [f"Let an adjudicator {settle} serve DIR"]
    revoke(team.judgements.store, "dora")
    assert steps_of(team) == [f"Invite an adjudicator to {settle} invite DIR NAME --adjudicator"]
    judge_item(team, "c1", until=Stage.ADJUDICATION)
    for number, stage in enumerate((Stage.VERIFICATION, Stage.LEAVE_ONE_OUT, Stage.SHORTCUT, None), 2):
        judge_item(team, f"c{number}", until=stage)
    assert steps_of(team) == [
        "Invite an adjudicator to settle 2 disagreements: trace-ves build invite DIR NAME --adjudicator",
        "Ask a vision model about 1 item: trace-ves build probe DIR --backbone SPEC",
        "Probe 1 item for shortcuts: trace-ves build shortcut DIR --language SPEC --gist SPEC",
        "Let annotators judge 2 items: trace-ves build serve DIR",
    ]
    done = make_team("ann")
    StorePen(done.judgements.store).propose("c9").verify("c9", "ann", None).verify("c9", "bob", None)
    assert steps_of(done) == ["No item was accepted; propose others, or add more videos to the build."]
    judge_item(done, "c1", until=None)
    assert steps_of(done) == ["Export the bench: trace-ves build export DIR OUT"]


def test_an_operator_reads_whom_to_invite(make_team: Callable[..., Team]) -> None:
    """Ten items with 29 intervals over one video: two verify, and each of 29 partial sets takes two who saw nothing."""
    team = make_team("ann")
    team.propose(*(f"c{number}" for number in range(9)))
    team.propose("c9", made=proposal(evidence=OTHER[:2]))
    StorePen(team.judgements.store).propose("rejected").verify("rejected", "x", None).verify("rejected", "y", None)
    judge = "Let annotators judge 10 items: trace-ves build serve DIR"
    assert steps_of(team) == [f"Invite 59 more annotators: {INVITE}...", OTHERWISE, judge]
    team = make_team("ann", "bob", "cat", allow_not_blind=True)
    judge_item(team, "c1", until=Stage.VERIFICATION)
    judge = "Let annotators judge 1 item: trace-ves build serve DIR"
    assert steps_of(team) == [f"Invite 1 more annotator: {INVITE}...", judge]
    for name in ("ann", "bob", "cat"):
        StorePen(team.judgements.store).write("c1", f"skip/{name}", name, {"reason": "no"})
    stuck = "Invite annotators for 1 item that no current annotator may judge: c1"
    assert steps_of(team) == [f"Invite 1 more annotator: {INVITE}...", stuck, judge]


def test_an_operator_reads_for_which_videos(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob", "cat", "p1", "p2", "p3", "p4", "p5")
    told = []
    for number in range(6):
        judge_item(team, f"c{number}", until=Stage.LEAVE_ONE_OUT)
        for name in ("p1", "p2", "p3"):  # 4 places are left, for cat, p4 and p5
            StorePen(team.judgements.store).answer(f"c{number}", name, [None])
        told.append(steps_of(team)[0])
    assert told[4] == (
        "Invite 1 more annotator, who have seen nothing of videos/c0.mp4, videos/c1.mp4, videos/c2.mp4,"
        f" videos/c3.mp4, videos/c4.mp4 (for c0, c1, c2, c3, c4): {INVITE}..."
    )
    assert "videos/c4.mp4, … (for c0, c1, c2, c3, c4, …)" in told[5]
    assert team.judgements.queue.stuck() == []
    for name in ("cat", "p4", "p5"):
        revoke(team.judgements.store, name)
    assert team.judgements.queue.stuck() == [(f"c{number}", Stage.LEAVE_ONE_OUT) for number in range(6)]
