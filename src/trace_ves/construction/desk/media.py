"""The routes for footage. Adjudicators and annotators who verify an item get the whole video.

Annotators who judge a partial set only get its clips.
"""

import asyncio
import io
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from PIL import Image
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.desk.context import STILLS, DeskContext, SignedIn, SignedInRequest
from trace_ves.construction.judged_item import JudgedItem
from trace_ves.construction.ledger import Stage
from trace_ves.construction.looking import STILL_SECONDS, join_spans, spans_of_bytes
from trace_ves.construction.people import Role
from trace_ves.core import Interval
from trace_ves.web.app import Height, Moment, content_type

ITEMS_AHEAD: Final = 100  # items whose clips are cut when the desk starts; other clips are cut when assigned

Id = Annotated[str, Query(alias="id", min_length=1, max_length=40)]
Place = Annotated[int, Query(ge=0, le=1000)]

router = APIRouter(default_response_class=Response)


@router.get("/video")
def video(caller: SignedIn, item: Id) -> FileResponse:
    """Send the video file of an item, whole or in ranges."""
    path = _whole(caller, item)
    return CountedFile(path, content_type(path), partial(caller.context.served.add, caller.person.name, item, None))


class CountedFile(FileResponse):
    """A file response that reports each range of bytes after sending it."""

    def __init__(self, path: Path, media_type: str, note: Callable[[int, int], None]) -> None:
        super().__init__(path, media_type=media_type)
        self._note = note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file or a range of it. A response with several ranges is sent but not reported."""
        request, place = Request(scope, receive), 0

        async def count(message: Message) -> None:
            nonlocal place
            is_gone = await request.is_disconnected()  # before sending, because it is also true after a full response
            await send(message)
            if message["type"] == "http.response.start":
                range_start = re.match(r"bytes (\d+)-", Headers(raw=message["headers"]).get("content-range", ""))
                is_whole = message["status"] == 200 and scope["method"] != "HEAD"
                place = int(range_start[1]) if range_start else 0 if is_whole else -1
            elif place >= 0 and message.get("body") and not is_gone:
                self._note(place, place + len(message["body"]))
                place += len(message["body"])

        await super().__call__(scope, receive, count)


@router.get("/times")
def times(caller: SignedIn, item: Id) -> Response:
    """Return the timestamp of every frame of an item's video, in seconds, as little-endian doubles."""
    source = caller.context.footage.video(_whole(caller, item))
    return Response(source.timestamps.astype("<f8").tobytes(), media_type="application/octet-stream")


@router.get("/frame")
def frame(caller: SignedIn, item: Id, t: Moment, height: Height = None) -> Response:
    """Return the frame on screen at a moment of an item's video, as JPEG."""
    [picture] = caller.context.footage.frames_at(_whole(caller, item), [t], height)
    if height is None:  # a frame for the player; the pictures of timelines are too small to count as seen
        span = max(0.0, picture.seconds - STILL_SECONDS), picture.seconds + STILL_SECONDS
        caller.context.served.add(caller.person.name, item, STILLS, *span)
    headers = {"X-Frame-Seconds": repr(picture.seconds), "X-Frame-Pts": str(picture.pts)}
    return Response(picture.jpeg(85), media_type="image/jpeg", headers=headers)


@router.get("/strip")
def strip(
    caller: SignedIn,
    item: Id,
    *,
    start: Annotated[float, Query(ge=0, le=1e7, allow_inf_nan=False)],
    end: Annotated[float, Query(ge=0, le=1e7, allow_inf_nan=False)],
    count: Annotated[int, Query(ge=1, le=60)],
    height: Annotated[int, Query(ge=24, le=120)] = 54,
) -> Response:
    """Return evenly spaced frames side by side in one JPEG, for timelines."""
    path = _whole(caller, item)
    last = float(caller.context.footage.video(path).timestamps[-1])
    moments = [min(start + (end - start) * (place + 0.5) / count, last) for place in range(count)]
    frames = caller.context.footage.frames_at(path, [max(0.0, moment) for moment in moments], height)
    picture = Image.fromarray(np.concatenate([frame.rgb() for frame in frames], axis=1))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=70)
    return Response(file.getvalue(), media_type="image/jpeg")


@router.get("/clip")
async def clip(caller: SignedIn, item: Id, left_out: Place, part: Place) -> FileResponse:
    """Send the clip of one interval of a partial set. Waiting for the clip does not block a thread."""
    future = await run_in_threadpool(_clip, caller, item, left_out, part)
    path = await asyncio.wrap_future(future)
    return CountedFile(path, "video/mp4", partial(caller.context.served.add, caller.person.name, item, part))


def _clip(caller: SignedInRequest, item: str, left_out: int, part: int) -> Future[Path]:
    context, person = caller.context, caller.person
    is_theirs = context.judgements.queue.current(person.name) == Assignment(item, Stage.LEAVE_ONE_OUT, left_out)
    if not is_theirs and person.role is not Role.ADJUDICATOR:
        raise HTTPException(403, "These clips do not belong to your assignment.")
    judged = context.judgements.item(item)
    path = context.project.need_path(judged.proposal.video)
    return context.clips.clip(path, _interval(judged, part, left_out))


def _interval(judged: JudgedItem, part: int, left_out: int | None = None) -> Interval:
    if part == left_out or part >= len(judged.partial_evidence):
        raise HTTPException(404, "This interval is not in the partial set.")
    return judged.partial_evidence[part]


def sent_spans(caller: SignedInRequest, item: str, part: int | None) -> list[list[float]]:
    """The spans sent to an annotator: of an item's video in seconds, or of a clip, whose end is 1."""
    context, who = caller.context, caller.person.name
    stills = context.served.sent(who, item, STILLS) if part is None else []
    ranges = context.served.sent(who, item, part)
    if not ranges:
        return stills
    judged = context.judgements.item(item)
    path = context.project.need_path(judged.proposal.video)
    if part is None:
        return join_spans([*spans_of_bytes(path, ranges)[0], *stills])
    clip = context.clips.clip(path, _interval(judged, part)).result()
    spans, duration = spans_of_bytes(clip, ranges)
    return [[start / duration, end / duration] for start, end in spans]


def clip_to_video_spans(
    context: DeskContext, item: str, part: int | None, spans: Sequence[Sequence[float]]
) -> list[Interval]:
    """Convert spans of a clip, whose end is 1, to seconds of its video; without a part, they already are."""
    if part is not None:
        interval = _interval(context.judgements.item(item), part)
        spans = [[interval.start + min(edge, 1.0) * interval.length for edge in span] for span in spans]
    return [Interval(start, end) for start, end in spans if end > start]


def prepare_items(context: DeskContext, items: Iterable[JudgedItem]) -> None:
    """Start to cut the clips of items that wait for leave-one-out, including gold items."""
    waiting = [judged for judged in items if judged.waits_at(Stage.LEAVE_ONE_OUT)]
    for judged in context.judgements.queue.in_order(waiting)[:ITEMS_AHEAD]:
        if (path := context.project.path_of(judged.proposal.video)) is not None:
            for span in judged.partial_evidence:
                context.clips.clip(path, span)


def _whole(caller: SignedInRequest, item: str) -> Path:
    """The file of an item's video, if this person may see all of it."""
    judgements, person = caller.context.judgements, caller.person
    verifies = judgements.queue.current(person.name) == Assignment(item, Stage.VERIFICATION)
    if not verifies and person.role is not Role.ADJUDICATOR:
        raise HTTPException(403, "This video does not belong to your assignment.")
    return caller.context.project.need_path(judgements.item(item).proposal.video)
