"""The server as others may call it: exact frames, ranges, hostile addresses and hostile files."""

import io
import json
import re
import shutil
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest

from tests.web.conftest import serving
from tests.web.web_bench import number_in
from trace_ves.core import Question
from trace_ves.core.jsonl import dump_line
from trace_ves.records import Item
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
def test_a_frame_is_the_one_on_screen(address: str, seconds: float, number: int) -> None:
    from PIL import Image

    for question in ("q000", "q001"):
        reply = get(address, page("frame", id=question, t=str(seconds)))
        assert reply.status == 200
        assert number_in(np.asarray(Image.open(io.BytesIO(reply.body)))) == number
        assert float(reply.headers["X-Frame-Seconds"]) == number / 10
        again = get(address, page("frame", id=question, t=str(seconds)), **{"If-None-Match": reply.headers["ETag"]})
        assert (again.status, again.body) == (304, b"")


def test_times_are_those_of_the_file(address: str) -> None:
    reply = get(address, page("times", id="q001"))
    moments = np.frombuffer(reply.body, "<f8")
    assert moments.tolist() == [n / 10 for n in range(1200)]


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
    "/frame",
    "/frame?id=q000",
    "/frame?id=q000&t=nan",
    "/frame?id=q000&t=inf",
    "/frame?id=q000&t=-1",
    "/frame?id=q000&t=1e12",
    "/frame?id=q000&t=1&height=0",
    "/frame?id=q000&t=1&height=999999",
    "/frame?id=../../etc/passwd&t=1",
    "/frame?id=%00&t=1",
    "/video?id=/etc/passwd",
    "/video?id=..%2f..%2fetc%2fpasswd",
    "/video?id=" + "a" * 5000,
    "/static/../guard.py",
    "/static/..%2fguard.py",
    "/static/%2e%2e/guard.py",
    "/static//etc/passwd",
    "/static/",
    "/run",
    "/run?name=../runs/trace",
    "/run?name=trace@scripted&page=0",
    "/run?name=trace@scripted&page=x",
    "/run?name=trace@scripted&bucket=%3Cscript%3E",
    "/question?run=trace@scripted&id=nobody",
    "/question?run=nobody&id=q000",
    "/question?run=trace@scripted&id=q000&beside=nobody",
    "/?on=everything",
    "/nothing",
    "/%ff%fe",
    "//etc/passwd",
]


@pytest.mark.parametrize("accept", ["text/html", "*/*"])
def test_bad_requests_get_4xx_and_a_sentence(address: str, accept: str) -> None:
    for path in BAD:
        reply = get(address, path, Accept=accept)
        assert 400 <= reply.status < 500, path
        assert not re.search("Traceback|root:|<script>", reply.text), path


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_written(address: str, method: str) -> None:
    assert get(address, "/", method).status == 405


def test_only_its_own_name_is_answered(address: str) -> None:
    port = urlsplit(address).port
    assert get(address, "/", Host=f"evil.example:{port}").status == 421
    assert get(address, "/", Host=f"localhost:{port}").status == 200
    assert get(address, "/", Host="127.0.0.1.evil.example").status == 421


def test_pages_hold_nothing_inline(address: str) -> None:
    """The policy would block it; that it is not there at all shows that nothing needs it."""
    for path in ("/", page("run", name="trace@scripted"), page("question", run="trace@scripted", id="q002")):
        text = get(address, path).text
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style|javascript:", text)
        assert all("src=" in tag or "application/json" in tag for tag in re.findall(r"<script[^>]*>", text))


def test_a_server_for_all_must_have_a_token(library: object) -> None:
    from trace_ves.web.app import create_app

    with pytest.raises(ValueError, match="token"):
        create_app(library, hosts=None)  # type: ignore[arg-type]  # it is not looked at


# --- hostile files ----------------------------------------------------------------


def write(folder: Path, items: list[Item], lines: list[dict[str, object]], run: str = "run") -> None:
    (folder / "bench").mkdir(parents=True, exist_ok=True)
    (folder / "runs").mkdir(exist_ok=True)
    (folder / "bench" / "questions.jsonl").write_bytes(b"".join(dump_line(item.to_json()) for item in items))
    (folder / "runs" / f"{run}.jsonl").write_bytes(b"".join(map(dump_line, lines)))


def item(video: str, name: str = "q", text: str = "why?") -> Item:
    return Item(Question(name, video, text, ("one", "two")), "A", (), 10.0)


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
    write(folder, items, [{"question_id": each.question.id, "answer": "A", "timestamps": []} for each in items])
    with serving(open_library(folder / "runs", bench=folder / "bench")) as address:
        for at in range(len(names)):
            for what in ("video", "times"):
                assert get(address, page(what, id=f"q{at}")).status == 404
            assert get(address, page("frame", id=f"q{at}", t="1")).status == 404
            assert "not in the folders" in get(address, page("question", run="run", id=f"q{at}")).text
        for at in range(len(names), len(items)):
            assert get(address, page("video", id=f"q{at}")).status == 200


def test_files_that_are_no_videos_are_not_sent(tmp_path: Path) -> None:
    write(tmp_path, [item("questions.jsonl", "q1"), item("fake.mp4", "q2")], [])
    (tmp_path / "bench" / "fake.mp4").write_bytes(b"not a video")
    (tmp_path / "runs" / "run.jsonl").write_bytes(dump_line({"question_id": "q1", "answer": "A", "timestamps": [1]}))
    with serving(open_library(tmp_path / "runs", bench=tmp_path / "bench")) as address:
        assert get(address, page("video", id="q1")).status == 415
        assert get(address, page("frame", id="q2", t="1")).status == 404
        assert get(address, page("times", id="q2")).status == 404


def test_run_files_that_lead_elsewhere_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, [item("v.mp4")], [{"question_id": "q", "answer": "A", "timestamps": []}])
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(dump_line({"question_id": "secret", "answer": "A", "timestamps": []}))
    (tmp_path / "runs" / "link.jsonl").symlink_to(secret)
    assert list(open_library(tmp_path / "runs", bench=tmp_path / "bench").runs) == ["run"]


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7103*7}}"


CLIP = {"span": [0, 1], "fps": 1.0, "height": 360, "timestamps": [0.5]}
CANDIDATE = {"span": [0, 1], "strategy": {"fps": 1.0, "height": 360}, "replaces": HOSTILE}
REPLAY = {"prefix": [HOSTILE], "answer": HOSTILE, "agrees": False}
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
            {
                "plan": {"load_mode": "uniform", "fps": 1, "spatial": "low", "completion_criteria": HOSTILE},
                "spans": [[0, 1]],
                "evidence": {
                    "round": 1,
                    "description": HOSTILE,
                    "key_evidence": [{"start": 0, "end": 1, "description": HOSTILE}],
                },
                "reflection": said,
            }
            for said in (
                {"fault": HOSTILE},
                {"answer": HOSTILE, "sufficient": True, "confidence": 0.5, "justification": HOSTILE},
            )
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
    call = {"stage": HOSTILE, "timestamps": [0.5], "fault": HOSTILE}
    return {
        "question_id": HOSTILE,
        "answer": HOSTILE,
        "timestamps": [0.5],
        "method": HOSTILE,
        "backbone": HOSTILE,
        "termination": HOSTILE,
        "error": HOSTILE,
        "observations": [call, {"stage": "claims"}],
        "trajectory": record,
    }


@pytest.mark.parametrize("kind", HOSTILE_SEARCHES)
def test_hostile_text_stays_text(tmp_path: Path, kind: str) -> None:
    name = "<b>run<b>"
    write(tmp_path, [item("v.mp4", HOSTILE, HOSTILE)], [hostile_line(HOSTILE_SEARCHES[kind])], run=name)
    library = open_library(tmp_path / "runs", bench=tmp_path / "bench")
    with serving(library) as address:
        paths = [
            "/",
            page("run", name=name),
            page("run", name=name, text=HOSTILE, family=HOSTILE),
            page("question", run=name, id=HOSTILE),
            page("question", run=name, id=HOSTILE + "x"),
        ]
        for path in paths:
            text = get(address, path, Accept="text/html").text
            assert "alert(" in text or path == "/"
            for raw in ("<script>alert", "<img src=x", "<b>run", "</script><script>"):
                assert raw not in text
            assert "49721" not in text  # a template that was filled in
        assert f'class="story {kind}"' in get(address, page("question", run=name, id=HOSTILE)).text


def test_hostile_text_runs_nothing_in_a_browser(tmp_path: Path, new_page: object) -> None:
    write(tmp_path, [item("v.mp4", HOSTILE, HOSTILE)], [hostile_line()])
    with serving(open_library(tmp_path / "runs", bench=tmp_path / "bench")) as address:
        tab = new_page()  # type: ignore[operator]  # the fixture's function
        tab.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        tab.goto(address + page("question", run="run", id=HOSTILE))
        tab.locator("details.call summary").click()
        tab.locator(".frames button").click()
        tab.keyboard.press("Escape")
        tab.keyboard.press("?")
        assert tab.locator("script:not([src])").count() == 1  # the page's own data


def test_runs_without_a_bench_show_what_they_have(tmp_path: Path) -> None:
    lines = [{"question_id": "q/1 ?&#", "answer": "free words", "timestamps": [3.0, 1.0]}]
    (tmp_path / "outsider.jsonl").write_bytes(b"".join(map(dump_line, lines)))
    with serving(open_library(tmp_path)) as address:
        assert "nothing is scored" in get(address, "/").text
        assert "q/1 ?&amp;#" in get(address, page("run", name="outsider")).text
        text = get(address, page("question", run="outsider", id="q/1 ?&#")).text
        assert "free words" in text
        assert "gold" not in text.split("</header>")[1]
        assert 'class="interval"' not in text


def test_stories_of_other_methods(address: str) -> None:
    told = get(address, page("question", run="avp@scripted", id="q004")).text
    assert "not enough, confidence 0.9" in told
    assert "the answer is forced from the text" in told


def test_a_log_of_ten_thousand_frames(tmp_path: Path) -> None:
    moments = [n * 0.72 for n in range(10_000)]
    calls = [{"stage": f"s{n % 9}", "timestamps": moments[n::9]} for n in range(9)]
    line = {"question_id": "q", "answer": "A", "timestamps": moments, "observations": calls}
    long = Item(Question("q", "v.mp4", "why?", ("one", "two")), "A", (), 7200.0)
    write(tmp_path, [long], [line])
    with serving(open_library(tmp_path / "runs", bench=tmp_path / "bench")) as address:
        reply = get(address, page("question", run="run", id="q"))
        assert reply.status == 200
        assert reply.text.count('class="ticks') == 9
        assert "10,000 supplied" in reply.text
        assert len(reply.body) < 2_000_000


def test_a_damaged_line_is_said_and_not_a_crash(tmp_path: Path) -> None:
    line = dump_line({"question_id": "q", "answer": "A", "timestamps": [1.0], "trajectory": {"a": 1}})
    write(tmp_path, [item("v.mp4")], [])
    (tmp_path / "runs" / "run.jsonl").write_bytes(line.replace(b'{"a": 1}', b'{"a": ,}'))
    with serving(open_library(tmp_path / "runs", bench=tmp_path / "bench")) as address:
        assert "run.jsonl:1: not valid JSON" in get(address, "/").text
        assert get(address, page("question", run="run", id="q")).status == 200
        (tmp_path / "runs" / "run.jsonl").unlink()
        assert get(address, page("question", run="run", id="q")).status in {200, 404}
        assert get(address, "/").status == 200


def test_pages_that_others_share_have_no_link_to_the_glossary(address: str) -> None:
    """Error pages and the desk's pages extend the same page, and the desk has no glossary."""
    assert 'href="/glossary"' in get(address, "/").text
    assert 'href="/glossary"' not in get(address, "/nothing", Accept="text/html").text


def test_the_addresses_are_described(address: str) -> None:
    described = json.loads(get(address, "/openapi.json").body)
    assert {"/", "/run", "/question", "/costs", "/glossary", "/frame", "/times", "/video", "/state"} == described[
        "paths"
    ].keys()
