"""A method's account of its search, stored under `trajectory` in a run file: one of ours, or the method's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Discriminator, Field, PlainSerializer, Tag, TypeAdapter, ValidationError, WithJsonSchema

from trace_ves.core.observation import ObservationStrategy
from trace_ves.records.base import Count, Counts, Flag, Names, Number, Numbers, Record, Span, SparseRecord
from trace_ves.records.prediction import ClipRecord


class ClaimKind(StrEnum):
    """What a claim is settled by."""

    TIME = "time"
    """A span of time; two values contradict only where they are disjoint."""
    COUNT = "count"
    """A number that was seen; more evidence may raise it, and only a lower one contradicts."""
    FACT = "fact"
    """A word or two; any other word contradicts."""
    EXPLORED = "explored"
    """Settled by rule from what has been looked at, never by a model that sees only clips."""


@dataclass(frozen=True, slots=True)
class Claim(Record):
    """One thing that the answer depends on. The list of them is closed before the first frame is seen."""

    id: str
    text: str
    kind: ClaimKind = ClaimKind.FACT
    values: tuple[str, ...] = ()
    """What a fact can be; empty for free text."""


@dataclass(frozen=True, slots=True)
class AtLeast(Record):
    """How often something was seen in these clips: never fewer times than this."""

    count: Count
    spans: tuple[Span, ...] = ()
    """When, one span for each time; empty where the model gave only the number."""


FactValue = str | AtLeast | Span


class Status(StrEnum):
    """s_j: whether the bundle can answer the question."""

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
    """What the storyboard showed in a stretch of the video, in words, only for later proposals."""

    start: Number
    end: Number
    note: str
    promising: Flag = True
    """Whether what is asked about may be seen there: then the storyboard's frames do not count as a look."""


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
    id: str | None = None
    """The name of the look, by which REFINE can ask for it again."""
    moment: Number | None = None
    """The moment that suggested it."""
    claims: tuple[str, ...] = ()
    """The claims that it may settle."""


class Refinement(StrEnum):
    """The fixed set from which REFINE chooses."""

    RAISE_FRAME_RATE = "raise-frame-rate"
    RAISE_RESOLUTION = "raise-resolution"
    NARROW_SPAN = "narrow-span"
    SHIFT_CENTRE = "shift-centre"


Refinements = Annotated[frozenset[Refinement], PlainSerializer(sorted, return_type=list[str])]


class Relevance(StrEnum):
    """Whether a look holds evidence."""

    YES = "yes"
    PERHAPS = "perhaps"
    NO = "no"


@dataclass(frozen=True, slots=True)
class LookRecord(Record):
    """What a look at a candidate showed, whether or not it gave an anchor."""

    id: str
    span: Span
    spacing: Number
    """Seconds between its frames."""
    relevant: Relevance
    seen: str = ""
    refined: Refinements = frozenset()
    """The ways in which this look has been repeated already."""


@dataclass(frozen=True, slots=True)
class AnchorRecord(Record):
    """An anchor: the candidate it was found in and its raw clip, without the pixels."""

    id: str
    candidate: Candidate
    clip: ClipRecord
    refined: Refinements = frozenset()
    """The ways in which this anchor has been looked at again already."""
    seen: str = ""
    """What the look at it showed, in the model's words."""


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
    """Look at the candidate of an anchor, or a look that found nothing, again in another way."""

    action: Literal["REFINE"] = field(default="REFINE", kw_only=True)
    anchor: str
    """The anchor's or the look's id."""
    refinement: Refinement


@dataclass(frozen=True, slots=True)
class Expand(Record):
    """Look at these unexplored spans."""

    action: Literal["EXPAND"] = field(default="EXPAND", kw_only=True)
    intervals: tuple[Span, ...]
    look_for: str = "general"


Action = Stop | Drop | Refine | Expand


@dataclass(frozen=True, slots=True)
class Flags(Record):
    """What the trajectory says without a model."""

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
    looks: tuple[LookRecord, ...] = ()
    """What each look of this round showed."""
    scan: Numbers = ()
    """The moments of the scan between the storyboard's frames, where there was one."""
    bundles: tuple[tuple[str, ...], ...] = ()
    """The prefix bundles, as names of anchors."""
    assembled: Counts = ()
    """Which of the bundles were newly formed, and so read in this round; the others had records already."""
    records: Trajectory = ()
    flags: Flags | None = None
    """None where the round ended before the reconciler."""
    decisions: tuple[Decision, ...] = ()
    """What the reconciler decided; a second decision where a replay disagreed."""
    replay: ReplayRecord | None = None


@dataclass(frozen=True, slots=True)
class TraceRecord(Record):
    """The whole search, stored under `trajectory` in a run file."""

    kind: Literal["trace"] = field(default="trace", kw_only=True)
    claims: tuple[Claim, ...]
    storyboard: ClipRecord
    notes: tuple[SegmentNote, ...]
    rounds: tuple[RoundRecord, ...]
    stable_prefix: tuple[str, ...] | None = None
    """The anchors of the prefix that was accepted."""
    fallback: ReplayRecord | None = None
    """The forced answer, where no prefix was accepted."""
    unexplored: tuple[Span, ...] = ()
    """For a count, the stretches that were not looked at closely enough."""
    not_promising: tuple[Span, ...] = ()
    """For a count, the stretches judged not promising from single frames."""


Seconds = Annotated[float, Field(allow_inf_nan=False)]
SpatialRate = Literal["low", "medium"]


class AvpPlan(BaseModel):
    """One observation step, as the planner words it."""

    load_mode: Literal["uniform", "region"]
    fps: float = Field(ge=0.1, le=5.0)
    spatial: SpatialRate
    regions: list[tuple[Seconds, Seconds]] = Field(default_factory=list, max_length=32)
    completion_criteria: str = ""


@dataclass(frozen=True, slots=True)
class AvpPiece(Record):
    """Something seen that bears on the question, and when, in whole seconds."""

    start: Count
    end: Count
    description: str


@dataclass(frozen=True, slots=True)
class AvpEvidence(Record):
    """What one observation brought, as text: all that later calls see of it."""

    round: Count
    description: str
    key_evidence: tuple[AvpPiece, ...] = ()


@dataclass(frozen=True, slots=True)
class AvpVerdict(Record):
    """The reflector's judgement of the evidence so far."""

    answer: str | None
    sufficient: Flag
    confidence: Number
    justification: str = ""


@dataclass(frozen=True, slots=True)
class Fault(Record):
    """What was wrong with a model's reply."""

    fault: str


@dataclass(frozen=True, slots=True)
class AvpRound(SparseRecord):
    """One round."""

    plan: AvpPlan
    spans: tuple[Span, ...]
    evidence: AvpEvidence
    reflection: AvpVerdict | Fault | None = None
    """None for the last round, which is not reflected on."""


@dataclass(frozen=True, slots=True)
class AvpRecord(Record):
    """The whole search, stored under `trajectory` in a run file."""

    kind: Literal["avp"] = field(default="avp", kw_only=True)
    rounds: tuple[AvpRound, ...]


@dataclass(frozen=True, slots=True)
class VcaSegment(Record):
    """A node of the search tree, as prompts and records show it."""

    segment: Count
    start: Number
    end: Number
    relevance: Count = 0


@dataclass(frozen=True, slots=True)
class VcaRating(VcaSegment):
    """A new segment, how relevant it was called and why."""

    explanation: str = ""


@dataclass(frozen=True, slots=True)
class VcaDecision(Record):
    """Explore a candidate, or answer."""

    action: Literal["explore", "answer"]
    segment: Count | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class VcaStep(SparseRecord):
    """One expansion of the tree."""

    explored: VcaSegment
    frames: Numbers
    """When the new frames were taken."""
    scores: tuple[VcaRating, ...] | None = None
    """None where no frame lay inside the segment, so that it could not be split."""
    decision: VcaDecision | Fault | None = None
    """None for a step after which nothing was decided."""


@dataclass(frozen=True, slots=True)
class VcaRecord(Record):
    """The whole search, stored under `trajectory` in a run file."""

    kind: Literal["vca"] = field(default="vca", kw_only=True)
    steps: tuple[VcaStep, ...]


def _kind(record: Any) -> object:
    """What a record says it is; version 0.1.0 did not say, but each kind has a distinctive key."""
    if not isinstance(record, Mapping):
        return getattr(record, "kind", None)
    if "kind" in record:
        return record["kind"] if isinstance(record["kind"], str) else None
    return next((kind for key, kind in _KINDS_BY_KEY.items() if key in record), None)


_KINDS_BY_KEY: Final = {"claims": "trace", "steps": "vca", "rounds": "avp"}
SearchRecord = Annotated[
    Annotated[TraceRecord, Tag("trace")] | Annotated[AvpRecord, Tag("avp")] | Annotated[VcaRecord, Tag("vca")],
    Discriminator(_kind),
]
_ADAPTER: Final[TypeAdapter[SearchRecord]] = TypeAdapter(SearchRecord)


def read_search(trajectory: Mapping[str, object]) -> SearchRecord | None:
    """The search in a `trajectory`; None where it is the method's own record, which only the method can read."""
    try:
        return _ADAPTER.validate_python(trajectory)
    except ValidationError:
        return None
