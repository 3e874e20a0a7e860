"""The rules of stages outside TRACE: AVP, VCA, and building benchmarks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING
from trace_ves.core.question import LETTERS
from trace_ves.twin.glance.judgement import force, guess, judge
from trace_ves.twin.glance.parsed_question import Kind, lexicon
from trace_ves.twin.glance.sightings import (
    SEEN,
    View,
    Visit,
    Visits,
    find_visits,
    merge_visits,
    moments_of,
    sort_visits,
)

if TYPE_CHECKING:
    from trace_ves.twin.glance.prompt_reading import CallContext

# --- AVP --------------------------------------------------------------------------------------------

FIRST_FPS, NEXT_FPS, REGION_FPS = 0.25, 0.5, 2.0  # frame rates of a first look, a second look, and a region
REGION_SECONDS: Final = 30.0
CLOSELY_SECONDS: Final = 4.5  # with frames at most this far apart, a video counts as watched
SURE, UNSURE = 0.9, 0.3

_OPENING: Final = re.compile(r"\b(?:opening|beginning|start) of the video\b", re.IGNORECASE)
_ENDING: Final = re.compile(r"\b(?:ending|end) of the video\b", re.IGNORECASE)
_SEEN: Final = re.compile(r"(?P<doubt>perhaps )?(?P<name>.+) is seen, strength (?P<weight>\d+\.\d)")
_WATCHED: Final = re.compile(r"watched (\d+\.\d)-(\d+\.\d) s, a frame every (\d+\.\d) s")


def plan(context: CallContext) -> dict[str, Any]:
    """Regions that the question mentions, that were doubtful or where missing things are expected; else everything."""
    duration = float(context.variables["duration"])
    criteria = f"see {', '.join(context.asked.wanted) or 'whatever bears on the question'}"
    small = any(lexicon().thing(name).look_for == "small-object" for name in context.asked.wanted)
    step = {"spatial": "medium" if small else "low", "completion_criteria": criteria}
    cues = ((_OPENING, 0.0), (_ENDING, duration))
    regions = [_around(moment, duration) for pattern, moment in cues if pattern.search(context.asked.question)]
    rounds = context.variables["evidence"]
    fps = NEXT_FPS * len(rounds) or FIRST_FPS  # a higher rate in every round
    seen = _visits(context)
    if rounds:
        doubtful = [visit for visit, doubt in _reported(context) if doubt and not seen.get(visit.name)]
        regions = [_around(visit.centre, duration) for visit in doubtful]
    if regions:
        return step | {"load_mode": "region", "fps": REGION_FPS, "regions": regions[:32]}
    if rounds and (homes := _homes(context, [name for name in context.asked.wanted if not seen.get(name)])):
        return step | {"load_mode": "region", "fps": fps, "regions": homes[:32]}
    return step | {"load_mode": "uniform", "fps": fps}


def _homes(context: CallContext, names: Sequence[str]) -> list[list[float]]:
    """Scenes where these things are expected, as the first observation described them."""
    homes = {home for name in names for home in lexicon().thing(name).homes}
    scenes = _read_caption(str(context.variables["evidence"][0]["description"]))
    return [[visit.start, visit.end] for visit in scenes if visit.name in homes]


def _around(seconds: float, duration: float) -> list[float]:
    start = max(0.0, min(seconds - REGION_SECONDS / 2, duration - REGION_SECONDS))
    return [round(start, 1), round(min(start + REGION_SECONDS, duration), 1)]


def observe(context: CallContext) -> dict[str, Any]:
    """Every visit of a wanted thing as evidence, glimpses as doubtful evidence, and the scenes."""
    evidence = [_piece(visit) for visit in sort_visits(context.visits)]
    for name in context.asked.wanted:
        if not context.visits[name]:
            evidence += [_piece(visit, doubtful=True) for visit in context.glimpsed(name)]
    scenes = sort_visits(find_visits(sorted(lexicon().scenes), moments_of(context.clips)))
    watched = [
        f"watched {clip.span.start:.1f}-{clip.span.end:.1f} s, a frame every {clip.spacing_seconds:.1f} s"
        for clip in context.clips
    ]
    description = "; ".join([*watched, *([_word_caption((), scenes)] if scenes else [])])
    return {"description": description, "key_evidence": evidence}


def _piece(visit: Visit, *, doubtful: bool = False) -> dict[str, Any]:
    description = f"{'perhaps ' if doubtful else ''}{visit.name} is seen, strength {visit.weight:.1f}"
    return {"start": visit.start, "end": visit.end, "description": description}


def reflect(context: CallContext) -> dict[str, Any]:
    """Sufficient if the reported visits settle the question."""
    duration = float(context.variables["duration"])
    reports = [match for entry in context.variables["evidence"] for match in _WATCHED.finditer(entry["description"])]
    watched = [tuple(map(float, match.groups())) for match in reports]
    complete = context.asked.kind is not Kind.ORDER and any(
        start <= 1.0 and end >= duration - 1.0 and spacing <= CLOSELY_SECONDS for start, end, spacing in watched
    )
    judgement = judge(context.asked, _visits(context), complete=complete)
    missing = ", ".join(judgement.missing) or ("a closer look at everything" if not judgement.certain else "nothing")
    return {
        "sufficient": judgement.certain,
        "confidence": SURE if judgement.certain else UNSURE,
        "justification": f"missing: {missing}",
        "answer": judgement.answer,
    }


def answer(context: CallContext) -> dict[str, Any]:
    """The option most compatible with the reported visits."""
    return force(context.asked, _visits(context), context.seed, context.sample)


def _visits(context: CallContext) -> Visits:
    return merge_visits(visit for visit, doubtful in _reported(context) if not doubtful)


def _reported(context: CallContext) -> Iterator[tuple[Visit, bool]]:
    """Each visit that a `_piece` of the evidence reports, and whether it is doubtful."""
    for entry in context.variables["evidence"]:
        for piece in entry["key_evidence"]:
            if match := _SEEN.fullmatch(str(piece["description"])):
                visit = Visit(match["name"], float(piece["start"]), float(piece["end"]), float(match["weight"]))
                yield visit, bool(match["doubt"])


# --- VCA --------------------------------------------------------------------------------------------

TOO_SHORT_SECONDS: Final = 8.0  # the borders of a shorter segment show everything in it
BORDER_SECONDS: Final = 0.1
SIGHT, HOME, ELSEWHERE, NOTHING = 80, 50, 20, 5  # relevance if the borders show a wanted thing, its home, or neither


def rate(context: CallContext) -> dict[str, Any]:
    """The relevance of each segment by the frames at its borders, with up to 9 points more for its length."""
    scores = []
    for segment in context.variables["segments"]:
        seconds = float(segment["end"]) - float(segment["start"])
        base, why = _judge_segments(context, _borders(context, segment))
        if base < SIGHT and seconds <= TOO_SHORT_SECONDS:
            base, why = NOTHING, "too short to hold anything new"
        bonus = min(9, int(seconds / 10)) if base > NOTHING else 0
        scores.append({"segment": segment["segment"], "explanation": why, "relevance": base + bonus})
    return {"scores": scores}


def _judge_segments(context: CallContext, borders: list[View]) -> tuple[int, str]:
    shown = [name for name in context.asked.wanted if any(view.shows(name) for view in borders)]
    if shown:
        return SIGHT, f"{', '.join(shown)} at its border"
    scenes = {view.scene for view in borders}
    expected = [name for name in context.asked.wanted if scenes & set(lexicon().thing(name).homes)]
    if expected:
        return HOME, f"{', '.join(expected)} may be found in such a scene"
    return ELSEWHERE, "nothing at its borders"


def explore(context: CallContext) -> dict[str, Any]:
    """Answer if the memory settles it or nothing promising is left; else explore the most promising segment."""
    promise = {int(segment["segment"]): _promise(context, segment) for segment in context.variables["segments"]}
    best = max(promise, key=lambda number: (promise[number], -number), default=None)
    if best is None or promise[best] < HOME or judge(context.asked, context.visits).certain:
        return {"action": "answer", "answer": guess(context.asked, context.visits)}
    return {"action": "explore", "segment": best}


def _promise(context: CallContext, segment: Mapping[str, Any]) -> int:
    """The segment's relevance, unless its borders show only known things; a sighting does not yet show an act."""
    names = [name for name in context.asked.wanted if name not in context.asked.acts]
    known = any(view.shows(name) for view in _borders(context, segment) for name in names)
    return min(int(segment["relevance"]), ELSEWHERE) if known else int(segment["relevance"])


def _borders(context: CallContext, segment: Mapping[str, Any]) -> list[View]:
    """The views at the segment's start and end, if this call has them."""
    ends = (float(segment["start"]), float(segment["end"]))
    return [m.view for m in context.moments if min(abs(m.seconds - end) for end in ends) <= BORDER_SECONDS]


# --- building benchmarks ----------------------------------------------------------------------------

ORDERS: Final = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0))  # without any one thing, at least two remain possible
APART_SECONDS: Final = 5.0  # things whose order is asked for must be this far apart
MOST_ITEMS: Final = 8

_CAPTIONED: Final = re.compile(r"(?:^|; |: )(?P<name>[^;:]+?) from (?P<start>\d+\.\d) to (?P<end>\d+\.\d) s")


def caption(context: CallContext) -> dict[str, Any]:
    """The scenes, and everything that is seen from when to when."""
    names = {s.name for moment in context.moments for s in moment.view.sightings if s.score >= SEEN}
    scenes = list(dict.fromkeys(moment.view.scene for moment in context.moments if moment.view.scene))
    return {"caption": _word_caption(scenes, sort_visits(find_visits(sorted(names), context.moments)))}


def _word_caption(scenes: Sequence[str], visits: Iterable[Visit]) -> str:
    """The scenes, and what is seen from when to when, as `_read_caption` reads it."""
    where = ", then ".join(scenes) or "somewhere"
    seen = "; ".join(f"{visit.name} from {visit.start:.1f} to {visit.end:.1f} s" for visit in visits)
    return f"{where}: {seen or 'nothing that has a name'}"


def _read_caption(text: str) -> list[Visit]:
    return [Visit(m["name"].strip(), float(m["start"]), float(m["end"])) for m in _CAPTIONED.finditer(text)]


def propose_items(context: CallContext) -> dict[str, Any]:
    """Questions of the wanted family that the captions support."""
    said = [visit for entry in context.variables["captions"] for visit in _read_caption(str(entry["caption"]))]
    makers = {TEMPORAL_ORDERING: _orderings, EVENT_COUNTING: _countings}
    make = makers.get(str(context.variables["family"]))
    return {"items": make(merge_visits(said))[:MOST_ITEMS] if make else []}


def answer_from_summary(context: CallContext) -> dict[str, Any]:
    """A choice from a summary of the video, if it is in our format; otherwise like blind."""
    said = merge_visits(_read_caption(str(context.variables.get("summary", ""))))
    return {"answer": guess(context.asked, said)}


def _orderings(visits: Visits) -> list[dict[str, Any]]:
    """Questions about three things that appear once each, one after the other."""
    once = sorted((group[0] for group in visits.values() if len(group) == 1), key=lambda visit: visit.start)
    items = []
    for first in range(0, len(once) - 2, 3):
        three = once[first : first + 3]
        if any(later.start - earlier.end < APART_SECONDS for earlier, later in pairwise(three)):
            continue
        options = [" → ".join(f"the {three[place].name}" for place in order) for order in ORDERS]
        listed = "; ".join(sorted(visit.name for visit in three))
        items.append(_item(f"In which order are these seen: {listed}?", options, 0, three, shuffled=True))
    return items


def _countings(visits: Visits) -> list[dict[str, Any]]:
    """Questions about a thing that appears twice or more."""
    items = []
    for name, group in visits.items():
        if len(group) < 2:
            continue
        question = f"How many separate times is the {name} seen?"
        lowest = max(1, len(group) - _number(question, 4))
        options = [str(lowest + step) for step in range(4)]
        items.append(_item(question, options, len(group) - lowest, group, shuffled=False))
    return items


def _item(
    question: str, options: Sequence[str], right: int, visits: Sequence[Visit], *, shuffled: bool
) -> dict[str, Any]:
    turn = _number(question, len(options)) if shuffled else 0
    return {
        "question": question,
        "options": [*options[turn:], *options[:turn]],
        "answer": LETTERS[(right - turn) % len(options)],
        "evidence": [[visit.start, visit.end] for visit in visits],
        "rationales": [f"the {visit.name} is seen here" for visit in visits],
    }


def _number(text: str, below: int) -> int:
    """A number that depends only on the text."""
    return hashlib.sha256(text.encode()).digest()[0] % below
