"""How well glance's eyes see the films of a twin: recall by the size of what is there, and how often names are wrong.

    python3 tools/measure_eyes.py BENCH [--rows 360 255 180] [--write src/trace_ves/twin/eyes.toml]

Reads the truth in BENCH/world.jsonl and looks at real decoded frames. `--write` leaves the figures that the backbone
`lab` simulates eyes with. A name is right if something of that name is in the frame; where it is does not matter.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING

import numpy as np

from trace_ves import video
from trace_ves.twin.glance.eyes import TrainedEyes, reduce_picture
from trace_ves.twin.glance.sightings import SAME_SIZE, SEEN, Sighting, View
from trace_ves.twin.synthetic.layout import HEIGHT
from trace_ves.twin.synthetic.truth import WORLD_FILE, Presence, VideoTruth, read_truth
from trace_ves.twin.synthetic.vocabulary import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PARTS = (0.0, 0.35, 0.6, 0.85)
SIZES_PX = (0, 9, 11, 14, 17, 20, 24, 28, 34, 40, 60)
LEVELS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0)
LEAST_SAMPLES = 30
"""A cell with fewer is filled from the next larger size."""
TABLE_PX = (0, 14, 20, 28, 40, 60)


@dataclass(frozen=True)
class Looked:
    """One look at one frame, and what was there."""

    video: str
    frame: int
    rows: int
    scene: str
    presences: tuple[Presence, ...]
    view: View

    def wrong(self) -> list[tuple[Sighting, Presence | None]]:
        """Sightings of what is not there, each with the thing in the same columns that got the wrong name."""
        names = {there.sprite for there in self.presences}
        return [(sighting, self._under(sighting)) for sighting in self.view.sightings if sighting.name not in names]

    def _under(self, sighting: Sighting) -> Presence | None:
        left, _, right, _ = sighting.box
        return next((there for there in self.presences if there.box[0] < right and left < there.box[2]), None)


def look(bench: Path, rows: Sequence[int], every: float) -> Iterator[Looked]:
    """Looks at the frames of every film: so far apart where something is there, and four times as far elsewhere."""
    eyes = TrainedEyes()
    for truth in read_truth(bench / WORLD_FILE).values():
        with video.open(bench / truth.video) as film:
            for frame in film.frames_at([number / truth.fps for number in _numbers(truth, every)]):
                number, pixels = round(frame.seconds * truth.fps), frame.rgb()
                scene = truth.scene_at(number)
                for height in rows:
                    view = eyes(reduce_picture(pixels, HEIGHT / height))
                    there = tuple(truth.presences(number))
                    yield Looked(truth.video, number, height, scene.scene if scene else "", there, view)


def _numbers(truth: VideoTruth, every: float) -> list[int]:
    numbers = set(range(truth.fps, truth.frames, round(4 * every * truth.fps)))
    for record in truth.tracks:
        numbers |= set(range(record.first, record.last + 1, max(1, round(every * truth.fps))))
    return sorted(numbers)


def print_table(looks: Sequence[Looked], rows: int) -> None:
    """Recall by size, precision, and how often the scene is named rightly."""
    there: Counter[int] = Counter()
    found: Counter[int] = Counter()
    for each in looks:
        for thing in each.presences:
            if thing.part >= PARTS[-1]:
                size = max(bound for bound in TABLE_PX if bound <= thing.size_px)
                there[size] += 1
                found[size] += each.view.score(thing.sprite) >= SEEN
    print(f"{len(looks)} frames of {rows} rows")
    for size in TABLE_PX:
        print(f"from {size:3} px  recall {100 * found[size] / max(1, there[size]):5.1f} %  of {there[size]}")
    print(f"all          recall {100 * found.total() / max(1, there.total()):5.1f} %  of {there.total()}")
    named = sum(sighting.score >= SEEN for each in looks for sighting in each.view.sightings)
    wrong = sum(sighting.score >= SEEN for each in looks for sighting, _ in each.wrong())
    scenes = fmean(each.view.scene == each.scene for each in looks)
    print(f"precision {100 * (1 - wrong / max(1, named)):.1f} % of {named}, scene right in {100 * scenes:.1f} %\n")


def figures(looks: Sequence[Looked], how: str) -> str:
    """The text of `eyes.toml`."""
    wrong = [pair for each in looks for pair in each.wrong()]
    tallest = max(each.rows for each in looks)
    ratios = _ratios([each for each in looks if each.rows == tallest])  # most looks of all methods are at full size
    misnamed = [(sighting.name, there.sprite) for sighting, there in wrong if there is not None]
    lines = [
        f'how = """{how}"""',
        f"levels = {list(LEVELS)}",
        f"likeness = {_likeness(_whole_scores(looks).values()):.2f}",
        f"size_likeness = {_size_likeness(ratios[PARTS[-1]]):.2f}",
        "place_error = 0.037  # by tools/measure_acts.py",
        f"lookalikes = {fmean(_alike(*pair) for pair in misnamed):.2f}",
        f"sizes_px = {list(SIZES_PX)}",
    ]
    cells = _scores(looks)
    for part in PARTS:
        lines += ["", "[[shown]]", f"from_part = {part}"]
        lines += [f"size_ratios = {_quantiles([ratio for ratio, _ in ratios[part]])}", "scores = ["]
        lines += [f"    {_quantiles(cells[part, size])}, # from {size} px" for size in SIZES_PX]
        lines += ["]"]
    heights = sorted({each.rows for each in looks})
    for rows, smaller in zip(heights, [None, *heights], strict=False):
        some = [each for each in looks if each.rows == rows]
        things = sum(len(each.presences) for each in some)
        pairs = [pair for each in some for pair in each.wrong()]
        lines += [
            "",
            "[[picture]]",
            f"from_rows = {(smaller + rows) // 2 if smaller else 0}",
            f"misnamed = {sum(there is not None for _, there in pairs) / things:.4f}",
            f"phantoms = {sum(there is None for _, there in pairs) / len(some):.4f}",
            f"wrong_scores = {_quantiles([sighting.score for sighting, _ in pairs])}",
            f"no_scene = {fmean(each.view.scene != each.scene for each in some):.4f}",
        ]
    return "\n".join(lines) + "\n"


def _scores(looks: Sequence[Looked]) -> dict[tuple[float, int], list[float]]:
    """The scores under the right name, by part and size; cells with few are filled from the next larger size."""
    cells: dict[tuple[float, int], list[float]] = defaultdict(list)
    for each in looks:
        for thing in each.presences:
            cells[_cell(thing, each.rows)].append(each.view.score(thing.sprite))
    for part in PARTS:
        for size, larger in reversed(list(pairwise(SIZES_PX))):
            if len(cells[part, size]) < LEAST_SAMPLES:
                cells[part, size] = cells[part, size] + cells[part, larger]
    return cells


def _cell(thing: Presence, rows: int) -> tuple[float, int]:
    pixels = thing.size_px * rows / HEIGHT
    return max(part for part in PARTS if part <= thing.part), max(size for size in SIZES_PX if size <= pixels)


Visit = tuple[str, int, int]
"""Video, track and rows."""


def _ratios(looks: Sequence[Looked]) -> dict[float, list[tuple[float, Visit]]]:
    """By part: reported sizes of what is seen, as parts of the true ones."""
    found: dict[float, list[tuple[float, Visit]]] = defaultdict(list)
    for each in looks:
        for thing in each.presences:
            sighting = each.view.best(thing.sprite)
            if sighting is not None and sighting.score >= SEEN:
                left, top, right, bottom = thing.box
                ratio = sighting.size / max(right - left, bottom - top)
                found[_cell(thing, each.rows)[0]].append((ratio, (each.video, thing.track, each.rows)))
    return found


def _whole_scores(looks: Sequence[Looked]) -> dict[tuple[float, int], list[tuple[float, Visit]]]:
    """By size: the scores of things that show as a whole."""
    found: dict[tuple[float, int], list[tuple[float, Visit]]] = defaultdict(list)
    for each in looks:
        for thing in each.presences:
            if thing.part >= PARTS[-1]:
                visit = (each.video, thing.track, each.rows)
                found[_cell(thing, each.rows)].append((each.view.score(thing.sprite), visit))
    return found


def _likeness(groups: Iterable[Sequence[tuple[float, Visit]]]) -> float:
    """The correlation of values between frames of one visit, after each group's values were made normal by rank."""
    visits: dict[Visit, list[float]] = defaultdict(list)
    for values in groups:
        for place, (_, visit) in enumerate(sorted(values)):
            visits[visit].append(NormalDist().inv_cdf((place + 0.5) / len(values)))
    return fmean(fmean(a * b for a, b in combinations(normal, 2)) for normal in visits.values() if len(normal) > 1)


def _size_likeness(ratios: Sequence[tuple[float, Visit]]) -> float:
    """The correlation at which as many pairs of one visit differ in size by more than a quarter as were measured to.

    That is what the rule of visits looks at. Sizes that are off are off by much, so a plain correlation would not do.
    """
    visits: dict[Visit, list[float]] = defaultdict(list)
    for ratio, visit in ratios:
        visits[visit].append(ratio)
    pairs = [[max(pair) / min(pair) > SAME_SIZE for pair in combinations(v, 2)] for v in visits.values() if len(v) > 1]
    measured = fmean(fmean(found) for found in pairs)
    values = _quantiles([ratio for ratio, _ in ratios])
    visit, *frames = np.random.default_rng(0).standard_normal((3, 20_000))
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        normals = [np.sqrt(middle) * visit + np.sqrt(1 - middle) * frame for frame in frames]
        sizes = np.interp([[NormalDist().cdf(z) for z in normal] for normal in normals], LEVELS, values)
        differing = np.mean(sizes.max(axis=0) / sizes.min(axis=0) > SAME_SIZE)
        low, high = (middle, high) if differing > measured else (low, middle)
    return (low + high) / 2


def _alike(one: str, other: str) -> bool:
    sprites = vocabulary().sprites
    return other in sprites[one].resembles or one in sprites[other].resembles


def _quantiles(values: Sequence[float]) -> list[float]:
    return [round(float(value), 3) for value in np.quantile(values, LEVELS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[360, 255, 180])
    parser.add_argument("--every", type=float, default=1.0, help="seconds between frames with something in them")
    parser.add_argument("--write", type=Path, help="leave the figures here")
    arguments = parser.parse_args()
    looks = list(look(arguments.bench, arguments.rows, arguments.every))
    for rows in arguments.rows:
        print_table([each for each in looks if each.rows == rows], rows)
    if arguments.write:
        how = (
            f"tools/measure_eyes.py on the films of {arguments.bench.name}: {len(looks)} looks at "
            f"{len({(each.video, each.frame) for each in looks})} decoded frames, at {arguments.rows} rows."
        )
        arguments.write.write_text(figures(looks, how), encoding="utf-8")


if __name__ == "__main__":
    main()
