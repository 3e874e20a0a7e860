"""Whether a bench's durations are those of its videos: a wrong one spoils EP_ref, or the audit of every question."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from trace_ves import video
from trace_ves.core import InputError, TraceVesError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from trace_ves.benchmarks import Bench
    from trace_ves.records import Item

MOST_TOO_LONG: Final = 0.05
"""A bench may give a video up to this share more than it has: soundtracks outlast pictures."""
THREADS: Final = 4


def check_durations(bench: Bench, videos: Collection[str], on_progress: Callable[[int, int], None]) -> None:
    """Compare the durations of these videos with the files, where they are there; the first that differs is an error.

    A file that cannot be read is passed over here: its questions will say so.
    """
    assert bench.path is not None  # noqa: S101  a run has checked it
    folder = bench.path.absolute().parent
    items = {item.question.video: item for item in reversed(bench.items) if item.question.video in videos}
    known = [item for item in reversed(items.values()) if math.isfinite(item.duration)]
    present = [item for item in known if (folder / item.question.video).is_file()]
    with ThreadPoolExecutor(THREADS) as pool:
        found = pool.map(lambda item: _difference(item, folder), present)
        wrong = []
        for done, sentence in enumerate(found, start=1):
            on_progress(done, len(present))
            wrong += [sentence] if sentence else []
    if wrong:
        others = len(wrong) - 1
        more = f" {others} more {'video differs' if others == 1 else 'videos differ'}." if others else ""
        raise InputError(f"{bench.path}: {wrong[0]} Correct the durations before anything is asked.{more}")


def is_duration(item: Item, real_seconds: float) -> bool:
    """Whether the bench gives a video the duration that it has, as far as benches are rounded."""
    stated, slack = item.duration, item.slack_seconds
    if not math.isfinite(stated):
        return True
    return stated + slack >= real_seconds and stated - max(slack, MOST_TOO_LONG * real_seconds) <= real_seconds


def _difference(item: Item, folder: Path) -> str | None:
    """What is wrong with one duration, in a sentence; None where it is right, or the file cannot be read."""
    name, stated = item.question.video, item.duration
    try:
        with video.open(folder / name) as source:
            real = source.duration
    except TraceVesError:
        return None
    if is_duration(item, real):
        return None
    return f"question {item.question.id!r} gives {name} {stated:g} s, and the video has {real:.1f} s."
