"""A small film whose frames stay for different times, and whose first frame is not at tick 0."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

TICKS = [200, 240, 320, 360, 1000, 1040, 1080, 2000, 2040, 2400, 2440, 2900]
"""When each frame is shown, in thousandths of a second."""


def make(path: Path, ticks: list[int] = TICKS) -> Path:
    """Write it; H.264 with frames out of order."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"bf": "2", "g": "6", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, tick in enumerate(ticks):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 20 * (number % 12), dtype=np.uint8), format="rgb24")
            frame.pts, frame.time_base = tick, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
