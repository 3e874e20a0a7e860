"""The rules of the five stages: what is a proposal, when people agree, when an item is closed, where it stands."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.benches.bench import construction_warnings, model_of, overlap_warning
from trace_ves.construction.assignments import Assignment, current_assignment, order_of
from trace_ves.construction.judged_item import (
    BOUNDARIES,
    GROUNDING,
    SUFFICIENCY,
    Evidence,
    ItemState,
    ProposedItem,
    judged_item,
    list_items,
    mean_iou,
    merge_intervals,
    partial_set,
    same_intervals,
)
from trace_ves.construction.ledger import Stage
from trace_ves.construction.probes import above_chance, original_letter, rotate_options
from trace_ves.construction.proposal import (
    OVERLAP_SECONDS,
    SHORTEST_SECONDS,
    WINDOW_SECONDS,
    DraftError,
    ItemDraft,
    check_draft,
    list_windows,
)
from trace_ves.core import Interval, Question
from trace_ves.core.interval import iou, union_length

from .histories import EVIDENCE, Pen, moved


@given(st.floats(0.5, 2e4))
def test_windows_cover_the_video_with_the_overlap_of_the_paper(duration: float) -> None:
    found = list_windows(duration)
    assert union_length(found) == pytest.approx(duration)
    assert (found[0].start, found[-1].end) == (0, duration)
    assert all(span.length == WINDOW_SECONDS for span in found[:-1])
    for earlier, later in pairwise(found):
        assert earlier.end - later.start == pytest.approx(OVERLAP_SECONDS)


def draft(**changes: object) -> ItemDraft:
    plain = {
        "question": "How many times does a bus pass?",
        "options": ["1", "2", "3", "4"],
        "answer": "b",
        "evidence": [[10, 14], [60.0, 60.0]],
        "rationales": ["a bus passes", "a bus passes again"],
    }
    return ItemDraft.model_validate(plain | changes)


def check(made: ItemDraft, family: str = "event-counting") -> ProposedItem:
    return check_draft(made, video="videos/a.mp4", duration=100.0, family=family)


def test_a_good_draft_becomes_a_proposal_and_a_sliver_something_to_play() -> None:
    found = check(draft())
    assert (found.answer, found.evidence) == ("B", (Interval(10, 14), Interval(59.5, 60.5)))
    assert ProposedItem.from_json(found.to_json()) == found
    [*_, last] = check(draft(evidence=[[0, 0], [100, 100]])).evidence
    assert (last.start, last.end) == (100 - SHORTEST_SECONDS, 100)
    assert check(draft(answer="D"), "my-family").answer == "D"  # a family of one's own has no further shape


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"options": ["1", "2", "3"]}, "4 different options"),
        ({"options": ["1", "2", "2", "3"]}, "4 different options"),
        ({"options": ["1", "2", " ", "3"]}, "4 different options"),
        ({"answer": "E"}, "one of A-D"),
        ({"answer": "AB"}, "one of A-D"),
        ({"answer": ""}, "one of A-D"),
        ({"answer": "C"}, "the right count"),
        ({"evidence": [[10, 14]], "rationales": ["x"]}, "2 to 24 intervals"),
        ({"evidence": [[10, 14], [13, 20]]}, "overlap"),
        ({"evidence": [[60, 70], [10, 14]]}, "order of time"),
        ({"evidence": [[10, 14], [90, 101]]}, "does not lie in the video"),
        ({"evidence": [[10, 14], [-1, 5]]}, "does not lie in the video"),
        ({"evidence": [[10, 14], [math.nan, 20]]}, "does not lie in the video"),
        ({"evidence": [[10, 14], [5]]}, "two numbers"),
        ({"rationales": ["x"]}, "a rationale for each"),
        ({"rationales": ["x", " "]}, "a rationale for each"),
    ],
)
def test_a_draft_that_breaks_its_schema_is_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(DraftError, match=reason):
        check(draft(**changes))


def test_iou_by_hand() -> None:
    assert iou(Interval(0, 4), Interval(2, 6)) == pytest.approx(1 / 3)
    assert iou(Interval(0, 1), Interval(5, 6)) == 0
    assert mean_iou((Interval(0, 4), Interval(8, 9)), (Interval(2, 6), Interval(8, 9))) == pytest.approx(2 / 3)
    assert merge_intervals((Interval(0, 4),), (Interval(1, 5.0005),)) == (Interval(0.5, 4.5),)
    assert not same_intervals(EVIDENCE, EVIDENCE[:2])


@given(st.integers(0, 9), st.integers(2, 8))
def test_an_option_of_a_turned_question_is_found_again(draw: int, count: int) -> None:
    question = Question("q", "v", "?", tuple(f"option {n}" for n in range(count)))
    other = rotate_options(question, draw)
    assert sorted(other.options) == sorted(question.options)
    for letter in question.letters:
        assert question.option(original_letter(letter, draw, question)) == other.option(letter)
    assert original_letter(None, draw, question) is None
    places = {rotate_options(question, draw + turn).options.index("option 0") for turn in range(count)}
    assert places == set(range(count))  # in as many turns as options, each stands once in every place


@pytest.mark.parametrize(("right", "expected"), [(0, False), (1, False), (2, True), (3, True), (4, True)])
def test_one_of_four_is_chance(right: int, expected: bool) -> None:
    assert above_chance(["B"] * right + ["A"] * (4 - right), "B", 4) is expected


def state(pen: Pen) -> ItemState:
    return judged_item(pen.ledger, "c1").state


def verified(first: Evidence | None = EVIDENCE, second: Evidence | None = EVIDENCE) -> Pen:
    """An item with two verdicts; None rejects."""
    pen = Pen().propose("c1")
    pen.verify("c1", "ann", first)
    pen.verify("c1", "bob", second)
    return pen


def test_an_item_waits_for_two_verdicts() -> None:
    pen = Pen().propose("c1")
    assert state(pen).waits_at is Stage.VERIFICATION
    pen.verify("c1", "ann")
    assert state(pen).waits_at is Stage.VERIFICATION
    pen.verify("c1", "bob", moved(EVIDENCE, 0.5))
    assert (state(pen).waits_at, state(pen).evidence) == (Stage.LEAVE_ONE_OUT, moved(EVIDENCE, 0.25))


def test_what_both_reject_is_rejected_and_what_one_rejects_is_a_dispute() -> None:
    assert state(verified(None, None)).rejected_at is Stage.VERIFICATION
    for first, second, kind in (
        (None, EVIDENCE, GROUNDING),
        (EVIDENCE, None, GROUNDING),
        (EVIDENCE, moved(EVIDENCE, 3), BOUNDARIES),
    ):
        disputed = state(verified(first, second))
        assert (disputed.waits_at, disputed.dispute.kind) == (Stage.ADJUDICATION, kind)


def test_an_adjudicator_settles_and_a_new_disagreement_is_a_new_one() -> None:
    pen = verified(EVIDENCE, moved(EVIDENCE, 3))
    dispute = state(pen).dispute
    final = moved(EVIDENCE, 1)
    pen.settle("c1", dispute.kind, dispute.about, keep=True, evidence=final)
    assert (state(pen).waits_at, state(pen).evidence) == (Stage.LEAVE_ONE_OUT, final)
    pen.undo("c1", "verification/bob", "bob")
    assert state(pen).waits_at is Stage.VERIFICATION
    pen.verify("c1", "bob", moved(EVIDENCE, 4))
    assert state(pen).waits_at is Stage.ADJUDICATION
    dispute = state(pen).dispute
    pen.settle("c1", dispute.kind, dispute.about, keep=False)
    assert state(pen).rejected_at is Stage.ADJUDICATION


NO = [None, None, None]


def answered(*answers: list[str | None]) -> Pen:
    """An item that two verified and the model finds closed, with answers of ann and bob without each interval."""
    pen = verified()
    pen.probe("c1", [False] * 3)
    for who, each in zip(("ann", "bob"), answers, strict=True):
        pen.answer("c1", who, each)
    return pen


def test_closed_means_that_every_judge_says_so() -> None:
    pen = verified()
    pen.answer("c1", "ann", ["A", None, "C"])  # a wrong option is not the right one given away
    pen.answer("c1", "bob", NO)
    assert state(pen).waits_at is Stage.LEAVE_ONE_OUT
    pen.probe("c1", [False, False, False])
    assert state(pen).waits_at is Stage.SHORTCUT
    pen.shortcut("c1")
    assert state(pen).accepted


def test_the_model_or_two_people_who_see_the_answer_reject_and_one_is_a_dispute() -> None:
    pen = verified()
    pen.probe("c1", [False, True, False])
    assert state(pen).rejected_at is Stage.LEAVE_ONE_OUT
    assert state(answered([None, "B", None], ["B", None, None])).rejected_at is Stage.LEAVE_ONE_OUT
    pen = answered([None, "B", None], NO)
    dispute = state(pen).dispute
    assert (dispute.kind, dispute.evidence) == (SUFFICIENCY, EVIDENCE)
    pen.settle("c1", SUFFICIENCY, dispute.about, keep=True)
    assert (state(pen).waits_at, state(pen).evidence) == (Stage.SHORTCUT, EVIDENCE)


@pytest.mark.parametrize("which", ["language", "gist"])
def test_either_shortcut_rejects(which: str) -> None:
    pen = answered(NO, NO)
    pen.shortcut("c1", **{which: True})
    assert state(pen).rejected_at is Stage.SHORTCUT


def test_answers_about_other_intervals_do_not_count() -> None:
    pen = answered(NO, NO)
    assert state(pen).waits_at is Stage.SHORTCUT
    pen.undo("c1", "verification/ann", "ann")
    pen.verify("c1", "ann", moved(EVIDENCE, 1))
    assert state(pen).waits_at is Stage.LEAVE_ONE_OUT
    assert judged_item(pen.ledger, "c1").probes_about(state(pen).evidence) == {}


def test_partial_sets_leave_out_one_each() -> None:
    assert [partial_set(EVIDENCE, n) for n in range(3)] == [EVIDENCE[1:], (EVIDENCE[0], EVIDENCE[2]), EVIDENCE[:2]]


def test_an_open_leave_one_out_task_comes_before_everything() -> None:
    pen = Pen().propose("c1").propose("c2")
    pen.seat("c1", Stage.VERIFICATION, 1, "cat")
    pen.verify("c2", "ann")
    pen.verify("c2", "bob")
    assert current_assignment(list_items(pen.ledger), "cat") == Assignment("c1", Stage.VERIFICATION)
    pen.seat("c2", judged_item(pen.ledger, "c2").assignment_key(Stage.LEAVE_ONE_OUT, 1), 1, "cat")
    assert sorted(order_of("c2", "cat", 3)) == [0, 1, 2]
    assert current_assignment(list_items(pen.ledger), "cat") == Assignment("c2", Stage.LEAVE_ONE_OUT, 1)
    pen.answer("c2", "cat", NO)
    assert current_assignment(list_items(pen.ledger), "cat") == Assignment("c1", Stage.VERIFICATION)
    assert current_assignment(list_items(pen.ledger), "dan") is None


@pytest.mark.parametrize(
    ("used", "audited", "warned"),
    [
        ("glance", "glance", True),
        ("openai:gpt-4o", "openai:gpt-4o-mini", False),
        ("vertex:gemini-3-flash", "gemini:gemini-3-flash", True),
        ("hf:Qwen/Qwen3-VL-8B", "openai:qwen3-vl-8b@http://h:1/v1", True),
        ("anthropic:claude-sonnet-5", "gemini:gemini-3-flash", False),
    ],
)
def test_a_construction_backbone_that_is_audited_is_told(used: str, audited: str, warned: bool) -> None:
    found = overlap_warning([audited], used, "captions")
    assert (found is not None) is warned
    assert model_of(used)


def test_a_bench_tells_what_it_was_built_with(tmp_path: Path) -> None:
    assert construction_warnings(tmp_path, ["glance"]) == []
    for content in ("", "[]", '{"backbones": 3}', '{"backbones": {"x": 3}}'):
        (tmp_path / "construction.json").write_text(content)
        assert construction_warnings(tmp_path, ["glance"]) == []
    (tmp_path / "construction.json").write_text('{"backbones": {"gist-probe": ["glance"], "x": ["openai:gpt-4o"]}}')
    [warning] = construction_warnings(tmp_path, ["glance"])
    assert "this bench's gist-probe" in warning
