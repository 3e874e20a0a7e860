"""The storyboard as glance remembers it: what each of its frames showed, as notes in its own words and back again.

A later proposal gets the notes as text, and reads in them what the first one saw.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.glance.sightings import GLIMPSED, SEEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trace_ves.backbone.glance.sightings import Moment

NOWHERE: Final = "somewhere"
MOST_LETTERS: Final = 300
"""The longest note that a proposal may write."""

_NOTE: Final = re.compile(r"(?P<scene>[^,;]+), frames at (?P<times>[\d. ]+) s(?P<rest>.*)", re.DOTALL)
_SIGHT: Final = re.compile(r"; (?P<name>.+?) (?P<how>seen|glimpsed) at (?P<times>[\d. ]+) s(?=;|$)")


@dataclass(frozen=True, slots=True)
class StoryboardFrame:
    """One frame of the storyboard."""

    seconds: float
    scene: str | None = None
    seen: frozenset[str] = field(default_factory=frozenset)
    """Wanted names that it shows."""
    glimpsed: frozenset[str] = field(default_factory=frozenset)
    """Wanted names that it may show."""


def storyboard_frames(moments: Iterable[Moment], wanted: Sequence[str]) -> tuple[StoryboardFrame, ...]:
    """The storyboard, as far as it matters."""
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
    """The usual time from one frame of the storyboard to the next; 0 where there are not two."""
    return (frames[-1].seconds - frames[0].seconds) / (len(frames) - 1) if len(frames) > 1 else 0.0


def notes_of(frames: Sequence[StoryboardFrame]) -> list[dict[str, Any]]:
    """One note for each stretch of frames in one scene."""
    half = spacing_seconds(frames) / 2
    notes = []
    for _, group in groupby(frames, key=lambda frame: frame.scene):
        stretch = list(group)
        span = {"start": max(0.0, round(stretch[0].seconds - half, 1)), "end": round(stretch[-1].seconds + half, 1)}
        promising = any(frame.seen or frame.glimpsed for frame in stretch)
        notes.append(span | {"note": _worded(stretch)[:MOST_LETTERS], "promising": promising})
    return notes


def _worded(stretch: Sequence[StoryboardFrame]) -> str:
    text = f"{stretch[0].scene or NOWHERE}, frames at {_times(stretch)} s"
    for how in ("seen", "glimpsed"):
        for name in sorted({name for frame in stretch for name in getattr(frame, how)}):
            text += f"; {name} {how} at {_times(frame for frame in stretch if name in getattr(frame, how))} s"
    return text


def _times(frames: Iterable[StoryboardFrame]) -> str:
    return " ".join(f"{frame.seconds:.1f}" for frame in frames)


def frames_in_notes(notes: Sequence[Mapping[str, Any]]) -> tuple[StoryboardFrame, ...]:
    """The storyboard that these notes were made of; a note in other words says nothing."""
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
