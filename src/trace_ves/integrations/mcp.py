"""A server of the Model Context Protocol, so that assistants can look at videos: `trace-ves mcp FOLDER`."""

from __future__ import annotations

import inspect
import io
import math
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import anyio
from anyio import from_thread, to_thread
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field, ValidationError

from trace_ves import video as videos
from trace_ves._version import __version__
from trace_ves.core import Frame, InputError, Interval, TraceVesError, centred_uniform
from trace_ves.observer import UNLIMITED, Listener, Progress
from trace_ves.runs.asking import AskResult, ask
from trace_ves.web.saving import contact_sheet
from trace_ves.web.search_view import clock, describe_event, span_text, view_answer

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone
    from trace_ves.video.folders import VideoFolders

    Report = Callable[[float, float | None, str], Awaitable[None]]

MOST_LISTED: Final = 200
_FOLDERS: Final = re.compile(r"(?<![\w.:/])/(?:[^\s:'\"/]+/)+")  # The folders of an absolute path, not of a URL

T = TypeVar("T")

HEARTBEAT_SECONDS: Final = 5.0
"""Progress is reported this often, because a call may take a minute and some clients time out without messages."""
_STEP: Final = 0.001
"""The protocol requires a number that increases with every message, even if no frame was supplied."""


async def run_reported(
    work: Callable[[Listener], T], report: Report, *, heartbeat_seconds: float = HEARTBEAT_SECONDS
) -> T:
    """Run work in a thread and report its progress until it is done. If the caller is cancelled, the work stops."""
    sender, receiver = anyio.create_memory_object_stream[Progress](math.inf)
    cancelled = threading.Event()

    def listen(progress: Progress) -> None:
        if cancelled.is_set():
            raise TraceVesError("the caller has gone.")
        if describe_event(progress.event):
            from_thread.run_sync(sender.send_nowait, progress)

    async def report_progress() -> None:
        frames, budget, message = 0.0, None, "opening the video"
        while True:
            await report(frames, budget, message)
            with anyio.move_on_after(heartbeat_seconds):
                progress = await receiver.receive()
                frames = max(frames, float(progress.frames_supplied))
                budget = None if progress.budget >= UNLIMITED else float(progress.budget)
                message = describe_event(progress.event)
            frames = round(frames + _STEP, 3)

    def run() -> T | TraceVesError:
        try:
            return work(listen)
        except TraceVesError as error:
            return error

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(report_progress)
            result = await to_thread.run_sync(run, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
            group.cancel_scope.cancel()
    finally:
        cancelled.set()
        sender.close()
        receiver.close()
    if isinstance(result, TraceVesError):  # raised here: a task group would wrap it
        raise result
    return result


Content: TypeAlias = list[str | Image]  # The result of a tool; the SDK reads the types of tools when it starts

MOST_FRAMES: Final = 16  # Clients refuse replies of more than about a megabyte
MOST_TILES: Final = 64
PICTURE_HEIGHT_PX: Final = 360
COLUMNS: Final = 4
JPEG_QUALITY: Final = 80

VideoName = Annotated[str, Field(description="A video by its name as `videos` lists it.")]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False, description="Seconds from the start of the video.")]
Height = Annotated[int, Field(ge=48, le=720, description="Rows of pixels of each picture.")]


class VideoServer(MCPServer):  # type: ignore[misc]  # mcp is not installed where types are checked
    """A server with the tools `videos`, `ask`, `frames`, `clip` and `storyboard` for the videos of some folders."""

    def __init__(
        self,
        folders: VideoFolders,
        open_model: Callable[[], Backbone],
        *,
        method: str,
        budget: int | None,
        max_cost: float,
    ) -> None:
        super().__init__(
            "trace-ves",
            version=__version__,
            instructions=(
                "Look at videos and answer questions about them. Begin with `videos` and `storyboard`; `frames` and "
                "`clip` show moments exactly. `ask` runs a search with a vision model and shows its evidence: use it "
                "for what has to be found in a long video."
            ),
            log_level="WARNING",
        )
        self._folders, self._method, self._budget = folders, method, budget
        self._open_model = open_model  # Called at the first question: the other tools need no model
        self._model: Backbone | None = None
        self._opening = Lock()
        limit = f"\n\nAll questions of a session together cost at most ${max_cost:g}; then this tool returns an error."
        ask_help = inspect.cleandoc(self.ask.__doc__ or "") + limit
        self.add_tool(self.list_videos, name="videos", structured_output=False)
        self.add_tool(self.ask, description=ask_help, structured_output=False)
        for tool in (self.frames, self.clip, self.storyboard):
            self.add_tool(tool, structured_output=False)

    def list_videos(self) -> str:
        """The videos that may be looked at, one on each line."""
        names = self._folders.names(MOST_LISTED + 1) or ["no videos here"]
        return "\n".join([*names[:MOST_LISTED], *(["… and more"] if len(names) > MOST_LISTED else [])])

    async def ask(
        self,
        video: VideoName,
        question: Annotated[str, Field(max_length=4000)],
        context: Context,
        options: Annotated[
            tuple[str, ...], Field(max_length=26, description="Two or more to choose from, or none.")
        ] = (),
    ) -> Content:
        """Search a video for the answer to a question, and show the moments that support the answer.

        Takes from seconds to many minutes, and reports progress meanwhile. Says whether the answer was stable as
        evidence was added; if it was not, take it as a guess.
        """
        result = await run_reported(
            lambda listener: ask(
                self._folders.find(video),
                question,
                options,
                backbone=self._backbone(),
                method=self._method,
                budget=self._budget,
                listener=listener,
            ),
            context.report_progress,
        )
        return _show_answer(result)

    def frames(  # the SDK runs tools that are not async in threads
        self,
        video: VideoName,
        seconds: Annotated[list[Seconds], Field(min_length=1, max_length=MOST_FRAMES)],
        height: Height = PICTURE_HEIGHT_PX,
    ) -> Content:
        """The exact frames on screen at some moments of a video."""
        with videos.open(self._folders.find(video)) as source:
            return _show_frames(source.frames_at(seconds, height=height))

    def clip(
        self,
        video: VideoName,
        start: Seconds,
        end: Seconds,
        count: Annotated[int, Field(ge=1, le=MOST_FRAMES, description="Frames, spread evenly.")] = 8,
        height: Height = PICTURE_HEIGHT_PX,
    ) -> Content:
        """A part of a video as frames spread evenly from one moment to another."""
        with videos.open(self._folders.find(video)) as source:
            last = min(end, source.duration)
            if not start < last:
                raise InputError(f"a clip needs start < end within the video, which has {source.duration:.1f} s.")
            return _show_frames(source.frames_at(centred_uniform(Interval(start, last), count), height=height))

    def storyboard(
        self,
        video: VideoName,
        count: Annotated[int, Field(ge=1, le=MOST_TILES, description="Frames on the sheet, spread evenly.")] = 16,
    ) -> Content:
        """A whole video on one contact sheet, each frame with its moment: the first thing to look at."""
        with videos.open(self._folders.find(video)) as source:
            duration = source.duration
            frames = source.frames_at(centred_uniform(Interval(0, duration), count), height=180)
        rows = [("", tuple(frames[first : first + COLUMNS])) for first in range(0, len(frames), COLUMNS)]
        sheet = io.BytesIO()
        contact_sheet(rows).save(sheet, "JPEG", quality=JPEG_QUALITY)
        picture = Image(data=sheet.getvalue(), format="jpeg")
        return [f"{video}: {clock(duration)} ({duration:.1f} s)", picture]

    def _backbone(self) -> Backbone:
        """The model, opened once by the first of several concurrent questions."""
        with self._opening:
            self._model = self._model or self._open_model()
            return self._model

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool by its name; an error is one sentence, without the folders of this machine."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):  # pydantic's report is longer
                fault = cause.errors()[0]
                place = ".".join(map(str, fault["loc"]))
                raise ToolError(f"{name}: wrong argument {place!r}: {fault['msg']}.") from None
            if not isinstance(cause, TraceVesError):
                raise
            message = str(cause)
            for root in self._folders.roots:
                message = message.replace(f"{root}/", "").replace(str(root), root.name)
            raise ToolError(f"Error executing tool {name}: {_FOLDERS.sub('', message)}") from None


def _show_answer(result: AskResult) -> Content:
    """The answer as text, and the middle frame of each clip that supports it, in order of time."""
    view = view_answer(result)
    lines = [view.answer, view.ending]
    lines += [f"evidence {span_text(clip.span)} {'; '.join(clip.facts)}".strip() for clip in view.clips]
    lines += [f"still open: {'; '.join(view.still_open)}"] if view.still_open else []
    lines += [view.remark] if view.remark else []
    frames = [clip.frames[len(clip.frames) // 2] for clip in view.clips if clip.frames]
    return ["\n".join([*lines, view.effort]), *_show_frames(frames[:MOST_FRAMES])]


def _show_frames(frames: Sequence[Frame]) -> Content:
    content: Content = []
    for frame in frames:
        picture = Image(data=frame.jpeg(JPEG_QUALITY), format="jpeg")
        content += [f"{clock(frame.seconds)} ({frame.seconds:.3f} s)", picture]
    return content
