"""The small rules of the modules: which frames an anchor keeps, what a reply becomes, where a proposal may lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.test_budget import Blank
from trace_ves.agent.anchor_extraction import keep_frames
from trace_ves.agent.evidence_assembly import AssemblyReply, assembly_reply, prefix_record
from trace_ves.agent.fallback import fallback_prefixes, run_length
from trace_ves.agent.records import Inquiry
from trace_ves.agent.settings import TraceSettings
from trace_ves.agent.temporal_proposal import CandidateReply, unguided, valid_candidates
from trace_ves.backbone.protocol import ModelFault
from trace_ves.core import Frame, Interval, Question
from trace_ves.records.trace import AtLeast, Claim, ClaimKind, PrefixRecord, Status


def frames(*seconds: float) -> tuple[Frame, ...]:
    return tuple(Frame(int(s * 10), s, Blank()) for s in seconds)


def kept(span: Interval, *seconds: float) -> list[float]:
    return [frame.seconds for frame in keep_frames(frames(*seconds), span, least=3, most=5)]


def test_frames_inside_the_span_are_kept() -> None:
    assert kept(Interval(4, 8), 0, 2, 4, 6, 8, 10) == [4, 6, 8]


def test_too_many_are_thinned_evenly_with_both_ends() -> None:
    assert kept(Interval(0, 20), *range(0, 21, 2)) == [0, 4, 10, 16, 20]


def test_too_few_are_filled_up_from_the_neighbourhood() -> None:
    assert kept(Interval(5, 5.5), 0, 2, 4, 6, 8) == [2, 4, 6] or kept(Interval(5, 5.5), 0, 2, 4, 6, 8) == [4, 6, 8]
    assert kept(Interval(4, 4), 0, 4) == [0, 4]


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=20, unique=True).map(sorted),
    st.integers(0, 90),
    st.integers(0, 20),
)
def test_an_anchor_keeps_three_to_five_frames_where_there_are_as_many(seen: list[int], start: int, length: int) -> None:
    span = Interval(start, start + length)
    result = kept(span, *seen)
    assert result == sorted(set(result))
    assert min(3, len(seen)) <= len(result) <= 5
    inside = [s for s in seen if s in span]
    assert all(s in result for s in inside) or len(inside) > 5 or len(result) == 5


def test_a_model_writes_the_facts_before_the_answer_that_rests_on_them() -> None:
    inquiry = Inquiry(Question("q", "v", "Which?", ("one", "two")), (Claim("c1", "what"),), None)  # type: ignore[arg-type]
    schema = assembly_reply(inquiry).model_json_schema()
    assert list(schema["properties"]) == ["facts_supported", "unmet_needs", "status", "answer"]


CLAIMS = (Claim("t", "when", ClaimKind.TIME), Claim("n", "how many", ClaimKind.COUNT), Claim("f", "what"))


def test_a_reply_becomes_a_record_with_typed_values() -> None:
    reply = AssemblyReply.model_validate(
        {
            "facts_supported": [
                {"claim": "t", "start": 3, "end": 5},
                {"claim": "n", "value": " at least 4 "},
                {"claim": "f", "value": "  Dark RED. "},
            ],
            "status": "answerable",
            "answer": "B",
        }
    )
    expected = {"t": Interval(3, 5), "n": AtLeast(4), "f": "dark red"}
    assert prefix_record(reply, CLAIMS) == PrefixRecord("B", Status.ANSWERABLE, expected, frozenset())


@pytest.mark.parametrize(
    "fact",
    [
        {"claim": "t", "start": 5, "end": 3},
        {"claim": "t", "start": "nan", "end": 3},
        {"claim": "t", "start": 0, "end": "inf"},
        {"claim": "t", "value": "later"},
        {"claim": "n", "value": "many"},
        {"claim": "n", "value": "-3"},
        {"claim": "f", "value": " . "},
    ],
)
def test_a_value_that_makes_no_sense_settles_nothing(fact: dict[str, object]) -> None:
    reply = AssemblyReply.model_validate({"facts_supported": [fact], "status": "answerable", "answer": "B"})
    assert prefix_record(reply, CLAIMS).facts == {}


def test_a_claim_called_open_is_open_and_no_answer_is_not_answerable() -> None:
    reply = AssemblyReply.model_validate(
        {
            "facts_supported": [{"claim": "f", "value": "red"}],
            "unmet_needs": ["f"],
            "status": "answerable",
            "answer": None,
        }
    )
    assert prefix_record(reply, CLAIMS) == PrefixRecord(None, Status.INSUFFICIENT, {}, frozenset({"f"}))


def test_a_fault_leaves_every_claim_open() -> None:
    assert prefix_record(ModelFault("nonsense"), CLAIMS).unmet_needs == {"t", "n", "f"}


UNEXPLORED = (Interval(0, 50), Interval(80, 100))


def proposed(*wishes: tuple[float, float]) -> tuple[list[Interval], int]:
    replies = [CandidateReply(start=a, end=b) for a, b in wishes]
    candidates, refused = valid_candidates(replies, UNEXPLORED, TraceSettings())
    return [candidate.span for candidate in candidates], len(refused)


def test_proposals_are_cut_to_unexplored_segments_and_to_each_other() -> None:
    assert proposed((40, 90)) == ([Interval(40, 50)], 0)
    assert proposed((0, 20), (10, 30)) == ([Interval(0, 20), Interval(20, 30)], 0)
    assert proposed((60, 70), (0, 1), (5, 3), (float("nan"), 4)) == ([], 4)
    five = [(10 * n, 10 * n + 5) for n in range(5)]
    assert proposed(*five) == ([Interval(*span) for span in five[:4]], 1)


def test_unguided_candidates_lie_in_the_middle_of_the_longest_segments() -> None:
    spans = [candidate.span for candidate in unguided(UNEXPLORED, TraceSettings())]
    assert spans == [Interval(17, 33), Interval(82, 98)]


def test_the_fallback_is_the_least_refuted_least_conflicted_longest_run() -> None:
    from tests.agent.test_trajectory_reconciler import prefixes, record

    bundles = prefixes(4)
    tau = (record("A"), record("B"), record("B"), record("B", needs="x"))
    assert [run_length(tau, j) for j in range(4)] == [1, 3, 3, 3]
    order = fallback_prefixes(bundles, tau, conflicts=(), refuted=())
    assert order == [2, 1, 3, 0]  # same run: fewest open claims, then the larger bundle
    assert fallback_prefixes(bundles, tau, conflicts={"a2"}, refuted=())[0] == 0
    assert fallback_prefixes(bundles, tau, conflicts=(), refuted={frozenset({"a1", "a2", "a3"})})[0] == 1
    assert run_length((record(None),), 0) == 0
