"""Stage 3: whether the evidence without one interval still decides the answer, by people and by a vision model.

Knows the rules and how the model is asked; who is asked when, is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.protocol import ModelFault
from trace_ves.construction.looking import Looking
from trace_ves.construction.probe_requests import ask_rotated
from trace_ves.construction.visual_verification import Evidence, evidence_from_history, evidence_to_json
from trace_ves.core import ObservationStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.core import Question
    from trace_ves.observer import Observer

PROBE_STAGE: Final = "leave-one-out-probe"
DRAWS: Final = 3
"""A partial set decides for the model when it is right in every draw, with the options in another order each time."""
LOOK: Final = ObservationStrategy(fps=2.0, height=360)
MOST_FRAMES: Final = 24
"""Frames of each interval, at most."""


@dataclass(frozen=True, slots=True)
class HumanAnswer:
    """What a person answered from the clips without one interval. None says that they do not decide."""

    evidence: Evidence
    answer: str | None
    looking: Looking | None = None

    def determines(self, gold: str) -> bool:
        """Whether the partial set gave the right option away."""
        return self.answer == gold

    def to_json(self) -> dict[str, Any]:
        """The answer as it stands in the history."""
        looking = self.looking.to_json() if self.looking else None
        return {"evidence": evidence_to_json(self.evidence), "answer": self.answer, "looking": looking}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> HumanAnswer:
        """The answer that `to_json` wrote."""
        looking = Looking.from_json(value.get("looking"))
        return cls(evidence_from_history(value["evidence"]), value["answer"], looking)


@dataclass(frozen=True, slots=True)
class Probe:
    """What the model answered from the clips without one interval."""

    evidence: Evidence
    answers: tuple[str | None, ...]
    determines: bool

    def to_json(self) -> dict[str, Any]:
        """The probe as it stands in the history."""
        return {
            "evidence": evidence_to_json(self.evidence),
            "answers": list(self.answers),
            "determines": self.determines,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Probe:
        """The probe that `to_json` wrote."""
        return cls(evidence_from_history(value["evidence"]), tuple(value["answers"]), bool(value["determines"]))


def partial_set(evidence: Evidence, left_out: int) -> Evidence:
    """The evidence without one interval."""
    return evidence[:left_out] + evidence[left_out + 1 :]


def probe(question: Question, gold: str, evidence: Evidence, left_out: int, observer: Observer) -> Probe | ModelFault:
    """Ask the model, from the remaining intervals alone, as often as there are draws."""
    clips = tuple(observer.watch(span, LOOK, limit=MOST_FRAMES) for span in partial_set(evidence, left_out))
    answers = ask_rotated(question, PROBE_STAGE, observer, range(DRAWS), clips=clips)
    return answers if isinstance(answers, ModelFault) else Probe(evidence, answers, {gold} == set(answers))
