"""A store on each database: SQLite in a file, and a real PostgreSQL that the tests start where it is installed."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.web.web_bench import write_video
from trace_ves.construction.project import Project, create_project
from trace_ves.construction.store import Store

from .histories import Team, new_team

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Path]:
    """The folder of the socket of a PostgreSQL of our own; it cannot be reached over the network."""
    pytest.importorskip("psycopg")
    found = next((folder for folder in PROGRAMS if (folder / "initdb").exists()), None)
    if found is None:
        pytest.skip("no postgresql on this machine")
    user = "postgres" if os.getuid() == 0 else None  # the server refuses to run as root
    with tempfile.TemporaryDirectory(prefix="trace-ves-pg-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if user:
            shutil.chown(folder, user)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "user": user, "cwd": folder}
        data = ("-D", folder / "data")
        subprocess.run([found / "initdb", *data, "-U", "postgres", "-A", "trust", "-N"], check=True, **quiet)
        server = subprocess.Popen([found / "postgres", *data, "-k", folder, "-c", "listen_addresses="], **quiet)
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
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Store(url)))


@pytest.fixture
def make_team() -> Iterator[Callable[..., Team]]:
    """Makes teams with a store in memory, which only one thread can use, unless they get another one."""
    with ExitStack() as stack:

        def make(*names: str, **settings: Any) -> Team:
            team = new_team(*names, **settings)
            stack.callback(team.judgements.store.close)
            return team

        yield make


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
def folder(tmp_path: Path, footage: Path) -> Path:
    """Where a build can be made: it has one film, videos/a.mp4."""
    (tmp_path / "b" / "videos").mkdir(parents=True)
    (tmp_path / "b" / "videos" / "a.mp4").hardlink_to(footage)
    return tmp_path / "b"


@pytest.fixture
def project(folder: Path) -> Project:
    """A build over that film."""
    return create_project(folder)


@pytest.fixture
def store(project: Project) -> Iterator[Store]:
    """The store of that build."""
    with closing(project.open_store()) as opened:
        yield opened
