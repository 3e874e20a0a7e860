"""The desk against hostile requests: who may see and write what, whatever is sent."""

import http.client
import threading
from contextlib import closing
from functools import partial
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from PIL import Image

from tests.construction.histories import StorePen, proposal
from tests.fakes import run_threads
from tests.web.conftest import serving_app
from tests.web.desk.conftest import EVIDENCE, HOSTILE, NAME, SPANS, XSS, Client, World, data_of
from tests.web.web_bench import number_in
from trace_ves import video
from trace_ves.construction.desk.app import create_desk
from trace_ves.construction.judged_item import judged_item
from trace_ves.construction.ledger import Stage
from trace_ves.construction.people import Role, invite

JUDGING = ("next", "verification", "answer", "settlement", "undo", "watched", "skip")
WRITES = [f"/api/{name}" for name in (*JUDGING, "sign-out-everywhere", "sign-out")]
PAGES = ["/", "/task", "/status", "/dispute?id=c0001", "/video?id=c0001", "/times?id=c0001", "/frame?id=c0001&t=1"]


def test_nobody_gets_in_without_a_token(world: World) -> None:
    stranger = world.client()
    for path in PAGES:
        assert stranger.get(path).status_code == 401
        page = stranger.get(path, headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["location"]) == (303, "/sign-in")
    stranger.csrf = stranger.csrf_of("/sign-in")
    for path in WRITES:
        assert stranger.post(path, item="c0001", revision=0).status_code in {401, 422}
    for name, token in [("ann", "x"), ("ann", world.tokens["bob"]), ("nobody", world.tokens["ann"]), ("ann ", "é\0")]:
        response = stranger.sign_in(name, token)
        assert response.status_code == 401
        assert response.json()["detail"].startswith("This name and token do not match")


def test_no_write_without_the_token_of_its_own_session(world: World) -> None:
    ann, bob = world.client("ann"), world.client("bob")
    before = len(world.store.ledger().entries)
    body = {"item": "c0001", "revision": 0, "left_out": 0, "answer": None, "about": [], "keep": True}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for path in WRITES:
        for headers in (
            {},
            {"X-CSRF-Token": ""},
            {"X-CSRF-Token": "x" * 32},
            {"X-CSRF-Token": bob.csrf},
            {"X-CSRF-Token": ann.csrf, "Sec-Fetch-Site": "cross-site"},
            {"X-CSRF-Token": ann.csrf, "Sec-Fetch-Site": "same-site"},
        ):
            assert ann.http.post(path, json=body, headers=headers).status_code in {403, 422}
        assert ann.http.post(path, content="item=c0001", headers=form).status_code in {403, 422}
    assert len(world.store.ledger().entries) == before
    assert ann.get("/").status_code == 200


def test_a_session_ends_with_its_sign_out_and_none_was_planted(world: World) -> None:
    client = world.client()
    client.csrf = client.csrf_of("/sign-in")
    planted = dict(client.http.cookies)
    assert client.post("/api/sign-in", name="ann", token=world.tokens["ann"]).status_code == 200
    first = dict(client.http.cookies)
    assert first.keys() > planted.keys()
    assert client.sign_in("ann", world.tokens["ann"]).status_code == 200
    second = dict(client.http.cookies)
    assert client.post("/api/sign-out").status_code == 200
    for cookies in (planted, first, second):
        with httpx.Client(base_url=world.address, cookies=cookies) as old:
            assert old.get("/").status_code == 401
            assert old.post("/api/next", headers={"X-CSRF-Token": client.csrf}).status_code == 401
    response = world.client().get("/sign-in")
    assert "HttpOnly" in response.headers["set-cookie"]
    assert "SameSite=strict" in response.headers["set-cookie"]


def test_headers_are_strict_everywhere(world: World) -> None:
    ann = world.client("ann")
    for path in ("/", "/status", "/nowhere", "/static/desk.js", "/video?id=c0001", "/openapi.json", "/sign-in"):
        headers = ann.get(path).headers
        assert headers["cache-control"] == ("no-cache" if path.startswith("/static/") else "no-store")
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers or "uvicorn" in headers["server"]
    assert ann.get("/", headers={"Host": "evil.example"}).status_code == 421


def test_a_video_is_seen_by_who_has_it_to_verify(world: World) -> None:
    ann, bob, dora = world.with_task("ann"), world.client("bob"), world.client("dora")
    whole = ann.get("/video?id=c0001")
    assert whole.status_code == 200
    part = ann.get("/video?id=c0001", headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(whole.content)}"
    tail = ann.get("/video?id=c0001", headers={"Range": "bytes=-5"})
    assert tail.content == whole.content[-5:]
    assert ann.get("/video?id=c0001", headers={"Range": f"bytes={len(whole.content)}-"}).status_code == 416
    assert ann.get("/frame?id=c0001&t=5").headers["x-frame-seconds"] == "5.0"
    assert len(ann.get("/times?id=c0001").content) == 8 * 320
    strip = "/strip?id=c0001&start=0&end=32&count=8&height=54"
    picture = Image.open(BytesIO(ann.get(strip).content))
    assert (picture.format, picture.height, picture.width % 8) == ("JPEG", 54, 0)
    for start, end, count in ((-1, 3, 3), (0, "nan", 3), (0, 3, 61), (0, 3, 0)):
        assert ann.get(f"/strip?id=c0001&start={start}&end={end}&count={count}").status_code == 422
    assert ann.get("/strip?id=c0001&start=900&end=9&count=3").status_code == 200
    for path in ("/video?id=c0001", "/times?id=c0001", "/frame?id=c0001&t=5", strip):
        assert bob.get(path).status_code == 403
        assert dora.get(path).status_code == 200
    assert ann.accept().status_code == 200
    assert ann.get("/video?id=c0001").status_code == 403
    assert bob.get("/clip?id=c0001&left_out=0&part=1").status_code == 403


def test_the_rest_of_the_video_cannot_be_reached(world: World, tmp_path: Path) -> None:
    world.propose("c0002")  # over the same video
    cat, left_out = world.to_leave_one_out()
    for item in ("c0001", "c0002"):
        for path in (f"/video?id={item}", f"/times?id={item}", f"/frame?id={item}&t=1"):
            assert cat.get(path).status_code == 403
    page = cat.get("/task").text
    hidden = EVIDENCE[left_out]
    assert f"0:{int(hidden.start):02}" not in page
    assert "fact " not in page
    assert "proposed answer" not in page
    shown = set()
    assert cat.get(f"/clip?id=c0001&left_out={left_out}&part={left_out}").status_code == 404
    for part in {0, 1, 2} - {left_out}:
        response = cat.get(f"/clip?id=c0001&left_out={left_out}&part={part}")
        (tmp_path / "clip.mp4").write_bytes(response.content)
        with video.open(tmp_path / "clip.mp4") as clip:
            numbers = [number_in(frame.rgb()) for frame in clip.frames_at(list(clip.timestamps))]
        assert all(number / 10 in EVIDENCE[part] for number in numbers)
        shown |= set(numbers)
        ranged = cat.get(f"/clip?id=c0001&left_out={left_out}&part={part}", headers={"Range": "bytes=0-3"})
        assert (ranged.status_code, len(ranged.content)) == (206, 4)
    assert len(shown) > 40
    other = (left_out + 1) % 3
    assert cat.get(f"/clip?id=c0001&left_out={other}&part={left_out}").status_code == 403
    assert cat.get(f"/clip?id=c0002&left_out={left_out}&part={other}").status_code == 403
    assert cat.get(f"/clip?id=c0001&left_out={left_out}&part=99").status_code == 404
    assert cat.post("/api/verification", item="c0002", revision=0, evidence=SPANS).status_code == 403


def test_a_double_click_writes_once(world: World) -> None:
    ann = world.with_task("ann")
    assert ann.accept().status_code == 200
    assert ann.accept().status_code == 403
    assert world.written("verification/ann").seconds == pytest.approx(40, abs=20)  # by the server's clock
    assert ann.post("/api/undo", item="c0001").status_code == 200
    assert ann.accept().status_code == 409  # the page that is still open shows the state before
    assert ann.post("/api/verification", item="c0001", revision=2, evidence=SPANS).status_code == 200  # played before


def test_annotators_are_blind_to_each_other(world: World) -> None:
    ann, bob = world.with_task("ann"), world.with_task("bob")
    ann.post("/api/verification", item="c0001", revision=0, reason="the secret reason of ann")
    for path in ("/", "/task", "/status"):
        assert "secret" not in bob.get(path).text
        assert ">ann<" not in bob.get(path).text
    assert bob.get("/dispute?id=c0001").status_code == 403
    assert "<h1>Progress</h1>" in world.client("olga").get("/status").text


def test_hostile_text_is_text(world: World) -> None:
    """Questions, options and rationales of a model, and reasons of people."""
    world.propose("c0000", made=HOSTILE)
    ann, bob, dora = world.with_task("ann"), world.with_task("bob"), world.client("dora")
    pages = [ann.get("/task").text]
    assert ann.post("/api/verification", item="c0000", revision=0, reason=XSS).status_code == 200
    assert bob.accept("c0000").status_code == 200
    pages += [dora.get("/").text, dora.get("/dispute?id=c0000").text]
    pages.append(world.client("olga").get("/status").text)
    for page in pages:
        assert "<img src=x" not in page
        assert "<script>alert" not in page
        assert "49" not in page.split("onerror")[-1][:40]
    assert all("&lt;img src=x onerror=alert(1)&gt;" in page for page in pages[:3])


@pytest.mark.parametrize("who", ["ann", "dora"])
def test_no_path_leads_to_a_file(world: World, who: str) -> None:
    client, host = world.client(who), urlsplit(world.address)
    cookie = "; ".join(f"{name}={value}" for name, value in client.http.cookies.items())
    for path in (
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/cli/main.py",
        "/video?id=../../etc/passwd",
        "/video?id=videos/a.mp4",
        "/video?id=c0001%00.mp4",
        "/video?id=%2Fetc%2Fpasswd",
        "/frame?id=..%2F..%2Fbuild.sqlite&t=1",
        "/clip?id=..&left_out=0&part=1",
        "/../../etc/passwd",
        "//etc/passwd",
        "/build.sqlite",
        "/videos/a.mp4",
    ):
        with closing(http.client.HTTPConnection(host.hostname or "", host.port, timeout=20)) as connection:
            connection.request("GET", path, headers={"Cookie": cookie})
            response = connection.getresponse()
            body = response.read()
        assert response.status in {403, 404, 422}, path
        assert b"root:" not in body
        assert b"SQLite" not in body


def test_a_link_that_leads_out_is_not_followed(world: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside.mp4"
    outside.write_bytes((world.project.folder / NAME).read_bytes())
    (world.project.folder / "videos" / "link.mp4").symlink_to(outside)
    for number, name in enumerate(("videos/link.mp4", "../outside.mp4", "videos/../../outside.mp4", str(outside))):
        world.propose(f"x{number}", made=proposal(name, EVIDENCE))
        response = world.client("dora").get(f"/video?id=x{number}")
        assert response.status_code == 404
        assert "no longer in the build's folder" in response.json()["detail"]
        assert str(tmp_path) not in response.text


def test_a_bad_body_is_a_sentence(world: World) -> None:
    ann = world.with_task("ann")
    headers = {"X-CSRF-Token": ann.csrf, "Content-Type": "application/json"}
    for content in (
        b"",
        b"{",
        b"[" * 60000,
        b"\xff\xfe",
        b'{"item": "c0001", "revision": NaN}',
        b'{"item": "c0001", "revision": 0, "evidence": [[NaN, 1]]}',
        b'{"item": "c0001", "revision": 0, "evidence": [[1e999, 1]]}',
        b'{"item": "c0001", "revision": 0, "reason": "\\ud800"}',
        b'{"item": "c0001", "revision": 99999999999999999999}',
        b'{"item": "c0001", "revision": 0, "more": 1}',
        b'{"item": "c0001", "revision": 0, "evidence": [[1]]}',
        b'{"item": "c0001", "revision": 0, "seconds": 1}',
        b'{"item": "' + b"x" * 70_000 + b'"}',
    ):
        response = ann.http.post("/api/verification", content=content, headers=headers)
        assert response.status_code in ({413} if len(content) > 65_536 else {400, 422}), content[:80]
        assert isinstance(response.json()["detail"], str)
        pieces = ann.http.post("/api/verification", content=iter([content]), headers=headers)
        assert 400 <= pieces.status_code < 500


def test_a_store_that_is_gone_is_a_sentence(world: World) -> None:
    ann = world.client("ann")
    world.store.close()
    (world.project.folder / "build.sqlite").unlink()
    (world.project.folder / "build.sqlite").mkdir()
    response = ann.get("/")
    assert response.status_code == 503
    assert response.json()["detail"] == "The database is not available; tell the operator of this desk."


def test_everybody_at_once_and_nobody_twice(world: World) -> None:
    """Three people, each in two windows, ask for their next task at the same moment, again and again."""
    world.propose(*(f"c000{number}" for number in range(2, 7)))
    clients = [world.client(name) for name in ("ann", "bob", "cat") for _ in range(2)]
    start = threading.Barrier(len(clients))
    answers: list[int] = []

    def work(client: Client) -> None:
        start.wait(20)
        for _ in range(12):
            if client.post("/api/next").json()["go"] != "/task":
                return
            item = client.get("/task").text.partition("<title>")[2].partition(" ")[0]
            answers.append(client.post("/api/verification", item=item, revision=0, reason="no").status_code)

    run_threads(*(partial(work, client) for client in clients))
    ledger = world.store.ledger()
    seats = [(e.subject, e.who) for e in ledger.entries if e.slot.startswith("seat/")]
    verdicts = [(e.subject, e.who) for e in ledger.entries if e.slot.startswith("verification/")]
    assert len(seats) == len(set(seats)) == 12
    assert sorted(verdicts) == sorted(seats)
    assert answers.count(200) == 12
    assert set(answers) <= {200, 403, 409, 422}


def test_beyond_loopback_a_token_is_needed_before_one_can_sign_in(world: World, tmp_path: Path) -> None:
    app = create_desk(world.project, world.store, scratch=tmp_path, hosts=None, token="the-token")
    with serving_app(app) as address, httpx.Client(base_url=address, follow_redirects=True) as client:
        assert client.get("/sign-in").status_code == 401
        assert client.get("/sign-in?token=the-tokem").status_code == 401
        welcome = client.get("/sign-in?token=the-token")
        assert (welcome.status_code, welcome.url.query) == (200, b"")
        assert client.get("/", headers={"Accept": "text/html"}).url.path == "/sign-in"
    with pytest.raises(ValueError, match="needs a token"):
        create_desk(world.project, world.store, scratch=tmp_path, hosts=None)


def test_edges_far_apart_are_settled_side_by_side(world: World) -> None:
    world.disagree()
    ann, dora = world.client("ann"), world.client("dora")
    assert "boundaries" in dora.get("/").text
    page = dora.get("/dispute?id=c0001").text
    assert "0:03.000 - 0:06.000" in page
    assert "0:05.000 - 0:08.000" in page
    assert dora.play("c0001").is_success
    word = {"item": "c0001", "about": data_of(page)["about"], "keep": True}
    assert dora.post("/api/settlement", **word, evidence=SPANS[:1]).status_code == 422
    assert ann.post("/api/settlement", **word, evidence=SPANS).status_code == 403
    assert dora.post("/api/settlement", **word | {"about": [1]}, evidence=SPANS).status_code == 409
    assert dora.post("/api/settlement", **word | {"keep": False}).status_code == 422
    assert dora.post("/api/settlement", **word, evidence=SPANS).status_code == 200
    assert dora.post("/api/settlement", **word, evidence=SPANS).status_code == 409
    assert judged_item(world.store.ledger(), "c0001").state.evidence == EVIDENCE
    assert dora.post("/api/undo", item="c0001").status_code == 200
    assert ann.post("/api/undo", item="c0001").status_code == 403
    assert "boundaries" in dora.get("/").text


def test_two_who_disagree_without_an_interval_are_settled_too(world: World) -> None:
    world.tokens |= {name: invite(world.store, name, Role.ANNOTATOR) for name in ("eve", "fay", "gil", "hal")}
    cat, _ = world.to_leave_one_out()
    bob, dan, dora = world.client("bob"), world.with_task("dan"), world.client("dora")
    StorePen(world.store).probe("c0001", [False] * 3, EVIDENCE)
    assert bob.post("/api/next").json()["go"] == "/"  # bob has seen the video
    others = [world.with_task(name) for name in ("eve", "fay", "gil", "hal")]
    for client, answer in [(cat, None), (dan, "B"), *((other, None) for other in others)]:
        assert client.post("/api/answer", **client.play_clips(), answer=answer).json()["go"] == "/"
    page = dora.get("/dispute?id=c0001").text
    assert page.count("decides B") == 1
    assert page.count("does not decide") == 8  # of the five others, and of the model
    assert dora.post("/api/settlement", item="c0001", about=data_of(page)["about"], keep=True).status_code == 200
    state = judged_item(world.store.ledger(), "c0001").state
    assert (state.waits_at, state.evidence) == (Stage.SHORTCUT, EVIDENCE)
