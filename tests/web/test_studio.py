"""The page to ask on: what it sends, what it shows while a search goes on, and who may use it."""

import io
import json
import re
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from PIL import Image
from starlette.testclient import TestClient

from tests.web.conftest import serving_app
from tests.web.test_browser import OUTSIDE, WIDER
from tests.web.test_server import Reply, get
from tests.web.web_bench import FACTS, ORDERS, witness
from trace_ves.backbone.protocol import Generation, Request, ScriptedBackbone
from trace_ves.core import BackboneError, InputError, VideoError
from trace_ves.core.display import describe_stage
from trace_ves.observer import UNLIMITED, Decided, Progress, ReplyRejected
from trace_ves.records import Usage
from trace_ves.records.search import Decision
from trace_ves.runs.prices import Price, Prices
from trace_ves.video.folders import VideoFolders
from trace_ves.web.guard import LOOPBACK_NAMES
from trace_ves.web.search_view import NOTHING_LEFT
from trace_ves.web.studio import LONGEST_TEXT, LiveSearch, Model, Studio, describe_progress
from trace_ves.web.studio_app import create_studio_app

QUESTION = "In which order do these scenes appear?"
PRICES = Prices({"scripted*": Price(input=1.0, cached=0.1, output=4.0, date=date(2026, 5, 1))})


class Gate:
    """A witness that can be made to wait before it answers a stage, or to fail there."""

    def __init__(self, stage: str = "", error: Exception | None = None) -> None:
        self.stage, self.error = stage, error
        self.reached, self.opened = threading.Event(), threading.Event()
        self.calls: list[str] = []
        self._witness = witness("plain")

    def __call__(self, request: Request[Any]) -> Any:
        self.calls.append(request.stage)
        if request.stage == self.stage:
            self.reached.set()
            assert self.opened.wait(60)
            if self.error is not None:
                raise self.error
        return self._witness(request)


class Paid(ScriptedBackbone):
    """Each reply costs a thousand tokens."""

    def generate(self, batch: Sequence[Request[Any]]) -> list[Generation[Any]]:
        return [replace(each, usage=Usage(input_tokens=1000)) for each in super().generate(batch)]


def make_studio(world: Path, folder: Path, gate: Gate, **options: Any) -> Studio:
    folder.mkdir()
    model = Model("scripted@here", ScriptedBackbone(gate))
    return Studio(VideoFolders([world / "bench" / "videos"]), model, folder, PRICES, **options)


@contextmanager
def studio_page(studio: Studio, **options: Any) -> Iterator[str]:
    with serving_app(create_studio_app(studio, hosts=LOOPBACK_NAMES, **options)) as address:
        try:
            yield address
        finally:
            studio.close()


def ended(search: LiveSearch) -> str:
    search.join(60)
    return search.state


def post(address: str, path: str, body: object, **headers: str) -> Reply:
    return get(address, path, "POST", json.dumps(body), **{"Content-Type": "application/json"}, **headers)


def own_headers(address: str) -> dict[str, str]:
    """The headers with which the page itself writes."""
    token = re.search(r'name="csrf" content="([^"]+)"', get(address, "/").text)[1]
    return {"X-CSRF-Token": token, "Sec-Fetch-Site": "same-origin"}


# --- the search itself -------------------------------------------------------------------------


def test_an_answer_is_kept_as_a_story(world: Path, tmp_path: Path) -> None:
    studio = make_studio(world, tmp_path / "answers", Gate(), save=tmp_path / "saved")
    search = studio.begin("one.mp4", QUESTION, ORDERS, "trace", None)
    assert (ended(search), search.daemon) == ("done", True)
    assert json.loads((tmp_path / "saved" / "answer-001" / "record.json").read_text())["answer"] == "A"
    listing = studio.library.listing("answers")[QUESTION]
    assert (listing.bucket, listing.entry.answer, listing.entry.backbone) == ("unscored", "A", "scripted@here")
    assert studio.library.video_of(listing.info) == (world / "bench" / "videos" / "one.mp4").resolve()
    again = studio.begin("one.mp4", QUESTION, ORDERS, "uniform-16", None)
    assert (ended(again), again.title) == ("done", f"{QUESTION} (2)")
    said = (tmp_path / "answers" / "answers.transcripts").read_bytes().splitlines()
    assert [json.loads(line)["question_id"] for line in said] == [QUESTION, f"{QUESTION} (2)"]


def test_an_answer_outlives_a_folder_that_cannot_be_written(world: Path, tmp_path: Path) -> None:
    (tmp_path / "saved").write_text("a file")
    studio = make_studio(world, tmp_path / "answers", Gate(), save=tmp_path / "saved")
    search = studio.begin("one.mp4", QUESTION, ORDERS, "uniform-16", None)
    assert ended(search) == "done"
    assert "cannot be written to" in str(search.events_after(0)[-1]["sentence"])
    assert studio.library.listing("answers")[QUESTION].entry is not None


def test_a_cancelled_search_sends_no_further_call(world: Path, tmp_path: Path) -> None:
    gate = Gate("anchor-extraction")
    studio = make_studio(world, tmp_path / "answers", gate)
    search = studio.begin("one.mp4", QUESTION, ORDERS, "trace", None)
    assert gate.reached.wait(60)
    search.cancel()
    assert search.state == "cancelled"
    before = len(gate.calls)
    gate.opened.set()
    search.join(30)
    assert set(gate.calls[before:]) <= {"anchor-extraction"}  # the batch that was under way
    assert search.events_after(0)[-1] == {"kind": "cancelled"}
    assert not list((tmp_path / "answers").glob("*.jsonl"))
    assert ended(studio.begin("one.mp4", QUESTION, ORDERS, "uniform-16", None)) == "done"


def test_what_goes_wrong_is_a_sentence_without_folders(world: Path, tmp_path: Path) -> None:
    gate = Gate("direct-answer", BackboneError(f"{tmp_path}/secret/key.txt was refused."))
    gate.opened.set()
    studio = make_studio(world, tmp_path / "answers", gate)
    with studio_page(studio) as address:
        assert ended(studio.begin("one.mp4", QUESTION, ORDERS, "uniform-16", None)) == "failed"
        last = json.loads(get(address, "/ask/events?search=1").body)["events"][-1]
        assert last == {"kind": "failed", "sentence": "key.txt was refused."}


def test_what_a_question_says_reaches_the_estimate_and_the_search(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def note(*given: Any, **named: Any) -> None:
        seen.append((given, {name: value for name, value in named.items() if name != "listener"}))
        raise InputError("enough")

    for name in ("estimate", "ask"):
        monkeypatch.setattr(f"trace_ves.web.studio.{name}", note)
    model = Model("scripted", ScriptedBackbone(Gate()), {"detail": "low"})
    studio = Studio(VideoFolders([world / "bench" / "videos"]), model, tmp_path / "answers", PRICES)
    with pytest.raises(InputError, match="enough"):
        studio.estimate("one.mp4", "trace", 9)
    assert ended(studio.begin("one.mp4", QUESTION, ORDERS, "trace", 9, subtitles=True)) == "failed"
    film = (world / "bench" / "videos" / "one.mp4").resolve()
    asked = {"backbone": model.backbone, "method": "trace", "budget": 9, "subtitles": True}
    assert seen == [
        (("trace", "scripted", [120.0], PRICES.of("scripted")), {"budget": 9, "model_options": model.options}),
        ((film, QUESTION, ORDERS), asked),
    ]


def test_events_are_waited_for(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, slept = Gate("direct-answer"), []
    studio = make_studio(world, tmp_path / "answers", gate)
    search = studio.begin("one.mp4", QUESTION, ORDERS, "uniform-16", None)
    assert gate.reached.wait(60)
    known = search.events_after(0)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            gate.opened.set()
            search.join(60)

    now = SimpleNamespace(monotonic=lambda: sum(slept))
    monkeypatch.setattr("trace_ves.web.studio_app.time", now)
    monkeypatch.setattr("trace_ves.web.studio_app.asyncio", SimpleNamespace(sleep=sleep))  # servers sleep, too
    view = TestClient(create_studio_app(studio, hosts=LOOPBACK_NAMES), "http://localhost")
    news = view.get(f"/ask/events?search=1&after={len(known)}").json()["events"]
    assert (slept, [each["kind"] for each in news]) == ([0.1] * 3, ["answered", "done"])
    search.state, slept[:] = "running", [0.1] * 4
    assert view.get("/ask/events?search=1&after=99").json()["events"] == []
    assert sum(slept) == pytest.approx(10.4, abs=0.15)  # from 0.4


def test_a_session_stops_at_its_limit(world: Path, tmp_path: Path) -> None:
    """A call costs $0.001: one for the first question, and one of the second is within the limit."""
    found, model = VideoFolders([world / "bench" / "videos"]), Model("scripted", Paid(Gate()))
    studio = Studio(found, model, tmp_path / "answers", PRICES, max_cost=0.002)
    for method, state in (("uniform-16", "done"), ("trace", "failed")):
        assert ended(studio.begin("one.mp4", QUESTION, ORDERS, method, None)) == state
    advice = "Start the studio with a higher --max-cost to continue."
    reached = {"kind": "failed", "sentence": f"the cost limit of this session is reached. {advice}"}
    assert (studio.searches[1].events_after(0)[-1], studio.dollars) == (reached, pytest.approx(0.002))
    spent = r"^this session has spent \$0\.00 \(list prices of 2026-05-01\) of \$0\.002\. "
    with pytest.raises(InputError, match=spent + advice):
        studio.begin("one.mp4", QUESTION, ORDERS, "uniform-16", None)


def test_what_could_not_be_used_is_shown_in_part() -> None:
    long, shown = "x" * (LONGEST_TEXT + 1), {"supplied": 3, "budget": None, "words": ""}
    rejected = {"kind": "rejected", "title": describe_stage("claims").title, "reason": long[1:], "raw": long[1:]}
    assert describe_progress(Progress(ReplyRejected("claims", long, long), 3, UNLIMITED)) == shown | rejected
    decided = {"words": NOTHING_LEFT, "kind": "decided", "action": "END", "refused": [long[1:]]}
    assert describe_progress(Progress(Decided(Decision(None, (long,))), 3, UNLIMITED)) == shown | decided


# --- who may ask -------------------------------------------------------------------------------


def test_writes_need_the_page_itself(world: Path, tmp_path: Path) -> None:
    gate = Gate("temporal-proposal")
    studio = make_studio(world, tmp_path / "answers", gate)
    with studio_page(studio, token="sesame") as address:
        assert get(address, "/").status == 401
        assert get(address, "/?token=sesame", Host="evil.example").status == 421
    with studio_page(studio) as address:
        own = own_headers(address)
        body = {"video": "one.mp4", "question": QUESTION, "options": [*ORDERS, ""], "method": "trace", "budget": None}
        assert post(address, "/ask", body).status == 422  # no token at all
        assert post(address, "/ask", body, **{"X-CSRF-Token": "guess"}).status == 403
        assert post(address, "/ask", body, **own | {"Sec-Fetch-Site": "cross-site"}).status == 403
        assert gate.calls == []
        assert json.loads(post(address, "/ask", body, **own).body) == {"search": 1}
        assert gate.reached.wait(60)
        busy = post(address, "/ask", body, **own)
        sentence = "another question is being answered; wait for it, or cancel it."
        assert (busy.status, json.loads(busy.body)) == (409, {"detail": sentence})
        assert post(address, "/ask", {**body, "backbone": "openai:x@http://evil"}, **own).status == 422
        assert json.loads(post(address, "/ask/cancel", {"search": 1}, **own).body) == {"state": "cancelled"}
        assert post(address, "/ask/cancel", {"search": 9}, **own).status == 404
        assert post(address, "/ask/estimate", {**body, "video": "/etc/passwd"}, **own).status == 422
        assert get(address, f"/ask/frame?{urlencode({'video': '../../questions.jsonl'})}").status == 404
        frame = get(address, f"/ask/frame?{urlencode({'video': 'one.mp4', 't': '21', 'height': '90'})}")
        size = Image.open(io.BytesIO(frame.body)).size
        assert (frame.status, frame.headers["X-Frame-Seconds"], size) == (200, "21.0", (160, 90))
        assert "script-src 'self'" in get(address, "/").headers["Content-Security-Policy"]
        gate.opened.set()


def test_a_video_that_no_browser_plays_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "old.flv").touch()
    model = Model("scripted@here", ScriptedBackbone(Gate()))
    with studio_page(Studio(VideoFolders([tmp_path]), model, tmp_path / "answers", PRICES)) as address:
        assert get(address, "/ask/video?video=old.flv").status == 415


def test_a_video_is_added_under_a_free_name(world: Path, tmp_path: Path) -> None:
    studio = make_studio(world, tmp_path / "answers", Gate())
    film = (world / "bench" / "videos" / "one.mp4").read_bytes()
    for given, name in (
        ("../mein film?.mp4", "mein film.mp4"),
        ("mein film.MP4", "mein film (2).mp4"),
        ("C:\\films\\mein film.mp4", "mein film (3).mp4"),
        ("?.mp4", "video.mp4"),
        ("x" * 81 + ".mp4", "x" * 80 + ".mp4"),
    ):
        assert studio.add_video(given, lambda place: place.write_bytes(film)) == name
    for number in range(1996):  # and the page offers as many as it can
        (studio.uploads / f"y{number}.mp4").touch()
    page = TestClient(create_studio_app(studio, hosts=LOOPBACK_NAMES), "http://localhost").get("/").text
    assert (page.count(".mp4</option>"), len(studio.videos.names(9999))) == (2000, 2003)
    before = sorted(studio.uploads.iterdir())
    for write in (lambda place: place.write_bytes(b"none"), Path.unlink):
        with pytest.raises(VideoError):
            studio.add_video("bad.mp4", write)
    assert sorted(studio.uploads.iterdir()) == before
    with studio_page(studio) as address:
        assert json.loads(get(address, "/openapi.json").body)["info"]["title"] == "trace-ves studio"
        own = own_headers(address)
        missing = post(address, "/ask/cancel", {"search": 1}, **own)
        assert json.loads(missing.body) == {"detail": "There is no search 1."}
        assert get(address, "/ask/events?search=0").status == 422
        assert get(address, "/ask", "POST", "x" * 70_000, **own).status == 413
        too_long = {**own, "Content-Length": str(5 * 1024**3)}
        assert get(address, "/ask/upload?name=x.mp4", "POST", **too_long).status == 413


# --- in a browser ------------------------------------------------------------------------------


def test_from_a_question_to_its_story(page: Any, world: Path, tmp_path: Path) -> None:
    gate = Gate("final-answer-replay")
    studio = make_studio(world, tmp_path / "answers", gate)
    with studio_page(studio, waiting=lambda: ["scripted: HTTP 429; trying again in 9 s"]) as address:
        page.goto(address)
        page.wait_for_selector("#send:not([disabled])")
        assert re.match(r"Costs about \$0\.\d+; \$0\.\d+ if the model thinks", page.locator("#estimate").inner_text())
        assert page.locator("#facts").inner_text() == "Duration 2:00"
        assert gate.calls == []
        page.get_by_label("Question").fill(QUESTION)
        for at, option in enumerate(ORDERS):
            page.locator("#options input").nth(at).fill(option)
        page.get_by_role("button", name="Ask", exact=True).click()
        page.wait_for_selector("#decisions .action.STOP")
        page.wait_for_selector("#waiting:not([hidden])")
        assert gate.reached.wait(60)
        # everything so far is on the page while the model still thinks
        assert page.locator("#lanes .storyboard path").count() == 1
        assert page.locator("#lanes .looks g > *").count() >= 3
        assert page.locator("#lanes .clips rect:not(.back)").count() == 3
        shown = page.locator("#look-stage").inner_text()
        assert page.locator("#looked img").count() == int(re.search(r"(\d+) frames", shown)[1])  # type: ignore[index]
        bundles = page.locator("#bundles > li")
        assert (bundles.first.locator(".clip").count(), bundles.last.locator(".clip").count()) == (3, 1)
        status = bundles.first.locator(".status")
        assert (status.inner_text(), status.get_attribute("href")) == ("answerable", "/glossary#answerable")
        assert "enough to answer" in status.get_attribute("title")
        assert page.locator("#outcome").is_hidden()
        for width in (390, 768, 1440):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate(WIDER) <= 0
            assert page.evaluate(OUTSIDE) == []
        page.reload()
        page.wait_for_selector("#decisions .action.STOP")  # a page that is loaded again goes on
        assert page.locator("#asked").inner_text() == QUESTION
        gate.opened.set()
        page.wait_for_selector("#outcome:not([hidden])")
        assert page.locator("#outcome .answer").inner_text() == f"A. {ORDERS[0]}"
        assert page.locator("#evidence-clips .fact").all_inner_texts() == [f"✓ {fact}" for fact in FACTS]
        page.locator("#lanes .evidence rect:not(.back)").nth(1).click()
        assert page.locator("#at").inner_text() in {"at 1:02.0", "at 1:03.0"}
        page.set_viewport_size({"width": 390, "height": 844})
        tops = [page.locator(each).bounding_box()["y"] for each in ("#ask", "#outcome", "#lanes")]
        assert tops == sorted(tops)
        with page.expect_download() as packed:
            page.get_by_role("link", name="Download clips and page").click()
        with zipfile.ZipFile(packed.value.path()) as archive:
            assert {"clips/clip3.mp4", "story.html", "answer.md"} <= set(archive.namelist())
        page.get_by_role("link", name="View details").click()
        page.wait_for_url("**/question?run=answers*")
        assert page.locator("h1").inner_text() == QUESTION
        assert page.locator(".round").count() >= 2
        page.get_by_role("link", name="Ask", exact=True).click()
        page.wait_for_selector("#before li")
        [asked] = page.locator("#before li").all_inner_texts()
        assert asked == f"{QUESTION} A. {ORDERS[0]} one.mp4, done"


def test_cancel_and_hostile_words(new_page: Callable[..., Any], world: Path, tmp_path: Path) -> None:
    gate = Gate("direct-answer")
    studio = make_studio(world, tmp_path / "answers", gate, method="uniform-16")
    hostile = "<img src=x onerror=alert(1)> & <b>who</b>?"
    with studio_page(studio) as address:
        page = new_page(color_scheme="dark")
        page.goto(address)
        page.wait_for_selector("#send:not([disabled])")
        page.get_by_label("Question").fill(hostile)
        page.locator("#options input").first.fill("only one")
        page.get_by_role("button", name="Ask", exact=True).click()
        page.wait_for_selector("#problem:not([hidden])")
        assert "at least two options" in page.locator("#problem").inner_text()
        page.locator("#options input").first.fill("")
        page.get_by_role("button", name="Ask", exact=True).click()
        assert gate.reached.wait(60)
        page.get_by_role("button", name="Cancel").click()
        page.wait_for_selector("#outcome:not([hidden])")
        assert page.locator("#outcome .answer").inner_text() == "Cancelled"
        assert page.locator("#before li").all_inner_texts() == [f"{hostile} one.mp4, cancelled"]
        assert page.locator("#asked").inner_text() == hostile
        assert page.locator("main img[src='x']").count() == 0
        assert page.locator("#send").is_enabled()
        gate.opened.set()
        page.reload()
        assert page.locator("#before li").all_inner_texts() == [f"{hostile} one.mp4, cancelled"]


def test_a_video_of_your_own_and_the_limit(page: Any, world: Path, tmp_path: Path) -> None:
    empty = tmp_path / "none"
    empty.mkdir()
    film = (world / "bench" / "videos" / "one.mp4").read_bytes()
    model = Model("scripted", Paid(Gate()))
    studio = Studio(VideoFolders([empty]), model, tmp_path / "answers", PRICES, method="vca", max_cost=0.0001)
    with studio_page(studio) as address:
        page.goto(address)
        assert page.locator("#welcome").is_visible()
        assert page.locator("#send").is_disabled()
        page.locator("#file").set_input_files({"name": "../mein film?.mp4", "mimeType": "video/mp4", "buffer": film})
        page.wait_for_selector("#send:not([disabled])")
        assert page.locator("select[name=video]").input_value() == "mein film.mp4"
        page.locator(".samples button").first.click()
        page.get_by_role("button", name="Ask", exact=True).click()
        page.wait_for_selector("#outcome:not([hidden])")
        assert "limit of this session is reached" in page.locator("#outcome .ending").inner_text()
        assert page.locator("#session-spent").inner_text().startswith("$0.0")
        assert page.locator(".limit").inner_text().endswith("of $0.0001. List prices of 2026-05-01.")
        own = own_headers(address)
        body = {"video": "mein film.mp4", "question": "Why?", "method": "trace"}
        for path, sent, sentence in (
            ("/ask", body, "this session has spent $0.0"),
            ("/ask/upload?name=notes.txt", {}, "'notes.txt' has no video suffix, such as .mp4"),
            ("/ask/upload?name=bad.mp4", {}, "bad.mp4"),
            ("/ask/fetch", {"address": "http://127.0.0.1:9/film.mp4"}, "127.0.0.1"),
        ):
            refused = post(address, path, sent, **own)
            assert (refused.status, sentence in refused.text) == (422, True), refused.text
        assert [path.name for path in studio.uploads.iterdir()] == ["mein film.mp4"]
        assert post(address, "/ask/upload?name=x.mp4", {}, **{"X-CSRF-Token": "guess"}).status == 403
