"""Answering in one call from a question and whatever clips are given. How the clips were chosen is not known here."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.replies import AnswerReply, answer_reply, question_variables

if TYPE_CHECKING:
    from trace_ves.core import Clip, Question

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
