"""SIGKILL at random bytes and moments: finished work stays, and the same command ends like an undisturbed one."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from fire_attacks.ground import METHODS, SURVIVED, Ended, command, in_child, lines_of, lost

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from fire_attacks.ground import Ground, Result


def kill_run(ground: Ground, chance: random.Random) -> Result:
    """A run, killed when its files have grown by some random number of bytes; it continues in the next attack."""
    out = ground.folder / "killed-run"
    before = lines_of(out)
    enough = _size(out) + chance.choice((1, 100, 3000, 20_000)) * chance.random()
    ended = in_child(lambda: ground.run(out), watch=_kill_when(lambda: _size(out) > enough, chance))
    if ended.status not in {0, -signal.SIGKILL}:
        return lost(f"status {ended.status}\n{ended.text}")
    after = lines_of(out)
    gone = [key for key, line in before.items() if after.get(key) != line]
    wrong = [key for key, line in after.items() if ground.lines.get(key) != line]
    if gone or wrong:
        return lost(f"lines that were finished are gone: {gone}; other answers than an undisturbed run: {wrong}")
    if ended.status == 0:
        shutil.rmtree(out)
        if after != ground.lines:
            return lost(f"ended with {len(after)} of {len(ground.lines)} lines")
    return SURVIVED


def interrupt_run(ground: Ground, chance: random.Random) -> Result:
    """Ctrl-C inside the serialisation of a line: status 130, no line damaged, and the rest in the next run."""
    from trace_ves.records.prediction import Prediction

    out, serializer = ground.place() / "runs", Prediction._write.__code__
    countdown = iter(range(chance.randrange(len(ground.lines)), -1, -1))

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is serializer and next(countdown, None) == 0:
            os.kill(os.getpid(), signal.SIGINT)

    def work() -> None:
        sys.setprofile(interrupt)
        threading.setprofile(interrupt)
        command("run", ground.twin, "--method", METHODS, "--backbone", "lab", "--out", out, "--workers", "2")()

    ended = in_child(work)
    after = lines_of(out)
    wrong = [key for key, line in after.items() if ground.lines.get(key) != line]
    again = in_child(lambda: ground.run(out))
    is_over = ended.status == 130 or (ended.status == 0 and len(after) == len(ground.lines))
    if not is_over or "Warning" in ended.text or wrong or again.status or lines_of(out) != ground.lines:
        return lost(f"status {ended.status}, {len(after)} lines, wrong: {wrong}\n{ended.text}\n{again.text}")
    return SURVIVED


def kill_synth(ground: Ground, chance: random.Random) -> Result:
    """Drawing a bench, killed after some time; every third attack is left to its end and compared."""
    from trace_ves.twin.synthetic.bench import make_twin, write_twin

    out = ground.folder / "killed-synth"
    state = _state(ground)
    lives = state["synth"] = state.get("synth", 0) + 1
    twin = make_twin(2, 3)

    def draw(folder: Path) -> Ended:
        return in_child(lambda: write_twin(folder, twin, workers=1), deadline_seconds=240)

    if lives % 3:
        patience = time.monotonic() + chance.uniform(0.0, 2.0)
        in_child(
            lambda: write_twin(out, twin, workers=1), watch=_kill_when(lambda: time.monotonic() > patience, chance)
        )
        return (
            SURVIVED if not (out / "questions.jsonl").exists() else lost("a bench that is not whole has its questions")
        )
    if "drawn" not in state:
        draw(ground.folder / "drawn-in-peace")
        state["drawn"] = _checksums(ground.folder / "drawn-in-peace")
    ended = draw(out)
    if ended.status != 0:
        return ended.result
    found = _checksums(out)
    shutil.rmtree(out)
    return SURVIVED if found == state["drawn"] else lost(f"other files than an undisturbed run: {sorted(found)}")


def kill_build(ground: Ground, chance: random.Random) -> Result:
    """A build whose history grows, killed: every entry that was acknowledged is there after it."""
    from trace_ves.construction.ledger import PROPOSAL_SLOT, Change

    project = _project(ground)
    state = _state(ground)
    first = state["items"] = state.get("items", 0) + 1000

    def write() -> None:
        store = project.open_store()
        for number in range(first, first + 500):
            store.append([Change(f"c{number}", PROPOSAL_SLOT, "build", _proposal().to_json())])
            os.write(1, f"c{number} ".encode())

    patience = time.monotonic() + chance.uniform(0.0, 0.25)
    ended = in_child(write, watch=_kill_when(lambda: time.monotonic() > patience, chance))
    acknowledged = set(re.findall(r"c\d+ ", ended.text))
    written = _subjects(project)
    missing = [item for item in acknowledged if item.strip() not in written]
    return lost(f"acknowledged but not there: {missing}") if missing else SURVIVED


def kill_desk(ground: Ground, chance: random.Random) -> Result:
    """The annotators' desk, killed during a judgement: what the browser saw confirmed is saved."""
    import httpx

    from trace_ves.construction.ledger import PROPOSAL_SLOT, Change
    from trace_ves.construction.people import Role, invite

    project = _project(ground)
    state = _state(ground)
    first = state["items"] = state.get("items", 0) + 1000
    name = f"ann{first}"

    def prepare() -> None:
        store = project.open_store()
        store.append([Change(f"c{first + n}", PROPOSAL_SLOT, "build", _proposal().to_json()) for n in range(40)])
        os.write(1, invite(store, name, Role.ANNOTATOR).encode())

    token = in_child(prepare).text.strip()
    saved: list[str] = []

    def visit(child: int) -> None:
        address = _address(project.folder / "desk.log")
        patience = time.monotonic() + chance.uniform(0.0, 0.5)
        try:
            with httpx.Client(base_url=address, timeout=10) as http:
                csrf = _csrf(http.get("/sign-in").text)
                http.post("/api/sign-in", json={"name": name, "token": token}, headers={"X-CSRF-Token": csrf})
                headers = {"X-CSRF-Token": _csrf(http.get("/").text)}
                while time.monotonic() < patience:
                    if http.post("/api/next", json={}, headers=headers).json()["go"] != "/task":
                        break
                    item = re.search(r"<title>(\S+)", http.get("/task").text)
                    body = {"item": item[1] if item else "", "revision": 0, "reason": "no"}
                    if http.post("/api/verification", json=body, headers=headers).is_success:
                        saved.append(str(body["item"]))
        except (httpx.HTTPError, KeyError, TypeError) as error:
            saved.append(f"!{error!r}")
        os.kill(child, signal.SIGKILL)

    (project.folder / "desk.log").unlink(missing_ok=True)
    in_child(lambda: _serve(project.folder), watch=visit)
    broken = [item for item in saved if item.startswith("!")]
    if broken:
        return lost(f"the desk did not answer: {broken}")
    judged = _subjects(project, f"verification/{name}")
    missing = [item for item in saved if item not in judged]
    return lost(f"confirmed as saved, and not there: {missing}") if missing else SURVIVED


def _kill_when(enough: Callable[[], bool], chance: random.Random) -> Callable[[int], None]:
    def watch(child: int) -> None:
        while not enough():
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return
            time.sleep(0.0005)
        time.sleep(chance.choice((0.0, 0.001, 0.01)) * chance.random())
        os.kill(child, signal.SIGKILL)

    return watch


def _size(out: Path) -> int:
    try:
        return sum(path.stat().st_size for path in out.glob("*.jsonl"))
    except OSError:
        return 0


def _checksums(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


_STATES: dict[Path, dict[str, Any]] = {}


def _state(ground: Ground) -> dict[str, Any]:
    return _STATES.setdefault(ground.folder, {})


def _project(ground: Ground) -> Any:
    from trace_ves.construction.project import create_project

    state = _state(ground)
    if "project" not in state:
        folder = ground.folder / "build"
        (folder / "videos").mkdir(parents=True)
        shutil.copy(ground.videos[0], folder / "videos" / "a.mp4")
        state["project"] = create_project(folder)
    return state["project"]


def _proposal() -> Any:
    from trace_ves.construction.judged_item import ProposedItem
    from trace_ves.core import Interval

    options = ("cat, dog, fox", "dog, cat, fox", "fox, cat, dog", "dog, fox, cat")
    spans = (Interval(0.1, 0.4), Interval(0.8, 1.2), Interval(1.6, 2.2))
    facts = tuple(f"fact {place}" for place in range(3))
    return ProposedItem("videos/a.mp4", 2.5, "temporal-ordering", "In which order?", options, "B", spans, facts)


def _subjects(project: Any, slot: str | None = None) -> set[str]:
    """Items with an entry in the history, read by a child, so that no connection stays open here."""

    def read() -> None:
        entries = project.open_store().ledger().entries
        found = {entry.subject for entry in entries if slot is None or entry.slot == slot}
        os.write(1, " ".join(sorted(found)).encode())

    ended = in_child(read)
    assert ended.status == 0, ended.text
    return set(ended.text.split())


def _serve(folder: Path) -> None:
    from trace_ves.cli.main import main

    log = os.open(folder / "desk.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    import sys

    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    main(["build", "serve", str(folder), "--port", "0"])


def _address(log: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if log.exists() and (found := re.search(r"http://\S+", log.read_text())):
            return found[0].rstrip("/")
        time.sleep(0.01)
    return "http://127.0.0.1:9"


def _csrf(page: str) -> str:
    found = re.search(r'<meta name="csrf" content="([^"]+)"', page)
    return found[1] if found else ""
