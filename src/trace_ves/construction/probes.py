"""Stages 3 and 4: whether a model solves an item from partial evidence, or without the video.

Without the video, a model solves an item if it is right at first and then more often than by chance when asked again.
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

DRAWS: Final = 3  # with different orders of the options; the model solves a partial set if it is right in all
LOOK: Final = ObservationStrategy(fps=2.0, height=360)
MOST_FRAMES: Final = 24  # per interval
REPEATS: Final = 4  # draws of the held-out repeat; with four options, each option takes every place once


def rotate_options(question: Question, draw: int) -> Question:
    """Rotate the options by one place per draw, so that a preference for a letter does not count as knowledge."""
    turn = draw % len(question.options)
    return replace(question, options=(*question.options[turn:], *question.options[:turn]))


def original_letter(letter: str | None, draw: int, question: Question) -> str | None:
    """Map a letter of the rotated question to the letter in the original question."""
    if letter is None:
        return None
    letters = question.letters
    return letters[(letters.index(letter) + draw) % len(letters)]


def ask_rotated(
    question: Question, stage: str, observer: Observer, draws: Sequence[int], *clips: Clip, **more: str
) -> tuple[str | None, ...] | ModelFault:
    """Ask with rotated options; returns the answers as original letters, or the first fault."""
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
    """The change that records a reply and its calls; a fault goes to another slot, so that the model is asked again."""
    calls = list_calls(observer)
    if isinstance(reply, ModelFault):
        return Change(item, f"fault/{slot}", MACHINE, {"fault": reply.reason}, calls=calls)
    return Change(item, slot, MACHINE, reply.to_json(), calls=calls)


def needs_probe(judged: JudgedItem) -> bool:
    """Whether an item waits for the model's answers about its partial sets."""
    evidence = judged.state.evidence
    return judged.state.waits_at is Stage.LEAVE_ONE_OUT and len(judged.probes_about(evidence)) < len(evidence)


def probe_leave_one_out(
    project: Project, store: Store, backbone: Backbone, *, on_progress: Callable[[int, int], None]
) -> int:
    """Ask the vision model about every waiting partial set; returns the number of items."""
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
    """Ask both models about every waiting item; returns the number of items, and of those without a summary."""
    ledger = store.ledger()
    waiting = [judged for judged in list_items(ledger) if judged.state.waits_at is Stage.SHORTCUT]
    without_summary = 0
    for done, judged in enumerate(waiting, 1):
        probes: list[tuple[Shortcut | None, str, str, Backbone, dict[str, str]]]
        probes = [(judged.language, LANGUAGE_SLOT, "language-only-probe", language, {})]
        if (summary := ledger.caption(judged.proposal.video)) is None:
            without_summary += 1
        else:
            probes.append((judged.gist, GIST_SLOT, "gist-probe", gist, {"summary": summary}))
        for answered, slot, stage, backbone, variables in probes:
            if answered is None:
                observer = Observer(NoFootage(), backbone)
                reply = _ask_blind(judged, stage, observer, **variables)
                store.append([reply_change(judged.id, slot, reply, observer)])
        on_progress(done, len(waiting))
    return len(waiting), without_summary


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
    """Whether the right option was chosen more often than by chance."""
    return sum(answer == gold for answer in repeat) * options > len(repeat)
