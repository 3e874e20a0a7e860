"""The routes of the studio. Writes need the page's CSRF token; requests name videos, never paths.

The command line sets the model, so a browser can choose neither code nor a private address.
"""

import asyncio
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, cast

from fastapi import Depends, Header, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, Field, StringConstraints
from starlette.types import ASGIApp

from trace_ves.core import TraceVesError
from trace_ves.core.display import simulation_notes
from trace_ves.core.question import MAX_OPTIONS
from trace_ves.runs.prices import price_notes
from trace_ves.web import views
from trace_ves.web.app import (
    FootageDep,
    Height,
    Moment,
    check_csrf,
    content_type,
    frame_response,
    page_app,
    without_folders,
)
from trace_ves.web.glossary import glossary
from trace_ves.web.guard import Guard
from trace_ves.web.studio import MOST_UPLOAD_BYTES, RUN, SAMPLES, BusyError, LiveSearch, Studio

MOST_VIDEOS: Final = 2000  # videos that the page offers
WAIT_SECONDS: Final = 10.0  # how long a request for new events waits
POLL_SECONDS: Final = 0.1
TERMS: Final = ("answerable", "insufficient", "conflicted", "stop", "drop", "refine", "expand", "end")
"""The glossary terms of bundles and decisions."""

Video = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
Text = Annotated[str, StringConstraints(max_length=4000)]


class EstimateBody(BaseModel, extra="forbid"):
    """A request for an estimate."""

    video: Video
    method: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    budget: Annotated[int, Field(ge=1, le=100_000)] | None = None


class AskBody(EstimateBody):
    """A request to answer a question."""

    question: Text
    subtitles: bool = False
    options: Annotated[list[Text], Field(max_length=MAX_OPTIONS)] = []


class FetchBody(BaseModel, extra="forbid"):
    """A request to fetch a video."""

    address: Annotated[str, StringConstraints(min_length=8, max_length=2000)]


class CancelBody(BaseModel, extra="forbid"):
    """A request to cancel a search."""

    search: Annotated[int, Field(ge=1)]


def create_studio_app(
    studio: Studio,
    *,
    hosts: Collection[str] | None,
    token: str | None = None,
    waiting: Callable[[], list[str]] = list,
) -> ASGIApp:
    """Create the application of a studio. `waiting` returns notices about rate limits and retries."""
    app = page_app(studio.library, home=ask_page)
    app.title = "trace-ves studio"
    app.state.studio, app.state.waiting, app.state.csrf = studio, waiting, secrets.token_urlsafe(24)
    for name, handler in (
        ("", begin),
        ("/estimate", estimate_cost),
        ("/cancel", cancel),
        ("/fetch", fetch),
        ("/upload", upload),
    ):
        app.add_api_route(f"/ask{name}", handler, methods=["POST"], dependencies=[Depends(require_csrf)])
    app.add_api_route("/ask/events", events, response_class=JSONResponse)
    app.add_api_route("/ask/frame", frame, response_class=Response)
    app.add_api_route("/ask/video", film, response_class=FileResponse)
    app.add_api_route("/ask/download", download, response_class=FileResponse)
    return Guard(app, hosts=hosts, token=token, body_bytes={"/ask/upload": MOST_UPLOAD_BYTES})


def _studio(request: Request) -> Studio:
    return cast("Studio", request.app.state.studio)


StudioDep = Annotated[Studio, Depends(_studio)]


def require_csrf(
    request: Request, csrf: Annotated[str, Header(alias="X-CSRF-Token", max_length=256, description="Of the page.")]
) -> None:
    """Refuse a write that did not come from a page of this studio."""
    check_csrf(request, csrf, request.app.state.csrf)


def ask_page(request: Request, studio: StudioDep) -> str:
    """Show the form, the running search, and earlier questions."""
    current, price = studio.current, studio.prices.of(studio.model.spec)
    return views.render(
        "studio.html",
        studio=studio,
        library=studio.library,
        csrf=request.app.state.csrf,
        videos=studio.videos.names(MOST_VIDEOS),
        notes=simulation_notes([studio.model.spec]),
        samples=studio.samples or SAMPLES,
        is_priced=price is not None,
        price_note=" ".join(price_notes([price])),
        run=RUN,
        terms={name: glossary()[name].short for name in TERMS},
        current=current if current is not None and current.state == "running" else None,
    )


def estimate_cost(studio: StudioDep, body: EstimateBody) -> dict[str, Any]:
    """Estimate the cost of a question about a video; nothing is sent to the model."""
    with _http_errors():
        return {**studio.estimate(body.video, body.method, body.budget), "duration": studio.duration(body.video)}


def begin(studio: StudioDep, body: AskBody) -> dict[str, int]:
    """Start to answer a question."""
    options = [option for option in body.options if option.strip()]
    with _http_errors():
        search = studio.begin(body.video, body.question, options, body.method, body.budget, subtitles=body.subtitles)
        return {"search": search.number}


async def upload(
    request: Request, studio: StudioDep, name: Annotated[str, Query(min_length=1, max_length=1000)]
) -> dict[str, str]:
    """Add an uploaded video."""
    with tempfile.NamedTemporaryFile(dir=studio.uploads, prefix=".upload-") as part:
        async for chunk in request.stream():  # the guard has checked its length
            await asyncio.to_thread(part.write, chunk)
        part.flush()

        def link_upload(target: Path) -> None:
            target.unlink()
            os.link(part.name, target)

        with _http_errors():
            return {"video": await asyncio.to_thread(studio.add_video, name, link_upload)}


def fetch(studio: StudioDep, body: FetchBody) -> dict[str, str]:
    """Fetch a video from a public address, and add it."""
    from trace_ves.video.fetching import fetch_video

    with _http_errors():
        fetched = fetch_video(body.address)
        return {"video": studio.add_video(fetched.path.name, lambda place: shutil.copyfile(fetched.path, place))}


def cancel(studio: StudioDep, body: CancelBody) -> dict[str, str]:
    """Cancel a search: no further call is sent."""
    search = _find_search(studio, body.search)
    search.cancel()
    return {"state": search.state}


async def events(
    request: Request,
    studio: StudioDep,
    search: Annotated[int, Query(ge=1)],
    after: Annotated[int, Query(ge=0)] = 0,
) -> dict[str, Any]:
    """Return the events of a search after the first `after`; waits up to `WAIT_SECONDS` for one."""
    live = _find_search(studio, search)
    until = time.monotonic() + WAIT_SECONDS
    news = live.events_after(after)
    while not news and live.state == "running" and time.monotonic() < until and not await request.is_disconnected():
        await asyncio.sleep(POLL_SECONDS)
        news = live.events_after(after)
    sentences = [{"sentence": without_folders(str(each["sentence"]))} if "sentence" in each else {} for each in news]
    return {
        "events": [event | sentence for event, sentence in zip(news, sentences, strict=True)],
        "state": live.state,
        "spent": live.spent(),
        "session": {"dollars": studio.dollars, "limit": studio.max_cost},
        "waiting": request.app.state.waiting(),
    }


def frame(
    request: Request, studio: StudioDep, footage: FootageDep, video: Video, *, t: Moment = 0.0, height: Height = None
) -> Response:
    """Return the frame on screen at a moment of a video, as JPEG."""
    return frame_response(footage, request, studio.videos.find(video), t, height)


def film(studio: StudioDep, video: Video) -> FileResponse:
    """Send a video file, whole or in ranges."""
    path = studio.videos.find(video)
    return FileResponse(path, media_type=content_type(path))


def download(studio: StudioDep, search: Annotated[int, Query(ge=1)]) -> FileResponse:
    """Send an answer as a ZIP file: clips, frames, contact sheet, page and record."""
    result = _find_search(studio, search).result
    if result is None:
        raise HTTPException(404, f"Search {search} has no answer.")
    archive = studio.folder / f"answer-{search}.zip"
    if not archive.exists():
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch, _http_errors():
            result.save(Path(scratch) / "answer")
            packed = shutil.make_archive(str(Path(scratch) / "packed"), "zip", Path(scratch) / "answer")
            Path(packed).replace(archive)
    return FileResponse(archive, filename=f"answer-{search}.zip")


def _find_search(studio: Studio, number: int) -> LiveSearch:
    if number > len(studio.searches):
        raise HTTPException(404, f"There is no search {number}.")
    return studio.searches[number - 1]


@contextmanager
def _http_errors() -> Iterator[None]:
    """Turn an error that the user can fix into a response with its message."""
    try:
        yield
    except BusyError as error:
        raise HTTPException(409, str(error)) from None
    except TraceVesError as error:
        raise HTTPException(422, without_folders(str(error))) from None
