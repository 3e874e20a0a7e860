"""Reports in glance's own words, and reading them back: stages that get text alone know what it said, and no more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.glance.visits import Visit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trace_ves.backbone.glance.sightings import SeenClip

_SEEN: Final = re.compile(r"(?P<doubt>perhaps )?(?P<name>.+) is seen, strength (?P<weight>\d+\.\d)")
_WATCHED: Final = re.compile(r"watched (?P<start>\d+\.\d)-(?P<end>\d+\.\d) s, a frame every (?P<spacing>\d+\.\d) s")
_CAPTIONED: Final = re.compile(r"(?:^|; |: )(?P<name>[^;:]+?) from (?P<start>\d+\.\d) to (?P<end>\d+\.\d) s")


def seen_text(visit: Visit, *, doubtful: bool = False) -> str:
    """That a thing is seen; when, stands beside it."""
    return f"{'perhaps ' if doubtful else ''}{visit.name} is seen, strength {visit.weight:.1f}"


def read_seen(text: str, start: float, end: float) -> tuple[Visit, bool] | None:
    """The visit that such a text reports, and whether it is doubtful; None for other words."""
    match = _SEEN.fullmatch(text)
    return (Visit(match["name"], start, end, float(match["weight"])), bool(match["doubt"])) if match else None


def watched_text(clips: Iterable[SeenClip]) -> str:
    """What was watched, and how closely."""
    return "; ".join(
        f"watched {clip.span.start:.1f}-{clip.span.end:.1f} s, a frame every {clip.spacing_seconds:.1f} s"
        for clip in clips
    )


def read_watched(text: str) -> list[tuple[float, float, float]]:
    """Start, end and seconds between frames of everything that such a text says was watched."""
    return [(float(m["start"]), float(m["end"]), float(m["spacing"])) for m in _WATCHED.finditer(text)]


def caption_text(scenes: Sequence[str], visits: Iterable[Visit]) -> str:
    """A caption: where it is, and what is seen from when to when."""
    where = ", then ".join(scenes) or "somewhere"
    seen = "; ".join(f"{visit.name} from {visit.start:.1f} to {visit.end:.1f} s" for visit in visits)
    return f"{where}: {seen or 'nothing that has a name'}"


def read_caption(text: str) -> list[Visit]:
    """The visits that such a caption names."""
    return [Visit(m["name"].strip(), float(m["start"]), float(m["end"])) for m in _CAPTIONED.finditer(text)]
