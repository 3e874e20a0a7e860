"""The values that pass between the modules of TRACE and hold pixels: anchors and bundles of them.

Values that go on record as they are (claims, prefix records, actions) stand in `records.trace`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_ves.backbone.replies import question_variables
from trace_ves.records import ClipRecord
from trace_ves.records.search import AnchorRecord, ClaimKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.core import Clip, Interval, Question
    from trace_ves.core.subtitles import SubtitleExcerpt
    from trace_ves.observer import Observer
    from trace_ves.records.search import Candidate, Claim, Refinement


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What every module needs: the question, the closed list of claims, and the road to the video and the backbone."""

    question: Question
    claims: tuple[Claim, ...]
    observer: Observer

    def variables(self, **more: object) -> dict[str, object]:
        """What fills a prompt: the question, its options, and what the stage adds."""
        return question_variables(self.question) | more

    def claim_variables(self) -> list[dict[str, object]]:
        """The claims that pictures can settle, as a prompt shows them."""
        return [
            {"claim": claim.id, "about": claim.text, "kind": claim.kind.value}
            | ({"values": list(claim.values)} if claim.values else {})
            for claim in self.visible_claims
        ]

    def subtitles(self, spans: Sequence[Interval], most_chars: int) -> SubtitleExcerpt | None:
        """What is said in these spans, the question's own words first; None where no subtitles are to be shown."""
        known = self.observer.subtitles
        about = " ".join((self.question.text, *self.question.options))
        return None if known is None else known.excerpt(spans, most_chars=most_chars, about=about)

    def open_claims(self, needs: frozenset[str]) -> list[str]:
        """The ids of the claims that are still open, in their order: all of them before anything was read."""
        return [claim.id for claim in self.claims if claim.id in needs or not needs]

    @property
    def visible_claims(self) -> tuple[Claim, ...]:
        """The claims that pictures can settle."""
        return tuple(claim for claim in self.claims if claim.kind is not ClaimKind.EXPLORED)


@dataclass(frozen=True, slots=True)
class VisualAnchor:
    """The basic visual evidence: a short raw clip inside a candidate span."""

    id: str
    candidate: Candidate
    clip: Clip
    refined: frozenset[Refinement] = frozenset()
    """The ways in which this anchor has been looked at again already."""

    @property
    def record(self) -> AnchorRecord:
        """The anchor without its pixels."""
        return AnchorRecord(self.id, self.candidate, ClipRecord.of(self.clip), self.refined)


PrefixBundle = tuple[VisualAnchor, ...]
"""E_j: the first j anchors in order of priority."""

BundleKey = frozenset[str]
"""A bundle is the set of its anchors: the order in which they came is no new evidence."""


def key(bundle: PrefixBundle) -> BundleKey:
    """What identifies a bundle."""
    return frozenset(anchor.id for anchor in bundle)


def names_of(bundle: PrefixBundle) -> tuple[str, ...]:
    """The names of a bundle's anchors, in their order."""
    return tuple(anchor.id for anchor in bundle)


def frames_in(bundle: PrefixBundle) -> int:
    """Frames that a call over this bundle supplies."""
    return sum(len(anchor.clip.frames) for anchor in bundle)
