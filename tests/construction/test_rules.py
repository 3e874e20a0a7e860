"""The rules of the five stages: what is a proposal, when people agree, when an item is closed, where it stands."""

import math
import re
from contextlib import nullcontext
from itertools import pairwise, permutations
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trace_ves.benches.bench import construction_warnings, overlap_warning
from trace_ves.construction import proposal
from trace_ves.construction.assignments import Assignment, current_assignment, judges_of, order_of
from trace_ves.construction.judged_item import (
    BOUNDARIES,
    GROUNDING,
    SUFFICIENCY,
    Dispute,
    Evidence,
    ItemState,
    ProposedItem,
    Verification,
    judged_item,
    list_items,
    mean_iou,
    merge_intervals,
    same_intervals,
)
from trace_ves.construction.ledger import Change, Ledger, Stage, StaleError
from trace_ves.construction.probes import above_chance, original_letter, rotate_options
from trace_ves.construction.proposal import DraftError, ItemDraft
from trace_ves.core import Interval, Question
from trace_ves.core.interval import union_length

from .histories import EVIDENCE, Pen, moved


def draft(**changes: object) -> ItemDraft:
    plain = {
        "question": "How many times does a bus pass?",
        "options": ["1", "2", "3", "4"],
        "answer": "b",
        "evidence": [[10, 14], [60, 65]],
        "rationales": ["a bus passes", "a bus passes again"],
    }
    return ItemDraft.model_validate(plain | changes)


def check(made: ItemDraft, family: str = "event-counting") -> ProposedItem:
    return proposal.check_draft(made, video="videos/a.mp4", duration=100.0, family=family)


@pytest.mark.parametrize(
    ("pair", "made"),
    [
        ([60, 60], (59.5, 60.5)),
        ([10, 11], (10, 11)),
        ([10, 10.9], (9.95, 10.95)),
        ([0, 0.4], (0, 1)),
        ([99.9, 100], (99, 100)),
        ([1.23456, 3.45678], (1.235, 3.457)),
    ],
)
def test_a_short_interval_is_widened_to_a_second(pair: list[float], made: tuple[float, float]) -> None:
    assert check(draft(evidence=sorted([pair, [20, 22]]))).evidence == tuple(
        Interval(*each) for each in sorted([made, (20, 22)])
    )


def test_a_good_draft_becomes_a_proposal() -> None:
    texts = {"question": " Q? ", "options": [" 1", "2 ", "3", "4"], "rationales": [" a ", "b" * 600]}
    found = check(draft(answer=" (b). ", **texts))
    told = ("videos/a.mp4", 100.0, "event-counting", "Q?", ("1", "2", "3", "4"), "B")
    assert found == ProposedItem(*told, (Interval(10, 14), Interval(60, 65)), ("a", "b" * 500))
    assert ProposedItem.from_json(found.to_json()) == found
    assert check(draft(answer="D"), "my-family").answer == "D"  # a family of one's own has no further shape
    assert re.fullmatch("c[0-9a-f]{8}", proposal.new_item_id())


def spans_of(*pairs: tuple[float, float]) -> dict[str, object]:
    return {"evidence": [list(pair) for pair in pairs], "rationales": ["x"] * len(pairs)}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"options": ["1", "2", "3"]}, "it needs 4 different options, found 3"),
        ({"options": ["a", "A", "3", "4"]}, "it needs 4 different options, found 4"),
        ({"options": ["1", "2", " ", "3"]}, "it needs 4 different options, found 4"),
        ({"answer": "E"}, "its answer must be one of A-D, found 'E'"),
        ({"answer": "AB"}, "its answer must be one of A-D, found 'AB'"),
        ({"answer": ""}, "its answer must be one of A-D, found ''"),
        ({"answer": "x" * 30}, f"its answer must be one of A-D, found {'x' * 20!r}"),
        ({"answer": "C"}, "the right count is '3', but there are 2 intervals"),
        ({"options": ["1", "none", "3", "4"]}, "the right count is 'none', but there are 2 intervals"),
        ({"options": ["1", "2 times", "3", "4"]}, ""),
        (spans_of((10, 14)), "it needs 2 to 24 intervals, found 1"),
        (spans_of(*((n, n + 1) for n in range(25))), "it needs 2 to 24 intervals, found 25"),
        (spans_of(*((n, n + 1) for n in range(24))) | {"options": ["1", "24", "3", "4"]}, ""),
        (spans_of((10, 14), (13, 20)), "its intervals overlap or are not in order of time"),
        (spans_of((60, 70), (10, 14)), "its intervals overlap or are not in order of time"),
        (spans_of((0, 50), (50, 100)), ""),
        (spans_of((0, 1), (1, 51.1)), "the interval 1-51.1 s must be 0.1 to 50 s long"),
        (spans_of((10, 14), (90, 101)), "the interval 90-101 s does not lie in the video of 100 s"),
        (spans_of((-1, 5), (10, 14)), "the interval -1-5 s does not lie in the video of 100 s"),
        (spans_of((10, 14), (math.nan, 20)), "the interval nan-20 s does not lie in the video of 100 s"),
        ({"evidence": [[1], [2, 3]]}, "an interval has two numbers, found 1"),
        ({"rationales": ["x"]}, "it needs a rationale for each of 2 intervals, found 1"),
        ({"rationales": ["x", " "]}, "it needs a rationale for each of 2 intervals, found 2"),
    ],
)
def test_a_draft_that_breaks_its_schema_is_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(DraftError, match=f"^{re.escape(sentence)}$") if sentence else nullcontext():
        check(draft(**changes))


def test_the_shortest_interval_that_an_annotator_may_set() -> None:
    proposal.check_evidence((Interval(0, 0.1), Interval(1, 51)), 100.0)
    for span, sentence in ((Interval(90, 90.09), "must be 0.1 to 50 s long"), (Interval(90, 100.1), "does not lie in")):
        with pytest.raises(DraftError, match=sentence):
            proposal.check_evidence((Interval(0, 1), span), 100.0)


def test_a_model_reads_what_it_drafts() -> None:
    parts = ItemDraft.model_json_schema()["properties"]
    assert {name: part.get("description") for name, part in parts.items()} == {
        "question": None,
        "options": "Four options.",
        "answer": "The letter of the right option, A to D.",
        "evidence": "Start and end of each interval, in seconds of the video.",
        "rationales": "For each interval, the visual fact that it should attest.",
    }
    caption = proposal.CaptionReply.model_json_schema()["properties"]["caption"]
    assert (parts["question"]["minLength"], parts["question"]["maxLength"]) == (1, 1000)
    told = (caption["description"], caption["minLength"], caption["maxLength"])
    assert told == ("What is seen, with seconds of the video.", 1, 8000)


def test_how_well_edges_agree() -> None:
    one, other = (Interval(0, 4), Interval(8, 9)), (Interval(2, 6), Interval(8, 9))
    assert mean_iou(one, other) == pytest.approx(2 / 3)
    pairs = [(EVIDENCE, EVIDENCE[1:]), (EVIDENCE[:2], EVIDENCE), (one, (Interval(2, 6),)), (EVIDENCE, ()), ((), ())]
    assert [mean_iou(*pair) for pair in pairs] == pytest.approx([2 / 3, 2 / 3, 1 / 6, 0, 0])
    assert merge_intervals((Interval(0.0005, 4),), (Interval(1, 5.0005),)) == (Interval(0.5, 4.5),)
    half, less = (Interval(0, 2),), (Interval(0, 1.9),)
    assert [same_intervals((Interval(0, 4),), each) for each in (half, less, EVIDENCE[:2])] == [True, False, False]


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


def test_one_of_four_is_chance() -> None:
    found = [above_chance(["B"] * right + ["A"] * (4 - right), "B", 4) for right in range(5)]
    assert found == [False, False, True, True, True]


def state(pen: Pen) -> ItemState:
    return judged_item(pen.ledger, "c1").state


def verified(second: Evidence = EVIDENCE) -> Pen:
    """An item that two accepted, the second with these intervals."""
    return Pen().propose("c1").verify("c1", "ann").verify("c1", "bob", second)


ACCEPTED, REJECTED = Verification(True, EVIDENCE), Verification(False, reason="no")
CORRECTED, UNSURE = Verification(True, EVIDENCE, answer="C"), Verification(False, reason="dark", is_unsure=True)
NEAR, FAR = (Verification(True, moved(EVIDENCE, by)) for by in (1, 3))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (ACCEPTED, NEAR, ItemState(Stage.LEAVE_ONE_OUT, evidence=moved(EVIDENCE, 0.5), answer="B")),
        (CORRECTED, CORRECTED, ItemState(Stage.LEAVE_ONE_OUT, evidence=EVIDENCE, answer="C")),
        (REJECTED, REJECTED, ItemState(rejected_at=Stage.VERIFICATION)),
        (ACCEPTED, FAR, BOUNDARIES),
        *((one, other, GROUNDING) for one, other in permutations((ACCEPTED, REJECTED, CORRECTED, UNSURE), 2)),
        (UNSURE, UNSURE, GROUNDING),
    ],
)
def test_what_follows_from_two_verdicts(first: Verification, second: Verification, expected: ItemState | str) -> None:
    pen = Pen().propose("c1")
    for who, verdict in (("ann", first), ("bob", second)):
        assert state(pen) == ItemState(Stage.VERIFICATION)
        pen.write("c1", f"verification/{who}", who, verdict.to_json())
    pen.verify("c1", "cat", None)  # the verdicts of two decide
    if isinstance(expected, str):
        expected = ItemState(Stage.ADJUDICATION, dispute=Dispute(expected, (2, 3)))
    assert state(pen) == expected


def test_an_adjudicator_settles_and_a_new_disagreement_is_a_new_one() -> None:
    pen = verified(moved(EVIDENCE, 3))
    final = moved(EVIDENCE, 1)
    for corrected, answer in (("", "B"), ("C", "C")):
        pen.settle("c1", BOUNDARIES, (2, 3), keep=True, evidence=final, answer=corrected)
        assert state(pen) == ItemState(Stage.LEAVE_ONE_OUT, evidence=final, answer=answer)
    pen.undo("c1", "verification/bob", "bob")
    assert state(pen) == ItemState(Stage.VERIFICATION)
    pen.verify("c1", "bob", moved(EVIDENCE, 4))
    assert state(pen) == ItemState(Stage.ADJUDICATION, dispute=Dispute(BOUNDARIES, (2, 7)))
    pen.settle("c1", BOUNDARIES, (2, 7), keep=False)
    assert state(pen) == ItemState(rejected_at=Stage.ADJUDICATION)


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
    pen.probe("c1", [False, False])
    assert state(pen) == ItemState(Stage.LEAVE_ONE_OUT, evidence=EVIDENCE, answer="B")
    pen.probe("c1", [False, False, False])
    assert state(pen) == ItemState(Stage.SHORTCUT, evidence=EVIDENCE, answer="B")
    pen.shortcut("c1")
    assert state(pen) == ItemState(evidence=EVIDENCE, answer="B")
    assert state(pen).accepted


def test_the_model_or_two_people_who_see_the_answer_reject_and_one_is_a_dispute() -> None:
    pen = verified()
    pen.probe("c1", [False, True, False])
    rejected = ItemState(rejected_at=Stage.LEAVE_ONE_OUT, evidence=EVIDENCE, answer="B")
    assert state(pen) == state(answered([None, "B", None], ["B", None, None])) == rejected
    pen = answered([None, "B", None], NO)
    about = tuple(range(7, 13))
    dispute = Dispute(SUFFICIENCY, about, EVIDENCE)
    assert state(pen) == ItemState(Stage.ADJUDICATION, evidence=EVIDENCE, dispute=dispute, answer="B")
    pen.settle("c1", SUFFICIENCY, about, keep=True)
    assert state(pen) == ItemState(Stage.SHORTCUT, evidence=EVIDENCE, answer="B")
    pen.settle("c1", SUFFICIENCY, about, keep=False)
    assert state(pen) == ItemState(rejected_at=Stage.ADJUDICATION, evidence=EVIDENCE, answer="B")


def test_answers_about_other_intervals_do_not_count() -> None:
    pen = answered(NO, NO)
    assert state(pen).waits_at is Stage.SHORTCUT
    pen.undo("c1", "verification/ann", "ann")
    pen.verify("c1", "ann", moved(EVIDENCE, 1))
    assert state(pen).waits_at is Stage.LEAVE_ONE_OUT
    assert judged_item(pen.ledger, "c1").probes_about(state(pen).evidence) == {}


def test_a_partial_set_is_taken_by_who_holds_it_and_who_answered_it() -> None:
    pen = verified()
    key = judged_item(pen.ledger, "c1").assignment_key(Stage.LEAVE_ONE_OUT, 1)
    assert key == "leave-one-out:1:9484846b8052"  # as histories hold it
    pen.seat("c1", key, 0, "cat")
    pen.answer("c1", "dan", [None])
    assert [judges_of(judged_item(pen.ledger, "c1"), left_out) for left_out in range(3)] == [{"dan"}, {"cat"}, set()]


def test_an_open_leave_one_out_task_comes_before_everything() -> None:
    pen = Pen().propose("c1").propose("c2").verify("c2", "ann").verify("c2", "bob")
    pen.seat("c1", Stage.VERIFICATION, 1, "cat")
    assert current_assignment(list_items(pen.ledger), "cat") == Assignment("c1", Stage.VERIFICATION)
    pen.seat("c2", judged_item(pen.ledger, "c2").assignment_key(Stage.LEAVE_ONE_OUT, 1), 1, "cat")
    assert [order_of("c3", who, 3) for who in ("cat", "dan")] == [[1, 2, 0], [2, 0, 1]]
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
    assert (overlap_warning([audited], used, "captions") is not None) is warned


def test_a_bench_tells_what_it_was_built_with(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").touch()
    assert construction_warnings(tmp_path, ["glance"]) == []
    for content in ("", "[]", '{"backbones": 3}', '{"backbones": {"x": 3}}'):
        (tmp_path / "construction.json").write_text(content)
        assert construction_warnings(tmp_path, ["glance"]) == []
    (tmp_path / "construction.json").write_text('{"backbones": {"gist-probe": ["glance"], "x": ["openai:gpt-4o"]}}')
    [warning] = construction_warnings(tmp_path, ["glance"])
    assert "this bench's gist-probe" in warning


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["write", "undo"]), st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 9)),
    max_size=40,
)


@given(ACTIONS)
def test_what_stands_is_what_a_plain_stack_says(actions: list[tuple[str, str, str, int]]) -> None:
    ledger, stacks = Ledger(), {}
    for what, subject, slot, value in actions:
        stack = stacks.setdefault((subject, slot), [])
        number = ledger.last_number + 1
        if what == "write":
            stack.append(value)
            change = Change(subject, slot, "ann", {"value": value})
            ledger.add(ledger.next_entry(change, number=number, at=0.0))
        elif stack:
            stack.pop()
            ledger.add(ledger.undo_entry(subject, slot, "ann", number=number, at=0.0))
        else:
            with pytest.raises(StaleError, match=f"{subject}: there is nothing to undo"):
                ledger.undo_entry(subject, slot, "ann", number=number, at=0.0)
    for (subject, slot), stack in stacks.items():
        if stack:
            with pytest.raises(StaleError, match="by another annotator"):
                ledger.undo_entry(subject, slot, "bob", number=99, at=0.0)
        assert ledger.value(subject, slot) == ({"value": stack[-1]} if stack else None)
        entries = [entry for entry in ledger.entries if (entry.subject, entry.slot) == (subject, slot)]
        assert [entry.revision for entry in entries] == list(range(1, len(entries) + 1))
        assert all(later.before == earlier.after for earlier, later in pairwise(entries))


@given(st.floats(0.5, 2e4))
@example(30.0)
def test_windows_cover_the_video_with_the_overlap_of_the_paper(duration: float) -> None:
    found = proposal.list_windows(duration)
    assert union_length(found) == pytest.approx(duration)
    assert (found[0].start, found[-1].end) == (0, duration)
    assert all(span.length == proposal.WINDOW_SECONDS for span in found[:-1])
    assert len(found) == 1 or found[-1].length > proposal.OVERLAP_SECONDS  # else the one before shows it
    for earlier, later in pairwise(found):
        assert earlier.end - later.start == pytest.approx(proposal.OVERLAP_SECONDS)


@given(st.lists(st.tuples(st.floats(-5, 130), st.floats(-5, 130)), max_size=5))
def test_what_passes_the_check_is_in_order_and_apart(pairs: list[tuple[float, float]]) -> None:
    evidence = tuple(Interval(min(pair), max(pair)) for pair in pairs if min(pair) >= 0)
    try:
        proposal.check_evidence(evidence, 120.0)
    except DraftError:
        return
    edges = [edge for span in evidence for edge in (span.start, span.end)]
    assert edges == sorted(edges)
    assert all(0.1 <= span.length <= 60 for span in evidence)
