"""How long the eyes of glance look at one frame, by the rows of the frame and the threads of a look.

    python perf/eyes.py [EYES.onnx]

Prints medians over frames of noise, and the ratio to copying the same pixels 100 times, so that machines compare.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from trace_ves.twin.glance.eyes import TrainedEyes, cache_views
from trace_ves.video.picture import YuvPicture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOOKS = 40
COPIES = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("eyes", type=Path, nargs="?", help="another model than the one in the package")
    path = parser.parse_args().eyes
    print(f"{'rows x columns':>16}{'threads':>9}{'median ms':>11}{'vs copies':>11}")
    for rows, columns in ((224, 398), (360, 640), (448, 448), (448, 796), (1080, 1920)):
        pictures = np.random.default_rng(rows).integers(0, 256, (8, rows, columns, 3), dtype=np.uint8)
        copying = timed(lambda picture: [picture.copy() for _ in range(COPIES)], pictures)
        for threads in (1, 2):
            looking = timed(TrainedEyes(path, threads=threads), pictures)
            print(f"{f'{rows} x {columns}':>16}{threads:9}{looking:11.2f}{looking / copying:11.2f}")
    eyes = cache_views(TrainedEyes(path))
    planes = [np.zeros(shape, np.uint8) for shape in ((360, 640), (180, 320), (180, 320))]
    eyes(YuvPicture(*planes), 1.0)
    again = [YuvPicture(*planes) for _ in range(8)]
    print(f"pixels of a decoded frame of 360 x 640: {timed(YuvPicture.rgb, again):.2f} ms")
    print(
        f"a decoded frame of 360 x 640 that was seen before: {timed(lambda picture: eyes(picture, 1.0), again):.2f} ms"
    )


def timed(look: Callable[[Any], object], pictures: Sequence[Any]) -> float:
    """Median milliseconds of a look, after two to warm up."""
    times = []
    for number in range(LOOKS + 2):
        began = time.perf_counter()
        look(pictures[number % len(pictures)])
        times.append(1000 * (time.perf_counter() - began))
    return median(times[2:])


if __name__ == "__main__":
    main()
