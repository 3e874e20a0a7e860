"""Which videos a bench needs, and which of them are there."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trace_ves.records.record import Count, Flag, Name, Number, SparseRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from trace_ves.records import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededVideo(SparseRecord):
    """A video that questions of a bench are about."""

    video: Name
    """Where it belongs, from the folder of the bench."""
    questions: Count
    duration: Number | None = None
    """Seconds, as the bench says."""
    url: str | None = None
    """Where the bench says that it is from; nothing is fetched."""
    there: Flag
    bytes: Count | None = None
    """Its size, where it is there."""
    problem: str | None = None
    """What is wrong with the file that is there, where it was looked into."""


def manifest(items: Sequence[Item], folder: Path) -> list[NeededVideo]:
    """Every video of these questions once, in the order in which they come."""
    needed: dict[str, NeededVideo] = {}
    for item in items:
        name = item.question.video
        needed[name] = (
            replace(needed[name], questions=needed[name].questions + 1) if name in needed else _of(item, folder)
        )
    return list(needed.values())


def _of(item: Item, folder: Path) -> NeededVideo:
    file, url = folder / item.question.video, item.extra.get("url")
    size = file.stat().st_size if file.is_file() else None
    return NeededVideo(
        video=item.question.video,
        questions=1,
        duration=item.duration if math.isfinite(item.duration) else None,
        url=url if isinstance(url, str) else None,
        there=bool(size),
        bytes=size,
        problem="empty file" if size == 0 else None,
    )


def summary(videos: Iterable[NeededVideo]) -> str:
    """How many there are, in one sentence."""
    listed = list(videos)
    there = [video for video in listed if video.there]
    megabytes = sum(video.bytes or 0 for video in there) / 1e6
    faulty = sum(video.problem is not None for video in listed)
    text = f"{len(listed)} videos needed, {len(there)} there ({megabytes:,.0f} MB), {len(listed) - len(there)} missing"
    return text + (f", {faulty} with a problem." if faulty else ".")
