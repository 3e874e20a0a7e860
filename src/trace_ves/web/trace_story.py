"""TRACE's account of its search, as the page tells it: rounds, growing bundles, decisions, replays.

Reads the JSON under `trajectory` of a run line, which may come from anybody; what is not there is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from trace_ves.web.loose import mapping, mappings, number, numbers, span, spans, text, texts
from trace_ves.web.words import span_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that was proposed."""

    round: int
    span: Span
    strategy: str
    replaces: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A clip that was found, and what became of it."""

    id: str
    round: int
    span: Span
    strategy: str
    timestamps: tuple[float, ...]
    fate: str
    """`answer` (the answer rests on it), `kept`, `dropped` or `refined` (another look took its place)."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """One bundle of the trajectory and its record."""

    anchors: tuple[str, ...]
    answer: str
    status: str
    facts: Mapping[str, str]
    open_claims: frozenset[str]
    is_fresh: bool
    """Read in this round; else its record stood already."""
    is_stable: bool
    is_conflict: bool
    """Whether its newest anchor is in the conflict set."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the reconciler did."""

    action: str
    words: str
    refused: tuple[str, ...]
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Replay:
    """The answer once more, over one prefix."""

    anchors: tuple[str, ...]
    answer: str
    agrees: bool


@dataclass(frozen=True, slots=True)
class Round:
    """One round of the search."""

    number: int
    candidates: tuple[Candidate, ...]
    refused: tuple[str, ...]
    anchors: tuple[Anchor, ...]
    prefixes: tuple[Prefix, ...]
    decisions: tuple[Decision, ...]
    replay: Replay | None


@dataclass(frozen=True, slots=True)
class TraceStory:
    """The whole search."""

    claims: Mapping[str, str]
    notes: tuple[tuple[Span, str], ...]
    rounds: tuple[Round, ...]
    stable_prefix: tuple[str, ...]
    fallback: Replay | None

    kind: ClassVar[str] = "trace"

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Of all rounds."""
        return tuple(candidate for each in self.rounds for candidate in each.candidates)

    @property
    def anchors(self) -> tuple[Anchor, ...]:
        """Of all rounds."""
        return tuple(anchor for each in self.rounds for anchor in each.anchors)


def trace_story(record: Mapping[str, object]) -> TraceStory | None:
    """The story in a record, None where the record is not one of TRACE."""
    rounds = mappings(record.get("rounds"))
    if "claims" not in record or not all("bundles" in each for each in rounds):
        return None
    fates = _fates(record, rounds)
    return TraceStory(
        claims={text(claim.get("id")): text(claim.get("text")) for claim in mappings(record["claims"])},
        notes=tuple(
            ((start, end), text(note.get("note")))
            for note in mappings(record.get("notes"))
            if (start := number(note.get("start"))) is not None and (end := number(note.get("end"))) is not None
        ),
        rounds=tuple(_round(at, each, fates) for at, each in enumerate(rounds, 1)),
        stable_prefix=texts(record.get("stable_prefix")),
        fallback=_replay(record.get("fallback")),
    )


def _fates(record: Mapping[str, object], rounds: list[dict[str, object]]) -> dict[str, str]:
    """What became of each anchor, by its name; the last thing that happened to it counts."""
    fates: dict[str, str] = {}
    for each in rounds:
        for anchor in mappings(each.get("anchors")):
            if replaced := text(mapping(anchor.get("candidate")).get("replaces")):
                fates[replaced] = "refined"
        for decision in mappings(each.get("decisions")):
            action = mapping(decision.get("action"))
            if action.get("action") == "DROP":
                fates |= dict.fromkeys(texts(action.get("anchors")), "dropped")
    final = texts(record.get("stable_prefix")) or texts(mapping(record.get("fallback")).get("prefix"))
    return fates | dict.fromkeys(final, "answer")


def _round(at: int, record: Mapping[str, object], fates: Mapping[str, str]) -> Round:
    found = int(number(record.get("number")) or at)
    candidates = (_candidate(found, each) for each in mappings(record.get("candidates")))
    anchors = (_anchor(found, each, fates) for each in mappings(record.get("anchors")))
    return Round(
        number=found,
        candidates=tuple(each for each in candidates if each is not None),
        refused=texts(record.get("refused")),
        anchors=tuple(each for each in anchors if each is not None),
        prefixes=_prefixes(record),
        decisions=tuple(_decision(each) for each in mappings(record.get("decisions"))),
        replay=_replay(record.get("replay")),
    )


def _candidate(at: int, record: Mapping[str, object]) -> Candidate | None:
    place = span(record.get("span"))
    if place is None:
        return None
    return Candidate(at, place, _strategy(mapping(record.get("strategy"))), text(record.get("replaces")))


def _anchor(at: int, record: Mapping[str, object], fates: Mapping[str, str]) -> Anchor | None:
    clip = mapping(record.get("clip"))
    place = span(clip.get("span"))
    if place is None:
        return None
    name = text(record.get("id"))
    return Anchor(name, at, place, _strategy(clip), numbers(clip.get("timestamps")), fates.get(name, "kept"))


def _strategy(record: Mapping[str, object]) -> str:
    fps, height = number(record.get("fps")), number(record.get("height"))
    parts = [f"{fps:g} fps" if fps else "", f"{height:g} px" if height else ""]
    return ", ".join(filter(None, parts))


def _prefixes(record: Mapping[str, object]) -> tuple[Prefix, ...]:
    bundles, records = record.get("bundles"), mappings(record.get("records"))
    flags = mapping(record.get("flags"))
    fresh = set(numbers(record.get("assembled")))
    stable, conflicts = number(flags.get("stable_prefix")), set(texts(flags.get("conflicts")))
    named = [texts(bundle) for bundle in bundles] if isinstance(bundles, list) else []
    return tuple(
        Prefix(
            anchors=anchors,
            answer=text(found.get("answer")),
            status=text(found.get("status")),
            facts={name: _fact(value) for name, value in mapping(found.get("facts")).items()},
            open_claims=frozenset(texts(found.get("unmet_needs"))),
            is_fresh=at in fresh,
            is_stable=stable == at,
            is_conflict=bool(anchors) and anchors[-1] in conflicts,
        )
        for at, (anchors, found) in enumerate(zip(named, records, strict=False))
    )


def _fact(value: object) -> str:
    if (place := span(value)) is not None:
        return span_text(*place)
    count = number(mapping(value).get("count"))
    return f"at least {count:g}" if count is not None else text(value)


def _decision(record: Mapping[str, object]) -> Decision:
    action = mapping(record.get("action"))
    name = text(action.get("action"))
    words = _ACTION_WORDS[name](action) if name in _ACTION_WORDS else "nothing is left that could be done"
    return Decision(name or "END", words, texts(record.get("refused")), spans(action.get("intervals")))


def _replay(value: object) -> Replay | None:
    record = mapping(value)
    if not record:
        return None
    return Replay(texts(record.get("prefix")), text(record.get("answer")), agrees=record.get("agrees") is True)


def _stop(action: Mapping[str, object]) -> str:
    at = number(action.get("prefix"))
    return f"bundle {int(at) + 1} is stable; replay it" if at is not None else "a bundle is stable; replay it"


def _drop(action: Mapping[str, object]) -> str:
    return f"take out {', '.join(texts(action.get('anchors')))} and build the trajectory again"


def _refine(action: Mapping[str, object]) -> str:
    return f"look at {text(action.get('anchor'))} again: {text(action.get('refinement')).replace('-', ' ')}"


def _expand(action: Mapping[str, object]) -> str:
    return "look for candidates in " + ", ".join(span_text(*place) for place in spans(action.get("intervals")))


_ACTION_WORDS: Final = {"STOP": _stop, "DROP": _drop, "REFINE": _refine, "EXPAND": _expand}
