"""Direct answering from N frames of the canonical centred-uniform schedule. Looks once, whatever the question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.replies import AnswerReply, answer_reply, question_variables
from trace_ves.baselines.registry import MethodFamily, count_in_name
from trace_ves.core import Answer

if TYPE_CHECKING:
    from trace_ves.core import Clip, Question
    from trace_ves.observer import Observer

DIRECT_ANSWER: Final = "direct-answer"
"""The stage of a call that answers from its clips alone."""

DEFAULT_HEIGHT: Final = 360
"""Rows of pixels of every baseline's frames, so that recognition is held fixed; the default of TRACE's anchors too."""


@cache
def prompt(stage: str) -> Prompt:
    """The words of one of the baselines' stages."""
    return Prompt.load(files(__package__).joinpath("prompts"), stage)


def answer_request(
    question: Question, clips: tuple[Clip, ...] = (), *, stage: str = DIRECT_ANSWER, sample: int = 0
) -> Request[AnswerReply]:
    """Ask for the answer alone, from these clips: one of the options, never null."""
    return Request(prompt(stage), question_variables(question), answer_reply(question, forced=True), clips, sample)


def chosen(reply: AnswerReply | ModelFault) -> str | None:
    """The answer of a reply; a model fault is no answer, never a guess."""
    return None if isinstance(reply, ModelFault) else reply.answer


@dataclass(frozen=True, slots=True)
class Uniform:
    """`frames` frames at t_j = (j + 1/2) T / frames, one call. A video with fewer frames supplies each of them once."""

    frames: int
    height: int = DEFAULT_HEIGHT

    def __call__(self, question: Question, observer: Observer) -> Answer:
        """Look once and answer."""
        clip = observer.survey(observer.whole, self.frames, height=self.height)
        [reply] = observer.ask([answer_request(question, (clip,))])
        return Answer(chosen(reply), bundle=(clip,))


MAX_FRAMES: Final = 4096

METHODS: Final = (
    MethodFamily("uniform-64", r"uniform-(\d{1,9})", lambda n: Uniform(count_in_name("uniform-N", n, MAX_FRAMES))),
)
