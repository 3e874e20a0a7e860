"""Frames that decord and torchcodec hand out have exactly the timestamps that our own decoder gives them.

Each library runs in a process of its own, as several copies of FFmpeg in one process get in each other's way.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.benches.frame_log import footage

import trace_ves

DECORD = """
import sys
import decord
import trace_ves

with trace_ves.recording("q1") as log:
    reader = decord.VideoReader(sys.argv[1])
    pictures = list(reader.get_batch([0, 4, 4, -1]).asnumpy())
    pictures.append(reader[7].asnumpy())
    pictures += list(reader[2:6:3].asnumpy())
    reader.seek_accurate(3)
    pictures += [reader.next().asnumpy(), reader.next().asnumpy()]
    reader.skip_frames(2)
    pictures.append(reader.next().asnumpy())
"""
TORCHCODEC = """
import sys
import trace_ves

with trace_ves.recording("q1") as log:
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(sys.argv[1])
    pictures = list(decoder.get_frames_at([0, 4, 4, 11]).data)
    pictures.append(decoder[7])
    pictures += list(decoder[2:6:3])
    pictures += [decoder.get_frame_at(3).data, decoder.get_frame_at(4).data]
    pictures.append(decoder.get_frames_in_range(7, 8).data[0])
"""
PRINT = """
import json
recorded = log.prediction("A").extra["recorded"]
frames = [round(float(picture.astype("float64").mean() if hasattr(picture, "astype") else picture.double().mean()) / 20)
          for picture in pictures]
print(json.dumps([frames, log.timestamps, recorded["exact"], recorded["decoders"]]))
"""


@pytest.mark.parametrize(("library", "script"), [("decord", DECORD), ("torchcodec", TORCHCODEC)])
def test_a_library_hands_out_the_frames_that_were_recorded(library: str, script: str, tmp_path: Path) -> None:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed here")
    film = footage.make(tmp_path / "film.mp4")
    with trace_ves.open_video(film) as video:
        truth = video.timestamps.tolist()
    done = subprocess.run(
        [sys.executable, "-c", script + PRINT, str(film)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout, done.stderr
    frames, timestamps, is_exact, decoders = json.loads(done.stdout)
    assert frames == [0, 4, 4, 11, 7, 2, 5, 3, 4, 7]
    assert timestamps == [truth[number] for number in frames]
    assert is_exact
    assert decoders[0].startswith(f"{library} ")
