"""Writes the files of this folder. Run it in the root of a checkout of version 0.1.0, with that version installed:

    python make.py OUT

The methods, commands and formats are those of 0.1.0; the model is glance, a witness of the tests, or a server on
loopback that answers from a script. Port 9 is where that server listens while the files are made, and where nobody
listens when they are read.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))

RED = "openai:red@http://127.0.0.1:9/v1"
OUT = Path(sys.argv[1]).resolve()


def reply(text: str, images: int) -> dict[str, Any]:
    """What a model that sees red would say, told from the words of the prompt."""
    if "List what has to be known" in text:
        return {"claims": [{"claim": "the colour", "kind": "fact"}]}
    if "Name up to" in text:
        return {"notes": [], "candidates": [{"start": 10, "end": 26, "look_for": "general"}] if images else []}
    if "one short stretch" in text:
        return {"relevant": True, "start": 12, "end": 20}
    if "facts_supported" in text:
        fact = {"claim": "c1", "value": "red", "start": None, "end": None}
        return {"facts_supported": [fact], "unmet_needs": [], "status": "answerable", "answer": "A"}
    return {"answer": "A" if images else "red"}  # without frames: no letter, so a fault on record


class Model(BaseHTTPRequestHandler):
    """The smallest OpenAI-compatible server."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        contents = [message["content"] for message in body["messages"]]
        parts = [
            part for each in contents for part in ([{"type": "text", "text": each}] if isinstance(each, str) else each)
        ]
        images = sum(part["type"] == "image_url" for part in parts)
        said = json.dumps(reply("\n".join(part.get("text", "") for part in parts), images))
        payload = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "red",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}],
            "usage": {"prompt_tokens": 100 * images, "completion_tokens": 10, "total_tokens": 100 * images + 10},
        }
        data = json.dumps(payload).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def trace_ves(*arguments: object, status: int = 0) -> str:
    """Run a command in the folder of the files, so that no path of this machine is written."""
    done = subprocess.run(
        [sys.executable, "-m", "trace_ves", *map(str, arguments)],
        cwd=OUT,
        env=os.environ | {"TRACE_VES_CACHE_DIR": str(OUT / "scratch")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def colours() -> None:
    """A video of two minutes, red then blue; runs, a response cache, a saved answer, a check and a release."""
    import av
    import numpy as np

    (OUT / "colours" / "videos").mkdir(parents=True)
    with av.open(str(OUT / "colours" / "videos" / "colours.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=5, options={"preset": "medium", "g": "100"})
        stream.width, stream.height = 96, 64
        for number in range(5 * 120):
            picture = np.zeros((64, 96, 3), dtype=np.uint8)
            picture[..., 0 if number < 300 else 2] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    items = [
        {
            "id": f"q{number}",
            "video": "videos/colours.mp4",
            "duration": 120.0,
            "family": "temporal-ordering",
            "question": question,
            "options": ["red", "blue"],
            "answer": answer,
            "evidence": [[10.0, 22.0]],
        }
        for number, (question, answer) in enumerate([("Which colour comes first?", "A"), ("Which comes last?", "B")])
    ]
    (OUT / "colours" / "questions.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    run = ("run", "colours", "--backbone", RED, "--out", "colours-runs", "--workers", 1, "--cache")
    trace_ves(*run, "--method", "trace,uniform-16,blind")
    trace_ves(*run, "--method", "trace-without-replay", "--limit", 1)
    name = "trace@openai-red-http-127.0.0.1-9-v1.jsonl"
    trace_ves("counterfactual", "colours", f"colours-runs/{name}", "--workers", 1)
    trace_ves("release", "colours", f"colours-runs/{name}", "colours-release")
    ask = ("ask", "colours/videos/colours.mp4", "Which colour comes first?", "-o", "red", "-o", "blue")
    trace_ves(*ask, "--backbone", RED, "--save", "answer")
    shutil.copy(OUT / "scratch" / "replies.sqlite", OUT / "replies.sqlite")
    compact(OUT / "replies.sqlite")


def compact(database: Path) -> None:
    """Make the database one file."""
    import sqlite3

    connection = sqlite3.connect(database)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.execute("VACUUM")
    connection.close()


def twin() -> None:
    """Every method with glance on a twin of four questions; the second video is damaged for one of them."""
    trace_ves("synth", "twin", "--questions", 4)
    run = ("run", "twin", "--backbone", "glance", "--out", "twin-runs", "--workers", 1)
    trace_ves(*run, "--method", "trace,avp,vca,uniform-16,blind")
    whole = OUT / "twin" / "videos" / "v002.mp4"
    whole.rename(OUT / "twin" / "kept.mp4")
    whole.write_bytes(b"no video")
    trace_ves(*run, "--method", "uniform-8", status=1)
    (OUT / "twin" / "kept.mp4").replace(whole)
    trace_ves("counterfactual", "twin", "twin-runs/trace@glance.jsonl", "--workers", 1)
    shutil.rmtree(OUT / "twin" / "videos")


def witness() -> None:
    """Searches that end in every way: plain, EXPAND, DROP, REFINE, a replay that disagrees, nothing found."""
    from tests.web.web_bench import make_bench, make_runs

    made = make_bench(OUT / "witness", 7)
    make_runs(OUT / "witness", OUT / "witness-runs", made)
    shutil.rmtree(OUT / "witness" / "videos")


def build() -> None:
    """A build with three items: one accepted by all, one that waits, one that two people disagree about."""
    from tests.construction.histories import EVIDENCE, Pen, moved, proposal

    from trace_ves.construction.ledger import Change, Stage
    from trace_ves.construction.people import Role, invite
    from trace_ves.construction.project import create_project

    (OUT / "built" / "videos").mkdir(parents=True)
    shutil.copy(OUT / "colours" / "videos" / "colours.mp4", OUT / "built" / "videos" / "a.mp4")
    project = create_project(OUT / "built", database="", audited=("gemini:gemini-3-flash-preview",))
    store = project.open_store()
    for name in ("ann", "bob"):
        invite(store, name, Role.ANNOTATOR)
    invite(store, "dora", Role.ADJUDICATOR)
    pen = Pen()
    for item in ("c0001", "c0002", "c0003"):
        pen.propose(item, proposal("videos/a.mp4"))
    for who in ("ann", "bob"):
        pen.verify("c0001", who, seconds=60)
        pen.answer("c0001", who, [None, None, None], seconds=20)
    pen.probe("c0001", [False, False, False])
    pen.shortcut("c0001")
    pen.verify("c0002", "ann", seconds=45)
    pen.verify("c0003", "ann", seconds=30)
    pen.verify("c0003", "bob", moved(EVIDENCE, 30), seconds=30)
    for entry in pen.ledger.entries:
        if entry.slot.startswith("verification/"):
            assert store.claim(entry.subject, Stage.VERIFICATION, entry.who)
        store.append([Change(entry.subject, entry.slot, entry.who, entry.after, seconds=entry.seconds)])
    store.undo("c0002", "verification/ann", "ann")
    store.close()
    compact(OUT / "built" / "build.sqlite")
    shutil.rmtree(OUT / "built" / "videos")


def main() -> None:
    OUT.mkdir(parents=True)
    server = ThreadingHTTPServer(("127.0.0.1", 9), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    colours()
    twin()
    witness()
    build()
    server.shutdown()
    shutil.rmtree(OUT / "scratch")
    (OUT / "twin" / "world.jsonl").unlink()
    for bench in ("colours", "twin", "witness"):
        runs = sorted(path.relative_to(OUT) for path in (OUT / f"{bench}-runs").glob("*.jsonl"))
        (OUT / f"{bench}-audit.json").write_text(trace_ves("audit", bench, *runs, "--json", "-"))
    for path in [*OUT.rglob("*.toml"), *OUT.rglob("*.jsonl")]:  # where a bench lay is not compared when a run goes on
        path.write_text(path.read_text().replace(str(OUT), "/benches"))


main()
