"""One search, step by step, at the edges of its budget: what it proposes, pays for, reads, decides, falls back on."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.agent.test_budget import LOOK, TWO
from tests.agent.test_edges import THREE, inquiry
from trace_ves.agent import TRACE, VARIANTS
from trace_ves.agent.anchors import anchor_ids, bundle_key
from trace_ves.agent.comparison import Wordings
from trace_ves.agent.state import State
from trace_ves.agent.trace import Search, form_prefixes
from trace_ves.backbone.protocol import ModelFault
from trace_ves.core import Interval, Termination
from trace_ves.records.search import Candidate, Claim, PrefixRecord, RoundRecord, SegmentNote, Status

CLAIMS = (Claim("c1", "what"), Claim("c2", "who"))


def search(budget: int, said: Any, **state: Any) -> Search:
    """A search over a video of 100 seconds that has found two anchors, of four and of three frames."""
    asked = inquiry(said, budget)
    storyboard = asked.observer.survey(asked.observer.whole, 4, height=90)
    found = Search(TRACE, asked, storyboard, State(asked.observer.whole, anchors=TWO, **state), Wordings(asked))
    found.rounds.append(RoundRecord(1, anchors=tuple(each.record for each in TWO)))
    return found


@pytest.mark.parametrize(
    ("seen_before", "budget", "is_asked"), [(True, 15, True), (True, 14, False), (False, 19, True), (False, 18, False)]
)
def test_a_proposal_is_asked_for_while_a_look_can_be_paid_for(seen_before: bool, budget: int, is_asked: bool) -> None:
    """Seven frames of anchors: a look of five, and one call over ten frames; the storyboard has four."""
    looking = search(budget, {"candidates": []}, notes=() if seen_before else None)
    looking.ask_for_candidates(None if seen_before else looking.storyboard)
    stages = [call.stage for call in looking.inquiry.observer.log.calls]
    assert stages == (["temporal-proposal"] if is_asked else [])


def test_a_scan_is_made_where_nothing_points_to_an_open_claim() -> None:
    """Where the storyboard points comes first. Then frames halfway between those of the storyboard show more."""
    candidates = iter(
        [
            [{"start": 0, "end": 9, "moment": 4, "claims": ["c1"]}, {"start": 60, "end": 70}],
            [{"start": 30, "end": 40, "moment": 35, "claims": ["c2"]}],
        ]
    )
    asked = inquiry(lambda _: {"candidates": next(candidates)}, budget=90)
    asked = replace(asked, claims=CLAIMS)
    storyboard = replace(asked.observer.survey(asked.observer.whole, 9, height=90), title="Storyboard")
    looking = Search(TRACE, asked, storyboard, State(asked.observer.whole), Wordings(asked))
    looking.rounds.append(RoundRecord(1))
    assert [each.span.start for each in looking.propose()] == [0]
    looking.rounds.append(RoundRecord(2))
    assert [each.span.start for each in looking.propose()] == [30]
    first, scan = (call.timestamps for call in asked.observer.log.calls)
    halfway = [(a + b) / 2 for a, b in pairwise(first)]
    assert all(min(abs(moment - middle) for middle in halfway) < 0.1 for moment in scan)
    assert looking.rounds[-1].scan == scan


@pytest.mark.parametrize(("budget", "frames"), [(90, 24), (42, 6), (41, 16), (31, 6), (30, 15), (21, 6), (20, 0)])
def test_a_scan_leaves_the_largest_reserve_that_allows_one(budget: int, frames: int) -> None:
    """Beside a look of 5: three bundles and a replay take 31, the largest and its replay 20, one call over all 10."""
    looking = search(budget, {"candidates": []}, notes=(SegmentNote(0, 100, "a dog", promising=True),))
    looking.inquiry = replace(looking.inquiry, claims=CLAIMS)
    looking.storyboard = looking.inquiry.observer.survey(looking.inquiry.observer.whole, 32, height=90)
    scan = looking.make_scan(())
    assert len(scan.frames if scan else ()) == frames


def test_a_proposal_is_told_what_was_seen_only_in_part() -> None:
    looking = search(90, {"candidates": []}, notes=())
    looking.inquiry = replace(looking.inquiry, claims=CLAIMS)
    first, second = (replace(anchor, claims=frozenset({name})) for anchor, name in zip(TWO, ("c1", "c2"), strict=True))
    looking.state = replace(looking.state, anchors=(first, second))
    assert looking.proposal_context.needs == frozenset()  # each claim has its evidence
    looking.state = replace(looking.state, anchors=(first, replace(second, is_sure=False)))
    assert looking.proposal_context.needs == {"c2"}
    assert not looking.keeps_looking  # what was seen in part is read before more is looked for


def test_no_scan_is_made_for_what_a_single_frame_cannot_show() -> None:
    looking = search(90, {"candidates": [], "one_frame": False}, notes=None)
    looking.propose()
    calls = looking.inquiry.observer.log.calls
    assert [call.stage for call in calls] == ["temporal-proposal"]
    assert looking.scan is None


def test_what_expand_put_first_is_first_once() -> None:
    looking = search(50, {"candidates": []}, notes=(), focus=(Interval(30, 40),))
    looking.propose()
    assert looking.state.focus == ()
    assert looking.ask_for_candidates(None, (chosen := Candidate(Interval(40, 49), LOOK, 3),)) == (chosen,)


@pytest.mark.parametrize("rebuild", [False, True])
def test_with_nothing_to_look_at_what_is_unread_is_read(rebuild: bool) -> None:
    said = {"forced-answer": {"answer": "B"}, "evidence-assembly": {"status": "insufficient", "answer": None}}
    looking = search(18, lambda request: said.get(request.stage, ModelFault("nonsense")), notes=(), rebuild=rebuild)
    looking.trace, looking.rounds = VARIANTS["trace-without-expand"], []
    looking.run()
    calls = looking.inquiry.observer.log.calls
    assert [call.stage for call in calls if call.timestamps][:1] == ["evidence-assembly"]


def test_nothing_is_read_while_a_claim_has_no_evidence_and_a_look_can_be_paid_for() -> None:
    looking = search(50, {}, notes=())
    looking.inquiry = replace(looking.inquiry, claims=CLAIMS)
    first, second = (replace(anchor, claims=frozenset({"c1"})) for anchor in TWO)
    looking.state = replace(looking.state, anchors=(first, second))
    assert (looking.missing, looking.keeps_looking) == (("c2",), True)
    looking.state = replace(looking.state, anchors=(first, replace(second, claims=frozenset({"c2"}))))
    assert (looking.missing, looking.keeps_looking) == ((), False)
    looking.state = replace(looking.state, anchors=(first, replace(second, claims=frozenset())))
    assert looking.missing == ()  # an anchor that names no claim may be for any
    looking.state = replace(looking.state, anchors=(first, first))
    looking.inquiry.observer.budget = 12
    assert not looking.keeps_looking  # 7 or 8 frames have to be read, and a look needs 6


def test_what_a_look_is_not_sure_of_is_looked_at_again_and_an_anchor_shows_what_no_look_has_shown() -> None:
    part = {"start": 30, "end": 40, "claims": ["c1"]}
    replies = iter([{"relevant": "perhaps", "spans": [part], "look_between": [32.5, 33.7, 34.0]}, {"relevant": "no"}])
    looking = search(90, lambda _: next(replies), notes=())
    looking.extract([Candidate(Interval(20, 50), LOOK, 5, id="look-1")])
    wide, closer = (call.timestamps for call in looking.inquiry.observer.log.calls)
    assert (wide, closer) == ((23.0, 29.0, 35.0, 41.0, 47.0), (32.2, 33.2, 34.2))
    [anchor] = looking.rounds[-1].anchors
    assert anchor.clip.timestamps == (33.7, 34.3, 35.0)  # 32.5 and 34.0 were as good as shown


def test_a_round_has_on_record_what_was_refused_and_what_was_read() -> None:
    looking = search(50, {"candidates": [{"start": 200, "end": 300}, {"start": 0, "end": 9}]}, notes=())
    candidates = looking.propose()
    assert [each.span for each in candidates] == [Interval(0, 9)]
    assert looking.rounds[-1].candidates == candidates
    assert looking.rounds[-1].refused == ("200-300 s: explored as closely as a look can, or too short",)
    reading = search(50, {"status": "insufficient", "answer": None})
    reading.assemble(form_prefixes(TWO)[:1])
    reading.assemble(form_prefixes(TWO))
    noted = reading.rounds[-1]
    assert (noted.bundles, noted.assembled) == ((("a1",), ("a1", "a2")), (1,))
    assert noted.records == reading.trajectory
    assert len(noted.records) == 2


@pytest.mark.parametrize(("budget", "order"), [(20, ("a2", "a1")), (19, ("a1", "a2"))])
def test_anchors_are_ordered_where_all_can_be_read_and_replayed_too(budget: int, order: tuple[str, ...]) -> None:
    looking = search(budget, {"order": [2, 1]})  # two views, bundles of 4 and 7 frames, and a replay of 7
    looking.prioritize()
    assert anchor_ids(looking.state.anchors) == order


def test_bundles_are_read_as_far_as_they_and_a_replay_can_be_paid_for() -> None:
    bundles = form_prefixes(TWO)
    assert [anchor_ids(bundle) for bundle in bundles] == [("a1",), ("a1", "a2")]
    assert search(18, {}).select_bundles(bundles) == bundles  # 4 + 7, and a replay of 7
    assert search(17, {}).select_bundles(bundles) == bundles[1:]
    assert search(14, {}).select_bundles(bundles) == bundles[1:]
    assert search(13, {}).select_bundles(bundles) is None
    known = search(14, {})
    known.records[bundle_key(bundles[0])] = PrefixRecord(None, Status.INSUFFICIENT, {}, frozenset())
    assert known.select_bundles(bundles) == bundles  # what has been read costs nothing
    three = form_prefixes(THREE)  # 3, 7 and 12 frames
    for budget, expected in ((27, three), (26, three[1:]), (24, three[1:]), (23, None)):
        some = search(budget, {})
        some.state = replace(some.state, anchors=THREE)
        some.records[bundle_key(three[1])] = PrefixRecord(None, Status.INSUFFICIENT, {}, frozenset())
        assert some.select_bundles(three) == expected


@pytest.mark.parametrize(
    ("budget", "moments"),
    [
        (7, (0, 1, 2, 3, 0, 1, 2)),
        (6, (12.5, 37.5, 62.5, 87.5)),
        (3, (12.5, 62.5, 87.5)),  # what can be paid for is spread over the whole video
        (2, (37.5, 87.5)),
        (1, (62.5,)),
        (0, ()),
    ],
)
def test_a_forced_answer_rests_on_all_anchors_or_else_on_the_storyboard(budget: int, moments: Any) -> None:
    looking = search(budget, {"answer": "B"})
    answer = looking.force_answer()
    assert [call.timestamps for call in looking.inquiry.observer.log.calls] == ([moments] if moments else [])
    assert answer.option == ("B" if moments else None)
    assert sum(len(clip.frames) for clip in answer.bundle) == (7 if budget == 7 else 0)  # a storyboard is no evidence
    fallback = {"prefix": ["a1", "a2"], "answer": "B", "agrees": False}
    assert answer.record.get("fallback") == (fallback if budget == 7 else None)


def test_without_replay_a_record_that_answers_is_not_asked_again() -> None:
    for answer, calls in (("C", 0), (None, 1)):
        looking = search(50, {"answer": "B"})
        looking.trace = VARIANTS["trace-without-replay"]
        looking.bundles = (TWO,)
        looking.trajectory = (PrefixRecord(answer, Status.INSUFFICIENT, {}, frozenset()),)
        looking.records[bundle_key(TWO)] = looking.trajectory[0]
        assert looking.force_answer().option == (answer or "B")
        assert len(looking.inquiry.observer.log.calls) == calls


def test_frames_in_stretches_that_are_not_promising_count_as_looked_at_ends_included() -> None:
    dull, bright = SegmentNote(12.5, 37.5, "empty", promising=False), SegmentNote(50, 100, "a dog", promising=True)
    assert search(50, {}, notes=(dull, bright)).seen_moments == (12.5, 37.5)
    assert search(50, {}).seen_moments == ()


def test_a_search_goes_on_after_a_replay_that_disagreed_though_a_larger_prefix_is_stable_too() -> None:
    said = {
        "evidence-assembly": {"status": "answerable", "answer": "A"},
        "final-answer-replay": {"answer": "B"},
        "anchor-extraction": {"relevant": "no"},
        "forced-answer": {"answer": "C"},
    }
    looking = search(90, lambda request: said.get(request.stage, ModelFault("nonsense")), notes=(), rebuild=True)
    looking.inquiry = replace(looking.inquiry, claims=CLAIMS[:1])
    looking.trace, looking.rounds = VARIANTS["trace-without-expand"], []
    answer = looking.run()
    first, second = ([each["action"]["action"] for each in r["decisions"]] for r in answer.record["rounds"][:2])
    assert first == ["STOP", "REFINE"]
    assert second[0] == "STOP"  # the larger one, in a round of its own
    assert answer.termination is Termination.NO_STABLE_PREFIX
