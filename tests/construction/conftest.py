"""A store on each database: SQLite in a file, and a real PostgreSQL that the tests start where it is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.web.web_bench import write_video
from trace_ves.construction.judging import Judgements
from trace_ves.construction.people import Role, invite
from trace_ves.construction.project import BuildSettings, Project, create_project
from trace_ves.construction.store import Store

from .teams import Clock, Team

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Path]:
    """The folder of the socket of a PostgreSQL of our own; it cannot be reached over the network."""
    pytest.importorskip("psycopg")
    found = next((folder for folder in PROGRAMS if (folder / "initdb").exists()), None)
    if found is None:
        pytest.skip("no postgresql on this machine")
    folder = Path(tempfile.mkdtemp(prefix="trace-ves-pg-", dir="/tmp"))
    user = None
    if os.getuid() == 0:  # the server refuses to run as root
        user = "postgres"
        shutil.chown(folder, user)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "user": user, "cwd": folder}
    try:
        subprocess.run(
            [found / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-N"], check=True, **quiet
        )
        server = subprocess.Popen(
            [found / "postgres", "-D", folder / "data", "-k", folder, "-c", "listen_addresses="], **quiet
        )
        try:
            for _ in range(600):
                ready = subprocess.run([found / "pg_isready", "-q", "-h", folder], check=False, **quiet)
                if ready.returncode == 0:
                    break
                assert server.poll() is None, "postgres ended"
                time.sleep(0.05)
            yield folder
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: its data is thrown away
            server.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'build.sqlite'}"
    import psycopg

    folder = request.getfixturevalue("postgresql")
    name = f"t{uuid4().hex}"
    with psycopg.connect(host=str(folder), user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql://postgres@/{name}?host={folder}"


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[[], Store]]:
    """Opens stores on one database; they are closed at the end."""
    opened: list[Store] = []

    def make() -> Store:
        opened.append(Store(url))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    return open_store()


@pytest.fixture
def make_team() -> Iterator[Callable[..., Team]]:
    """Makes teams with a store in memory, which only one thread can use, unless they get another one."""
    stores: list[Store] = []

    def make(*names: str, url: str = "sqlite://", **settings: float) -> Team:
        clock = Clock()
        store = Store(url, clock=clock)
        stores.append(store)
        for name in names:
            invite(store, name, Role.ANNOTATOR)
        invite(store, "dora", Role.ADJUDICATOR)
        return Team(Judgements(store, BuildSettings(**settings)), clock)

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def team(make_team: Callable[..., Team]) -> Team:
    return make_team("ann", "bob", "cat", "dan", "eve")


@pytest.fixture(scope="session")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A film of 32 seconds."""
    path = tmp_path_factory.mktemp("footage") / "a.mp4"
    write_video(path, seconds=32)
    return path


@pytest.fixture
def project(tmp_path: Path, footage: Path) -> Project:
    """A build over one film, videos/a.mp4."""
    (tmp_path / "b" / "videos").mkdir(parents=True)
    (tmp_path / "b" / "videos" / "a.mp4").hardlink_to(footage)
    return create_project(tmp_path / "b")


@pytest.fixture
def project_store(project: Project) -> Iterator[Store]:
    """The store of that build."""
    opened = project.open_store()
    yield opened
    opened.close()
