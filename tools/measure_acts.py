"""How well glance tells acts from rest in the films of a twin: by the size of who acts, and by the frames' spacing.

    python3 tools/measure_acts.py BENCH… [--spacings 1 2 3 4 5] [--thresholds 0.5,1.35 0.35,1.25] [--lab]

Reads the truth in each BENCH/world.jsonl and looks at real decoded frames; `--thresholds` tries other values of MOVED
and GROWN on the same looks. Recall: of all acts, those that are
recognised only from the frames inside them. False: of all stretches of rest, those in which an act is reported.
It also prints how far off the places of boxes are, which the backbone `lab` simulates eyes with.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from trace_ves import video
from trace_ves.twin.glance import sightings
from trace_ves.twin.glance.eyes import TrainedEyes, cache_views
from trace_ves.twin.glance.sightings import SEEN, Moment
from trace_ves.twin.lab import SimulatedEyes, WorldVideo
from trace_ves.twin.synthetic.layout import HEIGHT, WIDTH
from trace_ves.twin.synthetic.truth import WORLD_FILE, VideoTruth, read_truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trace_ves.twin.glance.glance import Look
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


def stretches(bench: Path, *, simulated: bool = False) -> Iterator[tuple[Stretch, list[float]]]:
    """Every act and every rest of a film that lasts some seconds, with the errors of its boxes' places."""
    eyes: Look = SimulatedEyes() if simulated else cache_views(TrainedEyes(), 1)
    for truth in read_truth(bench / WORLD_FILE).values():
        with closing(WorldVideo(truth) if simulated else video.open(bench / truth.video)) as film:
            for number, record in enumerate(truth.tracks):
                for act, first, last in _parts(record, truth.fps):
                    frames = film.frames_at([frame / truth.fps for frame in range(first, last + 1, truth.fps)])
                    moments = tuple(Moment(frame.seconds, eyes(frame.picture, 1.0), WIDTH / HEIGHT) for frame in frames)
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
    parser.add_argument("bench", type=Path, nargs="+")
    parser.add_argument("--spacings", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--thresholds", nargs="+", default=[f"{sightings.MOVED},{sightings.GROWN}"])
    parser.add_argument("--lab", action="store_true", help="the simulated eyes of lab instead, without films")
    arguments = parser.parse_args()
    seen = [each for bench in arguments.bench for each in stretches(bench, simulated=arguments.lab)]
    for pair in arguments.thresholds:
        sightings.MOVED, sightings.GROWN = map(float, pair.split(","))
        print_table([stretch for stretch, _ in seen], arguments.spacings)
    errors = sorted(error for _, off in seen for error in off)
    trimmed = errors[len(errors) // 50 : -len(errors) // 50]
    print(
        f"place error {stdev(trimmed) / 2**0.5:.3f} of the longer side (of {len(errors)} pairs, without the outer 4 %)"
    )


def print_table(seen: Sequence[Stretch], spacings: Sequence[int]) -> None:
    """Recall and false acts by size, recall by act, for frames so far apart."""
    told: dict[tuple[str, int, int], list[bool]] = defaultdict(list)
    for stretch in seen:
        size = max(bound for bound in SIZES_PX if bound <= max(stretch.size_px, SIZES_PX[0]))
        for spacing in spacings:
            conduct = sightings.observe_conduct(stretch.sprite, stretch.moments[::spacing])
            if stretch.act:
                for kind, group in (("recall", size), ("recall, all", 0), (stretch.act, 0)):
                    told[kind, group, spacing].append(bool(conduct.doing(stretch.act)))
                told["another act", 0, spacing].append(any(act != stretch.act for act, _ in conduct.bouts))
            else:
                for group, kind in ((size, "false"), (0, "false, all")):
                    told[kind, group, spacing].append(bool(conduct.bouts))
    heading = f"MOVED {sightings.MOVED:g} GROWN {sightings.GROWN:g}, every"
    print(f"{heading:32}" + "".join(f"{spacing:>7} s" for spacing in spacings))
    for kind, size in dict.fromkeys((kind, size) for kind, size, _ in sorted(told)):
        groups = [told[kind, size, spacing] for spacing in spacings]
        label = f"{kind}, from {size} px" if size else kind
        print(f"{label:32}" + "".join(f"{100 * fmean(group):8.1f}%" for group in groups) + f"  of {len(groups[0])}")


if __name__ == "__main__":
    main()
