"""Which story a run line tells: TRACE's, AVP's, VCA's, or, for a method that is not known, its record as it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from trace_ves.web.loose import LONGEST_TEXT, mapping, mappings, number, span, spans, text
from trace_ves.web.trace_story import TraceStory, trace_story

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Span = tuple[float, float]

LONGEST_RECORD: Final = 20 * LONGEST_TEXT


@dataclass(frozen=True, slots=True)
class AvpRound:
    """Plan, what was observed, and the reflection on it."""

    plan: str
    criteria: str
    spans: tuple[Span, ...]
    description: str
    evidence: tuple[tuple[Span, str], ...]
    verdict: str
    """What the reflector said; empty where the round was not reflected on."""
    is_enough: bool
    answer: str
    justification: str


@dataclass(frozen=True, slots=True)
class AvpStory:
    """Active Video Perception: rounds."""

    rounds: tuple[AvpRound, ...]

    kind: ClassVar[str] = "avp"


@dataclass(frozen=True, slots=True)
class VcaStep:
    """One expansion of the tree: the segment, its rated children, and the decision."""

    segment: str
    span: Span
    scores: tuple[tuple[str, Span, float, str], ...]
    """Segment, span, relevance from 0 to 100, explanation."""
    decision: str
    answer: str


@dataclass(frozen=True, slots=True)
class VcaStory:
    """Video Curious Agent: steps."""

    steps: tuple[VcaStep, ...]

    kind: ClassVar[str] = "vca"


@dataclass(frozen=True, slots=True)
class OtherStory:
    """A record that the page cannot tell apart, as JSON."""

    record: str

    kind: ClassVar[str] = "other"


Story = TraceStory | AvpStory | VcaStory | OtherStory


def story_of(record: Mapping[str, object]) -> Story | None:
    """The story in a record; None where the method kept none."""
    if not record:
        return None
    return next((found for read in _READERS if (found := read(record)) is not None), None)


def _avp(record: Mapping[str, object]) -> AvpStory | None:
    rounds = mappings(record.get("rounds"))
    if not rounds or not all("plan" in each for each in rounds):
        return None
    return AvpStory(tuple(_avp_round(each) for each in rounds))


def _avp_round(record: Mapping[str, object]) -> AvpRound:
    plan, seen, said = (mapping(record.get(key)) for key in ("plan", "evidence", "reflection"))
    rate = f"{text(plan.get('fps'))} fps, {text(plan.get('spatial'))} resolution"
    where = "the whole video" if plan.get("load_mode") == "uniform" else "regions"
    sure = number(said.get("confidence"))
    enough = said.get("sufficient") is True
    return AvpRound(
        plan=f"{where} at {rate}",
        criteria=text(plan.get("completion_criteria")),
        spans=spans(record.get("spans")),
        description=text(seen.get("description")),
        evidence=tuple(
            (place, text(piece.get("description")))
            for piece in mappings(seen.get("key_evidence"))
            if (place := span([piece.get("start"), piece.get("end")])) is not None
        ),
        verdict=(f"{'enough' if enough else 'not enough'}, confidence {sure:g}" if sure is not None else ""),
        is_enough=enough,
        answer=text(said.get("answer")),
        justification=text(said.get("justification")),
    )


def _vca(record: Mapping[str, object]) -> VcaStory | None:
    steps = mappings(record.get("steps"))
    if not steps or not all("explored" in each for each in steps):
        return None
    return VcaStory(tuple(_vca_step(each) for each in steps))


def _vca_step(record: Mapping[str, object]) -> VcaStep:
    explored, decision = mapping(record.get("explored")), mapping(record.get("decision"))
    action = text(decision.get("action"))
    words = {"explore": f"explore segment {text(decision.get('segment'))}", "answer": "answer"}
    return VcaStep(
        segment=text(explored.get("segment")),
        span=_ends(explored) or (0.0, 0.0),
        scores=tuple(
            (text(score.get("segment")), place, number(score.get("relevance")) or 0.0, text(score.get("explanation")))
            for score in mappings(record.get("scores"))
            if (place := _ends(score)) is not None
        ),
        decision=words.get(action, "no usable decision" if decision else ""),
        answer=text(decision.get("answer")),
    )


def _ends(record: Mapping[str, object]) -> Span | None:
    return span([record.get("start"), record.get("end")])


def _other(record: Mapping[str, object]) -> OtherStory:
    shown = json.dumps(record, ensure_ascii=False, indent=1)
    return OtherStory(shown if len(shown) <= LONGEST_RECORD else shown[:LONGEST_RECORD] + "\n…")


_READERS: Final[tuple[Callable[[Mapping[str, object]], Story | None], ...]] = (trace_story, _avp, _vca, _other)
