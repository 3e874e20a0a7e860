"""How long the eyes of glance look at one frame, by the rows of the frame and the threads of a look.

    python perf/eyes.py [EYES.onnx]

Prints medians over frames of noise, and the ratio to copying the same pixels 100 times, so that machines compare.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from trace_ves.backbone.glance.eyes import TrainedEyes
from trace_ves.backbone.glance.memory import Remembering

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKS = 40
COPIES = 100


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    print(f"{'rows x columns':>16}{'threads':>9}{'median ms':>11}{'vs copies':>11}")
    for rows, columns in ((224, 398), (360, 640), (448, 448), (448, 796), (1080, 1920)):
        pictures = np.random.default_rng(rows).integers(0, 256, (8, rows, columns, 3), dtype=np.uint8)
        copying = timed(lambda picture: [picture.copy() for _ in range(COPIES)], pictures)
        for threads in (1, 2):
            looking = timed(TrainedEyes(path, threads=threads), pictures)
            print(f"{f'{rows} x {columns}':>16}{threads:9}{looking:11.2f}{looking / copying:11.2f}")
    eyes = Remembering(TrainedEyes(path))
    frame = np.zeros((360, 640, 3), np.uint8)
    eyes(frame)
    print(f"a frame of 360 x 640 that was seen before: {timed(eyes, frame[None]):.2f} ms")


def timed(look: Callable[[np.ndarray], object], pictures: np.ndarray) -> float:
    """Median milliseconds of a look, after two to warm up."""
    times = []
    for number in range(LOOKS + 2):
        began = time.perf_counter()
        look(pictures[number % len(pictures)])
        times.append(1000 * (time.perf_counter() - began))
    return median(times[2:])


if __name__ == "__main__":
    main()
