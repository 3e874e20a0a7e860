"""Processes that score run files, one file at a time each. They share the columns of the bench through files.

A worker is started as `python -m trace_ves.ves.scoring_worker`, not forked: the caller may have threads, and need not
guard its main module.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from trace_ves.core.errors import FormatError, InputError, TraceVesError
from trace_ves.ves.row_table import COLUMNS, RowTable
from trace_ves.ves.scoring import ScoredRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.records.item_table import ItemTable

    Result = tuple[ScoredRun, InputError | None]

LEFT_OUT = "left_out.json"


def score_in_workers(
    table: ItemTable,
    files: Sequence[Path],
    left_out: frozenset[str],
    workers: int,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> list[Result]:
    """Score files, `workers` at a time; of several that cannot be read, the first one's error is raised."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="trace-ves-audit-")))
        table.save(folder)
        (folder / LEFT_OUT).write_text(json.dumps(sorted(left_out)), encoding="utf-8")
        queue = _Queue(files, on_progress)
        threads = stack.enter_context(ThreadPoolExecutor(workers))
        processes = [_Worker(folder, table) for _ in range(workers)]
        for process in processes:
            stack.callback(process.end)  # before the threads are waited for: they end with their workers
        for done in [threads.submit(queue.work_off, process) for process in processes]:
            done.result()
        return queue.results()


class _Queue:
    """Which file is next, and what came of those before."""

    def __init__(self, files: Sequence[Path], on_progress: Callable[[str, int, int], None] | None) -> None:
        self._files = files
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._next = 0
        self._found: dict[int, Result | TraceVesError] = {}
        self._bytes = [0] * len(files)
        self._total = sum(file.stat().st_size for file in files if file.is_file())

    def work_off(self, worker: _Worker) -> None:
        """Have a worker score files until there are no more, or until one before them could not be read."""
        while True:
            with self._lock:
                at = self._next
                if at == len(self._files) or any(isinstance(found, TraceVesError) for found in self._found.values()):
                    return
                self._next += 1
            try:
                found: Result | TraceVesError = worker.score(self._files[at], partial(self._report, at))
            except TraceVesError as error:
                found = error
            with self._lock:
                self._found[at] = found

    def results(self) -> list[Result]:
        """What came of each file; the error of the first that could not be read."""
        found = [self._found[at] for at in sorted(self._found)]
        for each in found:
            if isinstance(each, TraceVesError):
                raise each
        return [each for each in found if not isinstance(each, TraceVesError)]

    def _report(self, at: int, done: int) -> None:
        with self._lock:
            self._bytes[at] = done
            if self._on_progress is not None:
                self._on_progress(f"reading {len(self._files)} runs", sum(self._bytes), self._total)


class _Worker:
    """One process, and the lines of JSON that are exchanged with it."""

    def __init__(self, folder: Path, table: ItemTable) -> None:
        self._folder, self._ids = folder, table.ids
        home = str(Path(__file__).parents[2])
        inherited = os.environ.get("PYTHONPATH")
        environment = os.environ | {
            "PYTHONPATH": f"{home}{os.pathsep}{inherited}" if inherited else home,
            "OPENBLAS_NUM_THREADS": "1",  # one file keeps one processor busy
        }
        self._process = subprocess.Popen(  # noqa: S603  our own interpreter and our own module
            [sys.executable, "-P", "-m", "trace_ves.ves.scoring_worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
        )

    def score(self, file: Path, on_progress: Callable[[int], None]) -> Result:
        """Have a file scored; what it cannot be read for is raised."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018  as it was started
        try:
            process.stdin.write(json.dumps(str(file)) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                message = json.loads(line)
                if "done" not in message:
                    return self._result(message, file)
                on_progress(message["done"])
        except OSError:
            pass  # it has ended
        raise TraceVesError(
            f"{file}: the process that read it ended without a result (status {process.wait()}); was there enough "
            "memory?"
        )

    def _result(self, message: dict[str, Any], file: Path) -> Result:
        if "unreadable" in message:
            raise _error(message["unreadable"], file)
        rows = {name: np.load(self._folder / message["rows"] / f"{name}.npy") for name in COLUMNS}
        facts: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in message["run"].items()
        }
        run = ScoredRun(
            rows=RowTable(self._ids, **rows, terminations=tuple(message["terminations"])), path=file, **facts
        )
        return run, _error(message["refusal"], file) if message["refusal"] else None

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.communicate()


def _error(told: dict[str, Any], file: Path) -> InputError:
    if told["line"] is None:
        return InputError(told["message"])
    return FormatError(told["message"].removeprefix(f"{file}:{told['line']}: "), path=file, line=told["line"])
