"""Videos for assistants: a server of the Model Context Protocol, `trace-ves mcp FOLDER`."""

from __future__ import annotations

import io
import math
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypeVar

import anyio
from anyio import from_thread, to_thread
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from trace_ves import video as videos
from trace_ves._version import __version__
from trace_ves.core import InputError, Interval, TraceVesError, centred_uniform
from trace_ves.core.display import describe_stage
from trace_ves.observer import UNLIMITED, Decided, Progress, RoundStarted, StageStarted
from trace_ves.runs.asking import ask
from trace_ves.web.saving import contact_sheet
from trace_ves.web.search_view import answer_words, clock_words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.core import Frame
    from trace_ves.observer import Listener
    from trace_ves.runs.asking import AskResult

    Report = Callable[[float, float | None, str], Awaitable[None]]

SUFFIXES: Final = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm", ".wmv"})
MOST_LISTED: Final = 200
_MOST_VISITED: Final = 50_000
"""Files that are looked at for a listing: a home folder has millions."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders with their symbolic links resolved; nothing outside them is opened, and nothing is said of it."""

    roots: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Sequence[Path]) -> Folders:
        """The folders that a person named; one that is none is an `InputError`."""
        for folder in folders:
            if not folder.is_dir():
                raise InputError(f"{folder}: no such folder; name the folders whose videos may be looked at.")
        return cls(tuple(folder.resolve() for folder in folders))

    def find(self, name: str) -> Path:
        """The file of this name, relative to one of the folders or absolute, wherever links lead within them.

        Outside and missing are the same sentence: an assistant learns nothing of the rest of the disk.
        """
        for root in self.roots:
            found = _resolved(root, name)
            if found is not None and any(found.is_relative_to(each) for each in self.roots) and found.is_file():
                return found
        raise InputError(f"{name[:200]!r} is no video in the folders that may be looked at; `videos` lists them.")

    def shown(self, path: Path) -> str:
        """A file as an assistant names it: relative to its folder where that is enough to find it again."""
        for root in self.roots:
            if path.is_relative_to(root):
                relative = str(path.relative_to(root))
                return relative if self.find(relative) == path else str(path)
        return str(path)

    def videos(self) -> tuple[list[Path], bool]:
        """The videos in the folders, and whether there are more than are listed."""
        found: list[Path] = []
        for visited, path in enumerate(self._files()):
            if visited == _MOST_VISITED or len(found) == MOST_LISTED:
                return found, True
            if path.suffix.lower() in SUFFIXES:
                found.append(path)
        return found, False

    def _files(self) -> Iterator[Path]:
        for root in self.roots:
            for folder, names, files in os.walk(root):
                names[:] = sorted(name for name in names if not name.startswith("."))
                yield from (Path(folder, name) for name in sorted(files) if not Path(folder, name).is_symlink())


def _resolved(root: Path, name: str) -> Path | None:
    try:
        return (root / name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # missing, a loop of links, a name too long or with a zero byte
        return None


T = TypeVar("T")

HEARTBEAT_SECONDS: Final = 5.0
"""A call of a model may take a minute; clients that give up after silence hear something meanwhile."""
_STEP: Final = 0.001
"""The protocol wants a number that grows with every message, also where no frame was supplied since."""


async def run_reported(
    work: Callable[[Listener], T], report: Report, *, heartbeat_seconds: float = HEARTBEAT_SECONDS
) -> T:
    """Run work in a thread of its own, and report what its listener hears, and that it lives, until it is done.

    Where the caller is cancelled, the work ends with an error at its next step, so that nothing more is paid for.
    """
    sender, receiver = anyio.create_memory_object_stream[Progress](math.inf)
    cancelled = threading.Event()

    def listen(progress: Progress) -> None:
        if cancelled.is_set():
            raise TraceVesError("the caller has gone.")
        if _words(progress):
            from_thread.run_sync(sender.send_nowait, progress)

    async def reporting() -> None:
        told, budget, words = 0.0, None, "opening the video"
        while True:
            await report(told, budget, words)
            with anyio.move_on_after(heartbeat_seconds):
                progress = await receiver.receive()
                told = max(told, float(progress.frames_supplied))
                budget = None if progress.budget >= UNLIMITED else float(progress.budget)
                words = _words(progress)
            told = round(told + _STEP, 3)

    def outcome() -> T | TraceVesError:
        try:
            return work(listen)
        except TraceVesError as error:
            return error

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(reporting)
            result = await to_thread.run_sync(outcome, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
            group.cancel_scope.cancel()
    finally:
        cancelled.set()
        sender.close()
        receiver.close()
    if isinstance(result, TraceVesError):  # raised here: a task group would wrap it
        raise result
    return result


def _words(progress: Progress) -> str:
    match progress.event:
        case RoundStarted(number=number):
            return f"round {number}"
        case StageStarted(stage=stage, spans=spans):
            where = ", ".join(f"{clock_words(span.start)}-{clock_words(span.end)}" for span in dict.fromkeys(spans[:3]))
            return f"{describe_stage(stage).doing}{f' ({where})' if where else ''}"
        case Decided(action=action):
            return f"decided: {action or 'nothing is left to look at'}"
    return ""


Content: TypeAlias = list[str | Image]
"""What a tool gives back. The SDK reads the types of tools when it starts."""

MOST_FRAMES: Final = 16
"""Pictures in one reply: clients refuse replies of more than about a megabyte."""
MOST_TILES: Final = 64
PICTURE_HEIGHT_PX: Final = 360
COLUMNS: Final = 4
JPEG_QUALITY: Final = 80

VideoName = Annotated[str, Field(description="A video by its name as `videos` lists it.")]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False, description="Seconds from the start of the video.")]
Height = Annotated[int, Field(ge=48, le=720, description="Rows of pixels of each picture.")]


@dataclass(frozen=True, slots=True)
class Asking:
    """With what questions are answered: what the person who started the server chose."""

    backbone: Callable[[], Backbone]
    """Opens the model when a question is asked, so that looking at frames needs none."""
    method: str = "trace"
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class VideoTools:
    """What an assistant can do with the videos of some folders."""

    folders: Folders
    asking: Asking
    _opened: list[Backbone] = field(default_factory=list, init=False, repr=False)
    _opening: Lock = field(default_factory=Lock, init=False, repr=False)

    def list_videos(self) -> str:
        """The videos that may be looked at, one on each line."""
        found, more = self.folders.videos()
        lines = [self.folders.shown(path) for path in found] or ["no videos here"]
        return "\n".join([*lines, *(["… and more; name a folder further down."] if more else [])])

    async def ask(
        self,
        video: VideoName,
        question: Annotated[str, Field(max_length=4000)],
        context: Context,
        options: Annotated[list[str], Field(max_length=26, description="Two or more to choose from, or none.")] = [],  # noqa: B006  pydantic copies it
    ) -> Content:
        """Search a video for the answer to a question, and show the moments that the answer rests on.

        Takes from seconds to many minutes, and reports progress meanwhile. Says whether the answer was stable as
        evidence was added; if it was not, take it as a guess.
        """
        path = self._find(video)
        try:
            result = await run_reported(
                lambda listener: ask(
                    path,
                    question,
                    options,
                    backbone=self._backbone(),
                    method=self.asking.method,
                    budget=self.asking.budget,
                    listener=listener,
                ),
                context.report_progress,
            )
        except TraceVesError as error:
            raise ToolError(str(error)) from None
        return [_answer(result), *(part for frame in _evidence_frames(result) for part in _shown(frame))]

    async def frames(
        self,
        video: VideoName,
        seconds: Annotated[list[Seconds], Field(min_length=1, max_length=MOST_FRAMES)],
        height: Height = PICTURE_HEIGHT_PX,
    ) -> Content:
        """The exact frames on screen at some moments of a video."""
        return await self._pictures(video, lambda _duration: seconds, height)

    async def clip(
        self,
        video: VideoName,
        start: Seconds,
        end: Seconds,
        count: Annotated[int, Field(ge=1, le=MOST_FRAMES, description="Frames, spread evenly.")] = 8,
        height: Height = PICTURE_HEIGHT_PX,
    ) -> Content:
        """A part of a video as frames spread evenly from one moment to another."""

        def moments(duration: float) -> Sequence[float]:
            if not start < min(end, duration):
                raise InputError(f"a clip needs start < end within the video, which has {duration:.1f} s.")
            return centred_uniform(Interval(start, min(end, duration)), count)

        return await self._pictures(video, moments, height)

    async def storyboard(
        self,
        video: VideoName,
        count: Annotated[int, Field(ge=1, le=MOST_TILES, description="Frames on the sheet, spread evenly.")] = 16,
    ) -> Content:
        """A whole video on one contact sheet, each frame with its moment: the first thing to look at."""
        path = self._find(video)

        def draw() -> Content:
            with videos.open(path) as source:
                duration = source.duration
                frames = source.frames_at(centred_uniform(Interval(0, duration), count), height=180)
            return [f"{video}: {clock_words(duration)} ({duration:.1f} s)", _sheet(frames)]

        return await _in_thread(draw)

    async def _pictures(self, video: str, moments: Callable[[float], Sequence[float]], height: int) -> Content:
        path = self._find(video)

        def decode() -> Content:
            with videos.open(path) as source:
                frames = source.frames_at(moments(source.duration), height=height)
            return [part for frame in frames for part in _shown(frame)]

        return await _in_thread(decode)

    def _find(self, video: str) -> Path:
        try:
            return self.folders.find(video)
        except InputError as error:
            raise ToolError(str(error)) from None

    def _backbone(self) -> Backbone:
        """The model, opened once, however many questions are asked at the same time."""
        with self._opening:
            if not self._opened:
                self._opened.append(self.asking.backbone())
            return self._opened[0]


def make_server(folders: Folders, asking: Asking) -> MCPServer:
    """A server with the tools `videos`, `ask`, `frames`, `clip` and `storyboard`."""
    tools = VideoTools(folders, asking)
    server = MCPServer(
        "trace-ves",
        version=__version__,
        instructions=(
            "Look at videos and answer questions about them. Begin with `videos` and `storyboard`; `frames` and `clip` "
            "show moments exactly. `ask` runs a search of its own with a vision model and shows its evidence: use it "
            "for what has to be found in a long video."
        ),
        log_level="WARNING",
    )
    server.add_tool(tools.list_videos, name="videos", structured_output=False)
    for tool in (tools.ask, tools.frames, tools.clip, tools.storyboard):
        server.add_tool(tool, structured_output=False)
    return server


async def _in_thread(work: Callable[[], Content]) -> Content:
    try:
        return await to_thread.run_sync(work)
    except TraceVesError as error:
        raise ToolError(str(error)) from None


def _answer(result: AskResult) -> str:
    words = answer_words(result)
    letter = "" if result.question.is_open or result.answer is None else f"{result.answer}. "
    lines = [f"{letter}{result.text or 'no answer'}", words.ending]
    for seen in words.clips:
        told = f": {'; '.join(seen.facts)}" if seen.facts else ""
        lines.append(f"evidence {clock_words(seen.clip.span.start)}-{clock_words(seen.clip.span.end)}{told}")
    lines += [f"still open: {'; '.join(words.still_open)}"] if words.still_open else []
    lines += [words.remark] if words.remark else []
    lines.append(
        f"{result.log.frames_supplied} frames in {len(result.log.calls)} calls to {result.prediction.backbone}"
    )
    return "\n".join(lines)


def _evidence_frames(result: AskResult) -> list[Frame]:
    """The middle frame of each clip that the answer rests on, in order of time."""
    clips = sorted((clip for clip in result.bundle if clip.frames), key=lambda clip: clip.span)
    return [clip.frames[len(clip.frames) // 2] for clip in clips[:MOST_FRAMES]]


def _shown(frame: Frame) -> Content:
    return [
        f"{clock_words(frame.seconds)} ({frame.seconds:.3f} s)",
        Image(data=frame.jpeg(JPEG_QUALITY), format="jpeg"),
    ]


def _sheet(frames: Sequence[Frame]) -> Image:
    rows = [("", tuple(frames[first : first + COLUMNS])) for first in range(0, len(frames), COLUMNS)]
    written = io.BytesIO()
    contact_sheet(rows).save(written, "JPEG", quality=JPEG_QUALITY)
    return Image(data=written.getvalue(), format="jpeg")
