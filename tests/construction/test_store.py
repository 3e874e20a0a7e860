"""The store on SQLite and on a real PostgreSQL: the same promises on both; and a build that moves as one archive."""

import io
import json
import os
import random
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from tests.fakes import run_threads
from trace_ves.cli.build import build_command
from trace_ves.cli.main import SETTINGS
from trace_ves.construction.assignments import AssignmentQueue
from trace_ves.construction.export import pack, unpack
from trace_ves.construction.ledger import Change, LedgerEntry, StaleError
from trace_ves.construction.people import Role, authenticate, find_person, invite
from trace_ves.construction.project import BuildSettings, create_project
from trace_ves.construction.store import HISTORY, Store, StoreError, open_engine, reading, writing
from trace_ves.core import InputError, MissingExtraError

from .histories import StorePen, proposal


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    return open_store()


HOSTILE = {
    "text": "'; DROP TABLE history; -- \0 \ud800 <script>alert(1)</script> 🎬 \u202e",
    "deep": [[{"a": None}]],
    "number": 0.1 + 0.2,
}


def test_every_value_comes_back_as_it_was(url: str, open_store: Callable[[], Store]) -> None:
    call = {"backbone": "glance", "stage": "dense-caption", "timestamps": [0.1]}
    with closing(Store(url, clock=lambda: 5.5)) as store:
        store.append([Change("c1", "s", "ann", HOSTILE, seconds=12.5, calls=(call,)), Change("c2", "s", "bob", None)])
        store.append([Change("c1", "s", "bob", {"n": 2}, expected=1)])
        store.undo("c1", "s", "bob")
        expected = [
            LedgerEntry(1, 5.5, "ann", "c1", "s", 1, None, HOSTILE, seconds=12.5, calls=(call,)),
            LedgerEntry(2, 5.5, "bob", "c2", "s", 1, None, None),
            LedgerEntry(3, 5.5, "bob", "c1", "s", 2, HOSTILE, {"n": 2}),
            LedgerEntry(4, 5.5, "bob", "c1", "s", 3, {"n": 2}, HOSTILE, undoes=2),
        ]
        assert store.ledger().entries == open_store().ledger().entries == expected
    with pytest.raises(StaleError), closing(open_store()) as store:  # all or none
        store.append([Change("c3", "s", "ann", {}), Change("c2", "s", "ann", {}, expected=0)])
    assert open_store().ledger().entries == expected
    assert open_store().clock is time.time


def test_the_tables(url: str) -> None:
    engine = open_engine(url)
    found = sa.inspect(engine)
    names = {"history": {"undoes"}, "watched": set(), "build": set()}
    for name, optional in names.items():
        columns = found.get_columns(name)
        assert {column["name"] for column in columns if column["nullable"]} == optional
        assert [column["default"] for column in columns] == [None] * len(columns)
    keys = [found.get_pk_constraint(name)["constrained_columns"] for name in names]
    assert keys == [["number"], ["item", "assignment", "who"], ["id"]]
    [unique] = found.get_unique_constraints("history")
    assert (unique["name"], unique["column_names"]) == ("one_entry_for_each_revision", ["subject", "slot", "revision"])
    engine.dispose()


def test_a_server_that_was_restarted_is_connected_to_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """And enough connections wait for the threads of a desk; a driver that is missing is a sentence."""
    create = Mock(side_effect=ModuleNotFoundError)
    monkeypatch.setattr(sa, "create_engine", create)
    with pytest.raises(MissingExtraError, match="A store on postgresql"):
        open_engine("postgresql://u@h/d", "0123456789abcdef")
    driver, schema = sa.make_url("postgresql+psycopg://u@h/d"), {"options": "-csearch_path=build_0123456789abcdef"}
    create.assert_called_once_with(driver, pool_pre_ping=True, pool_size=10, max_overflow=20, connect_args=schema)


COLUMNS = "number, at, who, subject, slot, revision, before, after, seconds, calls"
REPLACED = f"({COLUMNS}) SELECT number, at, 'x', subject, slot, revision, before, after, seconds, calls FROM history"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE history SET who = 'x'",
        "DELETE FROM history",
        "sqlite: UPDATE OR REPLACE history SET who = 'x'",
        f"sqlite: INSERT OR REPLACE INTO history {REPLACED} WHERE true",
        f"sqlite: REPLACE INTO history {REPLACED} WHERE true",
        f"INSERT INTO history {REPLACED} WHERE true ON CONFLICT (number) DO UPDATE SET who = 'x'",
        "postgresql: TRUNCATE history",
    ],
)
def test_the_database_itself_refuses_to_forget(store: Store, url: str, statement: str) -> None:
    dialect, colon, rest = statement.partition(": ")
    if colon and not url.startswith(dialect):
        return
    store.append([Change("c1", "s", "ann", {})])
    engine = open_engine(url)
    with pytest.raises((StoreError, StaleError)), writing(engine) as connection:
        connection.execute(sa.text(rest or statement))
    with reading(engine) as connection:
        assert connection.execute(sa.select(HISTORY.c.who).order_by(HISTORY.c.number)).scalars().all() == ["ann"]
    engine.dispose()


def test_one_revision_is_written_once_even_past_the_lock(store: Store, url: str) -> None:
    """The constraint holds where somebody writes without asking the ledger."""
    store.append([Change("c1", "s", "ann", {})])
    engine = open_engine(url)
    with reading(engine) as connection:
        row = dict(connection.execute(sa.select(HISTORY)).mappings().one())
    with pytest.raises(StaleError), writing(engine) as connection:
        connection.execute(HISTORY.insert().values(row | {"number": 2}))
    engine.dispose()


def test_the_queue_gives_each_item_to_two(open_store: Callable[[], Store]) -> None:
    stores = {name: open_store() for name in ("ann", "bob", "cat")}
    for n in range(6):
        StorePen(stores["ann"]).propose(f"c{n}")
    for name in stores:
        invite(stores["ann"], name, Role.ANNOTATOR)
    got: list[tuple[str, str]] = []

    def work(name: str) -> None:
        queue = AssignmentQueue(stores[name], BuildSettings())
        while (task := queue.take_next(name)) is not None:
            got.append((task.item, name))
            StorePen(stores[name]).verify(task.item, name, None)

    run_threads(*(partial(work, name) for name in stores))
    assert Counter(item for item, _ in got) == {f"c{n}": 2 for n in range(6)}
    assert len(got) == len(set(got))


WRITER = """
import sys
from trace_ves.construction.ledger import Change
from trace_ves.construction.store import Store
store = Store(sys.argv[1])
print("ready", flush=True)
n = 0
while True:
    n += 1
    pair = [Change(f"{sys.argv[2]}-{n}", slot, sys.argv[2], {"n": n, "pad": "x" * 3000}) for slot in ("one", "two")]
    store.append(pair)
    print(n, flush=True)
"""


def test_kill_in_the_middle_of_writes_loses_nothing(url: str, open_store: Callable[[], Store]) -> None:
    """Two writers are killed at a random moment; all they were told is written, is."""
    names = ("a", "b")
    command = [sys.executable, "-c", WRITER, url]
    writers = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in names]
    for writer in writers:
        assert [writer.stdout.readline(), writer.stdout.readline()] == ["ready\n", "1\n"]
    time.sleep(random.Random(7).uniform(0.02, 0.4))
    acknowledged = []
    for writer in writers:
        writer.kill()
        with writer.stdout:
            acknowledged.append(int(["1", *writer.stdout.read().split()][-1]))
        writer.wait(30)
    entries = open_store().ledger().entries
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    for name, last in zip(names, acknowledged, strict=True):
        mine = [(entry.subject, entry.slot) for entry in entries if entry.who == name]
        assert last <= len(mine) / 2 <= last + 1
        pairs = [(f"{name}-{number}", slot) for number in range(1, len(mine) // 2 + 1) for slot in ("one", "two")]
        assert mine == pairs  # a pair is there whole, or not at all
    open_store().append([Change("after", "s", "ann", {})])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("mysql://u@h/d", "'mysql' databases are not supported"),
        ("postgresql://u:secret@h/d", "contains a password"),
        ("nonsense", "not valid"),
        ("postgresql://nobody@127.0.0.1:9/d", "is not usable"),
        ("sqlite:////nowhere/at/all.sqlite", "is not usable"),
        ("sqlite:///{folder}/text.sqlite", "is not usable"),
    ],
)
def test_a_database_that_cannot_be_is_a_sentence(tmp_path: Path, given: str, sentence: str) -> None:
    (tmp_path / "text.sqlite").write_bytes(b"not a database at all, " * 100)
    with pytest.raises(StoreError, match=sentence) as caught:
        Store(given.format(folder=tmp_path))
    assert "secret" not in str(caught.value)


def test_two_builds_on_one_database_do_not_mix(url: str) -> None:
    one, other = "0123456789abcdef", "fedcba9876543210"
    with closing(Store(url, one)) as first:
        invite(first, "ann", Role.ANNOTATOR)
        if url.startswith("sqlite"):
            with pytest.raises(StoreError, match="belongs to another build"):
                Store(url, other)
        else:
            with closing(Store(url, other)) as second:
                assert second.ledger().entries == []
                invite(second, "bob", Role.ANNOTATOR)
            assert find_person(first.ledger(), "bob") is None
    with closing(Store(url, one)) as again:
        assert find_person(again.ledger(), "ann") is not None


def test_a_database_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store(f"sqlite:///{tmp_path / 'build.sqlite'}")
        store.append([Change("c1", "s", "ann", {})])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert "build.sqlite-wal" in modes


pack_quietly = partial(pack, on_progress=lambda _done, _total: None)


def test_a_build_moves_as_one_archive(folder: Path, tmp_path: Path, url: str) -> None:
    project = create_project(folder, BuildSettings(gold_share=0.2))
    store = project.open_store()
    token = invite(store, "ann", Role.ANNOTATOR)
    StorePen(store).propose("c1")
    held = AssignmentQueue(store, project.settings).take_next("ann")
    assert held is not None
    (folder / "guidelines.md").write_text("# Ours")
    assert pack_quietly(project, store, tmp_path / "b.tar") == 3
    assert stat.S_IMODE((tmp_path / "b.tar").stat().st_mode) == 0o600
    database = "" if url.startswith("sqlite") else url
    moved = unpack(tmp_path / "b.tar", tmp_path / "there", database=database)
    assert (moved.settings.gold_share, moved.settings.id) == (0.2, project.settings.id)
    assert moved.guidelines() == "# Ours"
    assert (tmp_path / "there" / "videos" / "a.mp4").read_bytes() == (folder / "videos" / "a.mp4").read_bytes()
    again = moved.open_store()
    assert [entry.number for entry in again.ledger().entries] == [entry.number for entry in store.ledger().entries]
    assert authenticate(again.ledger(), "ann", token) is not None
    assert AssignmentQueue(again, moved.settings).current("ann") == held
    with pytest.raises(StaleError, match="history in this database already"):
        again.copy_from(store)
    with pytest.raises(InputError, match="exists already"):
        unpack(tmp_path / "b.tar", tmp_path / "there")
    with pytest.raises(InputError, match="exists already"):
        pack_quietly(moved, again, tmp_path / "b.tar")
    for each in (again, store):
        each.close()


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "videos/../../evil", "evil.py", "videos", "videos/link.mp4"])
def test_an_archive_of_a_stranger_writes_nothing_elsewhere(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        made = tarfile.TarInfo(name)
        made.size = 4
        if "link" in name:
            made.type, made.linkname, made.size = tarfile.SYMTYPE, "/etc/passwd", 0
        archive.addfile(made, io.BytesIO(b"evil"))
    with pytest.raises(InputError, match="is not part of a build"):
        unpack(tmp_path / "x.tar", tmp_path / "new")
    (tmp_path / "x.tar").write_bytes(b"no archive")
    with pytest.raises(InputError, match="not an archive of a build"):
        unpack(tmp_path / "x.tar", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar"]


@pytest.mark.parametrize(
    ("subject", "slot", "after"),
    [
        ("c1", "proposal", "{"),
        ("c1", "proposal", "[]"),
        ("person:eve", "person", '{"role": "emperor", "token_sha256": ""}'),
        ("person:e\x1b[31mve", "person", '{"role": "annotator", "token_sha256": ""}'),
        ("c1", "without/ann/first", '{"evidence": [[1, 2]], "answer": null}'),
        ("c1", "skip/ann", "{}"),
        ("c2", "proposal", json.dumps(proposal("videos/\x1b.mp4").to_json())),
        ("c1", "seat/leave-one-out:0:x/1", '{"who": "ann", "spans": [[NaN, 1]]}'),
    ],
)
def test_a_history_that_a_stranger_damaged_is_not_unpacked(
    folder: Path, tmp_path: Path, subject: str, slot: str, after: str
) -> None:
    with closing(create_project(folder).open_store()) as store:
        StorePen(store).propose("c1")
    row = (2, 1.0, "build", subject, slot, 2, "null", after, None, 0.0, "[]")
    with closing(sqlite3.connect(folder / "build.sqlite")) as database, database:
        database.execute(f"INSERT INTO history VALUES ({', '.join('?' * len(row))})", row)
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        for name in ("build.toml", "guidelines.md", "build.sqlite", "videos/a.mp4"):
            archive.add(folder / name, name)
    with pytest.raises(InputError, match="damaged"):
        unpack(tmp_path / "b.tar", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_build_of_a_stranger_chooses_no_database(folder: Path, tmp_path: Path) -> None:
    """Neither an archive nor a folder makes a command connect to a server or open a file elsewhere."""
    project = create_project(folder)
    with closing(project.open_store()) as store:
        pack_quietly(project, store, tmp_path / "b.tar")
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE mine (n)").connection.close()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        for database in (f"postgresql://researcher@127.0.0.1:{port}/x", f"sqlite:///{tmp_path}/other.sqlite"):
            settings = project.settings.model_copy(update={"database": database}).to_toml()
            with tarfile.open(tmp_path / "b.tar") as archive, tarfile.open(tmp_path / "evil.tar", "w") as evil:
                for member in archive:
                    data = settings.encode() if member.name == "build.toml" else archive.extractfile(member).read()
                    member.size = len(data)
                    evil.addfile(member, io.BytesIO(data))
            unpacked = unpack(tmp_path / "evil.tar", tmp_path / "new")
            assert unpacked.settings.database == ""
            unpacked.open_store().close()
            (tmp_path / "new" / "build.toml").write_text(settings)
            refused = CliRunner().invoke(build_command, ["status", str(tmp_path / "new")], **SETTINGS)
            assert isinstance(refused.exception, InputError)
            assert f"--database {database}" in str(refused.exception)
            shutil.rmtree(tmp_path / "new")
        with pytest.raises(BlockingIOError):
            listener.accept()
    (folder / "build.sqlite").unlink()
    (folder / "build.sqlite").symlink_to(tmp_path / "other.sqlite")
    with pytest.raises(InputError, match="leads out of the build's folder"):
        project.open_store()
    tables = sqlite3.connect(tmp_path / "other.sqlite").execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("mine",)]
