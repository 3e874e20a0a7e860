"""The values that TRACE's modules exchange: looks, anchors and bundles.

Values without pixels (claims, prefix records, actions) are in `records.search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from trace_ves.backbone.protocol import Prompt
from trace_ves.backbone.replies import question_variables
from trace_ves.records import ClipRecord
from trace_ves.records.search import AnchorRecord, Candidate, Claim, ClaimKind, LookRecord, Refinement, Relevance

if TYPE_CHECKING:
    from trace_ves.core import Clip, Interval, Question
    from trace_ves.core.subtitles import SubtitleExcerpt
    from trace_ves.observer import Observer


def load_prompt(stage: str) -> Prompt:
    """The prompt of a stage of TRACE."""
    return Prompt.load(resources.files("trace_ves.agent") / "prompts", stage)


def format_span(span: Interval) -> dict[str, object]:
    """A span in the form that prompts show."""
    return {"start": round(span.start, 1), "end": round(span.end, 1)}


def prompt_variables(question: Question) -> dict[str, object]:
    """The variables of a question in TRACE's prompts, including the form of an answer that may be null."""
    if question.is_open:
        form = "a few words; null unless the clips settle the question"
        return question_variables(question) | {"options": "none; answer in a few words", "answer_form": form}
    return question_variables(question) | {
        "answer_form": "the letter of an option; null unless exactly one option is left"
    }


@dataclass(frozen=True, slots=True)
class Inquiry:
    """The question, the closed list of claims, and the observer."""

    question: Question
    claims: tuple[Claim, ...]
    observer: Observer

    def variables(self, **more: object) -> dict[str, object]:
        """The variables of a prompt: those of the question and those of the stage."""
        return prompt_variables(self.question) | more

    def claim_variables(self) -> list[dict[str, object]]:
        """The claims that frames can settle, in the form that prompts show."""
        return [
            {"id": claim.id, "claim": claim.text, "kind": claim.kind.value}
            | ({"values": [*claim.values, "other"]} if claim.values else {})
            for claim in self.visible_claims
        ]

    def subtitles(self, spans: Sequence[Interval], most_chars: int) -> SubtitleExcerpt | None:
        """Subtitles in these spans, preferably with words of the question; None without subtitles."""
        subtitles = self.observer.subtitles
        about = " ".join((self.question.text, *self.question.options))
        return None if subtitles is None else subtitles.excerpt(spans, most_chars=most_chars, about=about)

    def open_claims(self, needs: frozenset[str]) -> list[str]:
        """The ids of the open visible claims, in order; all of them before the first reading.

        A count stays open while it may be incomplete.
        """
        incomplete = any(claim.kind is ClaimKind.EXPLORED and claim.id in needs for claim in self.claims)
        return [
            claim.id
            for claim in self.visible_claims
            if not needs or claim.id in needs or (incomplete and claim.kind is ClaimKind.COUNT)
        ]

    @property
    def visible_claims(self) -> tuple[Claim, ...]:
        """The claims that frames can settle."""
        return tuple(claim for claim in self.claims if claim.kind is not ClaimKind.EXPLORED)

    @property
    def counts(self) -> bool:
        """Whether the question is a count."""
        return any(claim.kind is ClaimKind.COUNT for claim in self.claims)


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """A span of a look that shows evidence, and its claims."""

    span: Interval
    claims: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Look:
    """A candidate, its frames, and the model's description of them."""

    candidate: Candidate
    clip: Clip
    relevant: Relevance = Relevance.NO
    seen: str = ""
    events: tuple[SeenEvent, ...] = ()
    between: tuple[float, ...] = ()  # Moments between its frames that the model requests
    refined: frozenset[Refinement] = frozenset()  # The refinements already applied to this look

    @property
    def id(self) -> str:
        """The id of the look, which REFINE can name."""
        return self.candidate.id or ""

    @property
    def has_evidence(self) -> bool:
        """Whether it shows evidence, even if an anchor already shows the same."""
        return self.relevant is Relevance.YES or bool(self.events and self.relevant is not Relevance.NO)

    @property
    def spacing(self) -> float:
        """The widest gap between its frames, in seconds."""
        return self.clip.span.length / max(1, len(self.clip.frames))

    @property
    def record(self) -> LookRecord:
        """The look without its pixels."""
        return LookRecord(self.id, self.clip.span, round(self.spacing, 1), self.relevant, self.seen, self.refined)


@dataclass(frozen=True, slots=True)
class VisualAnchor:
    """The basic visual evidence: a short raw clip inside a candidate span."""

    id: str
    candidate: Candidate
    clip: Clip
    refined: frozenset[Refinement] = frozenset()  # The refinements already applied to this anchor
    seen: str = ""  # The model's description of the look
    claims: frozenset[str] = frozenset()
    is_sure: bool = True  # False if its look saw only a part or the result
    requests: tuple[float, ...] = ()  # Unseen moments that the model requested

    @property
    def record(self) -> AnchorRecord:
        """The anchor without its pixels."""
        return AnchorRecord(self.id, self.candidate, ClipRecord.of(self.clip), self.refined, self.seen)


PrefixBundle = tuple[VisualAnchor, ...]
"""E_j: the first j anchors in order of priority."""

BundleKey = frozenset[str]
"""A bundle is a set of anchors: a new order is not new evidence."""


def bundle_key(bundle: PrefixBundle) -> BundleKey:
    """The identity of a bundle: the set of its anchors."""
    return frozenset(anchor.id for anchor in bundle)


def anchor_ids(bundle: PrefixBundle) -> tuple[str, ...]:
    """The ids of a bundle's anchors, in order."""
    return tuple(anchor.id for anchor in bundle)


def count_frames(bundle: PrefixBundle) -> int:
    """The frames that a call with this bundle supplies."""
    return sum(len(anchor.clip.frames) for anchor in bundle)
