"""Processes that want the same answer at the same time pay once, and none waits for one that was killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import make_request

from trace_ves.backbone import Generation
from trace_ves.backbone.response_cache import CachedBackbone
from trace_ves.backbone.response_leases import Leases
from trace_ves.backbone.response_store import ResponseStore
from trace_ves.core import BackboneError

ASKER = """
import sys, time
from pathlib import Path
from tests.fakes import make_request
from trace_ves.backbone import Generation
from trace_ves.backbone.response_cache import CachedBackbone

path, calls, questions, lease, wait = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], *map(float, sys.argv[4:])

class Paid:
    name = "paid:m"
    def generate(self, batch):
        answers = []
        for request in batch:
            with calls.open("a") as file:  # a service that counts
                file.write(request.variables["question"] + "\\n")
            print("asked", flush=True)
            time.sleep(wait)
            answers.append(Generation(request.reply(colour=request.variables["question"])))
        return answers

backbone = CachedBackbone(Paid(), path, lease_seconds=lease)
print("ready", flush=True)
sys.stdin.readline()
print([each.reply.colour for each in backbone.generate([make_request(each) for each in questions])], flush=True)
"""


def asker(path: Path, questions: str, *, lease: float = 5.0, wait: float = 1.0) -> subprocess.Popen[str]:
    """A process that asks when it is told to, and says so."""
    arguments = [sys.executable, "-c", ASKER, path, path.with_name("calls"), questions, lease, wait]
    process = subprocess.Popen(
        [str(each) for each in arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("now\n")
    process.stdin.flush()


def test_processes_that_ask_the_same_at_the_same_time_pay_once(tmp_path: Path) -> None:
    processes = [asker(tmp_path / "replies.sqlite", questions) for questions in ("ab", "ba", "ab")]
    for process in processes:
        begin(process)
    said = [process.communicate(timeout=60)[0].splitlines()[-1] for process in processes]
    assert said == ["['a', 'b']", "['b', 'a']", "['a', 'b']"]
    assert sorted((tmp_path / "calls").read_text().split()) == ["a", "b"]


def test_a_store_opens_beside_one_that_makes_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "replies.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as maker:
        maker.execute("BEGIN IMMEDIATE")
        maker.execute("CREATE TABLE other (text)")
        threading.Timer(0.1, lambda: maker.execute("COMMIT")).start()
        store = ResponseStore(path, 1 << 20)
        store.put(b"key", "value")
        assert store.get(b"key") == "value"
    assert not caplog.records


def test_a_killed_process_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    first, second = asker(path, "a", lease=1.0, wait=600), asker(path, "a", lease=1.0, wait=0)
    begin(first)
    assert first.stdout is not None
    assert first.stdout.readline() == "asked\n"
    begin(second)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert second.communicate(timeout=60)[0].splitlines()[-1] == "['a']"
    assert (tmp_path / "calls").read_text().split() == ["a", "a"]
    assert leases(path) == []


def leases(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM leases").fetchall()


def test_a_slow_holder_renews_its_lease(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    first, second = asker(path, "a", lease=0.6, wait=3), asker(path, "a", lease=0.6, wait=0)
    begin(first)
    assert first.stdout is not None
    assert first.stdout.readline() == "asked\n"
    begin(second)
    for process in (first, second):
        assert process.communicate(timeout=60)[0].splitlines()[-1] == "['a']"
    assert (tmp_path / "calls").read_text().split() == ["a"]


def test_a_lease_is_of_one_owner_until_it_ends(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "replies.sqlite", 1 << 20)
    one, other = Leases(store), Leases(store)
    assert one.take([b"a", b"b"]) == {b"a", b"b"}
    assert other.take([b"b", b"c"]) == {b"c"}
    assert one.take([b"a"]) == {b"a"}
    other.end([b"a", b"b"])  # what is not its own stays
    assert other.take([b"b"]) == set()
    one.end([b"b"])
    assert other.take([b"b"]) == {b"b"}
    one.end([b"a"])
    other.end([b"b", b"c"])
    assert leases(tmp_path / "replies.sqlite") == []


def test_leases_of_the_dead_and_of_the_future_count_for_nothing(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "replies.sqlite", 1 << 20)
    assert store.get(b"a") is None  # so that the file is there
    with closing(sqlite3.connect(tmp_path / "replies.sqlite")) as connection:
        connection.executemany("INSERT INTO leases VALUES (?, 'x', ?)", [(b"a", 1.0), (b"b", 1e12)])
        connection.commit()
    mine = Leases(store)
    assert mine.take([b"a", b"b"]) == {b"a", b"b"}
    mine.end([b"a", b"b"])


class Failing:
    name = "failing:m"

    def generate(self, batch: Any) -> Any:
        raise BackboneError(f"failing:m: the service is down for {len(batch)}.")


def test_a_failure_lets_the_next_one_ask_at_once(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with pytest.raises(BackboneError, match="service is down"):
        CachedBackbone(Failing(), path).generate([make_request("a")])
    assert leases(path) == []
    scripted = Answering()
    assert CachedBackbone(scripted, path).generate([make_request("a")])[0].reply.colour == "a"


class Answering:
    name = "failing:m"

    def generate(self, batch: Any) -> Any:
        return [Generation(request.reply(colour=request.variables["question"])) for request in batch]


def test_a_cache_that_cannot_be_written_leases_everything(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "replies.sqlite", 1 << 20)
    store.put(b"k", "v")
    (tmp_path / "replies.sqlite").chmod(0o400)
    blocked = ResponseStore(Path("/proc/nowhere/replies.sqlite"), 1 << 20)
    assert Leases(blocked).take([b"a"]) == {b"a"}
