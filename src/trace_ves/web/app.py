"""The routes of the viewer and its error responses. Needs the extra `web`.

Requests name ids and runs, never paths; the library decides which files may be served.
"""

import hmac
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, cast

from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from trace_ves._version import __version__
from trace_ves.core import MissingExtraError, TraceVesError
from trace_ves.web import views
from trace_ves.web.costs import Costs
from trace_ves.web.footage import CONTENT_TYPES, Footage
from trace_ves.web.guard import Guard
from trace_ves.web.library import Library
from trace_ves.web.listing import Filters

LONGEST_ID: Final = 512

Name = Annotated[str, Query(min_length=1, max_length=LONGEST_ID)]
QuestionId = Annotated[str, Query(alias="id", min_length=1, max_length=LONGEST_ID)]
Words = Annotated[str, Query(max_length=LONGEST_ID)]
Moment = Annotated[float, Query(ge=0, allow_inf_nan=False)]
Height = Annotated[int | None, Query(ge=1, le=4320)]
Grouping = Literal["run", "method", "stage", "question"]
Bucket = Literal["", "covered", "uncovered", "right", "wrong", "unscored", "open"]


def create_app(library: Library, *, hosts: Collection[str] | None, token: str | None = None) -> ASGIApp:
    """Create the viewer of a library. `hosts` are the accepted host names; None accepts any, and requires a token."""
    return Guard(page_app(library), hosts=hosts, token=token)


def page_app(library: Library, *, home: Callable[..., str] | None = None) -> FastAPI:
    """Create the viewer without its guard; `home` replaces the start page `runs`."""
    app = FastAPI(
        title="trace-ves view",
        version=__version__,
        description="What each method of a run folder looked at, and why it stopped.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.library = library
    app.state.footage = Footage()
    app.state.costs = Costs(library)
    add_shared_handlers(app, home=library.home)
    for path, answer, shape in _ROUTES:
        app.add_api_route(path, home if home and path == "/" else answer, response_class=shape)
    return app


def add_shared_handlers(app: FastAPI, *, home: str) -> None:
    """Add the static files and error pages that the viewer and the desk share. `home` is the name of the start page."""
    app.state.home = home
    app.mount("/static", StaticFiles(packages=[("trace_ves.web", "static")]), name="static")
    for kind in (RequestValidationError, StarletteHTTPException, TraceVesError, OSError):
        app.add_exception_handler(kind, _on_error)


def _library(request: Request) -> Library:
    return cast("Library", request.app.state.library)


def _footage(request: Request) -> Footage:
    return cast("Footage", request.app.state.footage)


def _filters(
    *,
    bucket: Bucket = "",
    family: Words = "",
    density: Words = "",
    termination: Words = "",
    text: Words = "",
    sort: Words = "",
) -> Filters:
    return Filters(bucket, family, density, termination, text, sort)


LibraryDep = Annotated[Library, Depends(_library)]
FootageDep = Annotated[Footage, Depends(_footage)]
FiltersDep = Annotated[Filters, Depends(_filters)]


def runs(library: LibraryDep, on: Literal["", "common"] = "") -> str:
    """Show the audit of all runs, with figures."""
    return views.runs_page(library, common=on == "common")


def run(library: LibraryDep, filters: FiltersDep, name: Name, page: Annotated[int, Query(ge=1, le=100_000)] = 1) -> str:
    """List the questions of one run."""
    _need_run(library, name)
    return views.run_page(library, name, filters, page)


def question(library: LibraryDep, filters: FiltersDep, run: Name, question_id: QuestionId, beside: Words = "") -> str:
    """Show the search for one question, or of two runs side by side."""
    _need_run(library, run)
    if beside:
        _need_run(library, beside)
    try:
        return views.question_page(library, run, question_id, beside, filters)
    except KeyError:
        raise HTTPException(404, f"There is no question {question_id[:80]!r} in this run.") from None


def costs(request: Request, library: LibraryDep, by: Grouping = "run", run: Words = "") -> str:
    """Show tokens, dollars and seconds by run, method, stage or question."""
    library.refresh()
    if run:
        _need_run(library, run)
    table = request.app.state.costs.table(by, run)
    return views.costs_page(library, table, by, run)


def glossary() -> str:
    """Show the glossary."""
    return views.render("glossary.html")


def state(library: LibraryDep) -> dict[str, int]:
    """Return a number that changes with the run files; pages poll it to follow a running benchmark."""
    return {"version": library.refresh()}


def frame(
    library: LibraryDep,
    footage: FootageDep,
    request: Request,
    question_id: QuestionId,
    *,
    t: Moment,
    height: Height = None,
) -> Response:
    """Return the frame on screen at a moment of a question's video as JPEG, with its true timestamp in a header."""
    return frame_response(footage, request, _video(library, question_id), t, height)


def frame_response(footage: Footage, request: Request, path: Path, t: float, height: int | None) -> Response:
    """Return a frame of a file that may be served, or 304 if the browser has it cached."""
    status = path.stat()
    tag = f'"{status.st_size:x}-{status.st_mtime_ns:x}-{t!r}-{height or 0}"'
    headers = {"ETag": tag, "Cache-Control": "private, max-age=600"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    [frame] = footage.frames_at(path, [t], height)
    headers |= {"X-Frame-Seconds": repr(frame.seconds), "X-Frame-Pts": str(frame.pts)}
    return Response(frame.jpeg(85), media_type="image/jpeg", headers=headers)


def times(library: LibraryDep, footage: FootageDep, question_id: QuestionId) -> Response:
    """Return the timestamp of every frame of a question's video, in seconds, as little-endian doubles."""
    video = footage.video(_video(library, question_id))
    moments = video.timestamps.astype("<f8").tobytes()
    return Response(moments, media_type="application/octet-stream", headers={"Cache-Control": "no-cache"})


def video(library: LibraryDep, question_id: QuestionId) -> FileResponse:
    """Send the video file of a question, whole or in ranges."""
    path = _video(library, question_id)
    return FileResponse(path, media_type=content_type(path))


def content_type(path: Path) -> str:
    """The content type of a video file; files that browsers cannot play are refused."""
    kind = CONTENT_TYPES.get(path.suffix.lower())
    if kind is None:
        raise HTTPException(415, f"Files that end with {path.suffix[:20]!r} are only sent frame by frame.")
    return kind


def check_csrf(request: Request, token: str, expected: str) -> None:
    """Refuse a write that did not come from a page of this server."""
    is_same = hmac.compare_digest(token.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass"))
    is_same_site = request.headers.get("sec-fetch-site", "none") in {"same-origin", "none"}  # none: typed by hand
    if not expected or not is_same or not is_same_site:
        raise HTTPException(403, "This request did not come from a page of this server; load the page again.")


_ROUTES: Final = (
    ("/", runs, HTMLResponse),
    ("/run", run, HTMLResponse),
    ("/question", question, HTMLResponse),
    ("/costs", costs, HTMLResponse),
    ("/glossary", glossary, HTMLResponse),
    ("/state", state, JSONResponse),
    ("/frame", frame, Response),
    ("/times", times, Response),
    ("/video", video, FileResponse),
)


def _need_run(library: Library, key: str) -> None:
    library.refresh()
    if key not in library.runs:
        raise HTTPException(404, f"There is no run {key[:80]!r} in this folder.")


def _video(library: Library, question_id: str) -> Path:
    path = library.video_of(library.info(question_id))
    if path is None:
        raise HTTPException(404, "The video of this question is not in the folders of this server.")
    return path


def _on_error(request: Request, error: Exception) -> Response:
    """Respond to an error with one sentence."""
    headers: Mapping[str, str] = {}
    match error:
        case RequestValidationError():
            first = error.errors()[0]
            status, sentence = 422, f"{first['loc'][-1]}: {first['msg']}."
        case StarletteHTTPException():  # also addresses that do not exist
            headers, status = error.headers or {}, error.status_code
            sentence = error.detail if error.detail != "Not Found" else "There is no page at this address."
        case OSError():
            status, sentence = 404, f"A file of this page could not be read: {error.strerror or 'it was removed'}."
        case _:
            status, sentence = 501 if isinstance(error, MissingExtraError) else 404, without_folders(str(error))
    response = error_response(request, status, sentence)
    response.headers.update(headers)
    return response


_FOLDERS: Final = re.compile(r"(?<![\w.~/-])~?/(?:[^/\n:;'\"]+/)*(?=[^/\s])")


def without_folders(sentence: str) -> str:
    """Remove the folders from paths in a sentence, so that pages do not reveal where files are."""
    return _FOLDERS.sub("", sentence)


def error_response(request: Request, status: int, sentence: str) -> Response:
    """Return an error as a page, or as JSON if the client does not accept HTML."""
    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(
            views.render("error.html", status=status, sentence=sentence, home=request.app.state.home),
            status_code=status,
        )
    return JSONResponse({"detail": sentence}, status_code=status)
