"""Baselines without a search: uniform frames, a majority vote, the question only, and a random letter."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.protocol import ModelFault, Prompt, R, Request
from trace_ves.backbone.replies import AnswerReply, answer_reply, question_variables, same_answer
from trace_ves.core import Answer, Clip, Question

if TYPE_CHECKING:
    from trace_ves.observer import Observer

DEFAULT_HEIGHT: Final = 360
"""The height of every baseline's frames, so that recognition is comparable; also the default of TRACE's anchors."""


@cache
def prompt(stage: str) -> Prompt:
    """The prompt of a stage."""
    return Prompt.load(files(__package__).joinpath("prompts"), stage)


def ask_stage(
    observer: Observer, question: Question, stage: str, reply: type[R], clips: Sequence[Clip] = (), **variables: object
) -> R | ModelFault:
    """Ask one stage about the question, with these clips and variables."""
    request = Request(prompt(stage), question_variables(question) | variables, reply, tuple(clips))
    [answer] = observer.ask([request])
    return answer


def answer_request(question: Question, clips: tuple[Clip, ...] = (), *, sample: int = 0) -> Request[AnswerReply]:
    """A request for an answer from these clips: one of the options, never null."""
    reply = answer_reply(question, forced=True)
    return Request(prompt("direct-answer"), question_variables(question), reply, clips, sample)


def get_answer(reply: AnswerReply | ModelFault) -> str | None:
    """The answer of a reply; None for a model fault, never a guess."""
    return None if isinstance(reply, ModelFault) else reply.answer


@dataclass(frozen=True, slots=True)
class Uniform:
    """One call with `frames` frames at t_j = (j + 1/2) T / frames. A shorter video supplies each frame once."""

    frames: int

    def __call__(self, question: Question, observer: Observer) -> Answer:
        """Look once and answer."""
        clip = observer.survey(observer.whole, self.frames, height=DEFAULT_HEIGHT)
        [reply] = observer.ask([answer_request(question, (clip,))])
        return Answer(get_answer(reply), bundle=(clip,))


@dataclass(frozen=True, slots=True)
class Vote:
    """Self-consistency: `samples` draws over the same `frames` uniform frames, which every draw supplies again.

    In contrast to the evidence growth trajectory, the evidence never changes, so agreement shows how sure the model is
    and not whether the evidence suffices.
    """

    samples: int
    frames: int = 64  # The paper's budget for direct answering

    def __call__(self, question: Question, observer: Observer) -> Answer:
        """Draw several answers, and return the majority."""
        clip = observer.survey(observer.whole, self.frames, height=DEFAULT_HEIGHT)
        draws = range(1, self.samples + 1)  # sample 0 is the most likely answer instead of a draw
        replies = observer.ask([answer_request(question, (clip,), sample=draw) for draw in draws])
        votes = [get_answer(reply) for reply in replies]
        return Answer(find_majority(votes), bundle=(clip,), record={"votes": votes})


def find_majority(votes: Sequence[str | None]) -> str | None:
    """The most frequent answer, the first of equally frequent ones. Votes without an answer do not count."""
    counts: Counter[str] = Counter()
    for vote in votes:
        if vote is not None:
            counts[next((answer for answer in counts if same_answer(answer, vote)), vote)] += 1
    return max(counts, key=counts.__getitem__, default=None)


def blind(question: Question, observer: Observer) -> Answer:
    """Answer from the question and options only, without the video."""
    [reply] = observer.ask([answer_request(question)])
    return Answer(get_answer(reply))


@dataclass(frozen=True, slots=True)
class Random:
    """A random letter, which depends only on the seed and the question's id."""

    seed: int = 0

    def __call__(self, question: Question, observer: Observer) -> Answer:  # noqa: ARG002  it never looks
        """Draw a letter; for an open question, give no answer."""
        draw = random.Random(f"{self.seed}:{question.id}")  # noqa: S311  chance, not a secret
        return Answer(draw.choice(question.letters) if question.letters else None)
