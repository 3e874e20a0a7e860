"""Twins on disk: true H.264, the same for every seed and number of workers, whole or not at all, and continued."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from tests.program import run

from trace_ves.benches import load_bench
from trace_ves.core import InputError
from trace_ves.twin.synthetic.bench import TwinVideo, frames_of, make_twin, write_twin
from trace_ves.twin.synthetic.layout import FPS
from trace_ves.twin.synthetic.tracks import Track
from trace_ves.twin.synthetic.world import SceneSpan, VideoWorld

BEE = Track("bee", "flutter", 100, 160, 60, 0.5, 0.5)


def short(twin: tuple[TwinVideo, ...], frames: int = 300) -> tuple[TwinVideo, ...]:
    """The same videos with a short world, for the questions do not matter to whoever draws."""
    scenes = (SceneSpan("park", 0, 179), SceneSpan("harbour", 180, frames - 1))
    world = VideoWorld(frames, scenes, (BEE,), ())
    return tuple(replace(video, world=world) for video in twin)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("twin") / "bench"
    write_twin(out, short(make_twin(4, 1)), workers=1)
    return out


def test_videos_are_h264_as_in_the_wild(written: Path) -> None:
    with av.open(str(written / "videos/v001.mp4")) as container:
        assert [stream.type for stream in container.streams] == ["video"]
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.width, stream.height) == ("h264", 640, 360)
        assert set(container.metadata) <= {"major_brand", "minor_version", "compatible_brands", "encoder"}
        frames = list(container.decode(stream))
    assert {av.video.frame.PictureType(frame.pict_type).name for frame in frames} == {"I", "P", "B"}
    assert [round(frame.time * FPS) for frame in frames] == list(range(300))
    keys = [number for number, frame in enumerate(frames) if frame.key_frame]
    assert keys == [0, 180], "a group of pictures ends with its scene, or after 250 frames"


def test_the_decoded_frames_are_those_that_were_drawn(written: Path) -> None:
    video = short(make_twin(4, 1))[0]
    drawn = [planes.packed for planes in frames_of(video.world, video.paint_seed)]
    with av.open(str(written / video.name)) as container:
        decoded = [frame.to_ndarray() for frame in container.decode(video=0)]
    assert len(drawn) == len(decoded)
    for ours, theirs in list(zip(drawn, decoded, strict=True))[::20]:
        assert np.abs(ours.astype(int) - theirs.astype(int)).mean() < 2.5


def test_workers_change_nothing(written: Path, tmp_path: Path) -> None:
    write_twin(tmp_path, short(make_twin(4, 1)), workers=2)
    for name in ("questions.jsonl", "world.jsonl", "videos/v001.mp4", "videos/v002.mp4"):
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes(), name


def test_a_stopped_run_is_continued(written: Path, tmp_path: Path) -> None:
    twin = short(make_twin(4, 1))
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    (tmp_path / "videos/v002.mp4").unlink()
    (tmp_path / "questions.jsonl").unlink()
    (tmp_path / "videos/.v002.mp4.77.part").write_bytes(b"half a video")
    kept = (tmp_path / "videos/v001.mp4").stat().st_mtime_ns
    told: list[tuple[int, int]] = []
    write_twin(tmp_path, twin, workers=1, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(300, 600), (600, 600)]
    assert (tmp_path / "videos/v001.mp4").stat().st_mtime_ns == kept
    assert (tmp_path / "videos/v002.mp4").read_bytes() == (written / "videos/v002.mp4").read_bytes()
    assert sorted(path.name for path in (tmp_path / "videos").iterdir()) == ["v001.mp4", "v002.mp4"]
    assert (tmp_path / "questions.jsonl").exists()


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trace_ves", "synth", str(tmp_path), "--questions", "4", "--workers", "2"]
    parent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list(tmp_path.glob("videos/.*.part"))) == 2)
    workers = [int(path.name.split(".")[-2]) for path in tmp_path.glob("videos/.*.part")]
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(map(is_running, workers)))
    assert not (tmp_path / "questions.jsonl").exists()


def wait_until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"  # ended, and nobody has asked how


def test_another_twins_folder_is_refused(written: Path) -> None:
    with pytest.raises(InputError, match=r"belongs to another bench; give an empty folder"):
        write_twin(written, short(make_twin(4, 2)), workers=1)


def test_a_folder_with_videos_of_something_else_is_refused(tmp_path: Path) -> None:
    twin = short(make_twin(2, 1))
    (tmp_path / "videos").mkdir()
    (tmp_path / twin[-1].name).write_bytes(b"a film of the holidays")
    with pytest.raises(InputError, match=rf"{twin[-1].name} does not belong to a twin"):
        write_twin(tmp_path, twin, workers=1)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [Path(twin[-1].name).name]


def test_a_failed_video_leaves_nothing_behind(tmp_path: Path) -> None:
    video = short(make_twin(2, 1))[0]
    broken = replace(video.world, scenes=(SceneSpan("no such place", 0, video.world.frames - 1),))
    with pytest.raises(KeyError, match="no such place"):
        write_twin(tmp_path, (replace(video, world=broken),), workers=1)
    assert not (tmp_path / "questions.jsonl").exists()
    assert list((tmp_path / "videos").iterdir()) == []


def test_the_world_file_tells_everything_and_the_questions_nothing(written: Path) -> None:
    world = [json.loads(line) for line in (written / "world.jsonl").read_text().splitlines()]
    assert [line["video"] for line in world] == ["videos/v001.mp4", "videos/v002.mp4"]
    assert world[0]["tracks"][0]["sprite"] == "bee"
    assert [(written / item.question.video).is_file() for item in load_bench(written, strict=True).items] == [True] * 4
    keys = {key for line in (written / "questions.jsonl").read_text().splitlines() for key in json.loads(line)}
    assert keys == {"id", "video", "duration", "family", "question", "options", "answer", "evidence"}


def test_command_writes_questions_alone(tmp_path: Path) -> None:
    for name in ("a", "b"):
        done = run("synth", tmp_path / name, "--questions", "30", "--seed", "4", "--no-videos")
        assert done.returncode == 0
        assert "30 questions, no videos, seed 4." in done.stdout
    written = (tmp_path / "a/questions.jsonl").read_bytes()
    assert written == (tmp_path / "b/questions.jsonl").read_bytes()
    assert len(written.splitlines()) == 30
    assert not (tmp_path / "a/videos").exists()


@pytest.mark.parametrize(
    "arguments",
    [["x", "--questions", "1"], ["x", "--seed", "-1"], ["x", "--workers", "0"], ["file/below", "--questions", "2"]],
)
def test_command_refuses_what_it_cannot_do(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "file").write_text("")
    done = run("synth", *arguments, "--no-videos", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_two_commands_do_not_write_one_folder_at_a_time(tmp_path: Path) -> None:
    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="another process is writing there"):
        write_twin(tmp_path, make_twin(2, 0), videos=False)
    os.close(other)
    write_twin(tmp_path, make_twin(2, 0), videos=False)
