"""Pages at their limits and one step beyond: headers, bodies, cookies, lists, costs, and a story in one file."""

import base64
import hashlib
import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException
from PIL import Image
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from tests.web.test_server import item, write
from trace_ves.core import Interval
from trace_ves.web import views
from trace_ves.web.app import check_csrf, content_type, create_app, without_folders
from trace_ves.web.costs import _expense
from trace_ves.web.export import write_story
from trace_ves.web.guard import LOOPBACK_NAMES, Guard
from trace_ves.web.library import Library
from trace_ves.web.listing import Filters, Listed, QuestionInfo, next_sort
from trace_ves.web.open_library import open_library

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


async def plain(scope: Scope, receive: Receive, send: Send) -> None:
    own = {"Cache-Control": "private", "Referrer-Policy": "origin"} if scope["path"] == "/own" else {}
    await PlainTextResponse("here", headers=own)(scope, receive, send)


def client(base: str = "http://localhost", **options: Any) -> TestClient:
    guard = Guard(plain, **{"hosts": LOOPBACK_NAMES, "token": None} | options)
    return TestClient(guard, base_url=base, follow_redirects=False)


def test_headers_that_every_response_has() -> None:
    found = {path: client().get(path).headers for path in ("/", "/static/page.css", "/own")}
    assert {key: found["/"][key] for key in found["/"] if key not in {"content-length", "content-type"}} == {
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }
    assert found["/static/page.css"]["cache-control"] == "no-cache"
    assert (found["/own"]["cache-control"], found["/own"]["referrer-policy"]) == ("private", "origin")


@pytest.mark.parametrize(
    ("host", "status"),
    [("LOCALHOST:80", 200), ("[::1]:8080", 200), ("[::1]", 200), ("127.0.0.1", 200), ("localhost:x", 421), ("", 421)],
)
def test_names_that_are_answered(host: str, status: int) -> None:
    reply = client().get("/", headers={"Host": host})
    assert reply.status_code == status
    assert reply.text in {"here", "Open this page at the address that the command printed.\n"}


@pytest.mark.parametrize(
    ("path", "length", "status", "detail"),
    [
        ("/", 65536, 200, None),
        ("/", 65537, 413, "A body here has at most 65536 bytes."),
        ("/more", 70000, 200, None),
        ("/more", 70001, 413, "A body here has at most 70000 bytes."),
    ],
)
def test_a_body_has_a_limit(path: str, length: int, status: int, detail: str | None) -> None:
    reply = client(body_bytes={"/more": 70000}).post(path, content=b"x" * length)
    assert reply.status_code == status
    if detail is not None:
        assert (reply.json(), reply.headers["connection"]) == ({"detail": detail}, "close")
        return
    assert reply.text == "here"


def test_a_body_says_how_long_it_is() -> None:
    reply = client().post("/", content=iter([b"x"]))
    assert (reply.status_code, reply.json()) == (411, {"detail": "Send the body with a Content-Length."})


@pytest.mark.parametrize(("secure", "prefix", "suffix"), [(False, "", ""), (True, "__Host-", "; Secure")])
def test_a_token_becomes_a_cookie(secure: bool, prefix: str, suffix: str) -> None:
    caller = client(token="sesame", secure=secure, hosts=None)
    for path in ("/", "/static/page.css", "/run?token=guess", "/run?token=", "/run?token=%C3%A9"):
        wrong = caller.get(path)
        assert (wrong.status_code, wrong.text[:18]) == (401, "A token is needed:"), path
    welcome = caller.get("/a b?name=x&token=sesame&page=2")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/a%20b?name=x&page=2")
    for path, place in (("/", "/"), ("http://localhost//evil.example/", "/evil.example/")):
        caller.cookies.clear()
        assert caller.get(f"{path}?token=sesame").headers["location"] == place
    name = f"{prefix}trace_ves_{hashlib.sha256(b'sesame').hexdigest()[:8]}"
    assert welcome.headers["set-cookie"] == f"{name}=sesame; HttpOnly; Path=/; SameSite=lax{suffix}"
    caller.cookies.clear()
    cookie = welcome.headers["set-cookie"].partition(";")[0]
    assert caller.get("/", headers={"Cookie": cookie}).status_code == 200
    assert caller.get("/", headers={"Cookie": f"{cookie}x"}).status_code == 401


@pytest.mark.parametrize(
    ("given", "right", "site", "is_let_through"),
    [
        ("t", "t", None, True),
        ("t", "t", "none", True),
        ("t", "t", "same-origin", True),
        ("t", "t", "same-site", False),
        ("t", "u", None, False),
        ("", "", None, False),
    ],
)
def test_a_write_needs_the_token_of_its_page(given: str, right: str, site: str | None, is_let_through: bool) -> None:
    request: Any = SimpleNamespace(headers={} if site is None else {"sec-fetch-site": site})
    try:
        check_csrf(request, given, right)
        status = 200
    except HTTPException as error:
        status = error.status_code
    assert status == (200 if is_let_through else 403)


def test_words_of_errors_and_types_of_files(tmp_path: Path) -> None:
    kinds = {"mp4": "mp4", "m4v": "mp4", "MOV": "quicktime", "webm": "webm", "mkv": "x-matroska", "avi": "x-msvideo"}
    for suffix, kind in (kinds | {"ts": "mp2t", "ogv": "ogg"}).items():
        assert content_type(tmp_path / f"a.{suffix}") == f"video/{kind}"
    with pytest.raises(HTTPException, match=f"Files that end with '.{'x' * 19}' are only sent frame by frame") as found:
        content_type(tmp_path / f"a.{'x' * 30}")
    assert found.value.status_code == 415
    assert without_folders("/a/b c/d.txt: bad; ~/e/f and http://x/y") == "d.txt: bad; f and http://x/y"


# --- lists --------------------------------------------------------------------------------------


def small(folder: Path, count: int, lines: list[dict[str, object]]) -> Library:
    write(folder, [item("v.mp4", f"q{number:03}", f"why {number}?") for number in range(count)], lines)
    return open_library(folder / "runs", bench=folder / "bench")


def line(name: str, answer: str | None = "A", **more: object) -> dict[str, object]:
    return {"question_id": name, "answer": answer, "timestamps": [1.0, 2.0], "frames_supplied": 3, **more}


def test_a_run_has_come_so_far(tmp_path: Path) -> None:
    lines = [line("q000"), line("q001"), line("q002", "B"), *(line(f"x{n}", error="e") for n in range(6))]
    library = small(tmp_path, 4, lines)
    library.refresh(now=True)
    state = library.states()["run"]
    assert (state.answered, state.questions, state.errors, state.frames) == (9, 10, 6, 27)
    assert state.accuracy == pytest.approx(200 / 3)
    assert state.unknown == ("x0", "x1", "x2", "x3", "x4", "…")
    version = library.refresh(now=True)
    path = tmp_path / "runs" / "run.jsonl"
    (tmp_path / "runs" / "more.jsonl").write_bytes(path.read_bytes())
    assert library.refresh(now=True) == version + 1
    assert library.refresh(now=True) == version + 1
    assert views.run_names(library) == {"run": "run", "more": "more"}
    few = small(tmp_path / "few", 1, [line(f"x{n}") for n in range(5)])
    assert (few.states()["run"].unknown, few.states()["run"].accuracy) == (("x0", "x1", "x2", "x3", "x4"), None)


def test_a_list_has_pages_of_two_hundred(tmp_path: Path) -> None:
    library = small(tmp_path, 401, [line("q000", method="m")])
    caller = TestClient(create_app(library, hosts=LOOPBACK_NAMES), base_url="http://localhost")
    rows = {}
    for number in (1, 2, 3, 9):
        text = caller.get(f"/run?name=run&page={number}").text
        rows[number] = re.findall(r"why (\d+)\?", text)
    assert [(len(set(rows[n])), rows[n][0]) for n in (1, 2, 3, 9)] == [(200, "0"), (200, "200"), (1, "400"), (1, "400")]
    assert caller.get("/run?name=run&page=0").status_code == 422
    assert caller.get("/run?name=run&page=100001").status_code == 422
    assert caller.get(f"/run?name={'x' * 513}").status_code == 422
    missing = caller.get(f"/run?name={'x' * 512}")
    assert (missing.status_code, missing.json()) == (404, {"detail": f"There is no run {'x' * 80!r} in this folder."})
    assert caller.get("/question?run=run&id=no").json() == {"detail": "There is no question 'no' in this run."}
    gone = {"detail": "The video of this question is not in the folders of this page."}
    assert caller.get("/video?id=q000").json() == gone
    assert caller.get("/nothing").json() == {"detail": "There is nothing at this address."}
    assert caller.get("/frame?id=q000&t=-1").status_code == 422
    first, middle, last = (caller.get(f"/question?run=run&id=q{n}").text for n in ("000", "200", "400"))
    assert [(f"{n} / 401" in text) for n, text in ((1, first), (201, middle), (401, last))] == [True] * 3
    assert [("q199" in text, "q201" in text) for text in (first, middle)] == [(False, False), (True, True)]
    assert "q399" in last


def test_small_words_of_pages() -> None:
    filters = views.environment().filters
    assert filters["moments"](Interval(1, 62.5)) == "0:01.000 - 1:02.500"
    assert [filters["percent"](value) for value in (None, 12.345)] == ["--", "12.3"]
    assert filters["when"](86400 * 365) == "1971-01-01 00:00 UTC"
    assert filters["pairs"]([Interval(1, 2)]) == [[1, 2]]
    assert filters["address"]({"a": "", "b": 0, "c": "x y"}) == "b=0&c=x+y"
    assert [next_sort("id", now) for now in ("", "id", "-id", "other")] == ["id", "-id", "", "id"]
    assert Filters(family="a b", sort="-id").query(page=2, run="") == "family=a+b&sort=-id&page=2"
    assert (bool(Filters()), bool(Filters(text="x"))) == (False, True)
    assert Listed(QuestionInfo.of_id("q")).bucket == "open"


def test_the_dearest_lines_come_first() -> None:
    def cost(dollars: float | None, tokens: int, seconds: float) -> Any:
        usage = SimpleNamespace(input_tokens=tokens, output_tokens=2)
        return SimpleNamespace(dollars=dollars, spent=SimpleNamespace(usage=usage, seconds=seconds))

    assert _expense(cost(None, 5, 1.5)) == (0.0, 7, 1.5)
    assert _expense(cost(0.5, 1, 0.0)) == (0.5, 3, 0.0)


# --- a story in one file ------------------------------------------------------------------------


def test_a_story_has_every_frame_once(library: Library, world: Path, tmp_path: Path) -> None:
    file = tmp_path / "story.html"
    count, size = write_story(library, "uniform-16@scripted", "q000", file)
    assert (count, size) == (16, file.stat().st_size)
    pictures = re.findall(r"data:image/jpeg;base64,([^\"]+)", file.read_text(encoding="utf-8"))
    assert len(pictures) == 16
    expected = io.BytesIO()
    Image.new("RGB", (16, 16)).save(expected, "JPEG", quality=75)
    with Image.open(io.BytesIO(base64.b64decode(pictures[0]))) as shown, Image.open(expected) as same:
        assert (shown.size, shown.quantization) == ((320, 180), same.quantization)  # type: ignore[attr-defined]
    without = open_library(world / "runs")
    assert write_story(without, "uniform-16@scripted", "q000", file)[0] == 0
