"""The server as others may call it: exact frames, hostile addresses and files, limits, and one step beyond them."""

import asyncio
import base64
import hashlib
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest
from fastapi import FastAPI, HTTPException
from PIL import Image
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from tests.web.conftest import library_in, serving
from tests.web.web_bench import number_in
from trace_ves.core import InputError, Interval, Question
from trace_ves.core.jsonl import dump_line
from trace_ves.records import Item
from trace_ves.records.run_index import Entry
from trace_ves.records.transcript import CallTranscript, Transcript
from trace_ves.video import open as open_video
from trace_ves.web import serve, views
from trace_ves.web.app import add_shared_handlers, check_csrf, content_type, create_app, without_folders
from trace_ves.web.costs import Costs
from trace_ves.web.export import write_story
from trace_ves.web.footage import Footage
from trace_ves.web.guard import LOOPBACK_NAMES, Guard
from trace_ves.web.library import Library
from trace_ves.web.listing import Filters, QuestionEntry, QuestionInfo, next_sort
from trace_ves.web.open_library import open_library


class Reply:
    """What a server answered to one raw request line."""

    def __init__(self, status: int, headers: HTTPMessage, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body
        self.text = body.decode("utf-8", "replace")


def get(address: str, path: str, method: str = "GET", body: str = "", **headers: str) -> Reply:
    """Send a request exactly as written; nothing is normalised on the way."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    if body:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body.encode())
    response = connection.getresponse()
    reply = Reply(response.status, response.headers, response.read())
    connection.close()
    return reply


def page(path: str, /, **query: str) -> str:
    return f"/{path}?{urlencode(query)}"


# --- frames, times, videos -----------------------------------------------------


@pytest.mark.parametrize(("seconds", "number"), [(0.0, 0), (21.0, 210), (21.04, 210), (119.9, 1199), (63.0, 630)])
def test_a_frame_is_the_one_on_screen(address: str, world: Path, seconds: float, number: int) -> None:
    for question, film, height in (("q000", "one", None), ("q001", "two", None), ("q001", "two", 90)):
        path = page("frame", id=question, t=str(seconds), **({"height": str(height)} if height else {}))
        reply = get(address, path)
        assert number_in(np.asarray(Image.open(io.BytesIO(reply.body)))) == number
        with open_video(world / "bench" / "videos" / f"{film}.mp4") as opened:
            [frame] = opened.frames_at([seconds], height=height)
        assert (reply.status, reply.body) == (200, frame.jpeg(85))
        assert (reply.headers["X-Frame-Seconds"], reply.headers["X-Frame-Pts"]) == (str(number / 10), str(frame.pts))
        assert reply.headers["ETag"].endswith(f'-{seconds}-{height or 0}"')
        again = get(address, path, **{"If-None-Match": reply.headers["ETag"]})
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", reply.headers["ETag"])
        assert {each.headers["Cache-Control"] for each in (reply, again)} == {"private, max-age=600"}


def test_times_are_those_of_the_file(address: str) -> None:
    reply = get(address, page("times", id="q001"))
    assert np.frombuffer(reply.body, "<f8").tolist() == [n / 10 for n in range(1200)]
    assert (reply.headers["Content-Type"], reply.headers["Cache-Control"]) == ("application/octet-stream", "no-cache")


def test_videos_are_sent_by_ranges(address: str, world: Path) -> None:
    whole = (world / "bench" / "videos" / "one.mp4").read_bytes()
    middle = get(address, page("video", id="q000"), Range="bytes=1000-1999")
    assert (middle.status, middle.body) == (206, whole[1000:2000])
    assert middle.headers["Content-Range"] == f"bytes 1000-1999/{len(whole)}"
    tail = get(address, page("video", id="q000"), Range="bytes=-100")
    assert (tail.status, tail.body) == (206, whole[-100:])
    assert get(address, page("video", id="q000")).body == whole
    assert get(address, page("video", id="q000"), Range=f"bytes={len(whole) + 5}-").status == 416
    assert get(address, page("video", id="q000"), Range="bytes=x-y").status == 400


# --- hostile addresses ----------------------------------------------------------

BAD = [
    *("/frame", "/frame?id=q000", "/frame?id=../../etc/passwd&t=1", "/frame?id=%00&t=1"),
    *(f"/frame?id=q000&t={moment}" for moment in ("nan", "inf", "-1", "1e12", "1&height=0", "1&height=999999")),
    *(f"/video?id={name}" for name in ("/etc/passwd", "..%2f..%2fetc%2fpasswd", "a" * 5000)),
    *(f"/static/{name}" for name in ("../guard.py", "..%2fguard.py", "%2e%2e/guard.py", "/etc/passwd", "")),
    *("/run", "/run?name=../runs/trace"),
    *(f"/run?name=trace@scripted&{query}" for query in ("page=0", "page=x", "bucket=%3Cscript%3E")),
    *(f"/question?run={query}" for query in ("nobody&id=q000", "trace@scripted&id=nobody")),
    "/question?run=trace@scripted&id=q000&beside=nobody",
    *("/costs?by=person", "/costs?run=nobody", "/?on=everything", "/nothing", "/%ff%fe", "//etc/passwd"),
]


@pytest.mark.parametrize("accept", ["text/html", "*/*"])
def test_bad_requests_get_4xx_and_a_sentence(address: str, accept: str) -> None:
    for path in BAD:
        reply = get(address, path, Accept=accept)
        assert 400 <= reply.status < 500, path
        assert not re.search("Traceback|root:|<script>", reply.text), path


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_written_and_no_other_name_is_answered(address: str, method: str) -> None:
    assert get(address, "/", method).status == 405
    assert get(address, "/", method, Host=f"evil.example:{urlsplit(address).port}").status == 421


def test_pages_hold_nothing_inline(address: str) -> None:
    """The policy would block it; that it is not there at all shows that nothing needs it."""
    for path in ("/", page("run", name="trace@scripted"), page("question", run="trace@scripted", id="q002")):
        text = get(address, path).text
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style|javascript:", text)
        assert all("src=" in tag or "application/json" in tag for tag in re.findall(r"<script[^>]*>", text))


def test_a_server_for_all_must_have_a_token(library: Library) -> None:
    with pytest.raises(ValueError, match="token"):
        create_app(library, hosts=None)


# --- hostile files ----------------------------------------------------------------


def write(folder: Path, items: list[Item], lines: list[dict[str, object]], run: str = "run") -> None:
    (folder / "bench").mkdir(parents=True, exist_ok=True)
    (folder / "runs").mkdir(exist_ok=True)
    (folder / "bench" / "questions.jsonl").write_bytes(b"".join(dump_line(item.to_json()) for item in items))
    (folder / "runs" / f"{run}.jsonl").write_bytes(b"".join(map(dump_line, lines)))


def item(video: str, name: str = "q", text: str = "why?", seconds: float = 10.0) -> Item:
    return Item(Question(name, video, text, ("one", "two")), "A", (), seconds)


def line(name: str, answer: str | None = "A", **more: object) -> dict[str, object]:
    return {"question_id": name, "answer": answer, "timestamps": [1.0, 2.0], **more}


def test_videos_outside_the_given_folders_are_not_served(tmp_path: Path, world: Path) -> None:
    outside = tmp_path / "outside.mp4"
    shutil.copy(world / "bench" / "videos" / "one.mp4", outside)
    folder = tmp_path / "folder"
    (folder / "bench").mkdir(parents=True)
    (folder / "bench" / "link.mp4").symlink_to(outside)
    (folder / "bench" / "loop.mp4").symlink_to(folder / "bench" / "loop.mp4")
    (folder / "bench" / "way").symlink_to(tmp_path)
    shutil.copy(outside, folder / "bench" / "inside.mp4")
    (folder / "bench" / "again.mp4").symlink_to(folder / "bench" / "inside.mp4")
    names = ["../../outside.mp4", str(outside), "link.mp4", "loop.mp4", "way/outside.mp4", ".", "nul\0.mp4", "x" * 5000]
    good = ["inside.mp4", "again.mp4"]
    items = [item(video, f"q{at}") for at, video in enumerate(names + good)]
    write(folder, items, [line(each.question.id) for each in items])
    with serving(library_in(folder)) as address:
        for at in range(len(names)):
            for path in (page("video", id=f"q{at}"), page("times", id=f"q{at}"), page("frame", id=f"q{at}", t="1")):
                assert get(address, path).status == 404
            assert "not in the folders" in get(address, page("question", run="run", id=f"q{at}")).text
        for at in range(len(names), len(items)):
            assert get(address, page("video", id=f"q{at}")).status == 200


def test_files_that_are_no_videos_are_not_sent(tmp_path: Path) -> None:
    write(tmp_path, [item("questions.jsonl", "q1"), item("fake.mp4", "q2")], [line("q1")])
    (tmp_path / "bench" / "fake.mp4").write_bytes(b"not a video")
    with serving(library_in(tmp_path)) as address:
        assert get(address, page("video", id="q1")).status == 415
        assert get(address, page("frame", id="q2", t="1")).status == 404
        assert get(address, page("times", id="q2")).status == 404


def test_run_files_that_lead_elsewhere_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, [item("v.mp4")], [line("q")])
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(dump_line(line("secret")))
    (tmp_path / "runs" / "link.jsonl").symlink_to(secret)
    assert list(library_in(tmp_path).runs) == ["run"]


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7103*7}}"
CLIP = {"span": [0, 1], "fps": 1.0, "height": 360, "timestamps": [0.5]}
CANDIDATE = {"span": [0, 1], "strategy": {"fps": 1.0, "height": 360}, "replaces": HOSTILE}
REPLAY = {"prefix": [HOSTILE], "answer": HOSTILE, "agrees": False}
PLAN = {"load_mode": "uniform", "fps": 1, "spatial": "low", "completion_criteria": HOSTILE}
EVIDENCE = {"round": 1, "description": HOSTILE, "key_evidence": [{"start": 0, "end": 1, "description": HOSTILE}]}
REFLECTION = {"answer": HOSTILE, "sufficient": True, "confidence": 0.5, "justification": HOSTILE}
SEGMENT = {"segment": 1, "start": 0, "end": 1, "relevance": 3, "explanation": HOSTILE}
HOSTILE_SEARCHES: dict[str, dict[str, object]] = {
    "trace": {
        "claims": [{"id": HOSTILE, "text": HOSTILE, "kind": "fact"}],
        "storyboard": CLIP,
        "notes": [{"start": 0, "end": 1, "note": HOSTILE}],
        "rounds": [
            {
                "number": 1,
                "candidates": [CANDIDATE],
                "refused": [HOSTILE],
                "anchors": [{"id": HOSTILE, "candidate": CANDIDATE, "clip": CLIP}],
                "bundles": [[HOSTILE]],
                "records": [{"answer": HOSTILE, "status": "answerable", "facts": {HOSTILE: HOSTILE}}],
                "decisions": [
                    {"action": {"action": "DROP", "anchors": [HOSTILE]}, "refused": [HOSTILE]},
                    {"action": {"action": "REFINE", "anchor": HOSTILE, "refinement": "narrow-span"}},
                ],
                "replay": REPLAY,
            }
        ],
        "stable_prefix": [HOSTILE],
        "fallback": REPLAY,
    },
    "avp": {
        "rounds": [
            {"plan": PLAN, "spans": [[0, 1]], "evidence": EVIDENCE, "reflection": reflection}
            for reflection in ({"fault": HOSTILE}, REFLECTION)
        ]
    },
    "vca": {
        "steps": [
            {"explored": SEGMENT, "frames": [0.5], "scores": [SEGMENT], "decision": decision}
            for decision in ({"fault": HOSTILE}, {"action": "answer", "answer": HOSTILE})
        ]
    },
    "own": {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]},
}


def hostile_line(record: dict[str, object] = HOSTILE_SEARCHES["trace"]) -> dict[str, object]:
    calls = [{"stage": HOSTILE, "timestamps": [0.5], "fault": HOSTILE}, {"stage": "claims"}]
    words = dict.fromkeys(("question_id", "answer", "method", "backbone", "termination", "error"), HOSTILE)
    return {**words, "timestamps": [0.5], "observations": calls, "trajectory": record}


@pytest.mark.parametrize("kind", HOSTILE_SEARCHES)
def test_hostile_text_stays_text(tmp_path: Path, kind: str) -> None:
    name = "<b>run<b>"
    write(tmp_path, [item("v.mp4", HOSTILE, HOSTILE)], [hostile_line(HOSTILE_SEARCHES[kind])], run=name)
    with serving(library_in(tmp_path)) as address:
        for path in (
            "/",
            page("run", name=name),
            page("run", name=name, text=HOSTILE, family=HOSTILE),
            page("question", run=name, id=HOSTILE),
            page("question", run=name, id=HOSTILE + "x"),
        ):
            text = get(address, path, Accept="text/html").text
            assert "alert(" in text or path == "/"
            for raw in ("<script>alert", "<img src=x", "<b>run", "</script><script>"):
                assert raw not in text
            assert "49721" not in text  # a template that was filled in
        assert f'class="story {kind}"' in get(address, page("question", run=name, id=HOSTILE)).text


def test_hostile_text_runs_nothing_in_a_browser(tmp_path: Path, new_page: object) -> None:
    write(tmp_path, [item("v.mp4", HOSTILE, HOSTILE)], [hostile_line()])
    with serving(library_in(tmp_path)) as address:
        tab = new_page()  # type: ignore[operator]  # the fixture's function
        tab.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        tab.goto(address + page("question", run="run", id=HOSTILE))
        tab.locator("details.call summary").click()
        tab.locator(".frames button").click()
        tab.keyboard.press("Escape")
        tab.keyboard.press("?")
        assert tab.locator("script:not([src])").count() == 1  # the page's own data


def test_runs_without_a_bench_show_what_they_have(tmp_path: Path) -> None:
    (tmp_path / "outsider.jsonl").write_bytes(dump_line(line("q/1 ?&#", "free words", timestamps=[3.0, 1.0])))
    with serving(open_library(tmp_path)) as address:
        assert "nothing is scored" in get(address, "/").text
        assert "q/1 ?&amp;#" in get(address, page("run", name="outsider")).text
        text = get(address, page("question", run="outsider", id="q/1 ?&#")).text
        assert "free words" in text
        assert "gold" not in text.split("</header>")[1]
        assert 'class="interval"' not in text


def test_a_log_of_ten_thousand_frames(tmp_path: Path) -> None:
    moments = [n * 0.72 for n in range(10_000)]
    calls = [{"stage": f"s{n % 9}", "timestamps": moments[n::9]} for n in range(9)]
    write(tmp_path, [item("v.mp4", seconds=7200.0)], [line("q", timestamps=moments, observations=calls)])
    with serving(library_in(tmp_path)) as address:
        reply = get(address, page("question", run="run", id="q"))
        assert (reply.status, reply.text.count('class="ticks')) == (200, 9)
        assert "10,000 supplied" in reply.text
        assert len(reply.body) < 2_000_000


def test_so_much_is_shown_and_kept(tmp_path: Path, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [{"stage": "s", "timestamps": []}] * 2001
    lines = [line("q", observations=calls), *(line(f"x{number}") for number in range(2000))]
    write(tmp_path, [item("v.mp4")], lines)
    said = Transcript("q", ("p" * 20_001,), (CallTranscript("s", 0),))
    (tmp_path / "runs" / "run.transcripts").write_bytes(dump_line(said.to_json()))
    library = library_in(tmp_path)
    caller = TestClient(create_app(library, hosts=LOOPBACK_NAMES), base_url="http://localhost")
    shown = caller.get("/question?run=run&id=q").text
    assert "… and 1 more calls." in shown
    assert f"<pre>{'p' * 20_000}\n… 1 more characters in the transcripts file</pre>" in shown
    costs = Costs(library).table("question")
    assert (len(costs.lines), costs.total) == (2000, 2001)
    now = [9.0]
    monkeypatch.setattr("trace_ves.web.library.time", SimpleNamespace(monotonic=lambda: now[0]))
    version = library.refresh(now=True)
    (tmp_path / "runs" / "more.jsonl").write_bytes(dump_line(line("q")))
    now[0] += 0.29
    assert library.refresh() == version
    now[0] += 0.02
    assert library.refresh() == version + 1
    footage, files = Footage(), [tmp_path / f"{number}.mp4" for number in range(7)]
    for file in files:
        os.link(world / "bench" / "videos" / "one.mp4", file)
    opened = [footage.video(file) for file in files]
    assert [footage.video(file) is video for file, video in zip(files[1:], opened[1:], strict=True)] == [True] * 6
    assert footage.video(files[0]) is not opened[0]


def test_a_damaged_line_is_said_and_not_a_crash(tmp_path: Path) -> None:
    write(tmp_path, [item("v.mp4")], [])
    run = tmp_path / "runs" / "run.jsonl"
    run.write_bytes(dump_line(line("q", trajectory={"a": 1})).replace(b'{"a": 1}', b'{"a": ,}'))
    with serving(library_in(tmp_path)) as address:
        assert "run.jsonl:1: not valid JSON" in get(address, "/").text
        assert get(address, page("question", run="run", id="q")).status == 200
        run.unlink()
        assert get(address, page("question", run="run", id="q")).status in {200, 404}
        assert get(address, "/").status == 200


def test_pages_that_others_share_have_no_link_to_the_glossary(address: str) -> None:
    """Error pages and the desk's pages extend the same page, and the desk has no glossary."""
    assert 'href="/glossary"' in get(address, "/").text
    assert 'href="/glossary"' not in get(address, "/nothing", Accept="text/html").text


# --- limits, and one step beyond them -------------------------------------------------------

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
    with TestClient(Guard(FastAPI(), hosts=None, token="")) as started:  # what is no request passes
        assert started.portal is not None
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
    ("hosts", "reply"),
    [
        (("LOCALHOST:80", "[::1]:8080", "[::1]", "127.0.0.1"), (200, "here")),
        (
            ("localhost:x", "", "127.0.0.1.evil.example"),
            (421, "Open this page at the address that the command printed.\n"),
        ),
    ],
)
def test_names_that_are_answered(hosts: tuple[str, ...], reply: tuple[int, str]) -> None:
    found = [client().get("/", headers={"Host": host}) for host in hosts]
    assert {(each.status_code, each.text) for each in found} == {reply}


@pytest.mark.parametrize(("path", "most"), [("/", 65536), ("/more", 70000)])
def test_a_body_says_how_long_it_is_and_has_a_limit(path: str, most: int) -> None:
    caller = client(body_bytes={"/more": 70000})
    fits, beyond = (caller.post(path, content=b"x" * length) for length in (most, most + 1))
    assert (fits.status_code, fits.text) == (200, "here")
    assert (beyond.status_code, beyond.json()) == (
        413,
        {"detail": f"The body of this request may have at most {most} bytes."},
    )
    assert beyond.headers["connection"] == "close"
    unknown = caller.post(path, content=iter([b"x"]))
    assert (unknown.status_code, unknown.json()) == (411, {"detail": "Send the body with a Content-Length."})


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


def test_a_write_needs_the_token_of_its_page() -> None:
    def check(given: str, right: str, site: str | None) -> None:
        request: Any = SimpleNamespace(headers={} if site is None else {"sec-fetch-site": site})
        check_csrf(request, given, right)

    for site in (None, "none", "same-origin"):
        check("t", "t", site)
    for given, right, elsewhere in (("t", "t", "same-site"), ("t", "u", None), ("", "", None)):
        with pytest.raises(HTTPException) as refused:
            check(given, right, elsewhere)
        assert refused.value.status_code == 403


def served(host: str, **options: Any) -> tuple[Any, ...]:
    """With which names, token, address and settings an application is served."""
    found: list[Any] = []

    def make(*who: Any) -> Any:
        found.extend(who)
        return plain

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socket.gethostname", lambda: "box")
        patch.setattr("secrets.token_urlsafe", lambda _: "secret")
        patch.setattr(serve._Server, "run", lambda server, sockets: (found.append(server.config), server._ready()))
        serve.serve_app(make, host=host, port=0, ready=lambda address: found.append(address.url()), **options)
    config = found[2]
    limits = (config.limit_concurrency, config.timeout_keep_alive, config.timeout_graceful_shutdown, config.lifespan)
    assert limits == (512, 5, 1, "off")
    assert (config.log_level, config.access_log, config.server_header) == ("warning", False, False)
    return found[0], found[1], re.sub(r":[1-9]\d*/", ":1/", found[3]), config.http.args


def test_an_application_is_served_to_this_machine_or_with_a_token(tmp_path: Path) -> None:
    own, many = {*LOOPBACK_NAMES}, ({}, 64)
    assert served("localhost") == (own, "secret", "http://localhost:1/?token=secret", many)
    assert served("127.0.0.9", needs_token=False) == (own | {"127.0.0.9"}, None, "http://127.0.0.9:1/", many)
    everywhere = served("0.0.0.0", needs_token=False, behind_proxy=True)
    assert everywhere == (None, "secret", "http://box:1/?token=secret", ({}, None))
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"^127.0.0.1:{port} could not listen: .*; give another --port\.$"):
            serve.serve_app(Mock(), host="127.0.0.1", port=port, ready=Mock())
    with pytest.raises(InputError, match=r"^host\.invalid:5 could not listen: .*; give another --host or --port\.$"):
        serve.serve_app(Mock(), host="host.invalid", port=5, ready=Mock())
    (tmp_path / "no.pem").touch()
    with pytest.raises(InputError, match=r"no\.pem: the certificate could not be used"):
        served("localhost", certificate=tmp_path / "no.pem")
    assert serve.Address("::1", 5, None, "https").url("/a", b="c") == "https://[::1]:5/a?b=c"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_an_application_is_served_with_a_certificate(tmp_path: Path) -> None:
    certificate, key = tmp_path / "desk.pem", tmp_path / "desk.key"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=box"]
    subprocess.run([*make, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    assert served("localhost", certificate=certificate, key=key)[2] == "https://localhost:1/?token=secret"


async def send_much(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("x" * MUCH)(scope, receive, send)


MUCH = 64 * 1024**2


@pytest.fixture
def free_thread() -> Iterator[None]:
    """Playwright's loop counts as running in this thread while another test's browser is open."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.mark.usefixtures("free_thread")
def test_a_server_ends_although_a_client_does_not_read() -> None:
    clients: list[socket.socket] = []

    def visit(address: serve.Address) -> None:
        clients.append(socket.create_connection((address.host, address.port), timeout=60))
        clients[0].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert clients[0].recv(8) == b"HTTP/1.1"
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)  # the server hears of it while it still waits for this function

    before = signal.getsignal(signal.SIGTERM)
    serve.serve_app(lambda *_: send_much, host="127.0.0.1", port=0, ready=visit)
    assert signal.getsignal(signal.SIGTERM) is before
    read = 0
    with clients[0], suppress(ConnectionResetError):
        while part := clients[0].recv(1024**2):
            read += len(part)
    assert 0 < read < MUCH


def connect(counts: dict[str, int]) -> Any:
    """A connection from 10.0.0.1, of two at most, without an event loop."""
    made = serve._Connection(
        counts, 2, config=Config(plain, ws="none"), server_state=ServerState(), app_state={}, _loop=Mock()
    )
    made.connection_made(Mock(**{"get_extra_info.side_effect": {"peername": ("10.0.0.1", 5)}.get}))
    return made


def test_one_address_has_so_many_connections() -> None:
    counts: dict[str, int] = {}
    made = [connect(counts) for _ in range(3)]
    assert [each.transport.abort.call_count for each in made] == [0, 0, 1]
    for left, each in zip(({"10.0.0.1": 2}, {"10.0.0.1": 1}, {}), made, strict=True):
        each.connection_lost(None)
        each._check.cancel.assert_called_once_with()
        assert counts == left


@pytest.mark.parametrize(
    ("more_body", "complete", "is_full", "sizes", "checks"),
    [
        (True, False, False, [0], []),
        (False, False, False, [0, 0, 0], [10, 10, 10]),
        (False, True, False, [0, 0], [10]),
        (False, False, True, [7, 7], [60]),
        (False, False, True, [9, 8, 7], [60, 60, 60]),  # its client reads, slowly
    ],
)
def test_a_connection_that_does_nothing_is_closed(
    more_body: bool, complete: bool, is_full: bool, sizes: list[int], checks: list[int]
) -> None:
    made = connect({})
    made.cycle = SimpleNamespace(more_body=more_body, response_complete=complete)
    made.flow = SimpleNamespace(write_paused=is_full)
    for made.transport.get_write_buffer_size.return_value in sizes:
        made._close_idle()
    seconds = [given.args[0] for given in made.loop.call_later.call_args_list if given.args[1] == made._close_idle]
    assert seconds == [10, *checks]
    assert made.transport.abort.call_count == (len(checks) < len(sizes))
    made.cycle = None  # nothing was asked at all
    made.transport.abort.reset_mock()
    made._close_idle()
    made.transport.abort.assert_called_once_with()


def _lost() -> None:
    raise OSError


def test_words_of_errors_and_types_of_files(tmp_path: Path) -> None:
    kinds = {"mp4": "mp4", "m4v": "mp4", "MOV": "quicktime", "webm": "webm", "mkv": "x-matroska", "avi": "x-msvideo"}
    for suffix, kind in (kinds | {"ts": "mp2t", "ogv": "ogg"}).items():
        assert content_type(tmp_path / f"a.{suffix}") == f"video/{kind}"
    with pytest.raises(HTTPException, match=f"Files that end with '.{'x' * 19}' are only sent frame by frame") as found:
        content_type(tmp_path / f"a.{'x' * 30}")
    assert found.value.status_code == 415
    app = FastAPI()
    add_shared_handlers(app, home="Runs")
    app.add_api_route("/0", (tmp_path / "gone").read_bytes)
    app.add_api_route("/1", _lost)
    caller = TestClient(app)
    for number, reason in enumerate(("No such file or directory", "it was removed")):
        said = f"A file of this page could not be read: {reason}."
        assert (caller.get(f"/{number}").status_code, caller.get(f"/{number}").json()) == (404, {"detail": said})
    assert without_folders("/a/b c/d.txt: bad; ~/e/f and http://x/y") == "d.txt: bad; f and http://x/y"


# --- lists --------------------------------------------------------------------------------------


def small(folder: Path, count: int, lines: list[dict[str, object]]) -> Library:
    write(folder, [item("v.mp4", f"q{number:03}", f"why {number}?") for number in range(count)], lines)
    return library_in(folder)


def test_a_run_has_come_so_far(tmp_path: Path) -> None:
    lines = [line("q000", frames_supplied=9), line("q001"), line("q002", "B")]
    lines += [line(f"x{number}", error="e") for number in range(6)]
    library = small(tmp_path, 4, lines)
    library.refresh(now=True)
    state = library.states()["run"]
    assert (state.answered, state.questions, state.errors, state.frames) == (9, 10, 6, 9 + 8 * 2)
    assert state.accuracy == pytest.approx(200 / 3)
    assert state.unknown == ("x0", "x1", "x2", "x3", "x4", "…")
    path = tmp_path / "runs" / "run.jsonl"
    assert state.modified == path.stat().st_mtime
    version = library.refresh(now=True)
    (tmp_path / "runs" / "more.jsonl").write_bytes(path.read_bytes())
    assert library.refresh(now=True) == version + 1
    assert library.refresh(now=True) == version + 1
    assert views.run_names(library) == {"run": "run", "more": "more"}
    few = small(tmp_path / "few", 1, [line(f"x{n}") for n in range(5)])
    (tmp_path / "few" / "runs" / "run.jsonl").unlink()  # after it was read
    state = few.states()["run"]
    assert (state.unknown, state.accuracy, state.modified) == (("x0", "x1", "x2", "x3", "x4"), None, 0.0)


def test_a_list_has_pages_of_two_hundred(tmp_path: Path) -> None:
    library = small(tmp_path, 401, [line("q000", method="m")])
    caller = TestClient(create_app(library, hosts=LOOPBACK_NAMES), base_url="http://localhost")
    for number, count, first in ((1, 200, "0"), (2, 200, "200"), (3, 1, "400"), (9, 1, "400")):
        rows = re.findall(r"why (\d+)\?", caller.get(f"/run?name=run&page={number}").text)
        assert (len(set(rows)), rows[0]) == (count, first)
    for wrong in ("/run?name=run&page=0", "/run?name=run&page=100001", f"/run?name={'x' * 513}", "/frame?id=q000&t=-1"):
        assert caller.get(wrong).status_code == 422
    missing = caller.get(f"/run?name={'x' * 512}")
    assert (missing.status_code, missing.json()) == (404, {"detail": f"There is no run {'x' * 80!r} in this folder."})
    assert caller.get("/question?run=run&id=no").json() == {"detail": "There is no question 'no' in this run."}
    gone = {"detail": "The video of this question is not in the folders of this server."}
    assert caller.get("/video?id=q000").json() == gone
    assert caller.get("/nothing").json() == {"detail": "There is no page at this address."}
    assert caller.get("/static/page.css").text == views.static_text("page.css")
    first, middle, last = (caller.get(f"/question?run=run&id=q{n}").text for n in ("000", "200", "400"))
    assert [(f"{n} / 401" in text) for n, text in ((1, first), (201, middle), (401, last))] == [True] * 3
    assert [("q199" in text, "q201" in text) for text in (first, middle)] == [(False, False), (True, True)]
    assert "q399" in last
    assert "1 / 1" in caller.get("/question?run=run&id=q000&text=nowhere").text  # although the filter leaves it out


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
    info = QuestionInfo.of_item(Item(Question("q", "", ""), "A", (Interval(1, 2),), 9.0))
    entries = [Entry(1, 0, 0, 2, True, 2, 2, frames, "A", None, "m", "b", None, None) for frames in (1, 2)]
    assert [QuestionEntry(info, entry).bucket for entry in (None, *entries)] == ["open", "uncovered", "covered"]


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
    with patch.object(Footage, "frames_at", autospec=True, side_effect=Footage.frames_at) as taken:
        write_story(library, "uniform-16@scripted", "q000", file)
    assert [given.args[-1] for given in taken.call_args_list] == [360] * 16
    without = open_library(world / "runs")
    assert write_story(without, "uniform-16@scripted", "q000", file)[0] == 0
