"""How long annotators wait: many at once, who play what they judge, against `trace-ves build serve` on loopback.

    python perf/desk.py [--annotators 20] [--minutes 1] [--database postgresql://user@host/name]

Every request of every annotator is timed by the client, which shares the machine with the server. Half of the people
verify and the others answer from partial sets, whose clips are cut while they work.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx

VIDEOS = 20
ITEMS_PER_VIDEO = 40
SECONDS = 60
FPS = 10
WARM_UP_SECONDS = 20
"""The desk cuts the first clips when it starts, before people come."""
RATE = 3.5
"""How fast people play here; the desk believes four times."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--annotators", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--database", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "build"
        tokens = make_build(folder, given.annotators, given.database)
        database = ["--database", given.database] if given.database else []
        server = subprocess.Popen(
            [sys.executable, "-m", "trace_ves", "build", "serve", str(folder), "--port", "0", *database],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            time.sleep(WARM_UP_SECONDS)
            times, wrong = asyncio.run(work(address, tokens, 60 * given.minutes))
        finally:
            server.terminate()
            server.wait(20)
    print(
        f"{given.annotators} annotators for {given.minutes:g} minutes, {'PostgreSQL' if given.database else 'SQLite'}"
    )
    everything = [each for found in times.values() for each in found]
    for path, found in [*sorted(times.items()), ("all requests", everything)]:
        found.sort()
        at = found[min(len(found) - 1, int(0.99 * len(found)))]
        middle, worst = 1000 * statistics.median(found), 1000 * found[-1]
        print(f"  {path:18} {len(found):6}   median {middle:6.0f} ms   p99 {1000 * at:6.0f} ms   worst {worst:6.0f} ms")
    print(f"  answers that were not expected: {dict(wrong) or 'none'}")


def make_build(folder: Path, annotators: int, database: str) -> dict[str, str]:
    """A build whose videos are half verified already, so that both stages have work; gives each annotator's token."""
    from trace_ves.construction.judged_item import ProposedItem
    from trace_ves.construction.ledger import Change
    from trace_ves.construction.people import Role, invite
    from trace_ves.construction.project import BuildSettings, create_project
    from trace_ves.core import Interval

    (folder / "videos").mkdir(parents=True)
    write_video(folder / "videos" / "v0.mp4")
    for number in range(1, VIDEOS):
        (folder / "videos" / f"v{number}.mp4").write_bytes((folder / "videos" / "v0.mp4").read_bytes())
    project = create_project(folder, BuildSettings(database=database))
    store = project.open_store()
    names = [f"p{number:03}" for number in range(annotators)]
    tokens = {name: invite(store, name, Role.ANNOTATOR) for name in names}
    evidence = (Interval(5, 7), Interval(20, 22), Interval(40, 42))
    looking = {"watched_share": 1.0, "took_seconds": 60.0, "clip_seconds": 6.0, "is_blind": True}
    verdict = {"accepted": True, "evidence": [[5, 7], [20, 22], [40, 42]], "reason": "", "looking": looking}
    changes = []
    for number in range(VIDEOS * ITEMS_PER_VIDEO):
        video = f"videos/v{number % VIDEOS}.mp4"
        made = ProposedItem(video, SECONDS, "x", "What?", ("a", "b", "c", "d"), "A", evidence, ("r",) * 3)
        item = f"c{number:04}"
        changes.append(Change(item, "proposal", "build", made.to_json()))
        if number % VIDEOS < VIDEOS // 2:  # verified by two people who are not here
            changes += [Change(item, f"verification/{who}", who, verdict) for who in ("x1", "x2")]
    store.append(changes)
    store.close()
    return tokens


def write_video(path: Path) -> None:
    """A minute of moving grey, 1280 x 720."""
    import av
    import numpy as np

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"preset": "ultrafast", "g": "20"})
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuv420p"
        for number in range(SECONDS * FPS):
            pixels = np.random.default_rng(number).integers(0, 255, (45, 80, 1), dtype=np.uint8)
            picture = np.kron(pixels, np.ones((16, 16, 3), dtype=np.uint8))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))


class Person:
    """An annotator at a browser with a separate address, because the desk limits the connections of each."""

    def __init__(self, number: int, address: str, times: dict[str, list[float]], wrong: dict[str, int]) -> None:
        own = httpx.AsyncHTTPTransport(local_address=f"127.0.1.{number + 1}")
        self.http = httpx.AsyncClient(base_url=address, timeout=120, transport=own)
        self.times, self.wrong, self.csrf = times, wrong, ""

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request and note how long it took."""
        began = time.perf_counter()
        try:
            response = await self.http.request(method, path, headers={"X-CSRF-Token": self.csrf}, **options)
        except httpx.TransportError as error:
            self.wrong[type(error).__name__] += 1
            raise
        self.times[path.partition("?")[0]].append(time.perf_counter() - began)
        if not response.is_success:
            self.wrong[f"{response.status_code} {path.partition('?')[0]}: {response.text[:80]}"] += 1
        return response

    async def sign_in(self, name: str, token: str) -> None:
        """Sign in as a browser does."""
        self.csrf = csrf_of(await self.ask("GET", "/sign-in"))
        await self.ask("POST", "/api/sign-in", json={"name": name, "token": token})
        self.csrf = csrf_of(await self.ask("GET", "/"))

    async def judge(self) -> bool:
        """Play and judge one assignment; False where there is none."""
        if (await self.ask("POST", "/api/next", json={})).json().get("go") != "/task":
            return False
        page = (await self.ask("GET", "/task")).text
        data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])  # type: ignore[index]
        await (self.answer(data) if "clips" in data else self.verify(data))
        return True

    async def verify(self, data: dict[str, Any]) -> None:
        """Fetch the video, play every interval, accept."""
        item = data["item"]
        await asyncio.gather(self.ask("GET", f"/video?id={item}"), self.ask("GET", f"/times?id={item}"))
        for span in data["spans"]:
            await asyncio.sleep((span[1] - span[0]) / RATE)
            await self.ask("POST", "/api/watched", json={"item": item, "spans": [span]})
        body = {"item": item, "revision": data["revision"], "evidence": data["spans"]}
        await self.ask("POST", "/api/verification", json=body)

    async def answer(self, data: dict[str, Any]) -> None:
        """Fetch and play every clip, and say that they do not decide."""
        item, left_out = data["item"], data["left_out"]
        query = f"id={item}&left_out={left_out}"
        await asyncio.gather(*(self.ask("GET", f"/clip?{query}&part={clip['part']}") for clip in data["clips"]))
        for clip in data["clips"]:
            await asyncio.sleep((clip["span"][1] - clip["span"][0]) / RATE)
            await self.ask("POST", "/api/watched", json={"item": item, "part": clip["part"], "spans": [[0, 1]]})
        body = {"item": item, "revision": data["revision"], "left_out": left_out, "answer": None}
        await self.ask("POST", "/api/answer", json=body)


def csrf_of(response: httpx.Response) -> str:
    return re.search(r'name="csrf" content="([^"]+)"', response.text)[1]  # type: ignore[index]


async def work(address: str, tokens: dict[str, str], seconds: float) -> tuple[dict[str, list[float]], dict[str, int]]:
    times: dict[str, list[float]] = defaultdict(list)
    wrong: dict[str, int] = defaultdict(int)
    end = time.monotonic() + seconds

    async def one(number: int, name: str, token: str) -> None:
        await asyncio.sleep(number * min(0.25, 20 / len(tokens)))  # not all arrive at the same instant
        person = Person(number, address, times, wrong)
        await person.sign_in(name, token)
        while time.monotonic() < end and await person.judge():
            pass
        await person.http.aclose()

    await asyncio.gather(*(one(number, *each) for number, each in enumerate(tokens.items())))
    return times, wrong


if __name__ == "__main__":
    main()
