"""A small build with people, its desk on a real socket, and clients that sign in as a browser would."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.construction.histories import proposal
from tests.web.conftest import serving_app
from tests.web.web_bench import write_video
from trace_ves.construction.desk.app import create_desk
from trace_ves.construction.judged_item import ProposedItem, evidence_to_json
from trace_ves.construction.ledger import PROPOSAL_SLOT, Change, LedgerEntry
from trace_ves.construction.people import Role, invite
from trace_ves.construction.project import Project, create_project, open_project
from trace_ves.construction.store import Store
from trace_ves.core import Interval
from trace_ves.web.guard import LOOPBACK_NAMES

EVIDENCE = (Interval(3, 6), Interval(12, 15), Interval(22, 26))
SPANS = evidence_to_json(EVIDENCE)
NAME = "videos/a.mp4"
XSS = "<img src=x onerror=alert(1)><script>alert('x')</script>\"'{{7*7}}"
HOSTILE = ProposedItem(NAME, 32.0, "x", XSS, (XSS, "b", "c", "d"), "A", EVIDENCE, (XSS,) * 3)
READY = "body:has(#intervals[data-ready]):has(#player[data-ready])"  # the scripts of a page have done their work


@dataclass
class Clock:
    """The store's clock: the true time, and what a test adds to it."""

    added: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.added


@dataclass
class Client:
    """A browser without a screen."""

    address: str
    csrf: str = ""
    clock: Clock = field(default_factory=Clock)
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.address, timeout=30, verify=False)  # to load certificates takes longest

    def sign_in(self, name: str, token: str) -> httpx.Response:
        self.csrf = self.csrf_of("/sign-in")
        response = self.post("/api/sign-in", name=name, token=token)
        if response.is_success:
            self.csrf = self.csrf_of("/")
        return response

    def csrf_of(self, path: str) -> str:
        return re.search(r'<meta name="csrf" content="([^"]+)"', self.http.get(path).text)[1]

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.http.get(path, **options)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.http.post(path, json=body, headers={"X-CSRF-Token": self.csrf})

    def raw_get(self, path: str) -> bytes:
        """The bytes of a request, for a socket."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())
        return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookies}\r\n\r\n".encode()

    def play(self, item: str, spans: object = SPANS) -> httpx.Response:
        """Fetch an item's video, and report as played after the time that this takes."""
        assert self.http.get(f"/video?id={item}").is_success
        self.clock.added += 40
        return self.post("/api/watched", item=item, spans=spans)

    def accept(self, item: str = "c0001", spans: object = SPANS) -> httpx.Response:
        """Play an item, if it may be played, and accept it with these intervals."""
        if self.get(f"/times?id={item}").is_success:
            self.play(item, spans)
        return self.post("/api/verification", item=item, revision=0, evidence=spans, reason="")

    def task(self) -> dict[str, Any]:
        """What the page of the assignment tells its scripts."""
        return data_of(self.get("/task").text)

    def play_clips(self) -> dict[str, Any]:
        """Fetch every clip of the partial set, and report them as played; gives what an answer needs."""
        data = self.task()
        for clip in data["clips"]:
            query = f"id={data['item']}&left_out={data['left_out']}&part={clip['part']}"
            assert self.get(f"/clip?{query}").is_success
            self.clock.added += 10
            played = self.post("/api/watched", item=data["item"], part=clip["part"], spans=[[0, 1]])
            assert played.is_success, played.text
        return {key: data[key] for key in ("item", "revision", "left_out")}


@dataclass
class World:
    """A served build."""

    project: Project
    store: Store
    tokens: dict[str, str]
    clock: Clock
    address: str = ""
    clients: list[Client] = field(default_factory=list)

    def client(self, name: str = "", address: str = "") -> Client:
        made = Client(address or self.address, clock=self.clock)
        self.clients.append(made)
        if name:
            assert made.sign_in(name, self.tokens[name]).is_success
        return made

    def with_task(self, name: str, address: str = "") -> Client:
        """A client of someone who holds an assignment."""
        client = self.client(name, address)
        assert client.post("/api/next").json() == {"go": "/task"}
        return client

    def disagree(self, item: str = "c0001") -> None:
        """Ann and bob accept an item with edges that are two seconds apart."""
        for name, later in (("ann", 0), ("bob", 2)):
            spans = [[start + later, end + later] for start, end in SPANS]
            assert self.with_task(name).accept(item, spans).is_success

    def to_leave_one_out(self) -> tuple[Client, int]:
        """An item that two have verified, and a third person with its first partial set open."""
        for name in ("ann", "bob"):
            assert self.with_task(name).accept().is_success
        cat = self.with_task("cat")
        return cat, cat.task()["left_out"]

    def written(self, slot: str) -> LedgerEntry:
        """The one entry whose slot begins so."""
        [entry] = [each for each in self.store.ledger().entries if each.slot.startswith(slot)]
        return entry

    def audit(self) -> list[dict[str, object]]:
        """The lines of the audit log."""
        path = self.project.folder / "desk-audit.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def sign_in(self, page: Any, name: str, path: str = "/") -> None:
        """Open a page of the desk in a browser, with the session of a client that has signed in."""
        client = self.client(name)
        cookies = [{"name": key, "value": value, "url": self.address} for key, value in client.http.cookies.items()]
        page.context.add_cookies(cookies)
        page.goto(self.address + path, wait_until="domcontentloaded")

    def open_task(self, page: Any, name: str) -> None:
        """Open an item to verify in a browser."""
        self.with_task(name)
        self.sign_in(page, name, "/task")
        page.wait_for_selector(READY)

    def propose(self, *items: str, made: ProposedItem | None = None) -> None:
        value = (made or proposal(NAME, EVIDENCE)).to_json()
        self.store.append([Change(item, PROPOSAL_SLOT, "build", value) for item in items])


ROLES = dict.fromkeys(("ann", "bob", "cat", "dan"), Role.ANNOTATOR) | {"dora": Role.ADJUDICATOR, "olga": Role.OPERATOR}


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder of a build, and the tokens of its people."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "videos").mkdir()
    write_video(folder / NAME, seconds=32)
    with pytest.MonkeyPatch.context() as patch:  # an id with which the queue takes c0000 to c0004 in this order
        patch.setattr("secrets.token_hex", lambda _: "00000000000000a9")
        store = create_project(folder).open_store()
    tokens = {name: invite(store, name, role) for name, role in ROLES.items()}
    store.close()
    return folder, tokens


@pytest.fixture
def world(tmp_path: Path, template: tuple[Path, dict[str, str]]) -> Iterator[World]:
    """One item over one video, four annotators, an adjudicator and an operator."""
    project = open_project(shutil.copytree(template[0], tmp_path / "b"))
    store = project.open_store()
    store.clock = Clock()
    made = World(project, store, dict(template[1]), store.clock)
    made.propose("c0001")
    (tmp_path / "scratch").mkdir()
    app = create_desk(project, store, scratch=tmp_path / "scratch", hosts=LOOPBACK_NAMES)
    with serving_app(app) as address:
        made.address = address
        yield made
        for client in made.clients:
            client.http.close()
    store.close()


@pytest.fixture
def new_page(world: World, new_page: Callable[..., Any]) -> Callable[..., Any]:
    """Pages are closed before the desk that they talk to."""
    return new_page


@pytest.fixture
def page(world: World, new_page: Callable[..., Any]) -> Any:
    """A browser in which ann has an item to verify."""
    opened = new_page()
    world.open_task(opened, "ann")
    return opened


def data_of(page: str) -> dict[str, Any]:
    """What a page tells its scripts."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page)[1])


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until something is so; a busy machine takes its time."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def serving_process(folder: Path, *options: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`build serve` in a process of its own, and the address that it printed; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "trace_ves", "build", "serve", str(folder), "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | environment,
    )
    try:
        yield process.stdout.readline().strip().rstrip("/"), process
    finally:
        process.kill()
        process.communicate()
