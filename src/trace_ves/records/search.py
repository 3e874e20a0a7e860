"""The records of a search, stored under `trajectory` in a run file, for TRACE, AVP and VCA."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Discriminator, Field, PlainSerializer, Tag, TypeAdapter, ValidationError, WithJsonSchema

from trace_ves.core.observation import ObservationStrategy
from trace_ves.records.base import Count, Counts, Flag, Names, Number, Numbers, Record, Span, SparseRecord
from trace_ves.records.prediction import ClipRecord


class ClaimKind(StrEnum):
    """The kind of value that settles a claim."""

    TIME = "time"
    """A span of time. Two values contradict each other only if they are disjoint."""
    COUNT = "count"
    """A number of occurrences. More evidence may raise it; only a lower number contradicts."""
    FACT = "fact"
    """A word or two. Any other value contradicts."""
    EXPLORED = "explored"
    """Settled by rule from the explored parts of the video, never by a model, which sees only clips."""


@dataclass(frozen=True, slots=True)
class Claim(Record):
    """One thing that the answer depends on. The list of claims is fixed before the first frame is seen."""

    id: str
    text: str
    kind: ClaimKind = ClaimKind.FACT
    values: tuple[str, ...] = ()
    """The possible values of a fact; empty for free text."""


@dataclass(frozen=True, slots=True)
class AtLeast(Record):
    """The least number of occurrences of something."""

    count: Count
    spans: tuple[Span, ...] = ()
    """One span for each occurrence; empty if the model gave only the number."""


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
    """F_j: the claims that the clips settle, with their values."""
    unmet_needs: Names = frozenset()
    """U_j: the claims that are still open."""


Trajectory = tuple[PrefixRecord, ...]


@dataclass(frozen=True, slots=True)
class SegmentNote(Record):
    """A note on what the storyboard shows in a span. Only later proposals see it."""

    start: Number
    end: Number
    note: str
    promising: Flag = True
    """Whether the span may show what the question asks about. If so, the storyboard's frames do not count as a look."""


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
    """A span that may contain evidence, and how to look at it."""

    span: Span
    strategy: Strategy
    frames: Count | None = None
    """The number of frames of the look; not in files of version 0.1.0."""
    replaces: str | None = None
    """For REFINE, the anchor that this candidate looks at again."""
    id: str | None = None
    """The id of the look, which REFINE can name."""
    moment: Number | None = None
    """The moment at which a frame suggested this candidate."""
    claims: tuple[str, ...] = ()
    """The claims that the candidate may settle."""


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
    """The result of a look at a candidate, with or without an anchor."""

    id: str
    span: Span
    spacing: Number
    """Seconds between its frames."""
    relevant: Relevance
    seen: str = ""
    refined: Refinements = frozenset()
    """The refinements already applied to this look."""


@dataclass(frozen=True, slots=True)
class AnchorRecord(Record):
    """An anchor: its candidate and its raw clip, without the pixels."""

    id: str
    candidate: Candidate
    clip: ClipRecord
    refined: Refinements = frozenset()
    """The refinements already applied to this anchor."""
    seen: str = ""
    """The model's description of the look."""


@dataclass(frozen=True, slots=True)
class Stop(Record):
    """Accept the minimal stable prefix, if replay agrees."""

    action: Literal["STOP"] = field(default="STOP", kw_only=True)
    prefix: Count
    """j*: the index of the prefix in the trajectory, from 0."""


@dataclass(frozen=True, slots=True)
class Drop(Record):
    """Remove anchors and build the trajectory again."""

    action: Literal["DROP"] = field(default="DROP", kw_only=True)
    anchors: Names


@dataclass(frozen=True, slots=True)
class Refine(Record):
    """Repeat a look in another way: at the candidate of an anchor, or a look that found nothing."""

    action: Literal["REFINE"] = field(default="REFINE", kw_only=True)
    anchor: str
    """The id of the anchor or look."""
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
    """The flags that rules compute from the trajectory, without a model."""

    stable_prefix: Count | None
    """j*: the index, from 0, of the earliest stable prefix."""
    conflicts: Names
    """C: the anchors that flipped the answer, degraded the status, contradicted a fact, or made a replay disagree."""
    unmet_needs: Names
    """U*: the claims that are open in the last record."""


@dataclass(frozen=True, slots=True)
class Decision(Record):
    """The action taken, null if there is none left, and the parts of the model's choice that the rules refused."""

    action: Annotated[Action, Field(discriminator="action")] | None
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayRecord(Record):
    """A replay over one prefix: its answer, and whether it agrees with the record of the prefix."""

    prefix: tuple[str, ...]
    answer: str | None
    agrees: Flag


@dataclass(frozen=True, slots=True)
class RoundRecord(Record):
    """One round of Algorithm 1."""

    number: Count
    candidates: tuple[Candidate, ...] = ()
    refused: tuple[str, ...] = ()
    """The parts of the proposal that the rules refused."""
    anchors: tuple[AnchorRecord, ...] = ()
    """The anchors found in this round."""
    looks: tuple[LookRecord, ...] = ()
    """The results of the looks of this round."""
    scan: Numbers = ()
    """The moments of the scan between the storyboard's frames, if there was one."""
    bundles: tuple[tuple[str, ...], ...] = ()
    """The prefix bundles, as ids of anchors."""
    assembled: Counts = ()
    """The indexes of the newly formed bundles, which were read in this round; the others already had records."""
    records: Trajectory = ()
    flags: Flags | None = None
    """None if the round ended before the reconciler."""
    decisions: tuple[Decision, ...] = ()
    """The decisions of the reconciler: a second one if a replay disagreed."""
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
    """The anchors of the accepted prefix."""
    fallback: ReplayRecord | None = None
    """The forced answer, if no prefix was accepted."""
    unexplored: tuple[Span, ...] = ()
    """For a count, the spans that were not looked at closely enough."""
    not_promising: tuple[Span, ...] = ()
    """For a count, the spans that single frames show to be not promising."""


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
    """A piece of evidence, with its start and end in whole seconds."""

    start: Count
    end: Count
    description: str


@dataclass(frozen=True, slots=True)
class AvpEvidence(Record):
    """The result of one observation as text; later calls see nothing else of it."""

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
    """None for the last round, which has no reflection."""


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
    """A new segment with its relevance and the model's explanation."""

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
    """The timestamps of the new frames."""
    scores: tuple[VcaRating, ...] | None = None
    """None if the segment had no frame inside it and could not be split."""
    decision: VcaDecision | Fault | None = None
    """None if no decision followed."""


@dataclass(frozen=True, slots=True)
class VcaRecord(Record):
    """The whole search, stored under `trajectory` in a run file."""

    kind: Literal["vca"] = field(default="vca", kw_only=True)
    steps: tuple[VcaStep, ...]


def _kind(record: Any) -> object:
    """The kind of a search record. Files of version 0.1.0 do not state it, but each kind has a distinctive key."""
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
    """The search in a `trajectory`; None if it is the record of another method."""
    try:
        return _ADAPTER.validate_python(trajectory)
    except ValidationError:
        return None
