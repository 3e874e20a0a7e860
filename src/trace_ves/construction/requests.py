"""Model requests of the stages: prompts, options rotated for each draw, and the calls that go to the history."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.replies import answer_reply, question_variables
from trace_ves.construction.ledger import MACHINE, Change, Ledger
from trace_ves.records import Call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trace_ves.core import Clip, Question
    from trace_ves.observer import Observer
    from trace_ves.records.base import Record


@cache
def load_prompt(stage: str) -> Prompt:
    """The prompt of a construction stage."""
    return Prompt.load(files(__package__).joinpath("prompts"), stage)


class NoFootage:
    """The video of a request without frames."""

    duration = 0.0

    def frames_at(self, seconds: Sequence[float], *, height: int | None = None) -> tuple[Any, ...]:
        """There are no frames here."""
        raise RuntimeError(f"a request without footage asked for {len(seconds)} frames of height {height}")


def rotate_options(question: Question, draw: int) -> Question:
    """The question with its options rotated by one place per draw, so that a bias for a letter is not knowledge."""
    turn = draw % len(question.options)
    return replace(question, options=(*question.options[turn:], *question.options[:turn]))


def original_letter(letter: str | None, draw: int, question: Question) -> str | None:
    """The letter that an option of a rotated question has in the question itself."""
    if letter is None:
        return None
    letters = question.letters
    return letters[(letters.index(letter) + draw) % len(letters)]


def ask_rotated(
    question: Question,
    stage: str,
    observer: Observer,
    draws: Sequence[int],
    *,
    clips: tuple[Clip, ...] = (),
    more: Mapping[str, str] | None = None,
) -> tuple[str | None, ...] | ModelFault:
    """The model's answer in each draw, by the question's own letters; or the first fault."""
    rotated = [rotate_options(question, draw) for draw in draws]
    requests = [
        Request(load_prompt(stage), question_variables(each) | dict(more or {}), answer_reply(each), clips, draw)
        for draw, each in zip(draws, rotated, strict=True)
    ]
    answers = []
    for draw, reply in zip(draws, observer.ask(requests), strict=True):
        if isinstance(reply, ModelFault):
            return reply
        answers.append(original_letter(reply.answer, draw, question))
    return tuple(answers)


def reply_change(item: str, slot: str, reply: Record | ModelFault, observer: Observer) -> Change:
    """The change that notes a model's judgement and its calls; a fault has its own slot, so that it is asked again."""
    calls = list_calls(observer)
    if isinstance(reply, ModelFault):
        return Change(item, f"fault/{slot}", MACHINE, {"fault": reply.reason}, calls=calls)
    return Change(item, slot, MACHINE, reply.to_json(), calls=calls)


def list_calls(observer: Observer) -> tuple[dict[str, Any], ...]:
    """The calls of an observer for the history, each with the spec of its backbone."""
    return tuple({"backbone": observer.backbone.name} | call.to_json() for call in observer.log.calls)


def calls_in(ledger: Ledger) -> Iterator[tuple[str, Call]]:
    """Every call of the history, with its backbone."""
    for entry in ledger.entries:
        for call in entry.calls:
            yield str(call["backbone"]), Call.from_json(call)
