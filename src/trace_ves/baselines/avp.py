"""Active Video Perception: plan, observe and reflect in at most three rounds, with evidence as text only.

A text-only planner names one observation per round (the whole video or regions, a frame rate, a spatial rate); one call
observes every region as a clip; a text-only reflector stops the search when it is sure that the evidence is
sufficient. After the last round, the answer is forced from the text. Sources: `docs/decisions/0030-baselines.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, Field

from trace_ves.backbone.protocol import ModelFault, R
from trace_ves.backbone.replies import answer_reply, restrict_answer
from trace_ves.baselines.direct import DEFAULT_HEIGHT, ask_stage, get_answer
from trace_ves.core import Answer, Clip, Interval, ObservationStrategy, Question, Termination
from trace_ves.records.search import (
    AvpEvidence,
    AvpPiece,
    AvpPlan,
    AvpRecord,
    AvpRound,
    AvpVerdict,
    Fault,
    Seconds,
    SpatialRate,
)

if TYPE_CHECKING:
    from trace_ves.observer import Observer

WHOLE_WITHIN_SECONDS: Final = 1.0  # A region this close to both ends counts as the whole video


class KeyEvidence(BaseModel):
    """Something seen that bears on the question, and when."""

    start: Seconds
    end: Seconds
    description: str


class AvpObservation(BaseModel):
    """What one observation brought."""

    description: str
    key_evidence: list[KeyEvidence] = Field(default_factory=list)


class AvpReflection(BaseModel):
    """The reflector's judgement of the evidence so far, with the answer it would give. The reason comes first."""

    justification: str = ""
    sufficient: bool
    confidence: float = Field(ge=0, le=1)
    answer: str | None


FALLBACK_PLAN: Final = AvpPlan(load_mode="uniform", fps=0.5, spatial="low")  # As in the published code


SPATIAL: Final[dict[SpatialRate, tuple[int, int]]] = {"low": (DEFAULT_HEIGHT, 512), "medium": (2 * DEFAULT_HEIGHT, 128)}
"""The height and the most frames of a clip, by spatial rate; `low` has the height of all other baselines."""


@dataclass(frozen=True, slots=True)
class Avp:
    """Active Video Perception with its published bounds."""

    rounds: int = 3  # The paper's audit counted 3.2 planner calls: more rounds, or all text-only calls
    confidence: float = 0.7
    default_budget: int | None = None  # Supplied frames for one question; None for no limit

    def __call__(self, question: Question, observer: Observer) -> Answer:
        """Plan; then observe and reflect, round by round."""
        search = _AvpSearch(question, observer)
        plan = search.plan(missing="")
        for number in range(1, self.rounds + 1):
            # 1. Observe what the plan names, within the budget.
            clips = self.load(plan, observer)
            if not clips:
                break
            search.observe(plan, clips)
            # 2. Skip the reflection in the last round.
            if number == self.rounds:
                break
            # 3. Stop if the model says so, or plan again from what is missing.
            reflection = search.reflect()
            missing = ""
            if isinstance(reflection, AvpReflection):
                is_sure = reflection.sufficient and reflection.confidence >= self.confidence
                if is_sure and reflection.answer is not None:
                    return Answer(reflection.answer, Termination.SELF_REPORTED, record=search.record())
                missing = reflection.justification
            plan = search.plan(missing)
        return Answer(search.forced_answer(), Termination.EXHAUSTED, record=search.record())

    def load(self, plan: AvpPlan, observer: Observer) -> tuple[Clip, ...]:
        """Decode every region of a plan as a clip, with rates lowered to the limits of a clip and of the budget."""
        height, most_frames = SPATIAL[plan.spatial]
        spans = list_spans(plan, observer.whole)
        counts = [max(1, min(most_frames, round(span.length * plan.fps))) for span in spans]
        share = min(1.0, observer.remaining / sum(counts))
        clips = []
        for span, count in zip(spans, counts, strict=True):
            if frames := int(count * share):
                fps = min(plan.fps, frames / span.length) if span.length else plan.fps
                clips.append(observer.watch(span, ObservationStrategy(fps, height), limit=frames))
        return tuple(clips)


def list_spans(plan: AvpPlan, whole: Interval) -> tuple[Interval, ...]:
    """The regions of a plan, clipped to the video; without a valid region, the whole video."""
    if plan.load_mode == "uniform":
        return (whole,)
    spans = []
    for start, end in map(sorted, plan.regions):
        if start <= whole.end and end >= 0:
            first = min(max(start, 0.0), max(0.0, whole.end - 1.0))
            last = min(max(end, first + 1.0), whole.end)  # a single moment t means [t, t + 1]
            is_whole = first <= WHOLE_WITHIN_SECONDS and last >= whole.end - WHOLE_WITHIN_SECONDS
            spans.append(whole if is_whole else Interval(first, last))
    return tuple(spans) or (whole,)


@dataclass(slots=True)
class _AvpSearch:
    """The evidence of one question as text, and the record of the search."""

    question: Question
    observer: Observer
    rounds: list[AvpRound] = field(default_factory=list)

    def plan(self, missing: str) -> AvpPlan:
        reply = self._ask("avp-plan", AvpPlan, missing=missing or "nothing has been checked yet")
        return FALLBACK_PLAN if isinstance(reply, ModelFault) else reply

    def observe(self, plan: AvpPlan, clips: tuple[Clip, ...]) -> None:
        criteria = plan.completion_criteria or "find what the question needs"
        reply = self._ask("avp-observe", AvpObservation, clips, completion_criteria=criteria)
        pieces = () if isinstance(reply, ModelFault) else tuple(map(self._round_outward, reply.key_evidence))
        description = "" if isinstance(reply, ModelFault) else reply.description
        evidence = AvpEvidence(len(self.rounds) + 1, description, pieces)
        self.rounds.append(AvpRound(plan, tuple(clip.span for clip in clips), evidence))

    def reflect(self) -> AvpReflection | ModelFault:
        reply = self._ask("avp-reflect", restrict_answer(AvpReflection, self.question))
        verdict = (
            Fault(reply.reason)
            if isinstance(reply, ModelFault)
            else AvpVerdict(reply.answer, reply.sufficient, reply.confidence, reply.justification)
        )
        self.rounds[-1] = replace(self.rounds[-1], reflection=verdict)
        return reply

    def forced_answer(self) -> str | None:
        return get_answer(self._ask("avp-answer", answer_reply(self.question, forced=True)))

    def record(self) -> dict[str, object]:
        return AvpRecord(tuple(self.rounds)).to_json()

    def _round_outward(self, piece: KeyEvidence) -> AvpPiece:
        start, end = sorted((piece.start, piece.end))
        last = math.ceil(self.observer.whole.end)
        return AvpPiece(min(max(math.floor(start), 0), last), min(max(math.ceil(end), 0), last), piece.description)

    def _ask(self, stage: str, reply: type[R], clips: Sequence[Clip] = (), **variables: object) -> R | ModelFault:
        state = {
            "duration": round(self.observer.whole.length, 1),
            "evidence": [each.evidence.to_json() for each in self.rounds],
        }
        return ask_stage(self.observer, self.question, stage, reply, clips, **state, **variables)
