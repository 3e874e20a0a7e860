"""The values that pass between the modules of TRACE: anchors, bundles, prefix records, actions.

Plain data without behaviour; what the modules do with it stands in the file of each module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from trace_ves.backbone.replies import question_variables
from trace_ves.core import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.core import Clip, ObservationStrategy, Question
    from trace_ves.observer import Observer


class ClaimKind(StrEnum):
    """What a claim is settled by."""

    TIME = "time"
    """A span of time; two values contradict only where they are disjoint."""
    COUNT = "count"
    """A number that was seen; more evidence may raise it, and only a lower one contradicts."""
    FACT = "fact"
    """A word or two; any other word contradicts."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that the answer depends on. The list of them is closed before the first frame is seen."""

    id: str
    text: str
    kind: ClaimKind = ClaimKind.FACT


@dataclass(frozen=True, slots=True)
class AtLeast:
    """How often something was seen in the clips at hand: never fewer times than this."""

    count: int


FactValue = str | AtLeast | Interval


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What every module needs: the question, the closed list of claims, and the road to the video and the backbone."""

    question: Question
    claims: tuple[Claim, ...]
    observer: Observer

    def variables(self, **more: object) -> dict[str, object]:
        """What fills a prompt: the question, its options, and what the stage adds."""
        return question_variables(self.question) | more

    def claim_variables(self) -> list[dict[str, str]]:
        """The claims as a prompt shows them."""
        return [{"id": claim.id, "claim": claim.text, "kind": claim.kind.value} for claim in self.claims]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that may hold evidence, and how to look at it."""

    span: Interval
    strategy: ObservationStrategy
    replaces: str | None = None
    """The anchor that this candidate looks at again, for REFINE."""


@dataclass(frozen=True, slots=True)
class VisualAnchor:
    """The basic visual evidence: a short raw clip inside a candidate span."""

    id: str
    candidate: Candidate
    clip: Clip
    refined: frozenset[Refinement] = frozenset()
    """The ways in which this anchor has been looked at again already."""


PrefixBundle = tuple[VisualAnchor, ...]
"""E_j: the first j anchors in order of priority."""

BundleKey = frozenset[str]
"""A bundle is the set of its anchors: the order in which they came is no new evidence."""


def key(bundle: PrefixBundle) -> BundleKey:
    """What identifies a bundle."""
    return frozenset(anchor.id for anchor in bundle)


def frames_in(bundle: PrefixBundle) -> int:
    """Frames that a call over this bundle supplies."""
    return sum(len(anchor.clip.frames) for anchor in bundle)


class Status(StrEnum):
    """s_j: whether the bundle at hand can answer the question."""

    ANSWERABLE = "answerable"
    INSUFFICIENT = "insufficient"
    CONFLICTED = "conflicted"


@dataclass(frozen=True, slots=True)
class PrefixRecord:
    """r_j = (y_j, s_j, F_j, U_j)."""

    answer: str | None
    status: Status
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    """F_j: the claims that the clips settle, and how."""
    unmet_needs: frozenset[str] = frozenset()
    """U_j: the claims that are still open."""


Trajectory = tuple[PrefixRecord, ...]


class Refinement(StrEnum):
    """The fixed set from which REFINE chooses."""

    RAISE_FRAME_RATE = "raise-frame-rate"
    RAISE_RESOLUTION = "raise-resolution"
    NARROW_SPAN = "narrow-span"
    SHIFT_CENTRE = "shift-centre"


@dataclass(frozen=True, slots=True)
class Stop:
    """Accept the minimal stable prefix, if replay agrees."""

    prefix: int
    """Index of j* in the trajectory, from 0."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove anchors and build the trajectory again."""

    anchors: frozenset[str]


@dataclass(frozen=True, slots=True)
class Refine:
    """Look at the candidate of an anchor again, in another way."""

    anchor: str
    refinement: Refinement


@dataclass(frozen=True, slots=True)
class Expand:
    """Look for new candidates in these unexplored spans."""

    intervals: tuple[Interval, ...]


Action = Stop | Drop | Refine | Expand


@dataclass(frozen=True, slots=True)
class SegmentNote:
    """What the storyboard showed in a stretch of the video, in words for later proposals alone."""

    start: float
    end: float
    note: str
