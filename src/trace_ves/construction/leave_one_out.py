"""Stage 3: whether the evidence without one interval still decides the answer, by people and by a vision model.

Knows the rules and how the model is asked; who is asked when, is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.protocol import ModelFault
from trace_ves.construction.looking import Looking
from trace_ves.construction.requests import ask_rotated
from trace_ves.construction.visual_verification import Evidence
from trace_ves.core import ObservationStrategy
from trace_ves.records.base import Flag, Record

if TYPE_CHECKING:
    from trace_ves.core import Question
    from trace_ves.observer import Observer

PROBE_STAGE: Final = "leave-one-out-probe"
DRAWS: Final = 3
"""A partial set decides for the model when it is right in every draw, with the options in another order each time."""
LOOK: Final = ObservationStrategy(fps=2.0, height=360)
MOST_FRAMES: Final = 24
"""Frames of each interval, at most."""


@dataclass(frozen=True, slots=True)
class HumanAnswer(Record):
    """What a person answered from the clips without one interval. None says that they do not decide."""

    evidence: Evidence
    answer: str | None
    looking: Looking | None = None

    def determines(self, gold: str) -> bool:
        """Whether the partial set gave the right option away."""
        return self.answer == gold


@dataclass(frozen=True, slots=True)
class Probe(Record):
    """What the model answered from the clips without one interval."""

    evidence: Evidence
    answers: tuple[str | None, ...]
    determines: Flag


def partial_set(evidence: Evidence, left_out: int) -> Evidence:
    """The evidence without one interval."""
    return evidence[:left_out] + evidence[left_out + 1 :]


def probe(question: Question, gold: str, evidence: Evidence, left_out: int, observer: Observer) -> Probe | ModelFault:
    """Ask the model, from the remaining intervals alone, as often as there are draws."""
    clips = tuple(observer.watch(span, LOOK, limit=MOST_FRAMES) for span in partial_set(evidence, left_out))
    answers = ask_rotated(question, PROBE_STAGE, observer, range(DRAWS), clips=clips)
    return answers if isinstance(answers, ModelFault) else Probe(evidence, answers, {gold} == set(answers))
