"""Runs jobs on a bench: answers unfinished questions, and writes each line as it arrives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_ves._version import __version__
from trace_ves.backbone.registry import detail_of, is_own_code
from trace_ves.core import InputError
from trace_ves.core.display import simulation_notes
from trace_ves.core.files import refuse_inputs
from trace_ves.core.plugins import source_digest
from trace_ves.core.threads import run_in_daemons
from trace_ves.observer import UNLIMITED
from trace_ves.records.run_file import RunConfiguration, RunFile
from trace_ves.records.transcript import TranscriptFile
from trace_ves.runs.answering import Answerer, Job, QuestionTask, RunOptions, TaskResult
from trace_ves.runs.methods import default_budget, open_method, refuse_unread_subtitles
from trace_ves.runs.video_pool import check_durations

if TYPE_CHECKING:
    from trace_ves.benches import Bench
    from trace_ves.records import Item, Prediction
    from trace_ves.runs.cost import CostLimit

Engine = Callable[[Sequence[QuestionTask], RunOptions], Generator[tuple[QuestionTask, TaskResult], None, None]]
"""Runs tasks in any order and yields each with its result."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs, their questions, and which of them are finished."""

    items: tuple[Item, ...]
    jobs: tuple[Job, ...]
    finished: Mapping[Job, Mapping[str, Prediction]]
    retried: Mapping[Job, Sequence[Prediction]] = field(default_factory=dict)  # Failed lines that are asked again


class Watcher:
    """Callbacks of a run; subclasses override them."""

    def begin(self, plan: Plan) -> None:
        """The run is about to start."""

    def checking(self, done: int, total: int) -> None:
        """`done` of the bench's videos have been compared with their durations."""

    def finished(self, job: Job, item: Item, prediction: Prediction) -> None:
        """A question has been answered, and its line is written."""


def run(
    bench: Bench,
    jobs: Sequence[Job],
    out: Path,
    engine: Engine,
    *,
    options: RunOptions | None = None,
    limit: int | None = None,
    retry_errors: bool = False,
    watcher: Watcher | None = None,
    cost_limit: CostLimit | None = None,
) -> dict[Job, Path]:
    """Answer all questions of a bench, or the first `limit`, with every job; returns the run files.

    Once the cost limit is reached, no further question starts; finished lines stay, and the run can be continued.
    """
    if bench.path is None:
        raise InputError("a run needs a bench that was read from a file.")
    names = [job.name for job in jobs]
    if duplicates := [name for name in names if names.count(name) > 1]:
        raise InputError(f"two of the runs have the same file {duplicates[0]}.jsonl; name each method once.")
    watcher, options = watcher or Watcher(), options or RunOptions()
    digest = hashlib.sha256(bench.path.read_bytes()).hexdigest()
    if options.subtitles:
        refuse_unread_subtitles([options.methods.get(job.method) or open_method(job.method) for job in jobs])
    configurations = {job: configuration(job, bench.path, digest, options) for job in jobs}
    refuse_inputs([out], inputs=[bench.path, *bench.video_files()])
    with ExitStack() as stack:
        files = {job: stack.enter_context(RunFile(out, job.name, configurations[job])) for job in jobs}
        if retry_errors:
            for file in files.values():
                file.move_errors()
        finished = {job: file.finished for job, file in files.items()}
        plan = Plan(bench.items[:limit], tuple(jobs), finished, {job: file.retried for job, file in files.items()})
        folder = bench.path.absolute().parent
        tasks = [
            QuestionTask(job, item.question, str(folder / item.question.video))
            for item in plan.items  # by question: its jobs share the video and frames
            for job in jobs
            if item.question.id not in finished[job]
        ]
        check_durations(bench, {task.question.video for task in tasks}, watcher.checking)
        watcher.begin(plan)
        by_id = {item.question.id: item for item in plan.items}
        answer_tasks(
            tasks,
            files,
            engine,
            options,
            cost_limit=cost_limit,
            on_answer=lambda task, line: watcher.finished(task.job, by_id[task.question.id], line),
        )
    return {job: file.path for job, file in files.items()}


def answer_tasks(
    tasks: Sequence[QuestionTask],
    files: Mapping[Job, RunFile],
    engine: Engine,
    options: RunOptions,
    *,
    cost_limit: CostLimit | None,
    on_answer: Callable[[QuestionTask, Prediction], None],
) -> None:
    """Answer tasks and write each line as soon as it is ready, after its transcript.

    Once the cost limit is reached, including earlier costs, no further task starts. `on_answer` gets each written line.
    """
    if cost_limit is not None:
        cost_limit.check(job.backbone for job in files)
        for job, file in files.items():
            for line in (*file.finished.values(), *file.retried):
                cost_limit.add(job.backbone, line)
        cost_limit.stopped = bool(tasks) and cost_limit.reached
    if not tasks or (cost_limit is not None and cost_limit.reached):
        return
    with ExitStack() as stack:
        transcripts = {job: stack.enter_context(closing(TranscriptFile(file.path))) for job, file in files.items()}
        outcomes = stack.enter_context(closing(engine(tasks, options)))
        for number, (task, result) in enumerate(outcomes, start=1):
            if result.transcript is not None:
                transcripts[task.job].append(result.transcript)
            files[task.job].append(result.prediction)
            on_answer(task, result.prediction)
            if cost_limit is not None:
                cost_limit.add(task.job.backbone, result.prediction)
                if cost_limit.reached and number < len(tasks):
                    cost_limit.stopped = True
                    break


def answer_locally(
    tasks: Sequence[QuestionTask], options: RunOptions, *, workers: int
) -> Generator[tuple[QuestionTask, TaskResult]]:
    """Each task with its line, as they finish. Ending the loop early abandons running tasks."""
    answerer = Answerer(options)
    answerer.prepare(dict.fromkeys(task.job for task in tasks))
    results = run_in_daemons(
        lambda task, _: answerer(task), tasks, workers=workers, group=lambda task: task.question.id
    )
    for place, result in results:
        yield tasks[place], result


def configuration(job: Job, bench: Path | None, digest: str | None, options: RunOptions) -> RunConfiguration:
    """The configuration of a run; opening the method finds a wrong name at once."""
    method = options.methods.get(job.method) or open_method(job.method)
    budget = default_budget(method) if job.budget is None else job.budget
    own_backbone = is_own_code(job.backbone) and job.backbone not in options.backbones
    return RunConfiguration(
        trace_ves=__version__,
        method=job.method,
        backbone=job.backbone,
        budget=budget if budget != UNLIMITED else "the method's own",
        bench=str(bench.absolute()) if bench else None,
        bench_sha256=digest,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        method_sha256=None if job.method in options.methods else source_digest(job.method),
        backbone_sha256=source_digest(job.backbone) if own_backbone else None,
        subtitles=options.subtitles or None,
        simulation=simulation_notes([job.backbone]) or None,
        **_model_settings(job.backbone, options.backbone_options),
    )


def _model_settings(spec: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the backbone that differ from the defaults."""
    defaults = {"temperature": None, "thinking": "default", "detail": "auto", "reply_format": "schema"}
    defaults["max_output_tokens"] = None
    settings = {**defaults, **options}
    settings["detail"] = detail_of(spec, settings["detail"])
    return {name: settings[name] for name, default in defaults.items() if settings[name] != default}
