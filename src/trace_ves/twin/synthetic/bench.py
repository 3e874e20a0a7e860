"""Writes a twin to a folder: its truth, its videos and finally its questions. It continues after an interruption."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Final

from trace_ves.core import InputError, Interval, MissingExtraError, Question
from trace_ves.core.files import atomic_path, write_atomic
from trace_ves.core.jsonl import dump_line, lock_for_writing
from trace_ves.records import Item
from trace_ves.twin.synthetic.drawing import Planes, draw, make_planes
from trace_ves.twin.synthetic.layout import FPS, HEIGHT, WIDTH, choose_layout
from trace_ves.twin.synthetic.questions import word_question
from trace_ves.twin.synthetic.scenery import paint
from trace_ves.twin.synthetic.truth import WORLD_FILE, VideoTruth
from trace_ves.twin.synthetic.world import Hints, VideoWorld, make_world

ENCODING: Final = {
    "preset": "ultrafast",
    "crf": "23",
    "x264-params": "keyint=250:bframes=7:b-pyramid=none:b-adapt=0:scenecut=0:rc-lookahead=0:cabac=1:weightp=0"
    ":colorprim=smpte170m:transfer=smpte170m:colormatrix=smpte170m",
}
"""x264's fastest preset, with B-frames and CABAC like most videos. No frame is predicted from a B-frame, so single
frames decode quickly. We set the key frames at cuts: searching for them would take a sixth of the time."""


def frames_of(world: VideoWorld, seed: Sequence[int]) -> Iterator[Planes]:
    """Every frame of the video in order of time. While nothing moves, the same object is repeated."""
    for number, scene in enumerate(world.scenes):
        backdrop = paint(scene.scene, [*seed, number])
        base = make_planes(backdrop)
        tracks = [track for track in world.tracks if track.first <= scene.last and track.last >= scene.first]
        for frame in range(scene.first, scene.last + 1):
            yield draw(base, backdrop, tracks, frame)


def write_film(world: VideoWorld, seed: Sequence[int], path: Path) -> int:
    """Encode the video and return its number of frames. The file appears under its name only when it is complete."""
    try:
        import av  # only needed to write videos
    except ImportError as error:
        raise MissingExtraError("Writing the twin's videos", "video") from error
    with atomic_path(path) as partial, av.open(str(partial), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=FPS, options=dict(ENCODING))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.thread_count = 1  # so that the bytes do not depend on the number of cores
        cuts = {scene.first for scene in world.scenes}
        for number, planes in enumerate(frames_of(world, seed)):
            picture = av.VideoFrame.from_numpy_buffer(planes.packed, "yuv420p")
            picture.pts, picture.time_base = number, Fraction(1, FPS)
            if number in cuts:
                picture.pict_type = av.video.frame.PictureType.I
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return world.frames


QUESTIONS_FILE: Final = "questions.jsonl"
DEFAULT_HINTS: Final = Hints()

_WORLD, _WORDS, _PAINT = 2, 3, 4  # what a seed is used for, so that no two uses draw the same numbers


@dataclass(frozen=True, slots=True)
class TwinVideo:
    """One video of a twin, before it is drawn."""

    name: str  # its path within the bench
    world: VideoWorld
    items: tuple[Item, ...]
    paint_seed: tuple[int, ...]

    @property
    def truth(self) -> VideoTruth:
        """Everything that can be seen in the video, for tests and training, never for a method."""
        world = self.world
        return VideoTruth(video=self.name, fps=FPS, frames=world.frames, scenes=world.scenes, tracks=world.tracks)


def make_twin(questions: int, seed: int, hints: Hints = DEFAULT_HINTS) -> tuple[TwinVideo, ...]:
    """The videos and questions of a twin, not drawn; the same seed gives the same twin."""
    layouts = choose_layout(questions, seed)
    digits = max(3, len(str(len(layouts))))
    numbers = count(1)
    videos = []
    for number, layout in enumerate(layouts):
        ids = [f"q{next(numbers):04}" for _ in layout.questions]
        world = make_world(layout, ids, [seed, _WORLD, number], hints)
        name = f"videos/v{number + 1:0{digits}}.mp4"
        items = []
        for place, (question, events) in enumerate(zip(layout.questions, world.asked, strict=True)):
            wording = word_question(question, events, [seed, _WORDS, number, place])
            asked = Question(ids[place], name, wording.text, wording.options, question.family)
            evidence = tuple(Interval(start / FPS, end / FPS) for start, end in question.intervals)
            items.append(Item(asked, wording.answer, evidence, layout.duration_s))
        videos.append(TwinVideo(name, world, tuple(items), (seed, _PAINT, number)))
    return tuple(videos)


def write_twin(
    out: Path,
    twin: Sequence[TwinVideo],
    *,
    videos: bool = True,
    workers: int = 2,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Write a twin to a folder that is empty or contains part of the same twin; progress counts frames."""
    questions = b"".join(dump_line(item.to_json()) for video in twin for item in video.items)
    truth = b"".join(dump_line(video.truth.model_dump()) for video in twin)
    for name, content in ((QUESTIONS_FILE, questions), (WORLD_FILE, truth)):
        if (out / name).exists() and (out / name).read_bytes() != content:
            raise InputError(f"{out / name} belongs to another bench; give an empty folder, or delete this one first.")
    foreign = next((out / video.name for video in twin if (out / video.name).exists()), None)
    if videos and foreign is not None and not (out / WORLD_FILE).exists():
        raise InputError(f"{foreign} does not belong to a twin (no {WORLD_FILE}); give an empty folder.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = os.open(out, os.O_RDONLY)
        try:
            lock_for_writing(folder, out)  # a second process would delete unfinished videos of the first
            write_atomic(out / WORLD_FILE, truth)
            if videos:
                _write_videos(out, twin, workers, on_progress)
            write_atomic(out / QUESTIONS_FILE, questions)
        finally:
            os.close(folder)
    except OSError as error:
        raise InputError(f"{error.filename or out}: cannot be written: {error.strerror or error}.") from error


def _write_videos(out: Path, twin: Sequence[TwinVideo], workers: int, on_progress: Callable[[int, int], None]) -> None:
    folder = out / "videos"
    folder.mkdir(exist_ok=True)
    for leftover in folder.glob(".*.part"):
        leftover.unlink()
    total = sum(video.world.frames for video in twin)
    missing = [video for video in twin if not (out / video.name).exists()]
    done = total - sum(video.world.frames for video in missing)
    on_progress(done, total)
    for frames in _draw_all(out, sorted(missing, key=lambda video: -video.world.frames), workers):
        done += frames
        on_progress(done, total)


def _draw_all(out: Path, videos: Sequence[TwinVideo], workers: int) -> Iterator[int]:
    """Draw the videos in the given order; yields the number of frames of each finished one."""
    films = [(video.world, video.paint_seed, out / video.name) for video in videos]
    if workers <= 1 or len(videos) <= 1:
        yield from (write_film(*film) for film in films)
        return
    # Spawn, because a fork would copy the locks of the caller's threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(videos)), mp_context=context, initializer=_end_with_parent) as pool:
        try:
            for future in as_completed([pool.submit(write_film, *film) for film in films]):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """End a worker if its parent process is killed; otherwise it would wait forever."""

    def wait() -> None:
        if (parent := multiprocessing.parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
