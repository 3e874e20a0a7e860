"""The file behind the response cache: shared, bounded, checked; a broken one stops nothing."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.fakes import make_request

from trace_ves.backbone.response_cache import CachedBackbone
from trace_ves.backbone.response_store import ResponseStore

if TYPE_CHECKING:
    from pathlib import Path

from random import Random

from tests.counting_backbone import Counting


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "replies.sqlite"


HAMMER = """
import sys, pathlib
from trace_ves.backbone.response_store import ResponseStore
store = ResponseStore(pathlib.Path(sys.argv[1]), 10**9)
for step in range(200):
    key = str((step + int(sys.argv[2]) * 50) % 200)
    store.put(key.encode(), "value " + key)
    assert store.get(key.encode()) == "value " + key
"""


def test_several_processes_share_one_cache(path: Path) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", HAMMER, str(path), str(number)]) for number in range(4)]
    assert [process.wait(60) for process in processes] == [0, 0, 0, 0]
    assert len(ResponseStore(path, 10**9)) == 200
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


WRITER = """
import sys, pathlib
from trace_ves.backbone.response_store import ResponseStore
store = ResponseStore(pathlib.Path(sys.argv[1]), 10**9)
for number in range(10**9):
    store.put(str(number).encode(), "value " * 200)
    print(number, flush=True)
"""


def test_a_process_killed_while_it_writes_leaves_everything_it_had_kept(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if int(line) >= 200:
                break
        process.send_signal(signal.SIGKILL)
    store = ResponseStore(path, 10**9)
    assert all(store.get(str(number).encode()) for number in range(200))


FORK = """
import os, sys, pathlib
from trace_ves.backbone.response_store import ResponseStore
store = ResponseStore(pathlib.Path(sys.argv[1]), 10**9)
store.put(b"parent", "1")
child = os.fork()
if child == 0:
    store.put(b"child", "2")
    os._exit(0 if store.get(b"parent") == "1" else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert store.get(b"child") == "2"
store.put(b"later", "3")
assert store.get(b"later") == "3"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_fork_has_a_connection_of_its_own(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FORK, str(path)], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    store = ResponseStore(path, 10**9)
    assert [store.get(key) for key in (b"parent", b"child", b"later")] == ["1", "2", "3"]


def test_the_file_stays_bounded_and_what_was_used_last_stays(path: Path) -> None:
    limit = 400_000
    store = ResponseStore(path, limit)
    for number in range(2000):
        store.put(str(number).encode(), "x" * 1000)
    assert path.stat().st_size <= limit * 1.1
    assert 100 < len(store) < 400
    assert store.get(b"1999") is not None
    assert store.get(b"0") is None


def test_an_entry_that_was_used_again_outlives_those_that_were_not(path: Path) -> None:
    store = ResponseStore(path, 200_000)
    for number in range(50):
        store.put(str(number).encode(), "x" * 1000)
    with sqlite3.connect(path) as connection:  # as if all had been written long ago
        connection.execute("UPDATE replies SET used_at = used_at - 90000")
    connection.close()
    assert store.get(b"0") is not None
    for number in range(50, 160):
        store.put(str(number).encode(), "x" * 1000)
    assert store.get(b"0") is not None
    assert store.get(b"1") is None


@pytest.mark.parametrize("damage", ["garbage", "header", "page"])
def test_a_damaged_file_is_set_aside_with_one_sentence_and_the_run_goes_on(
    path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    store = ResponseStore(path, 10**9)
    for number in range(200):
        store.put(str(number).encode(), "x" * 1000)
    del store
    raw = bytearray(path.read_bytes())
    if damage == "garbage":
        raw = bytearray(b"this is no database" * 1000)
    elif damage == "header":
        raw[20:60] = os.urandom(40)
    else:
        raw[4096:] = b"\xff" * (len(raw) - 4096)
    path.write_bytes(raw)
    inner = Counting()
    backbone = CachedBackbone(inner, path)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert backbone.generate([make_request("a")])[0].reply.colour == "a"
    assert inner.asked == ["a"]
    (record,) = caplog.records
    assert "is damaged" in record.getMessage()
    assert len(list(path.parent.glob("replies.sqlite.damaged-*[0-9]"))) == 1


KEPT = {str(number).encode(): json.dumps({"answer": "ABCD"[number % 4], "n": number}) for number in range(40)}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The one file of a store that holds `KEPT`."""
    path = tmp_path_factory.mktemp("filled") / "replies.sqlite"
    store = ResponseStore(path, 10**9)
    for key, value in KEPT.items():
        store.put(key, value)
    del store
    gc.collect()  # the connection is closed, and all is in the one file
    return path.read_bytes()


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_bit_is_never_another_answer(filled: bytes, tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    raw = bytearray(filled)
    places = [place for value in KEPT.values() for place in [raw.find(value.encode())] if place >= 0]
    assert len(places) == len(KEPT)
    for place in places:
        raw[place + chance.randrange(-20, 24)] ^= 1 << chance.randrange(8)
    path = tmp_path / "replies.sqlite"
    path.write_bytes(raw)
    damaged = ResponseStore(path, 10**9)
    found = {key: damaged.get(key) for key in KEPT}
    assert all(text in {None, KEPT[key]} for key, text in found.items())
    assert None in found.values()


@pytest.mark.parametrize("bit", range(8))
def test_the_same_bit_of_every_answer_is_no_other_answer_either(filled: bytes, tmp_path: Path, bit: int) -> None:
    for offset in range(-20, 24):  # types and lengths of its columns are among these
        raw = bytearray(filled)
        for place in [filled.find(value.encode()) for value in KEPT.values()]:
            raw[place + offset] ^= 1 << bit
        path = tmp_path / f"{offset}.sqlite"
        path.write_bytes(raw)
        damaged = ResponseStore(path, 10**9)
        assert all(damaged.get(key) in {None, text} for key, text in KEPT.items())


def test_a_damaged_answer_is_asked_again_and_kept_anew(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inner = Counting()
    CachedBackbone(inner, path).generate([make_request("a"), make_request("b")])
    with sqlite3.connect(path) as connection:
        connection.execute("""UPDATE replies SET value = replace(value, '"a"', '"x"')""")
    connection.close()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            again = CachedBackbone(inner, path).generate([make_request("a"), make_request("b")])
            assert [generation.reply.colour for generation in again] == ["a", "b"]
    assert inner.asked == ["a", "b", "a"]
    (record,) = caplog.records
    assert record.getMessage().endswith("holds damaged answers; they are asked again.")


VERSION_0_1 = """
    CREATE TABLE replies (id INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, value TEXT NOT NULL, used_at REAL NOT NULL);
    CREATE INDEX replies_by_use ON replies (used_at);
"""


def cache_of_version_0_1(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.executescript(VERSION_0_1)
        connection.execute("INSERT INTO replies (key, value, used_at) VALUES (?, ?, ?)", (b"old", "é", time.time()))
    connection.close()


def test_a_cache_of_version_0_1_is_read_and_checked_from_then_on(path: Path) -> None:
    cache_of_version_0_1(path)
    store = ResponseStore(path, 10**9)
    assert store.get(b"old") == "é"
    store.put(b"new", "2")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE replies SET value = 'e' WHERE key = ?", (b"old",))
    connection.close()
    assert (store.get(b"old"), store.get(b"new")) == (None, "2")


@pytest.mark.parametrize("version", ["0.1", "now"])
def test_a_cache_that_cannot_be_written_is_still_read(
    path: Path, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    if version == "0.1":
        cache_of_version_0_1(path)
    else:
        ResponseStore(path, 10**9).put(b"old", "é")
        gc.collect()
    for suffix in ("-wal", "-shm", "-journal"):  # what SQLite must make before it writes, whoever runs this test
        path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.with_name(path.name + suffix).mkdir()
    store = ResponseStore(path, 10**9)
    with caplog.at_level(logging.WARNING):
        assert store.get(b"old") == "é"
        store.put(b"new", "2")
        assert (store.get(b"old"), store.get(b"new")) == ("é", None)
    (record,) = caplog.records
    assert record.getMessage().endswith("it is read, and new answers are not kept.")


def test_a_disk_that_is_full_ends_writing_and_not_reading(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = ResponseStore(path, 10**9)
    store.put(b"old", "1")
    connection = store._connection
    assert connection is not None
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own way to have a full disk
    with caplog.at_level(logging.WARNING):
        store.put(b"new", "x" * 100_000)
        store.put(b"newer", "2")
    assert (store.get(b"old"), store.get(b"new"), store.get(b"newer")) == ("1", None, None)
    (record,) = caplog.records
    assert "full" in record.getMessage()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_cache_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "replies.sqlite"
    store = ResponseStore(path, 10**9)
    store.put(b"a", "1")
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert modes["replies.sqlite"] == 0o600
    assert set(modes.values()) == {0o600}


def test_several_processes_that_find_the_same_damage_set_it_aside_once(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 1000)
    command = [sys.executable, "-c", HAMMER, str(path)]
    processes = [subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE, text=True) for number in range(4)]
    said = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0], said
    assert "".join(said).count("is damaged") == 1
    assert len(ResponseStore(path, 10**9)) == 200
    assert len(list(path.parent.glob("replies.sqlite.damaged-*[0-9]"))) == 1


def test_a_cache_that_cannot_be_used_is_said_once_and_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    inner = Counting()
    backbone = CachedBackbone(inner, tmp_path / "file" / "replies.sqlite")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert backbone.generate([make_request("a")])[0].reply.colour == "a"
    assert inner.asked == ["a"] * 3
    (record,) = caplog.records
    assert record.getMessage().endswith("going on without it.")
