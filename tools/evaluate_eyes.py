"""Measure eyes on held-out frames: recall and precision by the size of sprites and the height of the look, and speed.

    python tools/evaluate_eyes.py eyes.onnx [--frames 960] [--seed 990002] [--height 360 --height 224]

Frames are drawn from a separate seed, coded as H.264 as the twin's videos are, decoded, scaled and looked at by
onnxruntime on the CPU. Needs numpy, av and onnxruntime.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import av
import numpy as np
import onnxruntime

from eyes_data import CLASSES, FRAMES_PER_BACKDROP, SCENES, Chunk, draw_chunk
from eyes_metrics import Detections, as_lines, measure
from trace_ves.twin.synthetic.bench import ENCODING
from trace_ves.twin.synthetic.layout import FPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 990_002
"""Neither trained on nor looked at while training."""
THREADS = 2


def coded(chunk: Chunk, height: int) -> NDArray[np.uint8]:
    """The frames of a chunk as they come out of a video file, scaled to `height` rows."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=FPS, options=dict(ENCODING))
        stream.height, stream.width, stream.pix_fmt = chunk.planes.shape[1] * 2 // 3, chunk.planes.shape[2], "yuv420p"
        for number, planes in enumerate(chunk.planes):
            frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with av.open(io.BytesIO(file.getvalue())) as container:
        frames = [
            frame.reformat(
                width=round(frame.width * height / frame.height), height=height, format="rgb24", interpolation="AREA"
            ).to_ndarray()
            for frame in container.decode(video=0)
        ]
    return np.stack(frames)


def look(session: onnxruntime.InferenceSession, pictures: NDArray[np.uint8]) -> Detections:
    boxes, scores, labels, scene = session.run(None, {"frames": pictures})
    return boxes, scores, labels, scene


def milliseconds(session: onnxruntime.InferenceSession, height: int, repeats: int = 60) -> float:
    """Median time of one look at one frame of this height."""
    picture = np.random.default_rng(0).integers(0, 255, (1, height, round(height * 16 / 9), 3), dtype=np.uint8)
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        look(session, picture)
        times.append(time.perf_counter() - began)
    return 1000 * float(np.median(times[5:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--frames", type=int, default=960)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--threshold", type=float, default=0.4)
    parser.add_argument("--height", type=int, action="append", help="rows of the pictures; may be given several times")
    arguments = parser.parse_args()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(str(arguments.model), options, providers=["CPUExecutionProvider"])
    notes = session.get_modelmeta().custom_metadata_map
    if tuple(json.loads(notes["classes"])) != CLASSES or tuple(json.loads(notes["scenes"])) != SCENES:
        raise SystemExit(f"{arguments.model} was trained on another vocabulary; train it again.")
    rng = np.random.default_rng(arguments.seed)
    chunks = [draw_chunk(rng) for _ in range(arguments.frames // FRAMES_PER_BACKDROP)]
    for height in arguments.height or (360, 288, 224):
        pairs = [(chunk, look(session, coded(chunk, height))) for chunk in chunks]
        print(f"\n{height} rows: {as_lines(measure(pairs, arguments.threshold))}")
    print()
    for height in (252, 360, 448):
        print(f"{height} rows: {milliseconds(session, height):.1f} ms a frame, {THREADS} threads")


if __name__ == "__main__":
    main()
