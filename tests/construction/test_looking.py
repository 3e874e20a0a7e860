"""What a person has played: reports no faster than a player, and no judgement without them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.construction.judging import JudgementError, Verdict
from trace_ves.construction.looking import join_spans, playable_seconds, unwatched, watched_share
from trace_ves.core import Interval

from .teams import ACCEPT, SPANS

if TYPE_CHECKING:
    from .teams import Team


def test_nobody_accepts_what_they_have_not_played(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    with pytest.raises(JudgementError, match=r"not played yet: 10.0-14.0 s, 40.0-46.0 s, 80.0-85.0 s"):
        team.judgements.verify(team["ann"], "c1", ACCEPT, revision=0, seconds=900)
    team.play("ann", "c1", [[10, 14], [40, 43]])
    with pytest.raises(JudgementError, match=r"not played yet: 40.0-46.0 s, 80.0-85.0 s"):
        team.judgements.verify(team["ann"], "c1", ACCEPT, revision=0, seconds=900)
    team.play("ann", "c1", [[43.05, 46], [80, 85]])
    moved = Verdict("accept", [*SPANS[:2], [80, 86]])
    with pytest.raises(JudgementError, match=r"80\.0-86\.0"):
        team.judgements.verify(team["ann"], "c1", moved, revision=0, seconds=900)
    team.judgements.verify(team["ann"], "c1", ACCEPT, revision=0, seconds=9)
    found = team.judgements.item("c1").verifications["ann"][0]
    assert found.looking is not None
    assert (found.looking.watched_share, found.looking.took_seconds) == (1.0, 80.0)


def test_nobody_plays_faster_than_a_player_can(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    team.clock.now += 1
    with pytest.raises(JudgementError, match="than anybody could play"):
        team.judgements.note_watched(team["ann"], "c1", SPANS)
    team.clock.now += 100_000  # a long silence earns one report's credit, not all of the time
    with pytest.raises(JudgementError, match="than anybody could play"):
        team.judgements.note_watched(team["ann"], "c1", [[0, 120]])
    assert team.judgements.watched(team["ann"], "c1") == []
    for _ in range(5):
        team.judgements.note_watched(team["ann"], "c1", SPANS)
    with pytest.raises(JudgementError, match="than anybody could play"):  # the credit is spent
        team.judgements.note_watched(team["ann"], "c1", SPANS)


def test_leave_one_out_needs_every_clip_and_nothing_else_counts(team: Team) -> None:
    team.propose("c1")
    team.verified()
    held = team.next("cat")
    assert held is not None
    assert held.left_out is not None
    hidden = SPANS[held.left_out]
    others = [span for span in SPANS if span != hidden]
    team.play("cat", "c1", [hidden, others[0]])
    assert team.judgements.watched(team["cat"], "c1") == [others[0]]  # what they were not shown, they have not seen
    with pytest.raises(JudgementError, match="not played yet"):
        team.judgements.answer_without(team["cat"], "c1", held.left_out, answer=None, revision=0, seconds=1)
    team.play("cat", "c1", [others[1]])
    team.judgements.answer_without(team["cat"], "c1", held.left_out, answer=None, revision=0, seconds=1)


def test_clips_that_are_reported_at_the_same_moment_all_count(team: Team) -> None:
    team.propose("c1")
    team.next("ann")
    team.clock.now += 40
    ann, spans = team["ann"], [[[start, start + 1.0]] for start in range(0, 48, 3)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: team.judgements.note_watched(ann, "c1", each), spans))
    assert team.judgements.watched(ann, "c1") == [span for each in spans for span in each]


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 20)), max_size=12), st.floats(0, 80), st.floats(1, 20))
def test_a_share_is_a_share(pairs: list[tuple[float, float]], start: float, length: float) -> None:
    spans = [[begin, begin + more] for begin, more in pairs]
    interval = Interval(start, start + length)
    share = watched_share(interval, spans)
    assert 0 <= share <= 1
    assert share <= watched_share(interval, [*spans, [start, start + length / 2]]) + 1e-9
    assert watched_share(interval, [[0, 200]]) == pytest.approx(1)
    found = join_spans(spans)
    assert all(one[1] < two[0] for one, two in pairwise(found))
    assert (unwatched((interval,), spans, 0.95) == [interval]) == (share < 0.95)
    assert 0 <= playable_seconds(0.0, length) <= playable_seconds(1.0, length) <= 82
