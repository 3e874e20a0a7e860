"""What the desk shows of a video. Each look is allowed by the assignment that a person holds, or by adjudicating.

Who verifies an item may see its video. Who answers without an interval may see the clips of the other intervals, and
nothing else of any video.
"""

import asyncio
import io
import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from fastapi import HTTPException, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from PIL import Image

from trace_ves.construction.assignments import Assignment, evidence_of
from trace_ves.construction.desk.context import DeskContext, SignedIn, SignedInRequest
from trace_ves.construction.leave_one_out import partial_set
from trace_ves.construction.people import Role
from trace_ves.construction.stages import Stage
from trace_ves.construction.visual_verification import Evidence
from trace_ves.web.app import MOST_ROWS_OF_PIXELS
from trace_ves.web.footage import CONTENT_TYPES

ITEMS_AHEAD: Final = 100
"""Items whose clips are cut when the desk starts; those of others are cut when somebody is given them."""

Id = Annotated[str, Query(min_length=1, max_length=40)]
Place = Annotated[int, Query(ge=0, le=1000)]


def video(caller: SignedIn, id: Id) -> FileResponse:  # noqa: A002  the name in the address
    """The video of an item as it is, whole or by ranges."""
    path = _whole(caller, id)
    caller.context.served.add(caller.person.name, id)
    kind = CONTENT_TYPES.get(path.suffix.lower())
    if kind is None:
        raise HTTPException(415, f"Files that end with {path.suffix[:20]!r} are sent frame by frame alone.")
    return FileResponse(path, media_type=kind)


def times(caller: SignedIn, id: Id) -> Response:  # noqa: A002  as above
    """The timestamp of every frame of an item's video, in seconds, as little-endian doubles."""
    found = caller.context.footage.video(_whole(caller, id))
    facts = {"duration": found.duration, "width": found.width, "height": found.height, "codec": found.codec}
    return Response(
        found.timestamps.astype("<f8").tobytes(),
        media_type="application/octet-stream",
        headers={"X-Video": json.dumps(facts)},
    )


def frame(
    caller: SignedIn,
    id: Id,  # noqa: A002  as above
    *,
    t: Annotated[float, Query(ge=0, allow_inf_nan=False)],
    height: Annotated[int | None, Query(ge=1, le=MOST_ROWS_OF_PIXELS)] = None,
) -> Response:
    """The frame on screen at a moment of an item's video, as JPEG."""
    found = caller.context.footage.frame_at(_whole(caller, id), t, height)
    caller.context.served.add(caller.person.name, id)
    headers = {"X-Frame-Seconds": repr(found.seconds), "X-Frame-Pts": str(found.pts)}
    return Response(found.jpeg(85), media_type="image/jpeg", headers=headers)


def strip(
    caller: SignedIn,
    id: Id,  # noqa: A002  as above
    *,
    start: Annotated[float, Query(ge=0, le=1e7, allow_inf_nan=False)],
    end: Annotated[float, Query(ge=0, le=1e7, allow_inf_nan=False)],
    count: Annotated[int, Query(ge=1, le=60)],
    height: Annotated[int, Query(ge=24, le=120)] = 54,
) -> Response:
    """Frames at even distances, side by side in one JPEG, for timelines."""
    path = _whole(caller, id)
    last = float(caller.context.footage.video(path).timestamps[-1])
    moments = [min(start + (end - start) * (place + 0.5) / count, last) for place in range(count)]
    frames = caller.context.footage.frames_at(path, [max(0.0, moment) for moment in moments], height)
    picture = Image.fromarray(np.concatenate([frame.rgb() for frame in frames], axis=1))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=70)
    return Response(file.getvalue(), media_type="image/jpeg")


async def clip(caller: SignedIn, id: Id, left_out: Place, part: Place) -> FileResponse:  # noqa: A002  as above
    """One interval of a partial evidence set, cut out of the video. Waiting for the cut holds no thread."""
    cutting = await run_in_threadpool(_clip, caller, id, left_out, part)
    path = await asyncio.wrap_future(cutting)
    return FileResponse(path, media_type="video/mp4")


def _clip(caller: SignedInRequest, item: str, left_out: int, part: int) -> Future[Path]:
    context, person = caller.context, caller.person
    mine = context.desk.assignment(person) == Assignment(item, Stage.LEAVE_ONE_OUT, left_out)
    if not mine and person.role is not Role.ADJUDICATOR:
        raise HTTPException(403, "These clips are not of the assignment that you hold.")
    judged, standing = context.desk.item(item)
    evidence = evidence_of(judged, standing)
    if part == left_out or part >= len(evidence):
        raise HTTPException(404, "This interval is not in the partial set.")
    context.served.add(person.name, item, part)
    return context.clips.clip(context.project.need_path(judged.proposal.video), evidence[part])


def in_video(context: DeskContext, item: str, part: int, spans: Sequence[Sequence[float]]) -> list[list[float]]:
    """Spans of a clip, whose end is 1, in seconds of its video."""
    evidence = evidence_of(*context.desk.item(item))
    if part >= len(evidence):
        raise HTTPException(404, "This interval is not in the partial set.")
    interval = evidence[part]
    return [[interval.start + min(edge, 1.0) * interval.length for edge in span] for span in spans]


def prepare_clips(context: DeskContext, held: Assignment) -> None:
    """Begin to cut the clips that somebody will ask for next."""
    if held.left_out is not None:
        judged, standing = context.desk.item(held.item)
        _prepare(context, judged.proposal.video, partial_set(evidence_of(judged, standing), held.left_out))


def prepare_waiting(context: DeskContext) -> None:
    """Begin to cut the clips of items that wait for leave-one-out, before the first person asks for one."""
    waiting = [
        (judged.proposal.video, standing.evidence)
        for judged, standing in context.desk.items.all(context.desk.store.ledger())
        if standing.waits_at is Stage.LEAVE_ONE_OUT
    ]
    for video, evidence in waiting[:ITEMS_AHEAD]:
        _prepare(context, video, evidence)


def prepare_item(context: DeskContext, item: str) -> None:
    """Begin to cut all clips of an item that waits for leave-one-out."""
    judged, standing = context.desk.item(item)
    if standing.waits_at is Stage.LEAVE_ONE_OUT:
        _prepare(context, judged.proposal.video, standing.evidence)


def _prepare(context: DeskContext, video: str, spans: Evidence) -> None:
    path = context.project.path_of(video)
    if path is not None:
        context.clips.prepare(path, spans)


def _whole(caller: SignedInRequest, item: str) -> Path:
    """The file of an item's video, where this person may see all of it."""
    desk, person = caller.context.desk, caller.person
    if person.role is not Role.ADJUDICATOR and desk.assignment(person) != Assignment(item, Stage.VERIFICATION):
        raise HTTPException(403, "This video is not of the assignment that you hold.")
    return caller.context.project.need_path(desk.item(item)[0].proposal.video)
