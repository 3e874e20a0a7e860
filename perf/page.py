"""How fast the page opens: 600 questions x 8 methods, a question of it, and a frame and a seek in a two-hour video.

    python perf/page.py [--no-video]
    python perf/page.py --questions 100000 [--folder KEPT]

Every figure is the median over fresh servers or distinct questions, measured by a client on loopback. The second form
takes a folder of that many questions x 8 methods and times `trace-ves view` from the command to its first page: with
nothing cached, then with the index that the first start left; and the pages after that.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin
from urllib.request import HTTPCookieProcessor, build_opener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


METHODS = {
    "trace": 110,
    "uniform-16": 16,
    "uniform-32": 32,
    "uniform-64": 64,
    "uniform-128": 128,
    "avp": 300,
    "vca": 60,
}
QUESTIONS = 600
REPEATS = 5
HOURS = 2
FPS = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-video", action="store_true")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--folder", type=Path, help="where the files are written, and kept")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = wanted.folder or Path(name)
        if not (folder / "runs").exists():
            write_world(folder, wanted.questions)
        size = sum(path.stat().st_size for path in (folder / "runs").iterdir()) / 1e6
        load = os.getloadavg()[0]
        print(f"{wanted.questions:,} questions x 8 methods, {size:,.0f} MB of run files, load {load:.1f} before")
        if wanted.questions != QUESTIONS:
            large_folder(folder, wanted.questions)
            return
        first_page(folder)
        pages(folder, wanted.questions)
        if not wanted.no_video:
            long_video(folder)


def large_folder(folder: Path, questions: int) -> None:
    """The command on a large folder, twice: what the second start saves, and the pages of its server."""
    with tempfile.TemporaryDirectory() as cache:
        for title in ("first start, nothing cached", "second start", "third start"):
            with command(folder, Path(cache), title) as fetch_page:
                taken: dict[str, list[float]] = {}
                for number in range(20 if title == "third start" else 0):
                    name = name_of(number * (questions // 20))
                    for method in ("trace@bench", "avp@bench"):
                        for page in (f"/question?run={quote(method)}&id={name}", f"/run?name={quote(method)}&page=2"):
                            with timed(taken.setdefault(f"{page.partition('?')[0]} of {method}", [])):
                                fetch_page(page)
                for page, seconds in taken.items():
                    shown(page, seconds, "  target 300")


@contextmanager
def command(folder: Path, cache: Path, title: str) -> Iterator[Callable[[str], bytes]]:
    """`trace-ves view` as a user starts it, until its first page is there."""
    start = time.perf_counter()
    line = [sys.executable, "-m", "trace_ves", "view", str(folder / "runs"), "--bench", str(folder / "bench")]
    process = subprocess.Popen(
        [*line, "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TRACE_VES_CACHE_DIR": str(cache)},
        text=True,
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        browser = build_opener(HTTPCookieProcessor())
        browser.open(address).read()
        clock = time.perf_counter() - start
        yield lambda page: browser.open(urljoin(address, page)).read()
    finally:
        process.terminate()
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    processor = used.ru_utime + used.ru_stime
    print(f"  {title:58} {clock:7.2f} s to the first page, {processor:.2f} s of processor time in all, ", end="")
    print(f"{used.ru_maxrss / 1e3:,.0f} MB at most")


def shown(title: str, seconds: list[float], target: str = "") -> None:
    spread = f"{min(seconds) * 1000:.0f}-{max(seconds) * 1000:.0f}"
    print(f"  {title:58} {statistics.median(seconds) * 1000:7.0f} ms  ({spread}){target}")


def first_page(folder: Path) -> None:
    """From an empty server to the whole first page, the audit included."""
    taken: list[float] = []
    for _ in range(REPEATS):
        with timed(taken), served(folder) as address:
            fetch(address, "/")
    shown("first page", taken, "  target 1000")


def pages(folder: Path, questions: int) -> None:
    """Pages of a server that has shown its first one."""
    apart = questions // 20
    with served(folder) as address:
        fetch(address, "/")
        again: list[float] = []
        for _ in range(REPEATS):
            with timed(again):
                fetch(address, "/")
        shown("first page again", again)
        for method in ("trace@bench", "avp@bench"):
            listed: list[float] = []
            for _ in range(REPEATS):
                with timed(listed):
                    fetch(address, f"/run?name={quote(method)}&text=door")
            shown(f"questions of {method}, filtered", listed)
            told: list[float] = []
            for number in range(20):
                with timed(told):
                    fetch(address, f"/question?run={quote(method)}&id={name_of(number * apart)}")
            shown(f"a question of {method}", told, "  target 300")
        beside: list[float] = []
        for number in range(20):
            with timed(beside):
                fetch(address, f"/question?run=trace%40bench&id={name_of(number * apart)}&beside=avp%40bench")
        shown("two runs of a question side by side", beside, "  target 300")


def long_video(folder: Path) -> None:
    """The timestamps, single frames and byte ranges of a video of two hours."""
    path = folder / "bench" / "videos" / "v0.mp4"
    write_video(path)
    print(f"a video of {HOURS} h, {FPS} fps, {path.stat().st_size / 1e6:.0f} MB")
    rng = random.Random(1)
    with served(folder) as address:
        first: list[float] = []
        with timed(first):
            fetch(address, "/times?id=q000000")
        shown("timestamps, first time", first)
        again: list[float] = []
        for _ in range(REPEATS):
            with timed(again):
                fetch(address, "/times?id=q000000")
        shown("timestamps again", again)
        frames: list[float] = []
        for _ in range(30):
            with timed(frames):
                fetch(address, f"/frame?id=q000000&t={rng.uniform(0, 3600 * HOURS - 1)}")
        shown("a frame somewhere", frames)
        ranges: list[float] = []
        for _ in range(30):
            start = rng.randrange(path.stat().st_size - 2_000_000) if path.stat().st_size > 2_000_000 else 0
            with timed(ranges):
                fetch(address, "/video?id=q000000", Range=f"bytes={start}-{start + 1_000_000}")
        shown("a megabyte somewhere in the file", ranges)


@contextmanager
def timed(taken: list[float]) -> Iterator[None]:
    start = time.perf_counter()
    yield
    taken.append(time.perf_counter() - start)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    import uvicorn

    from trace_ves.web.app import create_app
    from trace_ves.web.guard import LOOPBACK_NAMES
    from trace_ves.web.open_library import open_library

    app = create_app(open_library(folder / "runs", bench=folder / "bench"), hosts=LOOPBACK_NAMES)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.002)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


def fetch(address: str, path: str, **headers: str) -> bytes:
    connection = HTTPConnection(address)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    if response.status >= 400:
        raise SystemExit(f"{path}: {response.status} {body[:200]!r}")
    return body


def name_of(number: int) -> str:
    return f"q{number:06d}"


def write_world(folder: Path, questions: int) -> None:
    """A bench of the paper's size or any other, and runs with lines as long as real ones; every 600th line is alike."""
    from trace_ves.benches.bench import write_bench
    from trace_ves.core import Interval, Question
    from trace_ves.core.jsonl import dump_line
    from trace_ves.records import Item

    rng = random.Random(0)
    (folder / "bench" / "videos").mkdir(parents=True)
    (folder / "runs").mkdir()
    items = []
    for number in range(QUESTIONS):
        duration = rng.uniform(200, 1200) if number % 25 else 3600.0 * HOURS
        starts = [rng.uniform(0, duration - 10) for _ in range(3)]
        evidence = tuple(Interval(start, start + rng.uniform(3, 9)) for start in sorted(starts))
        family = "temporal-ordering" if number % 3 else "event-counting"
        text = "In which order do a red balloon, a blue van and a yellow door appear?"
        video = f"videos/v{number % 25 if number % 25 == 0 else number}.mp4"
        question = Question(name_of(number), video, text, ("a, b, c", "b, c, a", "c, a, b"), family)
        items.append(Item(question, "A", evidence, duration))
    copies = (
        replace(items[number % QUESTIONS], question=replace(items[number % QUESTIONS].question, id=name_of(number)))
        for number in range(questions)
    )
    write_bench(list(copies), folder / "bench")
    for method, frames in {**METHODS, "trace-no-replay": 100}.items():
        lines = [dump_line(line(item, method, frames, rng)) for item in items]
        with (folder / "runs" / f"{method}@bench.jsonl").open("wb") as file:
            for number in range(questions):
                old, new = name_of(number % QUESTIONS).encode(), name_of(number).encode()
                file.write(lines[number % QUESTIONS].replace(old, new, 1))


def line(item: object, method: str, frames: int, rng: random.Random) -> dict[str, object]:
    from trace_ves.records import Item

    assert isinstance(item, Item)
    moments = sorted(rng.uniform(0, item.duration) for _ in range(frames))
    calls = [
        {
            "stage": stage,
            "timestamps": moments[at::4],
            "heights": [360] * len(moments[at::4]),
            "usage": {},
            "seconds": 1.5,
        }
        for at, stage in enumerate(
            ("temporal-proposal", "anchor-extraction", "evidence-assembly", "final-answer-replay")
        )
    ]
    return {
        "question_id": item.question.id,
        "answer": rng.choice("AABC"),
        "timestamps": moments,
        "frames_supplied": frames,
        "method": method,
        "backbone": "bench",
        "termination": "stable-prefix-found",
        "observations": calls,
        "trajectory": search(item.duration, rng) if method.startswith("trace") else {},
        "seconds": 12.5,
    }


def search(duration: float, rng: random.Random) -> dict[str, object]:
    """A record of TRACE with three rounds of up to six anchors."""
    claims = [{"id": f"c{n}", "text": f"when event {n} happens", "kind": "time"} for n in range(4)]
    rounds, names = [], []
    for number in range(1, 4):
        anchors = []
        for _ in range(2):
            start = rng.uniform(0, duration - 10)
            names.append(f"a{len(names) + 1}")
            span = [start, start + 8]
            candidate = {"span": span, "strategy": {"fps": 0.5, "height": 360}, "replaces": None}
            clip = {"span": span, "fps": 0.5, "height": 360, "timestamps": [start + n for n in range(5)]}
            anchors.append({"id": names[-1], "candidate": candidate, "clip": clip, "refined": []})
        bundles = [names[: n + 1] for n in range(len(names))]
        record = {"answer": None, "status": "insufficient", "facts": {"c0": [1.5, 3.5]}, "unmet_needs": ["c1", "c2"]}
        rounds.append(
            {
                "number": number,
                "candidates": [anchor["candidate"] for anchor in anchors],
                "refused": [],
                "anchors": anchors,
                "bundles": bundles,
                "assembled": [len(bundles) - 1],
                "records": [record] * len(bundles),
                "flags": {"stable_prefix": None, "conflicts": [], "unmet_needs": ["c1"]},
                "decisions": [{"action": {"action": "EXPAND", "intervals": [[1.0, 9.0]]}, "refused": []}],
                "replay": None,
            }
        )
    return {"claims": claims, "notes": [], "rounds": rounds, "stable_prefix": names, "fallback": None}


def write_video(path: Path) -> None:
    import av
    import numpy as np

    noise = np.random.default_rng(0).integers(0, 255, (180, 320, 3), dtype=np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"preset": "ultrafast", "g": "250", "crf": "35"})
        stream.width, stream.height, stream.pix_fmt = 320, 180, "yuv420p"
        for number in range(3600 * HOURS * FPS):
            picture = av.VideoFrame.from_ndarray(np.roll(noise, number % 320, axis=1), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode())


if __name__ == "__main__":
    main()
