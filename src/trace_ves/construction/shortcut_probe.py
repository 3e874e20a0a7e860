"""Stage 4: whether an item can be solved without looking, from its words alone or from a coarse gist of the video.

A first answer that is right is asked again with the options in other orders: the held-out repeat. Only being right
there more often than by chance counts, so that one lucky guess rejects nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.protocol import ModelFault
from trace_ves.construction.requests import ask_rotated
from trace_ves.records.base import Flag, Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trace_ves.core import Question
    from trace_ves.observer import Observer

LANGUAGE_STAGE: Final = "language-only-probe"
GIST_STAGE: Final = "gist-probe"
REPEATS: Final = 4
"""Draws of the held-out repeat: with four options, every option stands once in every place."""


@dataclass(frozen=True, slots=True)
class Shortcut(Record):
    """What a model answered without looking."""

    first: str | None
    repeat: tuple[str | None, ...]
    """The held-out repeat; empty where the first answer was wrong already."""
    solves: Flag


def above_chance(repeat: Sequence[str | None], gold: str, options: int) -> bool:
    """Whether the right option was chosen more often than a blind draw would choose it."""
    return sum(answer == gold for answer in repeat) * options > len(repeat)


def probe_words(question: Question, gold: str, observer: Observer) -> Shortcut | ModelFault:
    """Ask from the question and options alone."""
    return _probe(question, gold, observer, LANGUAGE_STAGE, {})


def probe_gist(question: Question, gold: str, summary: str, observer: Observer) -> Shortcut | ModelFault:
    """Ask from the question, the options and a global summary of the video."""
    return _probe(question, gold, observer, GIST_STAGE, {"summary": summary})


def _probe(
    question: Question, gold: str, observer: Observer, stage: str, more: Mapping[str, str]
) -> Shortcut | ModelFault:
    first = ask_rotated(question, stage, observer, [0], more=more)
    if isinstance(first, ModelFault):
        return first
    if first[0] != gold:
        return Shortcut(first[0], (), solves=False)
    repeat = ask_rotated(question, stage, observer, range(1, REPEATS + 1), more=more)
    if isinstance(repeat, ModelFault):
        return repeat
    return Shortcut(first[0], repeat, above_chance(repeat, gold, len(question.options)))
