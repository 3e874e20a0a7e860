"""How well glance's eyes see the films of a twin: recall by the size of what is there, and precision of what is named.

    python3 tools/measure_eyes.py BENCH [--rows 360] [--every 2.0]

Reads the truth in BENCH/world.jsonl and looks at real decoded frames. By name alone; where it is does not matter.
A thing counts as there from half a second after it comes to half a second before it goes.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from trace_ves import video
from trace_ves.backbone.glance.eyes import TrainedEyes
from trace_ves.backbone.glance.sightings import SEEN

SIZES_PX = ((14, 19), (20, 27), (28, 39), (40, 59), (60, 100))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path)
    parser.add_argument("--rows", type=int, default=360)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between frames")
    arguments = parser.parse_args()
    eyes = TrainedEyes()
    counts: Counter[str] = Counter()
    there: Counter[tuple[int, int]] = Counter()
    found: Counter[tuple[int, int]] = Counter()
    for line in (arguments.bench / "world.jsonl").read_text(encoding="utf-8").splitlines():
        truth = json.loads(line)
        with video.open(arguments.bench / truth["video"]) as film:
            moments = [arguments.every * (n + 0.5) for n in range(int(film.duration / arguments.every))]
            for frame in film.frames_at(moments, height=arguments.rows):
                number, margin = round(frame.seconds * truth["fps"]), truth["fps"] / 2
                view = eyes(frame.rgb())
                named = {sighting.name for sighting in view.sightings if sighting.score >= SEEN}
                tracks = [track for track in truth["tracks"] if track["first"] <= number <= track["last"]]
                for track in tracks:
                    if track["first"] + margin <= number <= track["last"] - margin:
                        size = next(pair for pair in SIZES_PX if track["size_px"] <= pair[1])
                        there[size] += 1
                        found[size] += track["sprite"] in named
                scene = next(s["scene"] for s in truth["scenes"] if s["first"] <= number <= s["last"])
                right = len(named & {track["sprite"] for track in tracks})
                counts.update(frames=1, named=len(named), right=right, scene=view.scene == scene)
    print(f"{counts['frames']} frames of {arguments.rows} rows")
    for size in SIZES_PX:
        rate = 100 * found[size] / max(1, there[size])
        print(f"{size[0]:3}-{size[1]:<3} px  recall {rate:5.1f} %  of {there[size]}")
    print(f"all         recall {100 * found.total() / max(1, there.total()):5.1f} %  of {there.total()}")
    print(f"precision {100 * counts['right'] / max(1, counts['named']):.1f} % of {counts['named']}", end=", ")
    print(f"scene named rightly {100 * counts['scene'] / max(1, counts['frames']):.1f} %")


if __name__ == "__main__":
    main()
