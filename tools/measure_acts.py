"""How well glance tells acts from rest in the films of a twin: by the size of who acts, and by the frames' spacing.

    python3 tools/measure_acts.py BENCH [--spacings 1 2 3 4 5]

Reads the truth in BENCH/world.jsonl and looks at real decoded frames. Recall: of all acts, those that are told as
themselves from the frames inside them alone. False: of all stretches of rest, those in which an act is told. It also
prints how far off the places of boxes are, which the backbone `lab` simulates eyes with.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from trace_ves import video
from trace_ves.twin.glance.eyes import TrainedEyes
from trace_ves.twin.glance.sightings import SEEN, Moment, observe_conduct
from trace_ves.twin.synthetic.layout import HEIGHT, WIDTH
from trace_ves.twin.synthetic.truth import WORLD_FILE, VideoTruth, read_truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trace_ves.twin.synthetic.tracks import Track

SIZES_PX = (14, 20, 34, 60)
SHORTEST_REST_S = 4


@dataclass(frozen=True)
class Stretch:
    """Some seconds of one thing: an act, or rest."""

    sprite: str
    size_px: int
    act: str | None
    moments: tuple[Moment, ...]
    """One a second."""


def stretches(bench: Path) -> Iterator[tuple[Stretch, list[float]]]:
    """Every act and every rest of a film that goes on for some seconds, with the errors of its boxes' places."""
    eyes = TrainedEyes()
    for truth in read_truth(bench / WORLD_FILE).values():
        with video.open(bench / truth.video) as film:
            for number, record in enumerate(truth.tracks):
                for act, first, last in _parts(record, truth.fps):
                    frames = film.frames_at([frame / truth.fps for frame in range(first, last + 1, truth.fps)])
                    moments = tuple(Moment(frame.seconds, eyes(frame.rgb()), WIDTH / HEIGHT) for frame in frames)
                    errors = _place_errors(truth, number, moments)
                    yield Stretch(record.sprite, record.size_px, act, moments), errors


def _parts(record: Track, fps: int) -> Iterator[tuple[str | None, int, int]]:
    if record.motion != "rest":
        return
    start = record.first
    for act in record.acts:
        yield act.act, act.first, act.last
        if act.first - start >= SHORTEST_REST_S * fps:
            yield None, start, act.first
        start = act.last
    if record.last - start >= SHORTEST_REST_S * fps:
        yield None, start, record.last


def _place_errors(truth: VideoTruth, track: int, moments: Sequence[Moment]) -> list[float]:
    """By how much two boxes lie otherwise to each other than the things do, as a part of the longer side."""
    places = []
    for moment in moments:
        there = next(p for p in truth.presences(round(moment.seconds * truth.fps)) if p.track == track)
        seen = moment.view.best(there.sprite)
        if seen is not None and seen.score >= SEEN and there.part > 0.9:
            x, true_x = ((box[0] + box[2]) / 2 * WIDTH for box in (seen.box, there.box))
            foot, true_foot = (box[3] * HEIGHT for box in (seen.box, there.box))
            places.append(((x - true_x) / there.size_px, (foot - true_foot) / there.size_px))
    return [b[axis] - a[axis] for a, b in combinations(places[:6], 2) for axis in (0, 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path)
    parser.add_argument("--spacings", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    arguments = parser.parse_args()
    told: dict[tuple[str, int, int], list[bool]] = defaultdict(list)
    errors: list[float] = []
    for stretch, off in stretches(arguments.bench):
        errors += off
        size = max(bound for bound in SIZES_PX if bound <= max(stretch.size_px, SIZES_PX[0]))
        for spacing in arguments.spacings:
            conduct = observe_conduct(stretch.sprite, stretch.moments[::spacing])
            if stretch.act:
                told["recall", size, spacing].append(bool(conduct.doing(stretch.act)))
                told[stretch.act, 0, spacing].append(bool(conduct.doing(stretch.act)))
                told["another act", 0, spacing].append(any(act != stretch.act for act, _ in conduct.bouts))
            else:
                told["false", size, spacing].append(bool(conduct.bouts))
    print(f"{'frames every':24}" + "".join(f"{spacing:>7} s" for spacing in arguments.spacings))
    for kind, size in dict.fromkeys((kind, size) for kind, size, _ in sorted(told)):
        groups = [told[kind, size, spacing] for spacing in arguments.spacings]
        label = f"{kind}, from {size} px" if size else kind
        print(f"{label:24}" + "".join(f"{100 * fmean(group):8.1f}%" for group in groups) + f"  of {len(groups[0])}")
    trimmed = sorted(errors)[len(errors) // 50 : -len(errors) // 50]
    print(
        f"place error {stdev(trimmed) / 2**0.5:.3f} of the longer side (of {len(errors)} pairs, without the outer 4 %)"
    )


if __name__ == "__main__":
    main()
