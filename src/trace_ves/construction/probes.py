"""Stages 3 and 4: whether a model solves an item from partial evidence, or without looking.

A first answer without looking that is right must be right more often than by chance in a held-out repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.protocol import Backbone, ModelFault, Request
from trace_ves.backbone.replies import answer_reply, question_variables
from trace_ves.construction.judged_item import JudgedItem, Probe, Shortcut, list_items, partial_set
from trace_ves.construction.ledger import GIST_SLOT, LANGUAGE_SLOT, MACHINE, Change, Stage
from trace_ves.construction.proposal import NoFootage, list_calls, load_prompt
from trace_ves.core import Clip, ObservationStrategy, Question
from trace_ves.observer import Observer
from trace_ves.video import open as open_video

if TYPE_CHECKING:
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store
    from trace_ves.records.base import Record

DRAWS: Final = 3  # a partial set decides for the model when it is right in all, with the options in another order each
LOOK: Final = ObservationStrategy(fps=2.0, height=360)
MOST_FRAMES: Final = 24  # frames of each interval, at most
REPEATS: Final = 4  # draws of the held-out repeat: with four options, every option takes every place once


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
    question: Question, stage: str, observer: Observer, draws: Sequence[int], *clips: Clip, **more: str
) -> tuple[str | None, ...] | ModelFault:
    """The model's answer in each draw, by the question's own letters; or the first fault."""
    requests, answers = [], []
    for draw in draws:
        rotated = rotate_options(question, draw)
        variables = question_variables(rotated) | more
        requests.append(Request(load_prompt(stage), variables, answer_reply(rotated), clips, draw))
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


def needs_probe(judged: JudgedItem) -> bool:
    """Whether the model has not answered yet without each interval of an item at this stage."""
    evidence = judged.state.evidence
    return judged.state.waits_at is Stage.LEAVE_ONE_OUT and len(judged.probes_about(evidence)) < len(evidence)


def probe_leave_one_out(
    project: Project, store: Store, backbone: Backbone, *, on_progress: Callable[[int, int], None]
) -> int:
    """Ask the vision model about every partial set that waits for it; returns the number of items."""
    waiting = [judged for judged in list_items(store.ledger()) if needs_probe(judged)]
    for done, judged in enumerate(waiting, 1):
        question, evidence = judged.proposal.question(judged.id), judged.state.evidence
        missing = set(range(len(evidence))) - judged.probes_about(evidence).keys()
        with open_video(project.need_path(judged.proposal.video)) as video:
            for left_out in sorted(missing):
                observer = Observer(video, backbone)
                clips = tuple(observer.watch(span, LOOK, limit=MOST_FRAMES) for span in partial_set(evidence, left_out))
                answers = ask_rotated(question, "leave-one-out-probe", observer, range(DRAWS), *clips)
                reply = (
                    answers
                    if isinstance(answers, ModelFault)
                    else Probe(evidence, answers, determines={judged.state.answer} == set(answers))
                )
                store.append([reply_change(judged.id, f"probe/{left_out}", reply, observer)])
        on_progress(done, len(waiting))
    return len(waiting)


def probe_shortcuts(
    store: Store, language: Backbone, gist: Backbone, *, on_progress: Callable[[int, int], None]
) -> tuple[int, int]:
    """Ask both models about every item that waits; returns the number of items, and of those without a summary."""
    ledger = store.ledger()
    waiting = [judged for judged in list_items(ledger) if judged.state.waits_at is Stage.SHORTCUT]
    lacking = 0
    for done, judged in enumerate(waiting, 1):
        probes: list[tuple[Shortcut | None, str, str, Backbone, dict[str, str]]]
        probes = [(judged.language, LANGUAGE_SLOT, "language-only-probe", language, {})]
        if (summary := ledger.caption(judged.proposal.video)) is None:
            lacking += 1
        else:
            probes.append((judged.gist, GIST_SLOT, "gist-probe", gist, {"summary": summary}))
        for known, slot, stage, backbone, more in probes:
            if known is None:
                observer = Observer(NoFootage(), backbone)
                store.append([reply_change(judged.id, slot, _ask_blind(judged, stage, observer, **more), observer)])
        on_progress(done, len(waiting))
    return len(waiting), lacking


def _ask_blind(judged: JudgedItem, stage: str, observer: Observer, **more: str) -> Shortcut | ModelFault:
    question, gold = judged.proposal.question(judged.id), judged.state.answer
    first = ask_rotated(question, stage, observer, [0], **more)
    if isinstance(first, ModelFault):
        return first
    if first[0] != gold:
        return Shortcut(first[0], (), solves=False)
    repeat = ask_rotated(question, stage, observer, range(1, REPEATS + 1), **more)
    if isinstance(repeat, ModelFault):
        return repeat
    return Shortcut(gold, repeat, above_chance(repeat, gold, len(question.options)))


def above_chance(repeat: Sequence[str | None], gold: str, options: int) -> bool:
    """Whether the right option was chosen more often than a blind draw would choose it."""
    return sum(answer == gold for answer in repeat) * options > len(repeat)
