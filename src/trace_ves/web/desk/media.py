"""What the desk shows of a video. Each look is allowed by the one task that a person has open, or by adjudicating.

Who verifies an item may see its video. Who answers without an interval may see the clips of the other intervals, and
nothing else of any video.
"""

import json
from pathlib import Path
from typing import Annotated

from fastapi import HTTPException, Query, Response
from fastapi.responses import FileResponse

from trace_ves.construction.assignments import Assignment
from trace_ves.construction.people import Role
from trace_ves.construction.stages import Stage
from trace_ves.web.app import MOST_ROWS_OF_PIXELS
from trace_ves.web.desk.context import SignedIn, SignedInRequest
from trace_ves.web.footage import CONTENT_TYPES

Id = Annotated[str, Query(min_length=1, max_length=40)]
Place = Annotated[int, Query(ge=0, le=1000)]


def video(caller: SignedIn, id: Id) -> FileResponse:  # noqa: A002  the name in the address
    """The video of an item as it is, whole or by ranges."""
    path = _whole(caller, id)
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
    headers = {"X-Frame-Seconds": repr(found.seconds), "X-Frame-Pts": str(found.pts)}
    return Response(found.jpeg(85), media_type="image/jpeg", headers=headers)


def clip(caller: SignedIn, id: Id, left_out: Place, part: Place) -> FileResponse:  # noqa: A002  as above
    """One interval of a partial evidence set, cut out of the video."""
    desk, person = caller.context.desk, caller.person
    mine = desk.assignment(person) == Assignment(id, Stage.LEAVE_ONE_OUT, left_out)
    if not mine and person.role is not Role.ADJUDICATOR:
        raise HTTPException(403, "These clips are not of the task that you have open.")
    judged, standing = desk.item(id)
    if part == left_out or part >= len(standing.evidence):
        raise HTTPException(404, "This interval is not in the partial set.")
    path = caller.context.project.need_path(judged.proposal.video)
    return FileResponse(caller.context.clips.clip(path, standing.evidence[part]), media_type="video/mp4")


def _whole(caller: SignedInRequest, item: str) -> Path:
    """The file of an item's video, where this person may see all of it."""
    desk, person = caller.context.desk, caller.person
    if person.role is not Role.ADJUDICATOR and desk.assignment(person) != Assignment(item, Stage.VERIFICATION):
        raise HTTPException(403, "This video is not of the task that you have open.")
    return caller.context.project.need_path(desk.item(item)[0].proposal.video)
