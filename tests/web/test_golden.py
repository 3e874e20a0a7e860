"""Pages of a small bench, what the studio sends, and what its addresses take, letter for letter as in tests/web/golden.

After a change that is meant: `python -m tests.web.test_golden`, then read the difference of each file.
"""

import io
import json
import os
import re
import tempfile
import zipfile
from pathlib import Path

from starlette.testclient import TestClient

from tests.web.test_library import with_strange_lines
from tests.web.test_studio import QUESTION, Gate, make_studio
from tests.web.web_bench import ORDERS, make_bench, make_runs
from trace_ves.web.app import create_app
from trace_ves.web.guard import LOOPBACK_NAMES
from trace_ves.web.studio_app import create_studio_app

GOLDEN = Path(__file__).parent / "golden"
PAGES = {
    "runs.html": "/?on=common",
    "run.html": "/run?name=strange&sort=-frames&text=scenes",
    "trace.html": "/question?run=trace@scripted&id=q002&beside=avp@scripted&bucket=covered",
    "vca.html": "/question?run=vca@scripted&id=q001&beside=strange",
    "replay.html": "/question?run=trace@scripted&id=q003",
    "costs.html": "/costs?by=stage",
}


def pages(world: Path) -> dict[str, str]:
    """The pages of the bench and its runs, one of which has strange lines."""
    library = with_strange_lines(world)
    for run in (world / "runs").iterdir():
        os.utime(run, (0, 0))
    view = TestClient(create_app(library, hosts=LOOPBACK_NAMES), "http://localhost")
    return {name: re.sub(r"version:[^<]+", "version:0", view.get(place).text) for name, place in PAGES.items()}


def answers(world: Path, folder: Path) -> dict[str, str]:
    """What the studio sends while it answers two questions, and its page afterwards."""
    studio = make_studio(world, folder, Gate(), method="uniform-8", budget=250)
    app = create_studio_app(studio, hosts=LOOPBACK_NAMES, waiting=lambda: ["for a model"])
    view = TestClient(app, "http://localhost")
    [token] = re.findall(r'name="csrf" content="([^"]+)"', view.get("/").text)
    film = (world / "bench" / "videos" / "one.mp4").read_bytes()
    replies = [view.post("/ask/upload?name=own.mp4", content=film, headers={"X-CSRF-Token": token}).json()]
    for number, method in enumerate(("trace", "uniform-16"), 1):
        body = {"video": "one.mp4", "method": method, "budget": 96}
        for path, more in (("/ask/estimate", {}), ("/ask", {"question": QUESTION, "options": [*ORDERS, " "]})):
            replies.append(view.post(path, json=body | more, headers={"X-CSRF-Token": token}).json())
        studio.searches[-1].join(60)
        replies.append(view.get(f"/ask/events?search={number}&after={number - 1}").json())
    for wrong in (
        {"video": "../one.mp4"},
        {"question": " "},
        {"options": ["a"]},
        {"options": ["a", "a"]},
        {"method": "os:system"},
        {"backbone": "openai:m"},
        {"budget": 0},
    ):
        body = {"video": "one.mp4", "question": QUESTION, "options": ORDERS, "method": "trace"}
        replies.append(view.post("/ask", json=body | wrong, headers={"X-CSRF-Token": token}).json())
    downloads = "/ask/download?search=2 /ask/download?search=2 /ask/download?search=9"
    for place in f"/ask/video?video=one.mp4 {downloads} /docs /redoc".split():
        reply = view.get(place)
        packed = zipfile.ZipFile(io.BytesIO(reply.content)).namelist() if "zip" in reply.headers["content-type"] else []
        shown = {name: reply.headers.get(name) for name in ("content-type", "content-disposition", "cache-control")}
        replies.append([place, reply.status_code, shown, sorted(packed)])
    page = view.get("/").text.replace(token, "token")
    described = view.get("/openapi.json").json()
    addresses = json.dumps([described["paths"], described["components"]], indent=1)
    return {"studio.html": page, "studio.json": "\n".join(map(json.dumps, replies)), "addresses.json": addresses}


def test_pages_are_as_they_were(own_world: Path, tmp_path: Path) -> None:
    written = pages(own_world) | answers(own_world, tmp_path / "answers")
    assert {name: text.splitlines() for name, text in written.items()} == {
        path.name: path.read_text(encoding="utf-8").splitlines() for path in GOLDEN.iterdir()
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        world = Path(scratch)
        make_runs(world / "bench", world / "runs", make_bench(world / "bench"))
        for name, text in (pages(world) | answers(world, world / "answers")).items():
            (GOLDEN / name).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
