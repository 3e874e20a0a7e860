"""TRACE's values that go on record: claims, prefix records, actions, and the whole search, round by round.

The agent works with these very values; only what holds pixels (a clip, an anchor) is turned into its record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, WithJsonSchema

from trace_ves.core.observation import ObservationStrategy
from trace_ves.records.prediction import ClipRecord
from trace_ves.records.record import Count, Counts, Flag, Names, Number, Record, Span


class ClaimKind(StrEnum):
    """What a claim is settled by."""

    TIME = "time"
    """A span of time; two values contradict only where they are disjoint."""
    COUNT = "count"
    """A number that was seen; more evidence may raise it, and only a lower one contradicts."""
    FACT = "fact"
    """A word or two; any other word contradicts."""
    EXPLORED = "explored"
    """Settled by rule from what has been looked at, never by a model that sees clips alone."""


@dataclass(frozen=True, slots=True)
class Claim(Record):
    """One thing that the answer depends on. The list of them is closed before the first frame is seen."""

    id: str
    text: str
    kind: ClaimKind = ClaimKind.FACT
    values: tuple[str, ...] = ()
    """What a fact can be; empty where it is told in free words."""


@dataclass(frozen=True, slots=True)
class AtLeast(Record):
    """How often something was seen in the clips at hand: never fewer times than this."""

    count: Count


FactValue = str | AtLeast | Span


class Status(StrEnum):
    """s_j: whether the bundle at hand can answer the question."""

    ANSWERABLE = "answerable"
    INSUFFICIENT = "insufficient"
    CONFLICTED = "conflicted"


@dataclass(frozen=True, slots=True)
class PrefixRecord(Record):
    """r_j = (y_j, s_j, F_j, U_j)."""

    answer: str | None
    status: Status
    facts: dict[str, FactValue] = field(default_factory=dict)
    """F_j: the claims that the clips settle, and how."""
    unmet_needs: Names = frozenset()
    """U_j: the claims that are still open."""


Trajectory = tuple[PrefixRecord, ...]


@dataclass(frozen=True, slots=True)
class SegmentNote(Record):
    """What the storyboard showed in a stretch of the video, in words for later proposals alone."""

    start: Number
    end: Number
    note: str
    promising: Flag = True
    """Whether what is asked about may be seen there: then the storyboard's frames do not stand for a look."""


Strategy = Annotated[
    ObservationStrategy,
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "fps": {"type": "number", "exclusiveMinimum": 0, "description": "Frames for each second."},
                "height": {"type": "integer", "exclusiveMinimum": 0, "description": "Rows of pixels."},
            },
        }
    ),
]
"""How closely to look at a span."""


@dataclass(frozen=True, slots=True)
class Candidate(Record):
    """A span that may hold evidence, and how to look at it."""

    span: Span
    strategy: Strategy
    frames: Count | None = None
    """How many frames the look takes; version 0.1.0 did not say."""
    replaces: str | None = None
    """The anchor that this candidate looks at again, for REFINE."""


class Refinement(StrEnum):
    """The fixed set from which REFINE chooses."""

    RAISE_FRAME_RATE = "raise-frame-rate"
    RAISE_RESOLUTION = "raise-resolution"
    NARROW_SPAN = "narrow-span"
    SHIFT_CENTRE = "shift-centre"


Refinements = Annotated[frozenset[Refinement], PlainSerializer(sorted, return_type=list[str])]


@dataclass(frozen=True, slots=True)
class AnchorRecord(Record):
    """An anchor: the candidate it was found in and its raw clip, without the pixels."""

    id: str
    candidate: Candidate
    clip: ClipRecord
    refined: Refinements = frozenset()
    """The ways in which this anchor has been looked at again already."""


@dataclass(frozen=True, slots=True)
class Stop(Record):
    """Accept the minimal stable prefix, if replay agrees."""

    action: Literal["STOP"] = field(default="STOP", kw_only=True)
    prefix: Count
    """Index of j* in the trajectory, from 0."""


@dataclass(frozen=True, slots=True)
class Drop(Record):
    """Remove anchors and build the trajectory again."""

    action: Literal["DROP"] = field(default="DROP", kw_only=True)
    anchors: Names


@dataclass(frozen=True, slots=True)
class Refine(Record):
    """Look at the candidate of an anchor again, in another way."""

    action: Literal["REFINE"] = field(default="REFINE", kw_only=True)
    anchor: str
    refinement: Refinement


@dataclass(frozen=True, slots=True)
class Expand(Record):
    """Look for new candidates in these unexplored spans."""

    action: Literal["EXPAND"] = field(default="EXPAND", kw_only=True)
    intervals: tuple[Span, ...]


Action = Stop | Drop | Refine | Expand


@dataclass(frozen=True, slots=True)
class Flags(Record):
    """What the trajectory alone says."""

    stable_prefix: Count | None
    """j*: index, from 0, of the earliest prefix that nothing later unsettles."""
    conflicts: Names
    """C: the anchors whose addition flipped, degraded or contradicted what was there, or made a replay disagree."""
    unmet_needs: Names
    """U*: the claims that are still open at the end."""


@dataclass(frozen=True, slots=True)
class Decision(Record):
    """The action taken, or none where nothing is left to do, and what the rules refused of the model's wish."""

    action: Annotated[Action, Field(discriminator="action")] | None
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayRecord(Record):
    """A replay over one prefix: what it said, and whether that was what the prefix had said."""

    prefix: tuple[str, ...]
    answer: str | None
    agrees: Flag


@dataclass(frozen=True, slots=True)
class RoundRecord(Record):
    """One round of Algorithm 1."""

    number: Count
    candidates: tuple[Candidate, ...] = ()
    refused: tuple[str, ...] = ()
    """What the rules refused of the proposal."""
    anchors: tuple[AnchorRecord, ...] = ()
    """The anchors found in this round."""
    bundles: tuple[tuple[str, ...], ...] = ()
    """The prefix bundles, as names of anchors."""
    assembled: Counts = ()
    """Which of the bundles were newly formed, and so read in this round; the others' records stood already."""
    records: Trajectory = ()
    flags: Flags | None = None
    """None where the round ended before the reconciler."""
    decisions: tuple[Decision, ...] = ()
    """What the reconciler decided; a second decision where a replay disagreed."""
    replay: ReplayRecord | None = None


@dataclass(frozen=True, slots=True)
class TraceRecord(Record):
    """The whole search, as it stands under `trajectory` in a run file."""

    kind: Literal["trace"] = field(default="trace", kw_only=True)
    claims: tuple[Claim, ...]
    storyboard: ClipRecord
    notes: tuple[SegmentNote, ...]
    rounds: tuple[RoundRecord, ...]
    stable_prefix: tuple[str, ...] | None = None
    """The anchors of the prefix that was accepted."""
    fallback: ReplayRecord | None = None
    """The forced answer, where no prefix was accepted."""
