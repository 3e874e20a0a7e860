"""A search that takes minutes, told step by step while it runs, so that no client takes it for dead."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
from anyio import from_thread, to_thread

from trace_ves.answers.words import clock
from trace_ves.core import TraceVesError
from trace_ves.core.stages import describe
from trace_ves.observer import UNLIMITED, Decided, Progress, RoundStarted, StageStarted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trace_ves.observer import Listener

    Report = Callable[[float, float | None, str], Awaitable[None]]

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
            where = ", ".join(f"{clock(span.start)}-{clock(span.end)}" for span in dict.fromkeys(spans[:3]))
            return f"{describe(stage).doing}{f' ({where})' if where else ''}"
        case Decided(action=action):
            return f"decided: {action or 'nothing is left to look at'}"
    return ""
