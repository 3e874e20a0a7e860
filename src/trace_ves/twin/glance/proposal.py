"""The rules of `temporal-proposal`: where to look next.

First come places where the storyboard shows, or may show, what is still open, then scenes where it would be expected,
then other scenes. Among equals, the one farthest from everything already looked at comes first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final

from trace_ves.core.interval import Interval, clip_to_segments, subtract
from trace_ves.twin.glance.parsed_question import Kind, lexicon
from trace_ves.twin.glance.sightings import GLIMPSED, SEEN, Moment, moments_of

if TYPE_CHECKING:
    from trace_ves.twin.glance.prompt_reading import CallContext

NOWHERE: Final = "somewhere"
MOST_LETTERS: Final = 300  # the longest note of a proposal

_NOTE: Final = re.compile(r"(?P<scene>[^,;]+), frames at (?P<times>[\d. ]+) s(?P<rest>.*)", re.DOTALL)
_SIGHT: Final = re.compile(r"; (?P<name>.+?) (?P<how>seen|glimpsed) at (?P<times>[\d. ]+) s(?=;|$)")


@dataclass(frozen=True, slots=True)
class StoryboardFrame:
    """One frame of the storyboard."""

    seconds: float
    scene: str | None = None
    seen: frozenset[str] = field(default_factory=frozenset)  # Wanted names that it shows
    glimpsed: frozenset[str] = field(default_factory=frozenset)  # Wanted names that it may show


def storyboard_frames(moments: Iterable[Moment], wanted: Sequence[str]) -> tuple[StoryboardFrame, ...]:
    """The parts of the storyboard that the rules use."""
    return tuple(
        StoryboardFrame(
            round(moment.seconds, 1),
            moment.view.scene,
            frozenset(name for name in wanted if moment.view.score(name) >= SEEN),
            frozenset(name for name in wanted if GLIMPSED <= moment.view.score(name) < SEEN),
        )
        for moment in moments
    )


def spacing_seconds(frames: Sequence[StoryboardFrame]) -> float:
    """The mean time from one frame of the storyboard to the next; 0 for fewer than two frames."""
    return (frames[-1].seconds - frames[0].seconds) / (len(frames) - 1) if len(frames) > 1 else 0.0


def notes_of(frames: Sequence[StoryboardFrame], *, half: float | None = None) -> list[dict[str, Any]]:
    """One note for each stretch of frames in one scene, with a margin before and after."""
    half = spacing_seconds(frames) / 2 if half is None else half
    notes = []
    for _, group in groupby(frames, key=lambda frame: frame.scene):
        stretch = list(group)
        span = {"start": max(0.0, round(stretch[0].seconds - half, 1)), "end": round(stretch[-1].seconds + half, 1)}
        promising = any(frame.seen or frame.glimpsed for frame in stretch)
        notes.append(span | {"note": describe_stretch(stretch)[:MOST_LETTERS], "promising": promising})
    return notes


def describe_stretch(stretch: Sequence[StoryboardFrame]) -> str:
    """What these frames of one scene show, in the form that `frames_in_notes` reads."""
    if not stretch:
        return ""
    text = f"{stretch[0].scene or NOWHERE}, frames at {_times(stretch)} s"
    for how in ("seen", "glimpsed"):
        for name in sorted({name for frame in stretch for name in getattr(frame, how)}):
            text += f"; {name} {how} at {_times(frame for frame in stretch if name in getattr(frame, how))} s"
    return text


def _times(frames: Iterable[StoryboardFrame]) -> str:
    return " ".join(f"{frame.seconds:.1f}" for frame in frames)


def frames_in_notes(notes: Sequence[Mapping[str, Any]]) -> tuple[StoryboardFrame, ...]:
    """The storyboard behind these notes; notes in another form are skipped."""
    frames: dict[float, StoryboardFrame] = {}
    for note in notes:
        match = _NOTE.fullmatch(str(note.get("note", "")))
        if not match:
            continue
        sights = {(s["name"], s["how"]): set(_numbers(s["times"])) for s in _SIGHT.finditer(match["rest"])}
        for seconds in _numbers(match["times"]):
            seen, glimpsed = (
                frozenset(name for (name, said), times in sights.items() if said == how and seconds in times)
                for how in ("seen", "glimpsed")
            )
            frames[seconds] = StoryboardFrame(
                seconds, None if match["scene"] == NOWHERE else match["scene"], seen, glimpsed
            )
    return tuple(frames[seconds] for seconds in sorted(frames))


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split() if re.fullmatch(r"\d+(?:\.\d+)?", number)]


SHORTEST_SECONDS, LONGEST_SECONDS = 8.0, 20.0  # suitable lengths of a candidate
TOGETHER_SECONDS: Final = 80.0  # Sightings within this time can share a look
WORTHWHILE_SECONDS: Final = 3.0  # The shortest unexplored part of a place that is worth naming

SIGHT_RANK, GLIMPSE_RANK = 3.0, 2.0
"""What the storyboard shows comes before what it may show. Places where nothing was seen rank 1 at most."""

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RankedSpan:
    """A place to look at; greater ranks come first."""

    span: Span
    rank: float
    names: tuple[str, ...]


def propose(context: CallContext) -> dict[str, Any]:
    """Notes on the frames shown, and the candidates."""
    shown = storyboard_frames(moments_of(context.clips), context.asked.wanted)
    noted = frames_in_notes(context.variables["notes"])
    frames = tuple(sorted({frame.seconds: frame for frame in (*noted, *shown)}.values(), key=lambda f: f.seconds))
    ids = {name: claim["id"] for claim in context.variables["claims"] for name in context.names_in(claim["claim"])}
    candidates = [
        {
            "start": part.start,
            "end": part.end,
            "moment": _moment(frames, place, part),
            "claims": [ids[name] for name in place.names if name in ids and place.rank >= GLIMPSE_RANK],
            "look_for": _look_for(context, place),
        }
        for place, part in choose_spans(context, frames)
    ]
    notes = notes_of(shown) if not noted else [note for frame in shown for note in notes_of([frame], half=0.6)]
    return {"notes": notes, "candidates": candidates, "one_frame": not context.asked.acts}


def expansion(context: CallContext) -> tuple[list[list[float]], str]:
    """The spans for EXPAND, by the same ranks, and what to look for in them."""
    spans = choose_spans(context, frames_in_notes(context.variables["notes"]))
    look_for = _look_for(context, spans[0][0]) if spans else "general"
    return [[part.start, part.end] for _, part in spans], look_for


def choose_spans(context: CallContext, frames: Sequence[StoryboardFrame]) -> list[tuple[RankedSpan, Interval]]:
    """The best places, one after another, each reduced to its unexplored part."""
    limit = int(context.variables["limit"])
    names = _open_names(context)
    unexplored, anchors = (
        [Interval(float(piece["start"]), float(piece["end"])) for piece in context.variables[name]]
        for name in ("unexplored_segments", "anchors")
    )
    brief = context.asked.acts if context.asked.kind is Kind.ORDER else ()
    places = [
        *_sightings(frames, names, anchors if context.asked.kind is Kind.COUNT else [], limit, brief),
        *_stretches(frames, names, context),
    ]
    best: list[tuple[RankedSpan, Interval]] = []
    for _ in range(limit):
        free = [left for piece in unexplored for left in subtract(piece, [part for _, part in best])]
        known = {name for place, _ in best for name in place.names if place.rank >= GLIMPSE_RANK}
        parts = [
            max(clip_to_segments(*place.span, free), key=lambda part: part.length, default=None) for place in places
        ]
        pairs = zip(places, parts, strict=True)
        options = [(place, part) for place, part in pairs if part and part.length >= WORTHWHILE_SECONDS]
        if not options:
            break
        best.append(max(options, key=lambda option: _merit(option[0], option[1], known, free)))
    longest = sorted(unexplored, key=lambda piece: (-piece.length, piece.start))[:limit]
    fitted = [_fit_length((piece.start, piece.end)) for piece in longest]
    return best or [(RankedSpan(span, 0.0, ()), Interval(*span)) for span in fitted]


def _moment(frames: Sequence[StoryboardFrame], place: RankedSpan, part: Interval) -> float | None:
    """The first frame in a part of a place that shows, or may show, what the place was chosen for."""
    if place.rank < GLIMPSE_RANK:
        return None
    shown = (f.seconds for f in frames if f.seconds in part and (f.seen | f.glimpsed) & set(place.names))
    return next(shown, None)


def _open_names(context: CallContext) -> tuple[str, ...]:
    """The names in open claims; all wanted names if those claims name none."""
    texts = {claim["id"]: claim["claim"] for claim in context.variables.get("claims", ())}
    names = [name for need in context.variables["unmet_needs"] for name in context.names_in(texts.get(need, need))]
    return tuple(dict.fromkeys(names)) or context.asked.wanted


def _sightings(
    frames: Sequence[StoryboardFrame],
    names: Sequence[str],
    covered: Sequence[Interval],
    limit: int,
    acting: Collection[str],
) -> Iterator[RankedSpan]:
    """Spans around each run of frames that show a name, except runs that already gave an anchor.

    If an act is asked for, the whole run is named, because the act can happen at any time.
    """
    half = spacing_seconds(frames) / 2
    for how, rank in (("seen", SIGHT_RANK), ("glimpsed", GLIMPSE_RANK)):
        runs: list[tuple[Span, tuple[str, ...]]] = []
        for name in names:
            for shown, group in groupby(frames, key=lambda frame: name in getattr(frame, how)):
                run = list(group)
                whole = (run[0].seconds - half, run[-1].seconds + half)
                if shown and not clip_to_segments(*whole, covered):
                    runs.append((whole if name in acting else _fit_length(whole), (name,)))
        for span, run_names in _join_runs(runs, limit):
            yield RankedSpan(span, rank, run_names)


def _join_runs(runs: list[tuple[Span, tuple[str, ...]]], limit: int) -> list[tuple[Span, tuple[str, ...]]]:
    """Join the nearest runs until there are at most `limit`."""
    runs = sorted(runs)
    while len(runs) > limit:
        joined = [((a[0], max(a[1], b[1])), (*one, *other)) for (a, one), (b, other) in pairwise(runs)]
        lengths = [span[1] - span[0] for span, _ in joined]
        if min(lengths) > TOGETHER_SECONDS:
            break
        place = lengths.index(min(lengths))
        runs[place : place + 2] = [joined[place]]
    return runs


def _stretches(frames: Sequence[StoryboardFrame], names: Sequence[str], context: CallContext) -> Iterator[RankedSpan]:
    """Parts of scenes that are short enough to search; the more open names are expected there, the better."""
    duration = max((float(piece["end"]) for piece in context.variables["unexplored_segments"]), default=0.0)
    look_seconds = float(context.variables.get("look_seconds", LONGEST_SECONDS))
    for scene, start, end in _scenes(frames, float(context.variables.get("duration", duration))):
        expected = tuple(name for name in names if scene in lexicon().thing(name).homes)
        parts = max(1, math.ceil((end - start) / look_seconds))
        for part in range(parts):
            piece = tuple(round(start + (end - start) * (part + step) / parts, 1) for step in (0, 1))
            yield RankedSpan((piece[0], piece[1]), len(expected) / max(1, len(names)), expected or tuple(names))


def _scenes(frames: Sequence[StoryboardFrame], duration_seconds: float) -> Iterator[tuple[str | None, float, float]]:
    """Each scene of the storyboard with its start and end, halfway between its frames and the next."""
    stretches = [list(group) for _, group in groupby(frames, key=lambda frame: frame.scene)]
    borders = [(before[-1].seconds + after[0].seconds) / 2 for before, after in pairwise(stretches)]
    scenes = [stretch[0].scene for stretch in stretches] or [None]
    return zip(scenes, [0.0, *borders], [*borders, duration_seconds], strict=True)


def _merit(place: RankedSpan, part: Interval, named: set[str], free: Sequence[Interval]) -> tuple[float, float, float]:
    """Rank, less half a point if a better place has the same names; distance from what was seen; time."""
    centre = (part.start + part.end) / 2
    distance = min(abs(centre - end) for piece in free for end in (piece.start, piece.end))
    again = bool(place.names) and named.issuperset(place.names)
    return (place.rank - 0.5 * again, distance, -centre)


def _fit_length(span: Span) -> Span:
    """Extend or cut a span to a suitable length for a look."""
    length = min(max(span[1] - span[0], SHORTEST_SECONDS), LONGEST_SECONDS)
    start = max(0.0, (span[0] + span[1] - length) / 2)
    return round(start, 1), round(start + length, 1)


def _look_for(context: CallContext, place: RankedSpan) -> str:
    """How to look for what is expected there."""
    name = next(iter(place.names), "")
    if name in context.asked.acts:
        brief = context.asked.kind is Kind.ORDER and place.rank >= GLIMPSE_RANK
        return "state-change" if brief else "general"
    return lexicon().thing(name).look_for
