"""The observer is the only road from a video to a backbone: it charges before a call and logs after it."""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.agent.test_budget import Blank, ClockVideo
from trace_ves.backbone.protocol import Generation, ModelFault, Prompt, Request, ScriptedBackbone
from trace_ves.core import BackboneError, BudgetError, Clip, Frame, Interval, ObservationStrategy, PromptError
from trace_ves.core.subtitles import Cue, SubtitleExcerpt
from trace_ves.observer import UNLIMITED, CallAnswered, Memory, Observer, Progress, ReplyRejected, StageStarted
from trace_ves.records import Call, Usage
from trace_ves.records.transcript import ModelText


class Reply(BaseModel):
    frames: int


class Counting:
    """Counts the frames of each request."""

    name = "counting"

    def generate(self, batch: Sequence[Request[Any]]) -> list[Generation[Any]]:
        return [
            Generation(Reply(frames=request.frames_supplied), Usage(request.frames_supplied, 0, 1), seconds=0.5)
            for request in batch
        ]


class Talking:
    """Gives each request the generation that is next."""

    name = "talking"

    def __init__(self, *generations: Generation[Any]) -> None:
        self.generations = [*generations]

    def generate(self, batch: Sequence[Request[Any]]) -> list[Generation[Any]]:
        return [self.generations.pop(0) for _ in batch]


PROMPT = Prompt("count", "How many frames?")


def observer(budget: int = UNLIMITED, duration: float = 100) -> Observer:
    return Observer(ClockVideo(duration), Counting(), budget=budget)


def request(*clips: Clip) -> Request[Reply]:
    return Request(PROMPT, {}, Reply, clips=clips)


def seconds(clip: Clip) -> list[float]:
    return [frame.seconds for frame in clip.frames]


def test_watching_and_a_survey_are_centred_uniform_and_each_frame_is_seen_once() -> None:
    assert observer(duration=90).whole == Interval(0, 90)
    assert seconds(observer().watch(Interval(70, 76), ObservationStrategy(fps=0.5))) == [71, 73, 75]
    assert seconds(observer().watch(Interval(0, 100), ObservationStrategy(fps=1), limit=2)) == [25, 75]
    assert seconds(observer().watch(Interval(5, 5), ObservationStrategy())) == [5]
    assert len(observer().watch(Interval(5, 5.2), ObservationStrategy(fps=1)).frames) == 1
    clip = observer().watch(Interval(0, 1), ObservationStrategy(fps=40))
    assert len(clip.frames) == len({frame.pts for frame in clip.frames}) == 10  # the video has ten frames a second
    assert seconds(observer().survey(Interval(0, 100), 4, height=90)) == [12.5, 37.5, 62.5, 87.5]
    assert observer().survey(Interval(0, 20), 5, height=90).strategy == ObservationStrategy(fps=0.25, height=90)
    assert observer().survey(Interval(5, 5), 2, height=90).strategy.fps > 1e6  # a moment: no length to divide by


def test_frames_are_decoded_at_the_height_that_is_asked_for() -> None:
    heights: list[int | None] = []

    class Noting(ClockVideo):
        def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Frame, ...]:
            heights.append(height)
            return super().frames_at(seconds, height=height)

    looking = Observer(Noting(100), Counting())
    looking.watch(Interval(0, 6), ObservationStrategy(height=90))
    looking.survey(Interval(0, 6), 2, height=48)
    looking.frames_at([1.0], height=12)
    assert heights == [90, 48, 12]
    heights.clear()
    for longest in (10, 16):  # pictures are 16 pixels wide and 9 high
        limited = SimpleNamespace(name="limited", longest_side_px=longest, generate=None)
        Observer(Noting(100), limited).frames_at([1.0], height=12)
    assert heights == [12, 4, 12]  # an even number of rows, so that the longer side fits


def test_decoding_is_free_and_supplying_is_charged_logged_and_announced() -> None:
    heard: list[Progress] = []
    watching = Observer(ClockVideo(100), Counting(), budget=10, listener=heard.append)
    clip = watching.watch(span := Interval(0, 6), ObservationStrategy(fps=0.5))
    assert (watching.remaining, watching.ask([])) == (10, [])
    assert watching.ask([request(clip), request(clip, clip)]) == [Reply(frames=3), Reply(frames=6)]
    assert (watching.remaining, watching.log.frames_supplied) == (1, 9)
    moments = (1.0, 3.0, 5.0)
    one = Call("count", moments, (9,) * 3, Usage(3, 0, 1), 0.5)
    two = Call("count", moments * 2, (9,) * 6, Usage(6, 0, 1), 0.5)
    assert watching.log.calls == (one, two)
    assert heard == [
        Progress(StageStarted("count", (span,) * 3, moments), 9, 10),
        Progress(CallAnswered(one, (span,), Reply(frames=3)), 9, 10),
        Progress(CallAnswered(two, (span, span), Reply(frames=6)), 9, 10),
    ]


def test_a_fault_of_the_model_is_a_value_on_record_and_announced_with_what_was_said() -> None:
    heard: list[Progress] = []
    fault = ModelFault("The reply is no JSON.", "hello")
    refusing = ScriptedBackbone(lambda request: Reply(frames=1) if request.clips else fault)
    watching = Observer(ClockVideo(100), refusing, listener=heard.append)
    clip = watching.survey(Interval(0, 10), 1, height=90)
    assert watching.ask([request(), request(clip), request()]) == [fault, Reply(frames=1), fault]
    assert [call.fault for call in watching.log.calls] == ["The reply is no JSON.", None, "The reply is no JSON."]
    rejected = [each.event for each in heard if isinstance(each.event, ReplyRejected)]
    assert rejected == [ReplyRejected("count", "The reply is no JSON.", "hello")] * 2


def test_a_call_says_what_service_it_had_and_how_many_cues_it_was_shown() -> None:
    generation = Generation(Reply(frames=0), service_tier="flex", undetermined=True)
    asked = Observer(ClockVideo(10), Talking(generation, generation))
    excerpt = SubtitleExcerpt((Cue(0, 1, "hello"), Cue(1, 2, "there")))
    asked.ask([replace(request(), subtitles=excerpt), request()])
    assert [(call.service_tier, call.subtitles) for call in asked.log.calls] == [("flex", 2), ("flex", None)]
    assert all(call.undetermined for call in asked.log.calls)


def test_what_would_pass_the_budget_is_refused_whole_before_anything_is_sent() -> None:
    watching = observer(budget=5)
    clip = watching.watch(Interval(0, 6), ObservationStrategy(fps=0.5))
    with pytest.raises(BudgetError, match="6 frames was refused: 5 of 5 frames are left"):
        watching.ask([request(clip), request(clip)])
    assert (watching.remaining, watching.log.calls) == (5, ())
    watching.ask([request(clip)])
    assert watching.remaining == 2


def test_what_was_paid_for_before_a_batch_failed_is_on_record() -> None:
    def fail(_: object) -> None:
        raise BackboneError("out of order", {1: Generation(Reply(frames=3), Usage(3, 0, 1))})

    watching = Observer(ClockVideo(100), SimpleNamespace(name="mine@host", generate=fail))
    clip = watching.survey(Interval(0, 6), 3, height=90)
    with pytest.raises(BackboneError, match="out of order"):
        watching.ask([request(), request(clip)])
    [call] = watching.log.calls
    assert (call.timestamps, call.usage) == ((1.0, 3.0, 5.0), Usage(3, 0, 1))
    assert watching.transcript("q").backbone == "mine"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 60), st.lists(st.integers(1, 5), min_size=1, max_size=12))
def test_many_threads_never_pass_the_budget_together(budget: int, sizes: list[int]) -> None:
    watching = observer(budget)

    def ask(size: int) -> int:
        clip = watching.survey(Interval(0, 100), size, height=90)
        try:
            return sum(reply.frames for reply in watching.ask([request(clip)]) if isinstance(reply, Reply))
        except BudgetError:
            return 0

    with ThreadPoolExecutor(8) as pool:
        supplied = sum(pool.map(ask, sizes))
    assert supplied == watching.log.frames_supplied == budget - watching.remaining <= budget
    assert supplied == sum(sizes) or supplied > budget - max(sizes)


@pytest.mark.parametrize(
    ("text", "variables", "sentence"),
    [
        (
            "Look. $qestion",
            {"question": "Which?", "options": []},
            r"The prompt of the stage 'look' has \$qestion, which its request does not fill in; the request's "
            r"variables are: \$question, \$options\.",
        ),
        ("Look. $qestion", {}, r"variables are: none\."),
        ("It costs $5.", {}, r"has a \$ that does not begin a variable .*; write \$\$ for a dollar sign\."),
        (
            "$thing",
            {"thing": {1, 2}},
            r"The variable \$thing of the stage 'look' can be written neither as text nor as",
        ),
    ],
)
def test_a_prompt_that_cannot_be_filled_in_is_never_sent(text: str, variables: Any, sentence: str) -> None:
    watching = observer(budget=10)
    clip = watching.watch(Interval(0, 6), ObservationStrategy(fps=0.5))
    with pytest.raises(PromptError, match=sentence):
        watching.ask([request(clip), Request(Prompt("look", text), variables, Reply, clips=(clip,))])
    assert (watching.remaining, watching.log.calls) == (10, ())
    prompt = Prompt("s", "Q: $question O: $options")
    assert prompt.render({"question": "cost $options?", "options": {"A": "é"}}) == 'Q: cost $options? O: {"A": "é"}'


class Other(BaseModel):
    frames: int = 3


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (None, "the backbone returned NoneType for a batch; it must return a list"),
        ([], "the backbone returned 0 replies for 2 requests."),
        ([Generation(Reply(frames=1))] * 3, "the backbone returned 3 replies for 2 requests."),
        ([Reply(frames=1)] * 2, "returned Reply for the stage 'count'; each reply must be a Generation of the"),
        ([Generation({"frames": 1})] * 2, "returned dict for the stage 'count'; each reply must be a Generation"),
        ([Generation(Other())] * 2, "returned Other for the stage 'count'"),
    ],
)
def test_a_backbone_that_breaks_its_contract_is_one_sentence_that_names_it(returned: Any, sentence: str) -> None:
    watching = Observer(ClockVideo(100), SimpleNamespace(name="mine:own", generate=lambda _: returned))
    with pytest.raises(BackboneError, match=f"^mine:own: .*{re.escape(sentence)}"):
        watching.ask([request(), request()])


def test_frames_that_are_kept_back_can_be_spent_only_afterwards() -> None:
    watching = observer(budget=10)
    seven = request(watching.survey(Interval(0, 10), 7, height=90))
    with watching.reserving(4):
        assert watching.remaining == 6
        with pytest.raises(BudgetError):
            watching.ask([seven])
    assert watching.remaining == 10
    with watching.reserving(4):
        watching.ask([request(watching.survey(Interval(0, 10), 6, height=90))])
    watching.ask([request(watching.survey(Interval(0, 10), 4, height=90))])
    assert watching.remaining == 0
    unlimited = observer()
    with unlimited.reserving(4):
        assert unlimited.budget == UNLIMITED
    assert unlimited.budget == UNLIMITED


def test_what_was_made_of_frames_is_recalled_for_the_same_frames_alone_and_charged() -> None:
    memory, first, second = Memory(), observer(), observer(budget=5)
    first.memory = second.memory = memory
    clip = first.survey(Interval(0, 100), 4, height=90)
    assert first.recall("look", clip) is None
    first.remember(clip, "a beach")
    assert (first.recall("look", clip), first.log.frames_supplied) == ("a beach", 4)
    assert second.recall("look", second.survey(Interval(0, 90), 4, height=90)) is None
    sharper = replace(clip, frames=tuple(replace(frame, picture=Blank(height=90)) for frame in clip.frames))
    assert second.recall("look", sharper) is None
    assert second.log.calls == ()
    assert second.recall("look", clip) == "a beach"
    [call] = second.log.calls
    assert (call.stage, call.remembered, call.timestamps) == ("look", True, (12.5, 37.5, 62.5, 87.5))
    assert call.heights == tuple(frame.picture.height for frame in clip.frames)
    [spoken] = second.transcript("q").calls
    assert (spoken.stage, spoken.raw, [shown.span for shown in spoken.clips]) == ("look", False, [clip.span])
    with pytest.raises(BudgetError, match="1 of 5 frames are left"):
        second.recall("look", clip)
    alone = observer()  # without a memory
    alone.remember(clip, "a beach")
    assert (alone.recall("look", clip), alone.log.calls) == (None, ())


def test_a_transcript_holds_no_key_whoever_said_it(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "q8Zt-4711-very-own"
    monkeypatch.setenv("SOME_API_KEY", secret)
    said = (ModelText(f"the key is {secret}", f"no JSON: {secret}"), ModelText("fine \ud800"))
    asked = Observer(ClockVideo(10), Talking(Generation(Reply(frames=1), texts=said)))
    asked.ask([Request(Prompt("look", "Use $key."), {"key": secret}, Reply)])
    told = asked.transcript("q")
    assert told.prompts == ("Use [key].",)
    assert told.calls[0].replies == (ModelText("the key is [key]", "no JSON: [key]"), ModelText("fine ?"))


def test_a_transcript_holds_prompts_clips_and_every_attempt_with_what_was_wrong() -> None:
    repaired = (ModelText("nonsense", "not JSON"), ModelText('{"frames": 1}'))
    fault = ModelFault("two answers", raw="A and B")
    talking = Talking(Generation(Reply(frames=1), texts=repaired), Generation(fault), Generation(Reply(frames=3)))
    looking = Observer(ClockVideo(100), talking)
    clip = looking.survey(Interval(0, 100), 2, height=90)
    looking.ask([request(clip), request()])
    looking.ask([request()])
    told = looking.transcript("q1")
    assert (told.question_id, told.prompts) == ("q1", ("How many frames?",))
    assert [(call.stage, call.raw, call.replies) for call in told.calls] == [
        ("count", True, repaired),
        ("count", True, (ModelText("A and B", "two answers"),)),
        ("count", False, (ModelText('{"frames":3}'),)),
    ]
    assert [[shown.span for shown in call.clips] for call in told.calls] == [[Interval(0, 100)], [], []]
