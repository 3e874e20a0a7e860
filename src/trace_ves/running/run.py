"""A bench, some jobs and a folder: asks whatever is not finished yet, and writes each line as it comes in."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trace_ves._version import __version__
from trace_ves.core import InputError
from trace_ves.core.simulation import simulation_notes
from trace_ves.methods import open_method, source_digest
from trace_ves.observer import UNLIMITED
from trace_ves.records import Prediction
from trace_ves.running.job import Job, Settings, Task
from trace_ves.running.run_file import Configuration, RunFile

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.benchmarks import Bench
    from trace_ves.core import Item

Engine = Callable[[Sequence[Task], Settings], Generator[tuple[Task, Prediction], None, None]]
"""Carries out tasks, in any order, and gives each back with its line."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is to do: the jobs, their questions, and which of them is finished already."""

    items: tuple[Item, ...]
    jobs: tuple[Job, ...]
    finished: dict[Job, dict[str, Prediction]]
    retried: dict[Job, int]

    def open_tasks(self, folder: Path) -> list[Task]:
        """What is still to be asked, question by question: the jobs of one question share its video and its frames."""
        return [
            Task(job, item.question, str(folder / item.question.video))
            for item in self.items
            for job in self.jobs
            if item.question.id not in self.finished[job]
        ]


class Watcher:
    """Hears how a run goes; this one keeps quiet."""

    def begin(self, plan: Plan) -> None:
        """The run is about to start."""

    def finished(self, job: Job, item: Item, prediction: Prediction) -> None:
        """A question has been answered, and its line is written."""


def run(
    bench: Bench,
    jobs: Sequence[Job],
    out: Path,
    engine: Engine,
    *,
    settings: Settings | None = None,
    limit: int | None = None,
    retry_errors: bool = False,
    watcher: Watcher | None = None,
) -> dict[Job, Path]:
    """Bring every job's run file to the end of the bench, or of its first `limit` questions."""
    if bench.path is None:
        raise InputError("a run needs a bench that was read from a file.")
    names = [job.name for job in jobs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"two of the runs would both be written to {twice[0]}.jsonl; name each method once.")
    for job in jobs:
        open_method(job.method)
    watcher, settings = watcher or Watcher(), settings or Settings()
    digest = hashlib.sha256(bench.path.read_bytes()).hexdigest()
    with ExitStack() as stack:
        files = {
            job: stack.enter_context(RunFile(out, job.name, configuration(job, bench.path, digest, settings)))
            for job in jobs
        }
        plan = Plan(
            items=bench.items[:limit],
            jobs=tuple(jobs),
            retried={job: file.forget_errors() if retry_errors else 0 for job, file in files.items()},
            finished={job: file.predictions for job, file in files.items()},
        )
        watcher.begin(plan)
        by_id = {item.question.id: item for item in plan.items}
        tasks = plan.open_tasks(bench.path.absolute().parent)
        if tasks:
            outcomes = stack.enter_context(closing(engine(tasks, settings)))
            for task, prediction in outcomes:
                files[task.job].append(prediction)
                watcher.finished(task.job, by_id[task.question.id], prediction)
    return {job: file.path for job, file in files.items()}


def configuration(job: Job, bench: Path, digest: str, settings: Settings) -> Configuration:
    """What a run file was made with."""
    found: Configuration = {
        "trace_ves": __version__,
        "method": job.method,
        "backbone": job.backbone,
        "budget": job.frames_allowed if job.frames_allowed != UNLIMITED else "the method's own",
        "bench": str(bench.absolute()),
        "bench_sha256": digest,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    optional = {
        "temperature": settings.backbone_options.get("temperature"),
        "method_sha256": source_digest(job.method),
        "simulation": simulation_notes([job.backbone]) or None,
    }
    return found | {key: value for key, value in optional.items() if value is not None}
