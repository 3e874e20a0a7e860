"""Each stage by itself: the reply that follows from these frames and words."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.twin.glance.conftest import CodeVideo, Entrance

from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.core import UnknownStageError
from trace_ves.twin.glance.glance import STAGES, Glance
from trace_ves.twin.glance.parsed_question import lexicon
from trace_ves.twin.glance.proposal import MOST_LETTERS, StoryboardFrame, frames_in_notes, notes_of

QUESTION = "In what order do these things happen: a taxi goes by; a fox appears?"
OPTIONS = {"A": "the taxi → the fox", "B": "the fox → the taxi"}
CLAIMS = [
    {"id": "event-1", "claim": "when this happens: the fox", "kind": "time"},
    {"id": "event-2", "claim": "when this happens: the taxi", "kind": "time"},
]
COUNTING = {
    "question": "How many times does a taxi go by?",
    "options": {"A": "1", "B": "2", "C": "3"},
    "claims": [{"id": "count", "claim": "How many times does a taxi go by?", "kind": "count"}],
}
VIDEO = CodeVideo(
    320.0,
    (Entrance("taxi", 100, 106), Entrance("fox", 242, 248), Entrance("bus", 30, 36)),
    ((0.0, "street"), (160.0, "forest"), (270.0, "kitchen")),
)
ASKED = {"question": QUESTION, "options": OPTIONS}
EVERYWHERE = [{"start": 0.0, "end": 320.0}]


def proposal(ask_stage: Any, clips: Any = (), **changes: Any) -> dict[str, Any]:
    known = {"claims": CLAIMS, "unmet_needs": ["event-1", "event-2"], "duration": 320.0, "limit": 3}
    rest = {"notes": [], "anchors": [], "looks": [], "unexplored_segments": EVERYWHERE, "look_seconds": 40.0}
    said: dict[str, Any] = ask_stage("temporal-proposal", clips, **(ASKED | known | rest | changes))
    return said


def holds(candidate: dict[str, Any], seconds: float) -> bool:
    return bool(candidate["start"] <= seconds <= candidate["end"])


def test_a_proposal_names_first_what_the_storyboard_shows(ask_stage: Any) -> None:
    said = proposal(ask_stage, [VIDEO.clip(0, 320, 32)])
    first, second, third = said["candidates"]
    for moment in (105, 245):
        assert {holds(first, moment), holds(second, moment)} == {False, True}
    assert 8 <= first["end"] - first["start"] <= 20
    assert third["start"] >= 0
    assert any("taxi seen at 105.0 s" in note["note"] for note in said["notes"])
    assert [note["note"].split(",")[0] for note in said["notes"]] == ["street", "forest", "kitchen"]


def test_a_later_proposal_reads_its_own_notes(ask_stage: Any) -> None:
    """Without frames, the words of the first proposal lead to the same places."""
    first = proposal(ask_stage, [VIDEO.clip(0, 320, 32)])
    again = proposal(ask_stage, notes=first["notes"])
    assert again["candidates"] == first["candidates"]
    assert again["notes"] == []


def test_what_is_unseen_is_looked_for_where_it_is_at_home(ask_stage: Any) -> None:
    """Sixteen frames miss the fox; its home, the forest, is searched before the kitchen and the street."""
    hidden = CodeVideo(320.0, (Entrance("taxi", 110, 113), Entrance("fox", 222, 229)), VIDEO.scenes)
    said = proposal(ask_stage, [hidden.clip(0, 320, 16)], unmet_needs=["event-1"])
    assert all(160 <= candidate["start"] < candidate["end"] <= 270 for candidate in said["candidates"])


def test_a_proposal_keeps_to_what_is_unexplored_and_to_its_limit(ask_stage: Any) -> None:
    segments = [{"start": 40.0, "end": 60.0}, {"start": 200.0, "end": 230.0}]
    said = proposal(ask_stage, [VIDEO.clip(0, 320, 32)], unexplored_segments=segments, limit=2)
    assert 1 <= len(said["candidates"]) <= 2
    for candidate in said["candidates"]:
        assert any(s["start"] <= candidate["start"] < candidate["end"] <= s["end"] for s in segments)


def test_notes_in_strange_words_are_no_reason_to_fail(ask_stage: Any) -> None:
    said = proposal(
        ask_stage, notes=[{"start": 0, "end": 5, "note": "ignore this, frames at . . s; taxi seen at 1e9 s"}]
    )
    assert said["candidates"]


def test_extraction_gives_the_span_of_the_sightings(ask_stage: Any) -> None:
    said = ask_stage("anchor-extraction", [VIDEO.clip(96, 112, 8)], **ASKED, claims=CLAIMS)
    assert said["relevant"] == "yes"
    assert said["spans"] == [{"start": 100.0, "end": 106.0, "claims": ["event-2"]}]
    assert "taxi seen at 101.0 103.0 105.0 s" in said["seen"]
    other = ask_stage("anchor-extraction", [VIDEO.clip(26, 42, 8)], **ASKED, claims=CLAIMS)
    assert (other["relevant"], other["spans"], other["look_between"]) == ("no", [], [])


def test_two_events_in_one_look_are_two_spans(ask_stage: Any) -> None:
    both = CodeVideo(60.0, (Entrance("taxi", 10, 14), Entrance("fox", 30, 34)))
    said = ask_stage("anchor-extraction", [both.clip(0, 40, 20)], **ASKED, claims=CLAIMS)
    assert [span["claims"] for span in said["spans"]] == [["event-2"], ["event-1"]]


def test_one_glimpse_is_perhaps_and_two_are_a_sighting(ask_stage: Any) -> None:
    faint = CodeVideo(60.0, (Entrance("taxi", 20, 22, score=0.3),))
    once = ask_stage("anchor-extraction", [faint.clip(0, 40, 10)], **ASKED, claims=CLAIMS)
    assert (once["relevant"], once["spans"], once["look_between"]) == ("perhaps", [], [22.0])
    assert ask_stage("anchor-extraction", [faint.clip(16, 26, 10)], **ASKED, claims=CLAIMS)["relevant"] == "yes"


def test_priority_goes_to_what_no_earlier_view_shows(ask_stage: Any) -> None:
    sure = CodeVideo(60.0, (Entrance("taxi", 0, 9, 0.9), Entrance("taxi", 10, 19, 0.8), Entrance("fox", 20, 29, 0.6)))
    views = [sure.clip(41, 42, 1), sure.clip(12, 13, 1), sure.clip(2, 3, 1), sure.clip(22, 23, 1)]
    assert ask_stage("anchor-prioritization", views, **ASKED)["order"] == [3, 4, 2, 1]


def test_assembly_of_an_order(ask_stage: Any) -> None:
    part = ask_stage("evidence-assembly", [VIDEO.clip(96, 112, 8)], **ASKED, claims=CLAIMS)
    assert part == {
        "seen": "",
        "facts_supported": [{"claim": "event-2", "spans": [{"start": 101.0, "end": 105.0}]}],
        "unmet_needs": ["event-1"],
        "status": "insufficient",
        "answer": None,
    }
    clips = [VIDEO.clip(240, 250, 5), VIDEO.clip(96, 112, 8)]
    whole = ask_stage("evidence-assembly", clips, **ASKED, claims=CLAIMS)
    assert (whole["status"], whole["answer"], whole["unmet_needs"]) == ("answerable", "A", [])


def test_assembly_of_a_count(ask_stage: Any) -> None:
    often = CodeVideo(200.0, (Entrance("taxi", 10, 20), Entrance("taxi", 60, 70), Entrance("taxi", 150, 160)))
    two = ask_stage("evidence-assembly", [often.clip(8, 24, 8), often.clip(58, 74, 8)], **COUNTING)
    [fact] = two["facts_supported"]
    assert (fact["claim"], fact["value"]) == ("count", "2")
    assert [10 <= span["start"] <= span["end"] <= 70 for span in fact["spans"]] == [True, True]
    # Whether there are more is for the rules of exploration to say.
    assert (two["unmet_needs"], two["status"], two["answer"]) == ([], "answerable", "B")
    all_three = ask_stage("evidence-assembly", [often.clip(0, 200, 40)], **COUNTING)
    assert (all_three["unmet_needs"], all_three["status"], all_three["answer"]) == ([], "answerable", "C")


def test_assembly_of_what_it_has_no_words_for_stays_open(ask_stage: Any) -> None:
    beyond = {"question": "Why does the minister resign?", "options": {"A": "money", "B": "love"}}
    [claim] = ask_stage("claims", **beyond, limit=6)["claims"]
    claims = [{"id": "c1", "claim": claim["claim"], "kind": claim["kind"]}]
    said = ask_stage("evidence-assembly", [VIDEO.clip(0, 320, 32)], **beyond, claims=claims)
    assert (said["facts_supported"], said["unmet_needs"]) == ([], ["c1"])
    assert (said["status"], said["answer"]) == ("insufficient", None)
    assert ask_stage("final-answer-replay", [VIDEO.clip(0, 320, 32)], **beyond) == {"answer": None}
    assert ask_stage("direct-answer", [VIDEO.clip(0, 320, 32)], **beyond)["answer"] in ("A", "B")  # forced
    assert ask_stage("direct-answer", question="Why?", options={}) == {"answer": "unknown"}
    assert ask_stage("anchor-extraction", [VIDEO.clip(96, 112, 8)], **beyond, claims=claims)["relevant"] == "no"


@pytest.mark.parametrize(
    ("question", "options", "kinds", "answer"),
    [
        ("Which of these is seen?", {"A": "a taxi", "B": "a penguin"}, ["fact"], "A"),
        ("Which is seen last?", {"A": "a taxi", "B": "a fox"}, ["time", "time"], "B"),
        ("Where does the fox appear?", {"A": "in a kitchen", "B": "in the forest"}, ["fact"], "B"),
    ],
)
def test_choices_are_claimed_and_settled(
    ask_stage: Any, question: str, options: dict[str, str], kinds: list[str], answer: str
) -> None:
    made = ask_stage("claims", question=question, options=options, limit=6)["claims"]
    assert [claim["kind"] for claim in made] == kinds
    claims = [{"id": f"c{n}", "claim": claim["claim"], "kind": claim["kind"]} for n, claim in enumerate(made)]
    said = ask_stage("evidence-assembly", [VIDEO.clip(0, 320, 64)], question=question, options=options, claims=claims)
    assert (said["status"], said["answer"], said["unmet_needs"]) == ("answerable", answer, [])


def control(ask_stage: Any, trajectory: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    known = {"conflict_set": [], "unmet_needs": ["when this happens: the fox"], "budget_remaining": 90, "limit": 2}
    known |= {"actions": "DROP, REFINE, EXPAND", "anchors": [], "looks": [], "notes": []}
    segments = [{"start": a, "end": b, "seconds": b - a} for a, b in ((0.0, 30.0), (40.0, 100.0), (120.0, 320.0))]
    said: dict[str, Any] = ask_stage(
        "trajectory-reconciler",
        **(ASKED | known | {"unexplored_segments": segments, "trajectory": trajectory} | changes),
    )
    return said


def record(prefix: str, **facts: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in facts.items()}
    return {"prefix_id": prefix, "answer": None, "status": "insufficient", "facts_supported": named, "unmet_needs": []}


def test_control_drops_what_only_unsettles_and_keeps_what_adds(ask_stage: Any) -> None:
    trajectory = [record("a1", event_2="1"), record("a1+a3", event_2="1"), record("a1+a3+a2", event_2="1", event_1="9")]
    said = control(ask_stage, trajectory, conflict_set=["a3", "a2"])
    assert (said["action"], said["target_anchors"]) == ("DROP", ["a3"])


def test_control_refines_an_anchor_that_settled_nothing(ask_stage: Any) -> None:
    said = control(ask_stage, [record("a1", event_2="1"), record("a1+a3", event_2="1")])
    assert (said["action"], said["target_anchors"], said["observation_strategy"]) == (
        "REFINE",
        ["a3"],
        "raise-frame-rate",
    )
    poor = control(ask_stage, [record("a1", event_2="1"), record("a1+a3", event_2="1")], budget_remaining=20)
    assert poor["action"] == "EXPAND"


def test_control_never_names_an_action_that_is_not_offered(ask_stage: Any) -> None:
    anchors = [{"anchor": "a1", "start": 0.0, "end": 5.0}]
    said = control(ask_stage, [record("a1", event_2="1")], actions="DROP, REFINE", anchors=anchors)
    assert (said["action"], said["target_anchors"]) == ("REFINE", ["a1"])


def test_control_expands_where_the_notes_show_what_is_open(ask_stage: Any) -> None:
    said = control(ask_stage, [record("a1", event_2="1")])
    assert (said["action"], said["observation_strategy"]) == ("EXPAND", "general")
    assert len(said["target_intervals"]) == 2
    assert all(120 <= start < end <= 320 for start, end in said["target_intervals"])  # the longest segment
    notes = proposal(ask_stage, [VIDEO.clip(0, 320, 32)])["notes"]
    first, _ = control(ask_stage, [record("a1", event_2="1")], notes=notes)["target_intervals"]
    assert first[0] <= 245 <= first[1]
    assert control(ask_stage, [])["action"] == "EXPAND"


def test_a_growing_count_is_no_conflict_to_drop(ask_stage: Any) -> None:
    trajectory = [record("a1", count="at least 1"), record("a1+a2", count="at least 2")]
    said = control(ask_stage, trajectory, conflict_set=["a2"], **{k: COUNTING[k] for k in ("question", "options")})
    assert said["action"] == "EXPAND"


def test_captions_become_items_that_can_be_answered(ask_stage: Any) -> None:
    three = CodeVideo(300.0, (*VIDEO.entrances, Entrance("bus", 200, 204)), VIDEO.scenes)
    clips = [three.clip(start, start + 60, 30) for start in range(0, 300, 60)]
    captions = [
        {"start": c.span.start, "end": c.span.end, "caption": ask_stage("dense-caption", [c])["caption"]} for c in clips
    ]
    assert captions[0]["caption"] == "street: bus from 31.0 to 35.0 s"
    [count] = ask_stage("item-proposal", captions=captions, family="event-counting")["items"]
    assert "bus" in count["question"]
    assert count["options"]["ABCD".index(count["answer"])] == "2"
    assert count["evidence"] == [[31.0, 35.0], [201.0, 203.0]]
    once = CodeVideo(300.0, VIDEO.entrances, VIDEO.scenes)
    said = [{"caption": ask_stage("dense-caption", [once.clip(0, 300, 150)])["caption"]}]
    [order] = ask_stage("item-proposal", captions=said, family="temporal-ordering")["items"]
    assert order["options"]["ABCD".index(order["answer"])] == "the bus → the taxi → the fox"
    options = dict(zip("ABCD", order["options"], strict=True))
    asked = {"question": order["question"], "options": options}
    assert ask_stage("leave-one-out-probe", [once.clip(0, 300, 150)], **asked)["answer"] == order["answer"]
    assert ask_stage("gist-probe", **asked, summary=said[0]["caption"])["answer"] == order["answer"]
    blind = ask_stage("language-only-probe", **asked)
    assert blind == ask_stage("gist-probe", **asked, summary="It is a quiet film.")
    assert ask_stage("item-proposal", captions=captions, family="poetry") == {"items": []}
    many = [{"caption": f"street: {n} from {a}.0 to {a}.5 s"} for n in "abcdefghi" for a in (10, 90)]
    assert len(ask_stage("item-proposal", captions=many, family="event-counting")["items"]) == 8


def test_a_segment_is_rated_by_its_borders_and_its_length(ask_stage: Any) -> None:
    borders = ((0, 23, 2), (23, 102, 7), (102, 245, 9), (245, 250, 0), (280, 320, 4))  # start, end, tens of seconds
    segments = [{"segment": n, "start": start, "end": end} for n, (start, end, _) in enumerate(borders)]
    clips = [VIDEO.clip(moment - 0.01, moment + 0.01, 1) for moment in (23, 102, 245, 280)]
    said = ask_stage("vca-reward", clips, **ASKED, segments=segments)
    assert [score["relevance"] for score in said["scores"]] == [50 + 2, 80 + 7, 80 + 9, 80, 20 + 4]


def test_a_stage_it_does_not_know_is_an_error_that_says_so(glance: Glance) -> None:
    with pytest.raises(UnknownStageError, match="glance has no rule for the stage 'write-a-poem'; it knows claims, "):
        glance.generate([Request(Prompt("write-a-poem", ""), {}, BaseModel)])


def test_a_reply_of_another_shape_is_a_fault(glance: Glance) -> None:
    class Strange(BaseModel):
        colour: str

    [generation] = glance.generate([Request(Prompt("direct-answer", ""), ASKED, Strange)])
    assert isinstance(generation.reply, ModelFault)


def test_every_prompt_of_the_house_has_a_rule() -> None:
    from importlib.resources import files

    folders = [files("trace_ves.agent") / "prompts", files("trace_ves.baselines") / "prompts"]
    stages = {entry.name.removesuffix(".md") for folder in folders for entry in folder.iterdir()}
    assert {stage for stage in stages if not stage.startswith("_")} <= set(STAGES)


NAMES = st.frozensets(st.sampled_from(sorted(lexicon().things)), max_size=2)
SCENES = st.one_of(st.none(), st.sampled_from(sorted(lexicon().scenes)))


@st.composite
def storyboards(draw: st.DrawFn) -> tuple[StoryboardFrame, ...]:
    count = draw(st.integers(1, 32))
    spacing = draw(st.floats(0.5, 60))
    frames = []
    for number in range(count):
        seen = draw(NAMES)
        frames.append(StoryboardFrame(round((number + 0.5) * spacing, 1), draw(SCENES), seen, draw(NAMES) - seen))
    return tuple(frames)


@settings(max_examples=40)
@given(storyboards())
def test_what_the_notes_say_was_seen(frames: tuple[StoryboardFrame, ...]) -> None:
    """A long note is cut, so that something may be lost; nothing is ever made up."""
    notes = notes_of(frames)
    assert all(len(note["note"]) <= MOST_LETTERS for note in notes)
    for read, frame in zip(frames_in_notes(notes), frames, strict=True):
        assert (read.seconds, read.scene) == (frame.seconds, frame.scene)
        assert read.seen <= frame.seen
        assert read.glimpsed <= frame.glimpsed
        assert len(frames) > 2 or read == frame
