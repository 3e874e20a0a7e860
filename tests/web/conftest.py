"""A bench with runs, the page over it on a real socket, and a real browser where there is one."""

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from tests.cli import conftest as commands
from tests.web.web_bench import make_bench, make_runs
from trace_ves.runs.asking import AskResult
from trace_ves.web.app import create_app
from trace_ves.web.guard import LOOPBACK_NAMES
from trace_ves.web.library import Library
from trace_ves.web.open_library import open_library

call, cli = commands.call, commands.cli  # fixtures
CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), None)
"""The shell first: `chromium --headless` is the whole desktop browser, which opens a window with pages of its own
around every page of a test and takes three times the processor time. Two of them have held two cores."""
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # The last list of features counts: Playwright's own for pages, and two pages of the address bar in every window,
    # which take more processor time than most pages of a test.
    "--disable-features=AvoidUnnecessaryBeforeUnloadCheckSync,HttpsUpgrades,PaintHolding,ThirdPartyStoragePartitioning,"
    "AimEnabled,OptimizationHints,PreconnectToSearch,WebUIOmniboxPopup,WebUIOmniboxAimPopup",
]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `bench` and `runs`; nobody writes to it. The workers of one session make it once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "world"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "runs").exists():
            make_runs(folder / "bench", folder / "runs", make_bench(folder / "bench"))
    return folder


@pytest.fixture
def own_world(world: Path, tmp_path: Path) -> Path:
    """The same folder for one test alone, the videos by hard link."""
    return shutil.copytree(world, tmp_path / "world", copy_function=os.link)


def serving(library: Library) -> AbstractContextManager[str]:
    """The page of a library on a free port of loopback; gives its address."""
    return serving_app(create_app(library, hosts=LOOPBACK_NAMES))


def library_in(folder: Path) -> Library:
    """The library of the runs and the bench in this folder."""
    return open_library(folder / "runs", bench=folder / "bench")


@contextmanager
def serving_app(app: ASGIApp) -> Iterator[str]:
    """An application on a free port of loopback; gives its address."""
    import uvicorn

    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)


@pytest.fixture(scope="session")
def library(world: Path) -> Library:
    return library_in(world)


@pytest.fixture(scope="session")
def address(library: Library) -> Iterator[str]:
    """Where the page of the shared world is."""
    with serving(library) as found:
        yield found


@pytest.fixture
def plain() -> AskResult:
    """The answer on record whose search went straight to its evidence, for one test to change."""
    from tests.web.test_search_view import results

    return results("trace")["plain"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, driven by Playwright; where either is missing, its tests are skipped."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def new_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Makes pages; whatever one of them reports as an error fails the test."""
    contexts, errors = [], []

    def note(line: Any) -> None:
        is_over = "ERR_CONNECTION_REFUSED" in line.text  # the server of a test ends before its page
        if line.type == "error" and not is_over:
            errors.append(f"{line.text} {line.location}")

    def make(**options: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        context.set_default_timeout(60_000)  # a busy machine is no defect
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", note)
        return page

    yield make
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def page(new_page: Callable[..., Any]) -> Any:
    return new_page()
