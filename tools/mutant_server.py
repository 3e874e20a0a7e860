"""Shows mutants to tests, each in a separate process. Knows nothing about scores.

One pytest is started, and forks. A mutant inside a function goes to a process that has collected every test: its child
exchanges the code of that function and runs the tests it is given. A mutant in code that runs at import goes to a
child that has yet to import anything of the package. The source files are never touched.
"""

from __future__ import annotations

import ast
import builtins
import gc
import importlib
import importlib.abc
import importlib.util
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import _lru_cache_wrapper, partial
from importlib.machinery import SourceFileLoader
from inspect import CO_OPTIMIZED
from multiprocessing.connection import Pipe
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest

from mutations import Mutant, module_name, mutated, reporting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from multiprocessing.connection import Connection
    from types import ModuleType

ROOT = Path(__file__).parents[1]
PASSED, FAILED, TOO_LONG = "passed", "failed", "too long"
BROKEN = 70
"""The exit status where the fault is here, not in a mutant."""
LEAST_SECONDS = 20
SLOWER = 20
"""A test that computes for so many times as long as otherwise is ended: it has noticed. Other programs do not count."""
LONGEST_WAIT_SECONDS = 60
"""A test that computes next to nothing for so long waits for what will not come: it has noticed, too."""
LEAST_COMPUTED_SECONDS = 1
COLLECTING_SECONDS = 300
MOST_BYTES = 12 * 2**30
"""A mutant may loop and allocate; the machine is not its own."""
OTHER_PROGRAMS = frozenset({"browser", "firefox", "running", "serving_process"})
"""Fixtures and functions of tests that start one."""
SLOW_IMPORTS = ("numpy", "pydantic", "rich.console", "av")
"""Imported once, before any fork."""


@dataclass(frozen=True, slots=True)
class TestMap:
    """Which tests run which statements, and how long they compute."""

    __test__ = False
    tests: dict[tuple[str, int], list[str]]
    """Ids of tests by file and first line."""
    seconds: dict[str, float]
    at_import: frozenset[tuple[str, int]]
    """Statements that run before any test."""
    failed: tuple[str, ...]

    def covering(self, mutant: Mutant) -> list[str]:
        """The tests that run the changed statement, the quickest first."""
        return self.quickest_first(set(self.tests.get((mutant.file, mutant.statement), ())))

    def touching(self, file: str) -> list[str]:
        """The tests that run anything of a file, the quickest first."""
        return self.quickest_first({test for (name, _), tests in self.tests.items() if name == file for test in tests})

    def quickest_first(self, tests: set[str], alone: int = 30) -> list[str]:
        """A few quick tests, then file by file, so that what a file prepares is prepared once."""
        ordered = sorted(tests, key=lambda test: (self.seconds[test], test))
        files: dict[str, float] = {}
        for test in ordered[alone:]:
            file = test.split("::")[0]
            files[file] = files.get(file, 0) + self.seconds[test]
        rest = sorted(ordered[alone:], key=lambda test: (files[test.split("::")[0]], test.split("::")[0]))
        return ordered[:alone] + rest

    def runs_at_import(self, mutant: Mutant) -> bool:
        """Whether the changed statement runs before any test."""
        return not mutant.statement or (mutant.file, mutant.statement) in self.at_import


def changed_functions(mutant: Mutant) -> list[tuple[CodeType, CodeType]] | None:
    """The functions that a mutant changes, before and after; None if it changes more than those."""
    name = str(mutant.path)
    before = compile(ast.parse(mutant.path.read_text(encoding="utf-8")), name, "exec")
    return _changed(before, compile(mutated(mutant), name, "exec"))


def _changed(before: CodeType, after: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    if before == after:
        return []
    is_function = bool(before.co_flags & CO_OPTIMIZED)
    inner, inner_after = _inner(before), _inner(after)
    found = [(before, after)] if is_function else []
    if is_function and before.co_freevars != after.co_freevars:
        return None
    if len(inner) != len(inner_after) or _without(before) != _without(after):
        return found if is_function else None
    for pair in zip(inner, inner_after, strict=True):
        changed = _changed(*pair)
        if changed is None:
            return None
        found += changed
    return found


def _inner(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _without(code: CodeType) -> CodeType:
    """The code without that of inner functions and classes."""
    return code.replace(co_consts=tuple(None if isinstance(each, CodeType) else each for each in code.co_consts))


class ChangedImports(importlib.abc.MetaPathFinder):
    """Imports some modules of the package from changed trees."""

    def __init__(self, files: Sequence[Path], tree: Callable[[Path], ast.Module]) -> None:
        self._files = {module_name(file): file for file in files}
        self._tree = tree

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG002
        """A changed module; any other is found as usual."""
        file = self._files.get(name)
        if file is None:
            return None
        package = [str(file.parent)] if file.name == "__init__.py" else None
        loader = _Loader(name, str(file), self._tree)
        return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=package)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, file: str, tree: Callable[[Path], ast.Module]) -> None:
        super().__init__(name, file)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return compile(self._tree(Path(self.path)), self.path, "exec")


class StatementRecorder:
    """Notes which test runs which statements of some files, and how long it computes."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.tests: dict[tuple[str, int], list[str]] = {}
        self.seconds: dict[str, float] = {}
        self._ran: set[tuple[str, int]] = set()
        builtins.__ran__ = lambda file, line: self._ran.add((file, line))  # type: ignore[attr-defined]
        sys.meta_path.insert(0, ChangedImports(files, reporting))
        self._cached: list[_lru_cache_wrapper[object]] = []

    def find_caches(self) -> None:
        """Find the functions of the package that remember what they gave, once it is imported."""
        known = (each for each in gc.get_objects() if isinstance(each, _lru_cache_wrapper))
        self._cached = [each for each in known if each.__wrapped__.__module__.startswith("trace_ves.")]

    def take(self) -> set[tuple[str, int]]:
        """The statements run since the last call."""
        taken = set(self._ran)
        self._ran.clear()
        return taken

    def run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        """Run a test with its fixtures; what an earlier one left in a cache is computed again."""
        for cached in self._cached:
            cached.cache_clear()
        started = time.process_time()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        self.seconds[item.nodeid] = time.process_time() - started
        for place in self.take():
            self.tests.setdefault(place, []).append(item.nodeid)


class Server:
    """A plug-in of pytest that answers requests: it forks before anything is collected, and after all is."""

    def __init__(self, requests: Connection, warm: Connection, files: Sequence[Path]) -> None:
        self._requests = requests
        self._warm = warm
        """What the process that has collected every test answers."""
        self._files = files
        self._collected: Callable[[pytest.Session], None] | None = None
        """What this process does when its tests are collected."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self) -> None:
        """Name a profile for tests of properties: fewer examples than usual, and a failure need not be made small."""
        from hypothesis import Phase, settings

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutants", deadline=None, database=None, phases=phases, max_examples=30)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out tests that start other programs: these run the unchanged code, or none of it."""
        items[:] = [item for item in items if not OTHER_PROGRAMS & _names_in(item)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> object:
        """Answer requests; a child that is to collect tests returns from here."""
        while True:
            try:
                request = self._requests.recv()
            except EOFError:
                os._exit(0)
            match request:
                case "record", tests:
                    with _child() as child:
                        if not child:
                            recorder = StatementRecorder(self._files)
                            return self._collect(session, tests, partial(self._record, recorder=recorder))
                        if _outcome(child) != PASSED:
                            self._requests.send(None)
                case "warm", tests:
                    if not os.fork():
                        self._requests.close()  # the client sees the end of a process only where no other has its pipe
                        self._requests = self._warm
                        return self._collect(session, tests, self._serve)
                    self._warm.close()
                case mutant, tests, limits:
                    with _child() as child:
                        if not child:
                            signal.setitimer(signal.ITIMER_PROF, COLLECTING_SECONDS)
                            sys.meta_path.insert(0, ChangedImports([mutant.path], lambda _: mutated(mutant)))
                            files = list(dict.fromkeys(test.split("::")[0] for test in tests))
                            return self._collect(session, files, partial(_run, tests=tests, limits=limits))
                        self._requests.send(_outcome(child))

    def _collect(self, session: pytest.Session, tests: Sequence[str], then: Callable[[pytest.Session], None]) -> None:
        session.config.args = list(tests)
        self._collected = then

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> object:
        """Do what this process was forked for; it does not return."""
        assert self._collected is not None
        if session.testsfailed:  # a file that cannot be imported
            os._exit(1)
        try:
            self._collected(session)
        finally:
            os._exit(BROKEN)  # each of them ends the process itself

    def _record(self, session: pytest.Session, recorder: StatementRecorder) -> None:
        at_import = frozenset(recorder.take())
        recorder.find_caches()
        failed = []
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            count = session.testsfailed
            recorder.run(item, following)
            if session.testsfailed > count:
                failed.append(item.nodeid)
        self._requests.send(TestMap(recorder.tests, recorder.seconds, at_import, tuple(failed)))
        os._exit(0)

    def _serve(self, session: pytest.Session) -> None:
        functions = self._functions()
        gc.collect()
        gc.freeze()
        while True:
            try:
                mutant, tests, limits = self._requests.recv()
            except EOFError:
                os._exit(0)
            with _child() as child:
                if not child:
                    for before, after in (changed_functions(mutant) if mutant else None) or ():
                        for function in functions.get(_key(before), ()):  # an inner one is made when the outer runs
                            function.__code__ = after
                    _run(session, tests, limits)
                self._requests.send(_outcome(child))

    def _functions(self) -> dict[tuple[str, str, int], list[FunctionType]]:
        """Every function of the files, by the place of its code."""
        for file in self._files:
            importlib.import_module(module_name(file))
        found: dict[tuple[str, str, int], list[FunctionType]] = {}
        for each in gc.get_objects():
            if type(each) is FunctionType:
                found.setdefault(_key(each.__code__), []).append(each)
        return found


def _names_in(item: pytest.Item) -> set[str]:
    """The names of a test's fixtures, and of what it calls."""
    code = getattr(getattr(item, "function", None), "__code__", None)
    return {*getattr(item, "fixturenames", ()), *(code.co_names if code else ())}


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


class _child:  # noqa: N801  used as a function
    """Fork a child with a folder for its files; what it leaves behind is ended and removed."""

    def __enter__(self) -> int:
        self._folder = tempfile.mkdtemp(prefix="m")
        self._child = os.fork()
        if not self._child:
            os.setsid()
            os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = self._folder
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        return self._child

    def __exit__(self, *_: object) -> None:
        if self._child:
            with suppress(ProcessLookupError):
                os.killpg(self._child, signal.SIGKILL)  # the group is the child's own
            shutil.rmtree(self._folder, ignore_errors=True)


def _outcome(child: int) -> str:
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF):
        return TOO_LONG
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == BROKEN:
        os._exit(BROKEN)
    return PASSED if status == 0 else FAILED


def _run(session: pytest.Session, tests: Sequence[str], limits: dict[str, float]) -> None:
    """Run tests until one fails; the process ends here."""
    known = {item.nodeid: item for item in session.items}
    items = [known[test] for test in tests]
    for item, following in zip(items, [*items[1:], None], strict=True):
        _end_where_nothing_is_computed()
        signal.setitimer(signal.ITIMER_PROF, max(LEAST_SECONDS, SLOWER * limits[item.nodeid]))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            os._exit(1)
    os._exit(0)


def _end_where_nothing_is_computed() -> None:
    computed = time.process_time()

    def look(*_: object) -> None:
        nonlocal computed
        before, computed = computed, time.process_time()
        if computed - before < LEAST_COMPUTED_SECONDS:
            os.kill(os.getpid(), signal.SIGPROF)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)


class Client:
    """Starts the server, and asks it."""

    def __init__(self, tests: Sequence[str], files: Sequence[Path]) -> None:
        for name in SLOW_IMPORTS:
            importlib.import_module(name)
        self._cold, theirs = Pipe()
        self._warm, warm = Pipe()
        if not os.fork():
            self._cold.close()
            self._warm.close()
            _silence()
            arguments = ["-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist"]
            pytest.main(
                [*arguments, "--hypothesis-seed=0", "--hypothesis-profile=mutants", "tests"],
                [Server(theirs, warm, files)],
            )
            os._exit(1)
        theirs.close()
        warm.close()
        recorded = _ask(self._cold, ("record", tests))
        if recorded is None:
            raise SystemExit(f"the tests cannot be collected: {', '.join(tests)}")
        self.map: TestMap = recorded
        self._cold.send(("warm", tests))

    def passes(self) -> bool:
        """Whether the unchanged code passes the tests also in the order in which mutants are shown to them."""
        return self._try(None, self.map.quickest_first(set(self.map.seconds))) == PASSED

    def show(self, mutant: Mutant) -> str:
        """What the tests make of a mutant: those that run its statement, or all, where it runs at import."""
        changes = None if self.map.runs_at_import(mutant) else changed_functions(mutant)
        if changes is not None:
            return self._try(mutant, self.map.covering(mutant) if changes else [])
        first = self.map.touching(mutant.file)
        return self._try(mutant, first + self.map.quickest_first(set(self.map.seconds) - set(first)), self._cold)

    def _try(self, mutant: Mutant | None, tests: Sequence[str], server: Connection | None = None) -> str:
        if not tests:
            return PASSED
        return str(_ask(server or self._warm, (mutant, tests, {test: self.map.seconds[test] for test in tests})))


def _ask(server: Connection, request: object) -> Any:
    try:
        server.send(request)
        return server.recv()
    except (EOFError, OSError):
        raise SystemExit("the process that runs the tests has ended; perhaps a module cannot be imported") from None


def _silence() -> None:
    silence = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(silence, each)
