"""The small rules of the modules: how many frames an anchor has, what a reply becomes, where a proposal may lie."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.test_trajectory_reconciler import prefixes, record
from tests.fake_models import complete
from trace_ves.agent.anchors import Look
from trace_ves.agent.evidence_assembly import AssemblyReply, make_record
from trace_ves.agent.fallback import count_run, rank_fallbacks
from trace_ves.agent.settings import STRATEGIES, TraceSettings
from trace_ves.agent.temporal_proposal import (
    CandidateReply,
    ProposalContext,
    format_looks,
    propose_unguided,
    select_candidates,
    update_notes,
)
from trace_ves.backbone.protocol import ModelFault
from trace_ves.core import Clip, Interval
from trace_ves.records.search import AtLeast, Candidate, Claim, ClaimKind, PrefixRecord, SegmentNote, Status

CLAIMS = (Claim("t", "when", ClaimKind.TIME), Claim("n", "how many", ClaimKind.COUNT), Claim("f", "what"))


def assembled(facts: list[tuple[str, Any, Any]], **said: Any) -> PrefixRecord:
    """The record of a reply with these claims, values and spans."""
    listed = [
        {"claim": claim, "value": value, "spans": spans and [{"start": start, "end": end} for start, end in spans]}
        for claim, value, spans in facts
    ]
    said = {"status": "answerable", "answer": "B", "facts_supported": listed} | said
    return make_record(AssemblyReply.model_validate(complete("evidence-assembly", said)), CLAIMS)


@pytest.mark.parametrize(
    ("claim", "said", "spans", "value"),
    [
        ("t", None, [(3, 5)], Interval(3, 5)),
        ("t", None, [(0, 0)], Interval(0, 0)),  # at the start of the video, and of no length
        ("t", None, [(5, 3)], None),
        ("t", None, [(math.nan, 3)], None),
        ("t", None, [(0, math.inf)], None),
        ("t", None, [(0, None)], None),
        ("t", None, [(None, 3)], None),
        ("t", "later", None, None),
        ("n", " at least 4 ", None, AtLeast(4)),
        ("n", "never", None, AtLeast(0)),
        ("n", "many", None, None),
        ("n", "-3", None, None),
        ("n", 3, [(30, 40), (5, 9), (9.5, 12)], AtLeast(2, (Interval(5, 12), Interval(30, 40)))),  # two adjoin
        ("n", 2, [(3, 19), (4, 8)], AtLeast(2, (Interval(3, 19), Interval(4, 8)))),  # two at the same time
        ("f", "  Dark RED. ", None, "dark red"),
        ("f", True, None, "yes"),
        ("f", False, None, "no"),
        ("f", 3.0, None, "3"),
        ("f", " . ", None, None),
    ],
)
def test_a_fact_has_a_value_of_its_kind_or_settles_nothing(claim: str, said: Any, spans: Any, value: Any) -> None:
    expected = {} if value is None else {claim: value}
    assert assembled([(claim, said, spans)]) == PrefixRecord("B", Status.ANSWERABLE, expected, frozenset())


def test_a_claim_called_open_is_open_but_for_what_was_counted_and_no_answer_is_not_answerable() -> None:
    found = assembled([("f", "red", None), ("n", 1, [(3, 5)])], unmet_needs=["f", "n"], answer=None)
    counted = {"n": AtLeast(1, (Interval(3, 5),))}  # its anchors are not redundant
    assert found == PrefixRecord(None, Status.INSUFFICIENT, counted, frozenset({"f", "n"}))
    fault = make_record(ModelFault("nonsense"), CLAIMS)
    assert fault == PrefixRecord(None, Status.INSUFFICIENT, {}, frozenset({"t", "n", "f"}))


WHOLE = Interval(0, 100)
CLOSE = tuple(50 + 5.0 * n for n in range(7))
"""A look from 50 to 80 seconds, a frame every five."""
CONTEXT = ProposalContext(WHOLE, CLOSE)


def wish(start: float, end: float, **more: Any) -> CandidateReply:
    said = {"start": start, "end": end, "moment": None, "claims": [], "look_for": "general"} | more
    return CandidateReply.model_validate(said)


def proposed(*wishes: tuple[float, float]) -> tuple[list[Interval], int]:
    candidates, refused = select_candidates([wish(a, b) for a, b in wishes], CONTEXT, TraceSettings())
    return [candidate.span for candidate in candidates], len(refused)


def test_proposals_are_cut_to_unexplored_segments_and_to_each_other() -> None:
    assert CONTEXT.unexplored == (Interval(0, 50), Interval(80, 100))
    assert proposed((40, 90)) == ([Interval(40, 50)], 0)
    assert proposed((0, 2)) == ([Interval(0, 2)], 0)  # the shortest that is worth a look
    assert proposed((45, 100)) == ([Interval(80, 100)], 0)  # the longest of the pieces that it lies in
    assert proposed((0, 20), (10, 30)) == ([Interval(0, 20), Interval(20, 30)], 0)
    assert proposed((0, 1), (5, 3), (float("nan"), 4)) == ([], 3)
    seven = [(7 * n, 7 * n + 4) for n in range(7)]
    assert proposed(*seven) == ([Interval(*span) for span in seven[:5]], 2)


@given(st.floats(50, 75), st.floats(3, 5))
def test_an_event_between_two_frames_of_a_look_can_be_reached_again(start: float, length: float) -> None:
    """A span that was looked at every five seconds is open for a closer look, until it was looked at closely."""
    [again], _ = select_candidates([wish(start, start + length)], CONTEXT, TraceSettings())
    assert again.strategy.fps > STRATEGIES["general"].fps
    assert Interval(start, start + length).intersection(again.span)
    everywhere = ProposalContext(WHOLE, tuple(1.2 * n for n in range(84)))  # four times as close is 1.25 s
    assert select_candidates([wish(start, start + length)], everywhere, TraceSettings())[0] == ()


def test_a_candidate_longer_than_one_look_is_split_and_said_so() -> None:
    assert proposed((0, 50)) == ([Interval(0, 25), Interval(25, 50)], 1)  # five frames, five seconds apart: 25 s
    assert proposed((0, 25)) == ([Interval(0, 25)], 0)
    looks, _ = select_candidates([wish(0, 25, look_for="state-change")], CONTEXT, TraceSettings())
    assert [look.span for look in looks] == [Interval(0, 12.5), Interval(12.5, 25)]
    looks, _ = select_candidates([wish(0, 16, look_for="fast-motion")], CONTEXT, TraceSettings())
    assert [(look.span, look.frames) for look in looks] == [(Interval(0, 8), 8), (Interval(8, 16), 8)]
    _, refused = select_candidates([wish(0, 50)], CONTEXT, TraceSettings())
    assert refused == ("0.0-50.0 s: longer than one look can see, split into 2",)


@pytest.mark.parametrize(
    ("start", "claims", "counts", "kept"),
    [
        (12, ["c1"], False, 1),  # two seconds after the other
        (12.1, ["c1"], False, 2),
        (12, ["c1", "c2"], False, 2),
        (12, [], False, 2),
        (12, ["c1"], True, 2),  # another occurrence may be as close
    ],
)
def test_a_span_that_continues_another_for_the_same_claims_is_refused(
    start: float, claims: list[str], counts: bool, kept: int
) -> None:
    wishes = [wish(5, 10, claims=["c1"]), wish(start, 17, claims=claims)]
    for both in (wishes, wishes[::-1] if claims == ["c1"] else wishes):
        candidates, refused = select_candidates(both, replace(CONTEXT, counts=counts), TraceSettings())
        assert (len(candidates), len(refused)) == (kept, 2 - kept)
        assert all(each.endswith("s: adjoins a span that is looked at for the same claims") for each in refused)


def test_a_prompt_shows_a_look_by_its_name_span_and_spacing_to_a_tenth() -> None:
    clip = Clip(Interval(0, 10), STRATEGIES["general"], (None,) * 3)  # type: ignore[arg-type]
    look = Look(Candidate(Interval(0, 10), STRATEGIES["general"], 3, id="look-1"), clip)
    [shown] = format_looks([look])
    assert (shown["look"], shown["frame_every"]) == ("look-1", 3.3)


def test_the_part_with_the_moment_comes_first_and_gets_a_full_look() -> None:
    looks, _ = select_candidates([wish(0, 50, moment=30, claims=["c1"])], CONTEXT, TraceSettings())
    assert [(look.span, look.moment) for look in looks] == [(Interval(25, 50), 30), (Interval(0, 25), None)]
    for moment, span in ((30, Interval(28, 32)), (29, Interval(27, 31)), (31, Interval(29, 33))):
        [look], _ = select_candidates([wish(29, 31, moment=moment)], CONTEXT, TraceSettings())
        assert (look.span, look.frames) == (span, 5)


def test_a_look_has_as_many_frames_as_its_strategy_asks_for_within_bounds() -> None:
    settings, general = TraceSettings(), STRATEGIES["general"]
    assert [settings.look_frames(Interval(0, length), general) for length in (1, 8, 17, 20, 30)] == [3, 3, 4, 4, 5]


def test_what_expand_named_comes_first_and_the_rest_stays() -> None:
    context = ProposalContext(WHOLE, CLOSE, focus=(Interval(85, 98.5),))
    assert context.unexplored == (Interval(85, 98.5), Interval(0, 50), Interval(80, 85), Interval(98.5, 100))
    assert select_candidates([wish(10, 20)], context, TraceSettings())[0]  # it replaces nothing


def test_unguided_candidates_lie_in_the_middle_of_the_longest_segments() -> None:
    spans = [candidate.span for candidate in propose_unguided(CONTEXT, TraceSettings())]
    assert spans == [Interval(12.5, 37.5), Interval(80, 100)]
    assert [each.span for each in propose_unguided(replace(CONTEXT, limit=1), TraceSettings())] == spans[:1]


def test_a_look_corrects_the_note_of_its_span() -> None:
    dull, room = SegmentNote(0, 20, "nothing", promising=False), SegmentNote(20, 30, "a room")
    seen = SegmentNote(8, 12, "a red car")
    assert update_notes([dull, room], [seen]) == (replace(dull, end=8), seen, replace(dull, start=12), room)
    assert update_notes([dull], [SegmentNote(0, 19.5, "a car")]) == (SegmentNote(0, 19.5, "a car"),)


def test_the_fallback_is_the_least_refuted_least_conflicted_longest_run() -> None:
    bundles = prefixes(4)
    tau = (record("A"), record("B"), record("B"), record("B", needs="x"))
    assert [count_run(tau, j) for j in range(4)] == [1, 3, 3, 3]
    order = rank_fallbacks(bundles, tau, conflicts=(), refuted=())
    assert order == [2, 1, 0, 3]  # fewest open claims, then the longer run, then the larger bundle
    assert rank_fallbacks(bundles, tau, conflicts={"a2"}, refuted=())[0] == 0
    assert rank_fallbacks(bundles, tau, conflicts=(), refuted={frozenset({"a1", "a2", "a3"})})[0] == 1
    assert count_run((record(None),), 0) == 0
    assert [count_run((record("A"), record("A"), record("B")), j) for j in range(3)] == [2, 2, 1]
    assert [count_run((record("A"),) * 3, j) for j in range(3)] == [3, 3, 3]


def test_a_growing_count_is_one_run_so_the_fallback_is_the_largest_bundle() -> None:
    tau = (record("A", n=AtLeast(2)), record("A", n=AtLeast(2)), record("B", n=AtLeast(3)))
    assert [count_run(tau, j) for j in range(3)] == [3, 3, 3]
    assert rank_fallbacks(prefixes(3), tau, conflicts=(), refuted=()) == [2, 1, 0]


def test_every_hinted_place_comes_before_the_neighbours_of_one() -> None:
    wishes = [wish(a, b, moment=moment, look_for="fast-motion") for a, b, moment in ((10, 34, 12), (200, 208, 204))]
    context = ProposalContext(Interval(0, 300), limit=3)
    candidates, refused = select_candidates(wishes, context, TraceSettings())
    assert [each.moment for each in candidates] == [12, 204, None]
    assert any("more than 3 candidates" in reason for reason in refused)
