"""What every test shares: no network but loopback, and no folder of the person who runs the tests is touched."""

import gc
import io
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("fixed", deadline=None, derandomize=True)  # a busy machine is no defect; perf/ measures time
settings.register_profile("random", deadline=None, print_blob=True)  # `make new-examples` looks for others
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for jobs in a shell's background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # programs that tests interrupt inherit it

SHARED = Path(__file__).parents[2] / "shared"

LONGEST = (
    "tests/web/desk/test_attacks.py",
    "tests/runs/test_kill.py",
    "tests/web/desk/test_whole_path.py",
    "tests/web/desk/test_fuzz.py",
    "tests/cli/test_main.py",
    "tests/web/desk/test_browser.py",
    "tests/twin/lab/test_lab.py",
    "tests/ves/test_figures.py",
    "tests/cli/test_ask.py",
    "tests/web/desk/test_firefox.py",
    "tests/web/test_browser.py",
    "tests/web/desk/test_accessibility.py",
    "tests/web/test_studio.py",
    "tests/docs/test_run_pages.py",
    "tests/runs/test_estimate.py",
)
"""Files whose tests take 20 seconds or more together, the longest first."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several workers share the tests, the longest files come first: none is left to one worker at the end."""
    if hasattr(config, "workerinput"):
        place = {name: number for number, name in enumerate(LONGEST)}
        items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(LONGEST)))


RUNS_ELSEWHERE = (
    "needs the extra hf",
    "the extra hf is installed",
    "needs the environment of tools/test_integrations.sh",
    "needs vLLM",
    "is not installed here",  # decoders: tools/test_integrations.sh; lmms-eval: tools/test_lmms_eval.sh
    "no folder ../shared",
)
"""Skips that are fine in CI: another suite of .ci/run has the environment, or the files are not published."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With NO_SKIPS, as in CI, a skipped test is a failure: a missing browser or database must not pass silently."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if "NO_SKIPS" not in os.environ or reporter is None or hasattr(session.config, "workerinput"):
        return
    reasons = Counter(str(report.longrepr[-1]) for report in reporter.stats.get("skipped", []))
    for reason, count in sorted(reasons.items()):
        fine = any(known in reason for known in RUNS_ELSEWHERE)
        reporter.write_line(f"{'skipped' if fine else 'SKIPPED, which fails here'}: {count} x {reason}")
        if not fine:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Collect garbage between tests only: finalizers cannot run in the depths of nested JSON, and then a test fails."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def text_encoding(encoding: str | None, stacklevel: int = 2, real: Any = io.text_encoding) -> str:
    """As `io.text_encoding`, but the package must not read or write text in whatever encoding a machine has."""
    assert encoding or not sys._getframe(stacklevel).f_globals["__name__"].startswith("trace_ves."), "no encoding"
    return str(real(encoding, stacklevel + 1))


@pytest.fixture(autouse=True)
def _no_traces_on_this_machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches go to a temporary folder, and no provider's key is ever seen."""
    monkeypatch.setattr(io, "text_encoding", text_encoding)
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("TRACE_VES_CONFIG_DIR", str(tmp_path_factory.getbasetemp() / "config"))
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith(("GOOGLE_", "OPENAI_", "ANTHROPIC_", "AWS_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real annotations and footage that stands beside some checkouts."""
    if not SHARED.is_dir():
        pytest.skip("no folder ../shared beside this checkout")
    return SHARED
