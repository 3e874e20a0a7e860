"""Each stage by itself: the reply that follows from these frames and words."""

from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.twin.glance.conftest import CodeVideo, Entrance

from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.core import Clip, UnknownStageError
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


def test_a_proposal_names_first_what_the_storyboard_shows_and_can_read_its_own_notes(ask_stage: Any) -> None:
    said = proposal(ask_stage, [VIDEO.clip(0, 320, 32)])
    taxi, fox, forest = said["candidates"]
    assert taxi == {"start": 100, "end": 110, "moment": 105, "claims": ["event-2"], "look_for": "fast-motion"}
    assert fox == {"start": 240, "end": 250, "moment": 245, "claims": ["event-1"], "look_for": "general"}
    assert forest == {"start": 160, "end": 196.7, "moment": None, "claims": [], "look_for": "general"}
    times = "165.0 175.0 185.0 195.0 205.0 215.0 225.0 235.0 245.0 255.0 265.0"
    note = f"forest, frames at {times} s; fox seen at 245.0 s"
    assert said["notes"][1] == {"start": 160, "end": 270, "note": note, "promising": True}
    assert [(note["end"], note["promising"]) for note in said["notes"]] == [(160, True), (270, True), (320, False)]
    again = proposal(ask_stage, notes=said["notes"])  # without frames
    assert (again["candidates"], again["notes"]) == (said["candidates"], [])


@pytest.mark.parametrize(
    ("frames", "changes", "spans"),
    [
        # Sixteen frames miss the fox; its home, the forest, is searched before the kitchen and the street.
        (16, {"unmet_needs": ["event-1"]}, [(160, 193.3), (226.7, 260), (193.3, 226.7)]),
        (
            32,
            {"unexplored_segments": [{"start": 40, "end": 60}, {"start": 200, "end": 230}], "limit": 2},
            [(220, 230), (40, 60)],
        ),
        (0, {"notes": [{"note": "so, frames at . . s; taxi seen at 1e9 s"}]}, [(120, 160), (40, 80), (200, 240)]),
    ],
    ids=["at home", "unexplored", "strange notes"],
)
def test_a_proposal_keeps_to_where_something_new_may_be(
    ask_stage: Any, frames: int, changes: dict[str, Any], spans: list[tuple[float, float]]
) -> None:
    hidden = CodeVideo(320.0, (Entrance("taxi", 110, 113), Entrance("fox", 222, 229)), VIDEO.scenes)
    said = proposal(ask_stage, [hidden.clip(0, 320, frames)] if frames else (), **changes)
    assert [(each["start"], each["end"]) for each in said["candidates"]] == spans


FAINT = CodeVideo(60.0, (Entrance("taxi", 20, 22, score=0.3),))
BOTH = CodeVideo(60.0, (Entrance("taxi", 10, 14), Entrance("fox", 30, 34)))


@pytest.mark.parametrize(
    ("clip", "relevant", "spans", "doubtful"),
    [
        (VIDEO.clip(96, 112, 8), "yes", [(100, 106, ["event-2"])], []),
        (VIDEO.clip(26, 42, 8), "no", [], []),
        (replace(VIDEO.clip(26, 42, 8), frames=()), "no", [], []),
        (BOTH.clip(0, 40, 20), "yes", [(10, 14, ["event-2"]), (30, 34, ["event-1"])], []),
        (FAINT.clip(0, 40, 10), "perhaps", [], [22]),  # one glimpse
        (FAINT.clip(16, 26, 10), "yes", [(20, 22, ["event-2"])], []),  # two
    ],
)
def test_extraction_gives_the_span_of_the_sightings(
    ask_stage: Any, clip: Clip, relevant: str, spans: list[Any], doubtful: list[float]
) -> None:
    said = ask_stage("anchor-extraction", [clip], **ASKED, claims=CLAIMS)
    found = [(span["start"], span["end"], span["claims"]) for span in said["spans"]]
    assert (said["relevant"], found, said["look_between"]) == (relevant, spans, doubtful)


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


def record(prefix: str, **facts: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in facts.items()}
    return {"prefix_id": prefix, "answer": None, "status": "insufficient", "facts_supported": named, "unmet_needs": []}


ONE = [record("a1", event_2="1")]
IDLE = [*ONE, record("a1+a3", event_2="1")]
COUNTED = [record("a1", count="at least 1"), record("a1+a2", count="at least 2")]
SPARE = [[200.0, 220.0], [260.0, 280.0]]
"""In the middle of the longest segment."""


@pytest.mark.parametrize(
    ("trajectory", "changes", "action", "targets"),
    [
        # Drops what only unsettles, and keeps what adds.
        ([*IDLE, record("a1+a3+a2", event_2="1", event_1="9")], {"conflict_set": ["a3", "a2"]}, "DROP", ["a3"]),
        (IDLE, {}, "REFINE", ["a3"]),
        (IDLE, {"budget_remaining": 20}, "EXPAND", SPARE),
        (ONE, {"actions": "DROP, REFINE", "anchors": [{"anchor": "a1", "start": 0.0, "end": 5.0}]}, "REFINE", ["a1"]),
        (ONE, {}, "EXPAND", SPARE),
        ([], {}, "EXPAND", SPARE),
        (ONE, {"notes": True}, "EXPAND", [[240.0, 250.0], [178.3, 196.7]]),  # where they show the fox
        (COUNTED, {"conflict_set": ["a2"], **COUNTING}, "EXPAND", SPARE),  # a growing count is no conflict
    ],
)
def test_control_follows_the_rules_of_the_prompt(
    ask_stage: Any, trajectory: list[dict[str, Any]], changes: dict[str, Any], action: str, targets: list[Any]
) -> None:
    known = {"conflict_set": [], "unmet_needs": ["when this happens: the fox"], "budget_remaining": 90, "limit": 2}
    known |= {"actions": "DROP, REFINE, EXPAND", "anchors": [], "looks": [], "trajectory": trajectory}
    segments = [{"start": a, "end": b, "seconds": b - a} for a, b in ((0.0, 30.0), (40.0, 100.0), (120.0, 320.0))]
    notes = proposal(ask_stage, [VIDEO.clip(0, 320, 32)])["notes"] if "notes" in changes else []
    said = ask_stage(
        "trajectory-reconciler", **(ASKED | known | {"unexplored_segments": segments} | changes | {"notes": notes})
    )
    assert (said["action"], said["target_anchors"] or said["target_intervals"]) == (action, targets)


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
