"""Stage 4: whether an item can be solved without looking, from its words or from a coarse summary of the video.

A first answer that is right must be right more often than by chance in a held-out repeat with other orders of options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.protocol import Backbone, ModelFault
from trace_ves.construction.ledger import GIST_SLOT, LANGUAGE_SLOT, Stage
from trace_ves.construction.requests import NoFootage, ask_rotated, reply_change
from trace_ves.observer import Observer
from trace_ves.records.base import Flag, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trace_ves.construction.judged_item import JudgedItem
    from trace_ves.construction.store import Store

LANGUAGE_STAGE: Final = "language-only-probe"
GIST_STAGE: Final = "gist-probe"
REPEATS: Final = 4  # draws of the held-out repeat: with four options, every option takes every place once


@dataclass(frozen=True, slots=True)
class Shortcut(Record):
    """A model's answers without looking."""

    first: str | None
    repeat: tuple[str | None, ...]  # the held-out repeat; empty if the first answer was wrong already
    solves: Flag


def above_chance(repeat: Sequence[str | None], gold: str, options: int) -> bool:
    """Whether the right option was chosen more often than a blind draw would choose it."""
    return sum(answer == gold for answer in repeat) * options > len(repeat)


def probe_shortcuts(
    store: Store,
    items: Iterable[JudgedItem],
    language: Backbone,
    gist: Backbone,
    *,
    on_progress: Callable[[int, int], None],
) -> tuple[int, int]:
    """Ask both models about every item that waits; returns the number of items, and of those without a summary."""
    ledger = store.ledger()
    waiting = [judged for judged in items if judged.state.waits_at is Stage.SHORTCUT]
    lacking = 0
    for done, judged in enumerate(waiting, 1):
        if judged.language is None:
            reply, observer = _ask(judged, LANGUAGE_STAGE, language, {})
            store.append([reply_change(judged.id, LANGUAGE_SLOT, reply, observer)])
        summary = ledger.caption(judged.proposal.video)
        if summary is None:
            lacking += 1
        elif judged.gist is None:
            reply, observer = _ask(judged, GIST_STAGE, gist, {"summary": summary})
            store.append([reply_change(judged.id, GIST_SLOT, reply, observer)])
        on_progress(done, len(waiting))
    return len(waiting), lacking


def _ask(
    judged: JudgedItem, stage: str, backbone: Backbone, more: Mapping[str, str]
) -> tuple[Shortcut | ModelFault, Observer]:
    observer = Observer(NoFootage(), backbone)
    question, gold = judged.proposal.question(judged.id), judged.state.answer
    first = ask_rotated(question, stage, observer, [0], more=more)
    if isinstance(first, ModelFault):
        return first, observer
    if first[0] != gold:
        return Shortcut(first[0], (), solves=False), observer
    repeat = ask_rotated(question, stage, observer, range(1, REPEATS + 1), more=more)
    if isinstance(repeat, ModelFault):
        return repeat, observer
    return Shortcut(first[0], repeat, above_chance(repeat, gold, len(question.options))), observer
