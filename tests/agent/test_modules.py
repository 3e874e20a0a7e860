"""The small rules of the modules: how many frames an anchor has, what a reply becomes, where a proposal may lie."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.test_trajectory_reconciler import prefixes, record
from tests.fake_models import complete
from trace_ves.agent.anchors import Inquiry, Look
from trace_ves.agent.evidence_assembly import AssemblyReply, assembly_reply, prefix_record
from trace_ves.agent.fallback import fallback_prefixes, run_length
from trace_ves.agent.settings import STRATEGIES, TraceSettings
from trace_ves.agent.temporal_proposal import (
    CandidateReply,
    ProposalContext,
    corrected,
    look_variables,
    unguided,
    valid_candidates,
)
from trace_ves.backbone.protocol import ModelFault
from trace_ves.core import Clip, Interval, Question
from trace_ves.records.search import AtLeast, Candidate, Claim, ClaimKind, PrefixRecord, SegmentNote, Status


def test_a_model_writes_the_facts_before_the_answer_that_rests_on_them() -> None:
    inquiry = Inquiry(Question("q", "v", "Which?", ("one", "two")), (Claim("c1", "what"),), None)  # type: ignore[arg-type]
    schema = assembly_reply(inquiry).model_json_schema()
    assert list(schema["properties"]) == ["seen", "facts_supported", "unmet_needs", "status", "answer"]


CLAIMS = (Claim("t", "when", ClaimKind.TIME), Claim("n", "how many", ClaimKind.COUNT), Claim("f", "what"))


def assembled(**said: Any) -> AssemblyReply:
    return AssemblyReply.model_validate(complete("evidence-assembly", {"status": "answerable", "answer": "B"} | said))


def test_a_reply_becomes_a_record_with_typed_values() -> None:
    reply = assembled(
        facts_supported=[
            {"claim": "t", "value": None, "spans": [{"start": 3, "end": 5}]},
            {"claim": "n", "value": " at least 4 ", "spans": None},
            {"claim": "f", "value": "  Dark RED. "},
        ]
    )
    expected = {"t": Interval(3, 5), "n": AtLeast(4), "f": "dark red"}
    assert prefix_record(reply, CLAIMS) == PrefixRecord("B", Status.ANSWERABLE, expected, frozenset())
    for said, word in ((True, "yes"), (False, "no"), (3.0, "3")):
        assert prefix_record(assembled(facts_supported=[{"claim": "f", "value": said}]), CLAIMS).facts == {"f": word}


@pytest.mark.parametrize(
    "fact",
    [
        {"claim": "t", "spans": [{"start": 5, "end": 3}]},
        {"claim": "t", "spans": [{"start": float("nan"), "end": 3}]},
        {"claim": "t", "spans": [{"start": 0, "end": float("inf")}]},
        {"claim": "t", "spans": [{"start": 0, "end": None}]},
        {"claim": "t", "spans": [{"start": None, "end": 3}]},
        {"claim": "t", "value": "later"},
        {"claim": "n", "value": "many"},
        {"claim": "n", "value": "-3"},
        {"claim": "f", "value": " . "},
    ],
)
def test_a_value_that_makes_no_sense_settles_nothing(fact: dict[str, object]) -> None:
    assert prefix_record(assembled(facts_supported=[fact]), CLAIMS).facts == {}


def test_a_claim_called_open_is_open_and_no_answer_is_not_answerable() -> None:
    reply = assembled(facts_supported=[{"claim": "f", "value": "red"}], unmet_needs=["f"], answer=None)
    assert prefix_record(reply, CLAIMS) == PrefixRecord(None, Status.INSUFFICIENT, {}, frozenset({"f"}))


def test_a_fact_may_lie_at_the_start_of_the_video_and_last_no_time() -> None:
    facts = [{"claim": "t", "value": None, "spans": [{"start": 0, "end": 0}]}, {"claim": "n", "value": "never"}]
    assert prefix_record(assembled(facts_supported=facts), CLAIMS).facts == {"t": Interval(0, 0), "n": AtLeast(0)}


def test_adjoining_spans_of_a_count_are_one_occurrence() -> None:
    spans = [{"start": a, "end": b} for a, b in ((30, 40), (5, 9), (9.5, 12))]
    reply = assembled(facts_supported=[{"claim": "n", "value": 3, "spans": spans}])
    assert prefix_record(reply, CLAIMS).facts == {"n": AtLeast(2, (Interval(5, 12), Interval(30, 40)))}


def test_a_fault_leaves_every_claim_open() -> None:
    assert prefix_record(ModelFault("nonsense"), CLAIMS).unmet_needs == {"t", "n", "f"}


WHOLE = Interval(0, 100)
CLOSE = tuple(50 + 5.0 * n for n in range(7))
"""A look from 50 to 80 seconds, a frame every five."""
CONTEXT = ProposalContext(WHOLE, CLOSE)


def wish(start: float, end: float, **more: Any) -> CandidateReply:
    said = {"start": start, "end": end, "moment": None, "claims": [], "look_for": "general"} | more
    return CandidateReply.model_validate(said)


def proposed(*wishes: tuple[float, float]) -> tuple[list[Interval], int]:
    candidates, refused = valid_candidates([wish(a, b) for a, b in wishes], CONTEXT, TraceSettings())
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
    [again], _ = valid_candidates([wish(start, start + length)], CONTEXT, TraceSettings())
    assert again.strategy.fps > STRATEGIES["general"].fps
    assert Interval(start, start + length).intersection(again.span)
    everywhere = ProposalContext(WHOLE, tuple(1.2 * n for n in range(84)))  # four times as close is 1.25 s
    assert valid_candidates([wish(start, start + length)], everywhere, TraceSettings())[0] == ()


def test_a_candidate_longer_than_one_look_is_split_and_said_so() -> None:
    assert proposed((0, 50)) == ([Interval(0, 25), Interval(25, 50)], 1)  # five frames, five seconds apart: 25 s
    assert proposed((0, 25)) == ([Interval(0, 25)], 0)
    looks, _ = valid_candidates([wish(0, 25, look_for="state-change")], CONTEXT, TraceSettings())
    assert [look.span for look in looks] == [Interval(0, 12.5), Interval(12.5, 25)]
    looks, _ = valid_candidates([wish(0, 16, look_for="fast-motion")], CONTEXT, TraceSettings())
    assert [(look.span, look.frames) for look in looks] == [(Interval(0, 8), 8), (Interval(8, 16), 8)]
    _, refused = valid_candidates([wish(0, 50)], CONTEXT, TraceSettings())
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
        candidates, refused = valid_candidates(both, replace(CONTEXT, counts=counts), TraceSettings())
        assert (len(candidates), len(refused)) == (kept, 2 - kept)
        assert all(each.endswith("s: adjoins a span that is looked at for the same claims") for each in refused)


def test_a_prompt_shows_a_look_by_its_name_span_and_spacing_to_a_tenth() -> None:
    clip = Clip(Interval(0, 10), STRATEGIES["general"], (None,) * 3)  # type: ignore[arg-type]
    look = Look(Candidate(Interval(0, 10), STRATEGIES["general"], 3, id="look-1"), clip)
    [shown] = look_variables([look])
    assert (shown["look"], shown["frame_every"]) == ("look-1", 3.3)


def test_the_part_with_the_moment_comes_first_and_gets_a_full_look() -> None:
    looks, _ = valid_candidates([wish(0, 50, moment=30, claims=["c1"])], CONTEXT, TraceSettings())
    assert [(look.span, look.moment) for look in looks] == [(Interval(25, 50), 30), (Interval(0, 25), None)]
    for moment, span in ((30, Interval(28, 32)), (29, Interval(27, 31)), (31, Interval(29, 33))):
        [look], _ = valid_candidates([wish(29, 31, moment=moment)], CONTEXT, TraceSettings())
        assert (look.span, look.frames) == (span, 5)


def test_a_look_has_as_many_frames_as_its_strategy_asks_for_within_bounds() -> None:
    settings, general = TraceSettings(), STRATEGIES["general"]
    assert [settings.look_frames(Interval(0, length), general) for length in (1, 8, 17, 20, 30)] == [3, 3, 4, 4, 5]


def test_what_expand_named_comes_first_and_the_rest_stays() -> None:
    context = ProposalContext(WHOLE, CLOSE, focus=(Interval(85, 90),))
    assert context.unexplored == (Interval(85, 90), Interval(0, 50), Interval(80, 85), Interval(90, 100))
    assert valid_candidates([wish(10, 20)], context, TraceSettings())[0]  # it replaces nothing


def test_unguided_candidates_lie_in_the_middle_of_the_longest_segments() -> None:
    spans = [candidate.span for candidate in unguided(CONTEXT, TraceSettings())]
    assert spans == [Interval(12.5, 37.5), Interval(80, 100)]
    assert [each.span for each in unguided(replace(CONTEXT, limit=1), TraceSettings())] == spans[:1]


def test_a_look_corrects_the_note_of_its_span() -> None:
    dull, room = SegmentNote(0, 20, "nothing", promising=False), SegmentNote(20, 30, "a room")
    seen = SegmentNote(8, 12, "a red car")
    assert corrected([dull, room], [seen]) == (replace(dull, end=8), seen, replace(dull, start=12), room)
    assert corrected([dull], [SegmentNote(0, 19.5, "a car")]) == (SegmentNote(0, 19.5, "a car"),)


def test_the_fallback_is_the_least_refuted_least_conflicted_longest_run() -> None:
    bundles = prefixes(4)
    tau = (record("A"), record("B"), record("B"), record("B", needs="x"))
    assert [run_length(tau, j) for j in range(4)] == [1, 3, 3, 3]
    order = fallback_prefixes(bundles, tau, conflicts=(), refuted=())
    assert order == [2, 1, 0, 3]  # fewest open claims, then the longer run, then the larger bundle
    assert fallback_prefixes(bundles, tau, conflicts={"a2"}, refuted=())[0] == 0
    assert fallback_prefixes(bundles, tau, conflicts=(), refuted={frozenset({"a1", "a2", "a3"})})[0] == 1
    assert run_length((record(None),), 0) == 0
    assert [run_length((record("A"), record("A"), record("B")), j) for j in range(3)] == [2, 2, 1]
    assert [run_length((record("A"),) * 3, j) for j in range(3)] == [3, 3, 3]


def test_a_growing_count_is_one_run_so_the_fallback_is_the_largest_bundle() -> None:
    tau = (record("A", n=AtLeast(2)), record("A", n=AtLeast(2)), record("B", n=AtLeast(3)))
    assert [run_length(tau, j) for j in range(3)] == [3, 3, 3]
    assert fallback_prefixes(prefixes(3), tau, conflicts=(), refuted=()) == [2, 1, 0]


def test_a_count_that_is_open_keeps_what_was_counted_so_that_its_anchors_are_not_redundant() -> None:
    fact = {"claim": "n", "value": 1, "spans": [{"start": 3, "end": 5}]}
    reply = assembled(facts_supported=[fact], unmet_needs=["n"], status="insufficient", answer=None)
    assert prefix_record(reply, CLAIMS).facts == {"n": AtLeast(1, (Interval(3, 5),))}


def test_two_occurrences_at_the_same_time_are_two() -> None:
    fact = {"claim": "n", "value": 2, "spans": [{"start": 3, "end": 19}, {"start": 4, "end": 8}]}
    assert prefix_record(assembled(facts_supported=[fact]), CLAIMS).facts["n"].count == 2  # type: ignore[union-attr]


def test_every_hinted_place_comes_before_the_neighbours_of_one() -> None:
    wishes = [wish(a, b, moment=moment, look_for="fast-motion") for a, b, moment in ((10, 34, 12), (200, 208, 204))]
    context = ProposalContext(Interval(0, 300), limit=3)
    candidates, refused = valid_candidates(wishes, context, TraceSettings())
    assert [each.moment for each in candidates] == [12, 204, None]
    assert any("more than 3 candidates" in reason for reason in refused)


def test_a_count_is_looked_at_in_small_looks() -> None:
    assert TraceSettings().for_count().fast_candidate_frames == 5


def test_a_span_that_continues_a_candidate_is_another_one_only_for_a_count() -> None:
    wishes = [
        wish(10, 20, moment=15, claims=["c1"]),
        wish(21, 30, claims=["c1"]),
        wish(20, 30, moment=25, claims=["c2"]),
    ]
    for counts, starts in ((False, [10, 20]), (True, [10, 21])):
        candidates, _ = valid_candidates(wishes, ProposalContext(Interval(0, 300), counts=counts), TraceSettings())
        assert sorted(round(each.span.start) for each in candidates) == starts
