"""What the desk guarantees: blind partial sets, proof of looking, no late undo, seats that go back, gold items."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.construction.archive import pack, unpack
from trace_ves.construction.assignments import Assignment
from trace_ves.construction.database import StoreError
from trace_ves.construction.gold import broken
from trace_ves.construction.item_index import ItemIndex
from trace_ves.construction.judging import Desk, JudgementError, RefusedError, Verdict
from trace_ves.construction.ledger import Change, StaleError
from trace_ves.construction.looking import Looking, joined, playable, unwatched, watched_share
from trace_ves.construction.people import Role, invite, person, revoke, signed_in
from trace_ves.construction.project import create_project
from trace_ves.construction.proposed_item import DraftError, ProposedItem, check_evidence
from trace_ves.construction.reports import closure_statement, report
from trace_ves.construction.settings import BuildSettings
from trace_ves.construction.stages import GOLD_SLOT, PROPOSAL_SLOT, Stage
from trace_ves.construction.store import Store
from trace_ves.core import EVENT_COUNTING, InputError, Interval

from .histories import EVIDENCE, LOOKED, Pen, proposal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from trace_ves.construction.people import Person

SPANS = [[span.start, span.end] for span in EVIDENCE]
ACCEPT = Verdict("accept", SPANS)


@dataclass
class Clock:
    """A clock that a test moves on."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Team:
    """A desk with people, on a clock of its own."""

    desk: Desk
    clock: Clock

    def __getitem__(self, name: str) -> Person:
        found = person(self.desk.store.ledger(), name)
        assert found is not None
        return found

    def propose(self, *items: str, made: ProposedItem | None = None) -> None:
        value = (made or proposal()).to_json()
        self.desk.store.append([Change(item, PROPOSAL_SLOT, "build", value) for item in items])

    def next(self, name: str) -> Assignment | None:
        return self.desk.next_assignment(self[name])

    def play(self, name: str, item: str, spans: Sequence[Sequence[float]] = SPANS) -> None:
        self.clock.now += 40
        self.desk.note_watched(self[name], item, spans)

    def verify(self, name: str, item: str, verdict: Verdict = ACCEPT, revision: int = 0) -> None:
        if verdict.kind == "accept":
            self.play(name, item, verdict.evidence)
        self.desk.verify(self[name], item, verdict, revision=revision, seconds=9)

    def answer(self, name: str, held: Assignment, answer: str | None = None, revision: int = 0) -> None:
        assert held.left_out is not None
        evidence = self.desk.item(held.item)[1].evidence
        self.play(name, held.item, [[span.start, span.end] for span in evidence])
        self.desk.answer_without(self[name], held.item, held.left_out, answer=answer, revision=revision, seconds=9)

    def verified(self, item: str = "c1") -> None:
        for name in ("ann", "bob"):
            assert self.next(name) == Assignment(item, Stage.VERIFICATION)
            self.verify(name, item)


@pytest.fixture
def make_team(tmp_path: Path) -> Iterator[Callable[..., Team]]:
    stores: list[Store] = []

    def make(*names: str, **settings: float) -> Team:
        clock = Clock()
        store = Store(f"sqlite:///{tmp_path / 'build.sqlite'}", clock=clock)
        stores.append(store)
        for name in names:
            invite(store, name, Role.ANNOTATOR)
        invite(store, "dora", Role.ADJUDICATOR)
        return Team(Desk(store, ItemIndex(), BuildSettings(**settings)), clock)

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def team(make_team: Callable[..., Team]) -> Team:
    return make_team("ann", "bob", "cat", "dan", "eve")


# Looking


def test_nobody_accepts_what_they_have_not_played(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    with pytest.raises(JudgementError, match=r"not played yet: 10.0-14.0 s, 40.0-46.0 s, 80.0-85.0 s"):
        team.desk.verify(team["ann"], "c1", ACCEPT, revision=0, seconds=900)
    team.play("ann", "c1", [[10, 14], [40, 43]])
    with pytest.raises(JudgementError, match=r"not played yet: 40.0-46.0 s, 80.0-85.0 s"):
        team.desk.verify(team["ann"], "c1", ACCEPT, revision=0, seconds=900)
    team.play("ann", "c1", [[43.05, 46], [80, 85]])
    moved = Verdict("accept", [*SPANS[:2], [80, 86]])
    with pytest.raises(JudgementError, match=r"80\.0-86\.0"):
        team.desk.verify(team["ann"], "c1", moved, revision=0, seconds=900)
    team.desk.verify(team["ann"], "c1", ACCEPT, revision=0, seconds=9)
    found = team.desk.item("c1")[0].verifications["ann"][0]
    assert found.looking is not None
    assert (found.looking.watched_share, found.looking.took_seconds) == (1.0, 80.0)


def test_nobody_plays_faster_than_a_player_can(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    team.clock.now += 1
    with pytest.raises(JudgementError, match="than anybody could play"):
        team.desk.note_watched(team["ann"], "c1", SPANS)
    team.clock.now += 100_000  # a long silence earns one report's credit, not all of the time
    with pytest.raises(JudgementError, match="than anybody could play"):
        team.desk.note_watched(team["ann"], "c1", [[0, 120]])
    assert team.desk.watched(team["ann"], "c1") == []
    for _ in range(5):
        team.desk.note_watched(team["ann"], "c1", SPANS)
    with pytest.raises(JudgementError, match="than anybody could play"):  # the credit is spent
        team.desk.note_watched(team["ann"], "c1", SPANS)


def test_leave_one_out_needs_every_clip_and_nothing_else_counts(team: Team) -> None:
    team.propose("c1")
    team.verified()
    held = team.next("cat")
    assert held is not None
    assert held.left_out is not None
    hidden = SPANS[held.left_out]
    others = [span for span in SPANS if span != hidden]
    team.play("cat", "c1", [hidden, others[0]])
    assert team.desk.watched(team["cat"], "c1") == [others[0]]  # what they were not shown, they have not seen
    with pytest.raises(JudgementError, match="not played yet"):
        team.desk.answer_without(team["cat"], "c1", held.left_out, answer=None, revision=0, seconds=1)
    team.play("cat", "c1", [others[1]])
    team.desk.answer_without(team["cat"], "c1", held.left_out, answer=None, revision=0, seconds=1)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 20)), max_size=12), st.floats(0, 80), st.floats(1, 20))
def test_a_share_is_a_share(pairs: list[tuple[float, float]], start: float, length: float) -> None:
    spans = [[begin, begin + more] for begin, more in pairs]
    interval = Interval(start, start + length)
    share = watched_share(interval, spans)
    assert 0 <= share <= 1
    assert share <= watched_share(interval, [*spans, [start, start + length / 2]]) + 1e-9
    assert watched_share(interval, [[0, 200]]) == pytest.approx(1)
    found = joined(spans)
    assert all(one[1] < two[0] for one, two in pairwise(found))
    assert (unwatched((interval,), spans, 0.95) == [0]) == (share < 0.95)
    assert 0 <= playable(0.0, length) <= playable(1.0, length) <= 82


# Blindness


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


# Undo


def test_no_undo_once_another_verdict_or_a_settlement_rests_on_it(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    team.next("bob")
    team.verify("ann", "c1")
    team.desk.undo(team["ann"], "c1")
    team.verify("ann", "c1", revision=2)
    team.verify("bob", "c1", Verdict("reject", reason="not there"))
    for name in ("ann", "bob"):
        with pytest.raises(RefusedError, match="other judgements rest on it"):
            team.desk.undo(team[name], "c1")
    dispute = team.desk.item("c1")[1].dispute
    assert dispute is not None
    team.play("dora", "c1")
    team.desk.settle(team["dora"], "c1", keep=True, evidence=SPANS, reason="", about=dispute.about, seconds=1)
    with pytest.raises(RefusedError, match="other judgements rest on it"):
        team.desk.undo(team["ann"], "c1")
    team.desk.undo(team["dora"], "c1")
    team.desk.settle(team["dora"], "c1", keep=True, evidence=SPANS, reason="", about=dispute.about, seconds=1)
    held = team.next("cat")
    assert held is not None
    team.answer("cat", held)
    with pytest.raises(RefusedError, match="other judgements rest on it"):
        team.desk.undo(team["dora"], "c1")


# Intervals


@pytest.mark.parametrize(
    ("spans", "reason"),
    [
        ([[0, 120]] * 3, "must be 0.1 to 60 s long"),
        ([[10, 14], [10, 14], [10, 14]], "overlap"),
        ([[10, 50], [40, 46], [80, 85]], "overlap"),
        ([[40, 46], [10, 14], [80, 85]], "not in order"),
        ([[10, 10.05], [40, 46], [80, 85]], "must be 0.1"),
        ([[10, 14], [40, 46], [80, 121]], "must lie in 0-120 s"),
        ([[14, 10], [40, 46], [80, 85]], "end after its start"),
        ([[10, 14]], "2 to 24 intervals"),
        ([[n, n + 0.5] for n in range(25)], "2 to 24 intervals"),
    ],
)
def test_intervals_that_are_none_are_refused(team: Team, spans: list[list[float]], reason: str) -> None:
    team.propose("c1")
    team.next("ann")
    team.play("ann", "c1", SPANS)
    with pytest.raises(JudgementError, match=reason):
        team.desk.verify(team["ann"], "c1", Verdict("accept", spans), revision=0, seconds=1)
    assert "ann" not in team.desk.item("c1")[0].verifications


@given(st.lists(st.tuples(st.floats(-5, 130), st.floats(-5, 130)), max_size=5))
def test_what_passes_the_check_is_in_order_and_apart(pairs: list[tuple[float, float]]) -> None:
    evidence = tuple(Interval(min(pair), max(pair)) for pair in pairs if min(pair) >= 0)
    try:
        check_evidence(evidence, 120.0)
    except DraftError:
        return
    edges = [edge for span in evidence for edge in (span.start, span.end)]
    assert edges == sorted(edges)
    assert all(0.1 <= span.length <= 60 for span in evidence)


def test_an_interval_can_be_added_and_the_count_has_to_fit(team: Team) -> None:
    options = ("1", "2", "3", "4")
    counted = ProposedItem("videos/a.mp4", 120.0, EVENT_COUNTING, "How often?", options, "C", EVIDENCE, ("x",) * 3)
    team.propose("c1", made=counted)
    more = [*SPANS, [100, 104]]
    for name in ("ann", "bob"):
        team.next(name)
        with pytest.raises(JudgementError, match="right count is '3', but there are 4"):
            team.verify(name, "c1", Verdict("accept", more))
        team.desk.verify(team[name], "c1", Verdict("accept", more, answer="D"), revision=0, seconds=1)
    standing = team.desk.item("c1")[1]
    assert (standing.answer, len(standing.evidence)) == ("D", 4)


def test_corrections_doubts_and_comments_reach_the_adjudicator(team: Team) -> None:
    team.propose("c1", "c2")
    for name, verdict in (("ann", ACCEPT), ("bob", Verdict("accept", SPANS, answer="C", comment="look at 0:42"))):
        team.next(name)
        team.verify(name, "c1", verdict)
    assert team.desk.item("c1")[1].dispute is not None
    team.next("ann")
    team.verify("ann", "c2", Verdict("unsure", reason="too dark"))
    team.next("bob")
    team.verify("bob", "c2", Verdict("reject", reason="nothing there"))
    judged, standing = team.desk.item("c2")
    assert standing.dispute is not None
    assert judged.verifications["ann"][0].reason == "too dark"
    dispute = team.desk.item("c1")[1].dispute
    assert dispute is not None
    team.play("dora", "c1")
    team.desk.settle(
        team["dora"], "c1", keep=True, evidence=SPANS, reason="", about=dispute.about, seconds=1, answer="C"
    )
    assert team.desk.item("c1")[1].answer == "C"


def test_what_is_skipped_goes_to_somebody_else(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    with pytest.raises(JudgementError, match="Say why"):
        team.desk.skip(team["ann"], "c1", "")
    team.desk.skip(team["ann"], "c1", "I know these people")
    assert team.next("ann") is None
    assert team.desk.item("c1")[0].skipped == {"ann": "I know these people"}
    assert {team.next("bob"), team.next("cat")} == {Assignment("c1", Stage.VERIFICATION)}
    team.desk.undo(team["ann"], "c1")
    assert team.desk.item("c1")[0].skipped == {}


# Seats


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


# Builds


def test_two_builds_on_one_database_do_not_mix(url: str) -> None:
    one, other = "0123456789abcdef", "fedcba9876543210"
    first = Store(url, one)
    invite(first, "ann", Role.ANNOTATOR)
    if url.startswith("sqlite"):
        with pytest.raises(StoreError, match="belongs to another build"):
            Store(url, other)
    else:
        second = Store(url, other)
        assert second.ledger().entries == []
        invite(second, "bob", Role.ANNOTATOR)
        assert person(first.ledger(), "bob") is None
        second.close()
    again = Store(url, one)
    assert person(again.ledger(), "ann") is not None
    again.close()
    first.close()


def test_a_database_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store(f"sqlite:///{tmp_path / 'build.sqlite'}")
        store.append([Change("c1", "s", "ann", {})])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert "build.sqlite-wal" in modes


# Gold


def gold(team: Team, item: str, *, accept: bool, made: ProposedItem | None = None) -> None:
    value = {"accept": accept, "without": {}}
    team.propose(item, made=made)
    team.desk.store.append([Change(item, GOLD_SLOT, "build", value)])


def test_gold_items_are_mixed_in_and_never_come_into_the_bench(make_team: Callable[..., Team]) -> None:
    team = make_team("ann", "bob", "cat", "dan", gold_share=0.25)
    team.propose(*(f"c{n}" for n in range(16)))
    for n in range(16, 24):
        gold(team, f"c{n}", accept=n % 2 == 0)
    for name in ("ann", "bob"):
        for _ in range(16):
            held = team.next(name)
            assert held is not None
            team.verify(name, held.item)  # accepts whatever comes
    found = report(team.desk.store.ledger())
    assert found.proposed == 16
    for name in ("ann", "bob"):
        assert found.annotators[name].gold_judged == 4
        assert found.annotators[name].gold_right == 2


def test_a_broken_twin_has_an_interval_where_nothing_happens() -> None:
    made = broken(proposal())
    assert made.text == proposal().text
    changed = [new for new, old in zip(made.evidence, EVIDENCE, strict=True) if new != old]
    assert len(changed) == 1
    assert all(changed[0].intersection(old) is None for old in EVIDENCE)
    check_evidence(made.evidence, made.duration)
    with pytest.raises(DraftError, match="no interval"):
        broken(proposal(evidence=(Interval(0, 60), Interval(60, 120))))


# What is guaranteed


def accepted_item(looking: Looking | None) -> Pen:
    pen = Pen()
    pen.propose("c1")
    for who in ("ann", "bob"):
        pen.verify("c1", who, looking=looking)
    for who in ("cat", "dan"):
        pen.answer("c1", who, [None] * 3, looking=looking)
    pen.probe("c1", [False] * 3)
    pen.shortcut("c1")
    return pen


@pytest.mark.parametrize(
    ("looking", "reason"),
    [
        (None, "no record of what was played"),
        (Looking(0.4, 60, 15), "an interval was not played"),
        (Looking(1.0, 3, 15), "judged faster than the clips are long"),
    ],
)
def test_the_statement_is_withheld_where_nobody_looked(looking: Looking | None, reason: str) -> None:
    found = report(accepted_item(looking).ledger)
    assert found.accepted == 1
    statement = closure_statement(found)
    assert f"withheld for 1 accepted item: {reason} (1)" in statement
    assert "at least two options compatible" not in statement
    assert found.to_json()["unproven"] == {"c1": reason}


def test_the_statement_is_withheld_where_gold_was_missed() -> None:
    pen = accepted_item(LOOKED)
    assert "at least two options compatible" in closure_statement(report(pen.ledger))
    for n in range(4):
        pen.propose(f"g{n}")
        pen.gold(f"g{n}", accept=False)
        pen.verify(f"g{n}", "cat")  # accepts what is wrong
    found = report(pen.ledger)
    assert found.annotators["cat"].gold_accuracy == 0
    assert "an annotator got too many gold items wrong" in closure_statement(found)
    assert "withheld" not in closure_statement(report(pen.ledger, settings=BuildSettings(gold_accuracy=0.0)))


def test_some_items_count_and_some_do_not() -> None:
    pen = accepted_item(LOOKED)
    pen.propose("c2")
    for who in ("ann", "bob"):
        pen.verify("c2", who, looking=None)
        pen.answer("c2", who, [None] * 3)
    pen.probe("c2", [False] * 3)
    pen.shortcut("c2")
    statement = closure_statement(report(pen.ledger))
    assert "2 of 2 proposed items are accepted" in statement
    assert "withheld for 1 accepted item" in statement
    assert "For 1 of them, annotators who played every clip" in statement


def test_a_stale_page_writes_nothing(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    team.play("ann", "c1")
    with pytest.raises(StaleError):
        team.desk.verify(team["ann"], "c1", ACCEPT, revision=3, seconds=1)


# Moving a build


def test_a_build_moves_as_one_archive(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "here"
    (folder / "videos").mkdir(parents=True)
    (folder / "videos" / "a.mp4").write_bytes(b"not a film, but a file")
    project = create_project(folder, gold_share=0.2)
    store = project.open_store()
    token = invite(store, "ann", Role.ANNOTATOR)
    store.append([Change("c1", PROPOSAL_SLOT, "build", proposal().to_json())])
    assert store.take_seat("c1", Stage.VERIFICATION, "ann")
    (folder / "guidelines.md").write_text("# Ours")
    assert pack(project, store, tmp_path / "b.tar", on_progress=lambda _done, _total: None) == 3
    assert stat.S_IMODE((tmp_path / "b.tar").stat().st_mode) == 0o600
    database = "" if url.startswith("sqlite") else url
    moved = unpack(tmp_path / "b.tar", tmp_path / "there", database=database)
    assert (moved.settings.gold_share, moved.settings.id) == (0.2, project.settings.id)
    assert moved.guidelines() == "# Ours"
    assert (tmp_path / "there" / "videos" / "a.mp4").read_bytes() == b"not a film, but a file"
    again = moved.open_store()
    assert [entry.number for entry in again.ledger().entries] == [entry.number for entry in store.ledger().entries]
    assert signed_in(again.ledger(), "ann", token) is not None
    assert not again.take_seat("c1", Stage.VERIFICATION, "ann")
    with pytest.raises(StaleError, match="history in this database already"):
        again.copy_from(store)
    for each in (again, store):
        each.close()
    with pytest.raises(InputError, match="exists already"):
        unpack(tmp_path / "b.tar", tmp_path / "there")
    with pytest.raises(InputError, match="exists already"):
        pack(moved, store, tmp_path / "b.tar", on_progress=lambda _done, _total: None)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "videos/../../evil", "evil.py", "videos"])
def test_an_archive_of_a_stranger_writes_nothing_elsewhere(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        made = tarfile.TarInfo(name)
        made.size = 4
        archive.addfile(made, io.BytesIO(b"evil"))
    with pytest.raises(InputError, match="is no part of a build"):
        unpack(tmp_path / "x.tar", tmp_path / "new")
    link = tarfile.TarInfo("videos/a.mp4")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "y.tar", "w") as archive:
        archive.addfile(link)
    with pytest.raises(InputError, match="is no part of a build"):
        unpack(tmp_path / "y.tar", tmp_path / "new")
    (tmp_path / "z.tar").write_bytes(b"no archive")
    with pytest.raises(InputError, match="not an archive of a build"):
        unpack(tmp_path / "z.tar", tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.tar", "y.tar", "z.tar"]
