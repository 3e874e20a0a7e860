"""The addresses of the page to ask on. Writes need the page's own CSRF token; names, never paths, choose a video.

The model is the one that was named on the command line: nothing that a browser sends chooses code or an address.
"""

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

from fastapi import Depends, Header, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.types import ASGIApp

from trace_ves.core import TraceVesError
from trace_ves.core.display import simulation_notes
from trace_ves.core.question import MAX_OPTIONS
from trace_ves.web import views
from trace_ves.web.app import MOST_ROWS_OF_PIXELS, FootageDep, frame_response, page_app, without_folders
from trace_ves.web.glossary import glossary
from trace_ves.web.guard import Guard
from trace_ves.web.studio import RUN, BusyError, LiveSearch, Studio

MOST_VIDEOS: Final = 2000  # videos that the page offers
WAIT_SECONDS: Final = 10.0  # how long a request for new events waits
LOOK_SECONDS: Final = 0.1
TERMS: Final = ("answerable", "insufficient", "conflicted", "stop", "drop", "refine", "expand", "end")
"""What the page says of bundles and decisions, explained in the glossary."""

Video = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
Text = Annotated[str, StringConstraints(max_length=4000)]


class StrictBody(BaseModel):
    """A body with no other keys than its own."""

    model_config = ConfigDict(extra="forbid")


class EstimateBody(StrictBody):
    """What is to be estimated."""

    video: Video
    method: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    budget: Annotated[int, Field(ge=1, le=100_000)] | None = None


class AskBody(EstimateBody):
    """A question about a video."""

    question: Text
    options: Annotated[list[Text], Field(max_length=MAX_OPTIONS)] = []


class CancelBody(StrictBody):
    """Which search is to end."""

    search: Annotated[int, Field(ge=1)]


def create_studio_app(
    studio: Studio,
    *,
    hosts: Collection[str] | None,
    token: str | None = None,
    waiting: Callable[[], list[str]] = list,
) -> ASGIApp:
    """The application over a studio. `waiting` says what the model waits for at this moment."""
    app = page_app(studio.library, home=ask_page)
    app.title = "trace-ves studio"
    app.state.studio, app.state.waiting, app.state.csrf = studio, waiting, secrets.token_urlsafe(24)
    app.add_api_route("/ask", begin, methods=["POST"], dependencies=[Depends(checked)])
    app.add_api_route("/ask/estimate", estimated, methods=["POST"], dependencies=[Depends(checked)])
    app.add_api_route("/ask/cancel", cancel, methods=["POST"], dependencies=[Depends(checked)])
    app.add_api_route("/ask/events", events, response_class=JSONResponse)
    app.add_api_route("/ask/frame", frame, response_class=Response)
    return Guard(app, hosts=hosts, token=token)


def _studio(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


StudioDep = Annotated[Studio, Depends(_studio)]


def checked(
    request: Request, csrf: Annotated[str, Header(alias="X-CSRF-Token", max_length=256, description="Of the page.")]
) -> None:
    """Refuse a write that did not come from a page of this server."""
    own = request.headers.get("sec-fetch-site", "none") in {"same-origin", "none"}
    if not own or not hmac.compare_digest(csrf.encode("utf-8", "surrogatepass"), request.app.state.csrf.encode()):
        raise HTTPException(403, "This did not come from the studio's own page; load the page again.")


def ask_page(request: Request, studio: StudioDep) -> str:
    """The form, the search of the moment, and what was asked before."""
    current = studio.current
    return views.render(
        "studio.html",
        library=studio.library,
        csrf=request.app.state.csrf,
        videos=studio.videos.names(MOST_VIDEOS),
        methods=studio.methods,
        budget=studio.budget,
        spec=studio.model.spec,
        notes=simulation_notes([studio.model.spec]),
        searches=studio.searches,
        run=RUN,
        terms={name: glossary()[name].short for name in TERMS},
        current=current if current is not None and current.state == "running" else None,
    )


def estimated(studio: StudioDep, body: EstimateBody) -> dict[str, Any]:
    """What a question about a video will cost; nothing is sent to the model."""
    with _explaining_errors():
        return {**studio.estimate(body.video, body.method, body.budget), "duration": studio.duration(body.video)}


def begin(studio: StudioDep, body: AskBody) -> dict[str, int]:
    """Begin to answer a question."""
    options = [option for option in body.options if option.strip()]
    with _explaining_errors():
        return {"search": studio.begin(body.video, body.question, options, body.method, body.budget).number}


def cancel(studio: StudioDep, body: CancelBody) -> dict[str, str]:
    """End a search: no further call is sent."""
    search = _search(studio, body.search)
    search.cancel()
    return {"state": search.state}


async def events(
    request: Request,
    studio: StudioDep,
    search: Annotated[int, Query(ge=1)],
    after: Annotated[int, Query(ge=0)] = 0,
) -> dict[str, Any]:
    """What has happened in a search since its first `after` events; waits for a while where nothing has."""
    found = _search(studio, search)
    until = time.monotonic() + WAIT_SECONDS
    news = found.events_after(after)
    while not news and found.state == "running" and time.monotonic() < until and not await request.is_disconnected():
        await asyncio.sleep(LOOK_SECONDS)
        news = found.events_after(after)
    sentences = [{"sentence": without_folders(str(each["sentence"]))} if "sentence" in each else {} for each in news]
    return {
        "events": [event | sentence for event, sentence in zip(news, sentences, strict=True)],
        "state": found.state,
        "spent": found.spent(),
        "waiting": request.app.state.waiting(),
    }


def frame(
    request: Request,
    studio: StudioDep,
    footage: FootageDep,
    video: Annotated[str, Query(min_length=1, max_length=4096)],
    *,
    t: Annotated[float, Query(ge=0, allow_inf_nan=False)] = 0.0,
    height: Annotated[int | None, Query(ge=1, le=MOST_ROWS_OF_PIXELS)] = None,
) -> Response:
    """The frame on screen at a moment of a video, as JPEG."""
    return frame_response(footage, request, studio.videos.find(video), t, height)


def _search(studio: Studio, number: int) -> LiveSearch:
    if number > len(studio.searches):
        raise HTTPException(404, f"There is no search {number}.")
    return studio.searches[number - 1]


@contextmanager
def _explaining_errors() -> Iterator[None]:
    """Turn an error of the user into a response with its sentence."""
    try:
        yield
    except BusyError as error:
        raise HTTPException(409, str(error)) from None
    except TraceVesError as error:
        raise HTTPException(422, without_folders(str(error))) from None
