"""From footage to a viewed audit: the whole path on a small twin with glance, two annotators at two browsers."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.web.desk.conftest import Client
from tests.web.desk.test_browser import play_all, reject
from tests.web.test_cli import fetch, running
from trace_ves.construction.ledger import PROPOSAL_SLOT
from trace_ves.construction.project import open_project

FILMS = (
    (("taxi", 2), ("fox", 12), ("cow", 26), ("taxi", 31), ("rabbit", 45), ("taxi", 59)),
    (("bus", 12), ("bus", 45)),
)
"""What is seen in each film and from which second on: over one film an item of each family, with three intervals; over
the other a counting item with two. The sixteen frames of a gist show only the taxi."""
OTHERS = ("cat", "dan", "eve", "fay", "gil", "hal")
"""Two for each partial set of an item with three intervals: no one judges a second one of the same video. Two of them
sit at a browser; what the others send is the same."""


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """Two drawn films of 75 seconds; what is seen lasts four seconds, which people play four times as fast."""
    from trace_ves.twin.synthetic.bench import write_film
    from trace_ves.twin.synthetic.layout import FPS
    from trace_ves.twin.synthetic.tracks import Track
    from trace_ves.twin.synthetic.world import SceneSpan, VideoWorld

    (tmp_path / "build" / "videos").mkdir(parents=True)
    for number, film in enumerate(FILMS):
        tracks = tuple(Track(name, "appear", start * FPS, (start + 4) * FPS, 60, 0.5, 0.5) for name, start in film)
        world = VideoWorld(75 * FPS, (SceneSpan("park", 0, 75 * FPS - 1),), tracks, ())
        write_film(world, [number], tmp_path / "build" / "videos" / f"v{number}.mp4")
    return tmp_path / "build"


def wait_until(page: Any, script: str) -> None:
    """Wait until a script is true; the page's own policy forbids Playwright's way of waiting for one."""
    from playwright.sync_api import Error

    for _ in range(400):
        try:
            if page.evaluate(script):
                return
        except Error as error:  # the page went on while it was asked
            if "navigation" not in str(error) and "null" not in str(error):
                raise
        page.wait_for_timeout(50)
    pytest.fail(f"never came true: {script}")


class Annotator:
    """A person at a browser, who judges by a plan."""

    def __init__(self, page: Any, address: str, name: str, token: str, rejects: set[str]) -> None:
        self.page, self.address, self.name, self.rejects = page, address, name, rejects
        self.verified: list[str] = []
        self.answered: list[tuple[str, str]] = []
        page.goto(address)
        page.wait_for_url("**/sign-in")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.wait_for_url(address)

    def begin(self) -> None:
        self.page.goto(self.address)
        self.page.keyboard.press("n")
        moved = "location.pathname === '/task' || !document.querySelector('#nothing').hidden"
        wait_until(self.page, f"({moved}) && document.readyState === 'complete'")  # its scripts listen for keys by then

    def work(self) -> None:
        """Judge until nothing waits."""
        self.begin()
        while self.page.url.endswith("/task"):
            self.judge()

    def judge(self) -> None:
        """Do the assignment on screen, with the keyboard."""
        self.page.evaluate("window.isJudged = true")
        where = self.page.locator(".crumbs [aria-current]").inner_text()
        item = where.partition(" ")[0]
        if "visual verification" in where:
            self.verify(item)
            self.verified.append(item)
        else:
            self.answer()
            self.answered.append(item)
        wait_until(self.page, "!window.isJudged && document.readyState === 'complete'")

    def verify(self, item: str) -> None:
        page = self.page
        page.wait_for_selector("#intervals[data-ready]")
        assert page.locator(".interval .rationale").first.inner_text().endswith("is seen here")
        if item in self.rejects:
            reject(page, "not visible")
            return
        first = page.locator("#intervals .interval").first
        before = float(first.get_attribute("data-start"))
        page.keyboard.press("q")
        assert float(first.get_attribute("data-start")) == pytest.approx(before - 0.1)
        play_all(page)
        page.keyboard.press("y")

    def answer(self) -> None:
        page = self.page
        wait_until(page, "[...document.querySelectorAll('#clips video')].every((each) => each.readyState >= 2)")
        page.evaluate("for (const film of document.querySelectorAll('#clips video')) film.playbackRate = 4")
        for place in range(page.locator("#clips video").count()):
            page.keyboard.press("n")
            page.wait_for_selector(f"#clips figure:nth-of-type({place + 1}) .played.done")
        assert page.locator("#player").count() == 0
        page.keyboard.press("0")


def answer_together(clients: list[Client]) -> list[str]:
    """Judge partial sets without a screen until nothing waits; people watch at the same time. The items, in order."""
    answered = []
    while holders := [each for each in clients if each.post("/api/next").json()["go"] == "/task"]:
        tasks = [each.task() for each in holders]
        for client, task in zip(holders, tasks, strict=True):
            for clip in task["clips"]:
                query = f"id={task['item']}&left_out={task['left_out']}&part={clip['part']}"
                assert client.get(f"/clip?{query}").is_success
        time.sleep(2.5)  # clips of 4 seconds take one
        for client, task in zip(holders, tasks, strict=True):
            for clip in task["clips"]:
                assert client.post("/api/watched", item=task["item"], part=clip["part"], spans=[[0, 1]]).is_success
            body = {key: task[key] for key in ("item", "revision", "left_out")}
            assert client.post("/api/answer", **body, answer=None).is_success
            answered.append(task["item"])
    return answered


def test_from_footage_to_a_viewed_audit(build: Path, new_page: Callable[..., Any], tmp_path: Path, cli: Call) -> None:
    # 1. proposal
    cli("build", "init", build, "--audited", "gemini:gemini-3-flash")
    people = cli("build", "invite", build, "ann", "bob", *OTHERS).stdout
    people += cli("build", "invite", build, "dora", "--adjudicator").stdout
    people += cli("build", "invite", build, "olga", "--operator").stdout
    tokens = dict(line.split("\t") for line in people.splitlines())
    cli("build", "propose", build, "--captioner", "glance", "--proposer", "glance")
    assert json.loads(cli("build", "status", build, "--json").stdout)["proposed"] == 3
    with closing(open_project(build).open_store()) as store:
        ordered, rejected, counted = store.ledger().subjects(PROPOSAL_SLOT)

    with running("build", "serve", build, "--port", 0) as (address, _):
        # 2. two annotators look at everything, and so may not judge partial sets
        ann = Annotator(new_page(), address, "ann", tokens["ann"], {rejected})
        bob = Annotator(new_page(), address, "bob", tokens["bob"], {counted, rejected})
        ann.begin()
        ann.judge()

        # undo: one entry more, the assignment is there again, and nothing else changed
        ann.page.goto(address)
        last = ann.page.locator("#recent th[scope=row]").first.inner_text()
        ann.page.wait_for_selector("[data-key=Z]:enabled")
        ann.page.keyboard.press("Z")
        ann.page.get_by_text(f"You have {last} open").wait_for()
        for person in (ann, bob):
            person.work()
        assert sorted(set(ann.verified)) == sorted((ordered, rejected, counted))
        assert len(ann.verified) == 4  # one of them again, after the undo
        assert sorted(bob.verified) == sorted((ordered, rejected, counted))

        # 5. adjudication
        dora = Annotator(new_page(), address, "dora", tokens["dora"], set())
        assert dora.page.locator("#disputes tbody tr").count() == 1
        dora.page.keyboard.press("n")
        dora.page.wait_for_url(f"**/dispute?id={counted}")
        dora.page.wait_for_selector("#intervals[data-ready]")
        sides = dora.page.locator("#sides section")
        assert [each.get_attribute("aria-label") for each in sides.all()] == ["ann", "bob"]
        assert "accepts" in sides.nth(0).inner_text()
        assert "not visible" in sides.nth(1).inner_text()
        play_all(dora.page)
        dora.page.keyboard.press("y")
        dora.page.get_by_text("There are no disagreements to settle.").wait_for()

        # 3. others, who have not seen the videos, judge the partial sets
        others = [Annotator(new_page(), address, name, tokens[name], set()) for name in OTHERS[:2]]
        for person in others:
            person.work()
            assert person.verified == []
            assert len(set(person.answered)) == len(person.answered)  # one partial set of each video
        *clients, olga = [Client(address) for _ in (*OTHERS[2:], "olga")]
        for name, client in zip((*OTHERS[2:], "olga"), (*clients, olga), strict=True):
            assert client.sign_in(name, tokens[name]).is_success
        answered = answer_together(clients) + [item for person in others for item in person.answered]
        assert Counter(answered) == {ordered: 6, counted: 4}
        assert ann.answered == bob.answered == []
        assert "Ask a vision model about" in olga.get("/").text
        assert re.search(r"2 visual verification</th>\s*<td[^>]*>1<", olga.get("/status").text)
        for client in (*clients, olga):
            client.http.close()

    # 3. and 4. the models
    cli("build", "probe", build, "--backbone", "glance")
    cli("build", "shortcut", build, "--language", "glance", "--gist", "glance")
    found = json.loads(cli("build", "status", build, "--json").stdout)
    assert found["rejected"]["visual-verification"] == 1
    assert sum(found["waiting"].values()) == 0
    assert found["accepted"] >= 1
    assert found["accepted"] + sum(found["rejected"].values()) == 3
    assert found["not_blind"] == 0
    assert found["partial_answers"] == 10
    assert found["inter_annotator_iou"] == 1.0
    assert found["minutes_per_item"] > 0

    # nothing was lost, and nobody sat twice
    with closing(open_project(build).open_store()) as store:
        ledger = store.ledger()
    for item in (counted, ordered, rejected):
        assert sorted(ledger.current(item, "verification")) == ["ann", "bob"]
    assert [entry.undoes for entry in ledger.entries if entry.undoes] == [1]

    # the bench, a run on it, the audit, and the page
    bench, runs = tmp_path / "bench", tmp_path / "runs"
    cli("build", "export", build, bench)
    ran = cli("run", bench, "--method", "uniform-16", "--backbone", "glance", "--out", runs, "--workers", 1)
    assert "glance is used for this bench's dense-caption and is also audited" in ran.stderr
    audit = json.loads(cli("audit", bench, *sorted(runs.glob("*.jsonl")), "--json", "-").stdout)
    assert audit["bench"]["questions"] == found["accepted"]
    with running("view", runs, "--bench", bench, "--port", 0, "--no-browser") as (address, _):
        assert f"{found['accepted']} question" in fetch(address)
