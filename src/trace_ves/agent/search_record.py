"""The full account of one search, round by round, ready for JSON, so that a page can replay it later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING

from trace_ves.agent.records import Action
from trace_ves.core import Clip, Interval
from trace_ves.core.answer import clip_to_json

if TYPE_CHECKING:
    from trace_ves.agent.records import Candidate, Claim, PrefixRecord, SegmentNote, VisualAnchor
    from trace_ves.agent.trajectory_reconciler import Decision, Flags


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """A replay over one prefix: what it said, and whether that was what the prefix had said."""

    prefix: tuple[str, ...]
    answer: str | None
    agrees: bool


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round of Algorithm 1."""

    number: int
    candidates: tuple[Candidate, ...] = ()
    refused: tuple[str, ...] = ()
    """What the rules refused of the proposal."""
    anchors: tuple[VisualAnchor, ...] = ()
    """The anchors found in this round."""
    bundles: tuple[tuple[str, ...], ...] = ()
    """The prefix bundles, as names of anchors."""
    assembled: tuple[int, ...] = ()
    """Which of the bundles were newly formed, and so read in this round; the others' records stood already."""
    records: tuple[PrefixRecord, ...] = ()
    flags: Flags | None = None
    """None where the round ended before the reconciler."""
    decisions: tuple[Decision, ...] = ()
    """What the reconciler decided; a second decision where a replay disagreed."""
    replay: ReplayRecord | None = None


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """The whole search."""

    claims: tuple[Claim, ...]
    storyboard: Clip
    notes: tuple[SegmentNote, ...]
    rounds: tuple[RoundRecord, ...]
    stable_prefix: tuple[str, ...] | None
    """The anchors of the prefix that was accepted."""
    fallback: ReplayRecord | None
    """The forced answer, where no prefix was accepted."""

    def to_json(self) -> dict[str, object]:
        """The record as it stands under `trajectory` in a run file."""
        record = jsonable(self)
        assert isinstance(record, dict)  # noqa: S101  a dataclass becomes a mapping
        return record


def jsonable(value: object) -> object:
    """Any value of the agent as JSON: spans as pairs, sets in order, clips without their pixels, actions by name."""
    simple: object = value
    match value:
        case Interval():
            simple = [value.start, value.end]
        case Clip():
            simple = clip_to_json(value)
        case Enum():
            simple = value.value
        case Mapping():
            simple = {str(name): jsonable(entry) for name, entry in value.items()}
        case frozenset():
            simple = sorted(str(jsonable(entry)) for entry in value)
        case list() | tuple():
            simple = [jsonable(entry) for entry in value]
        case _ if is_dataclass(value):
            named = {field.name: jsonable(getattr(value, field.name)) for field in fields(value)}
            simple = {"action": type(value).__name__.upper()} | named if isinstance(value, Action) else named
    return simple
