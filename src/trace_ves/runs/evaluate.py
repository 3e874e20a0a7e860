"""Runs and audits a bench from Python: `from trace_ves import evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_ves.backbone.registry import canonical_spec
from trace_ves.benches import Bench, load_bench
from trace_ves.core import InputError
from trace_ves.core.files import refuse_inputs, write_output
from trace_ves.records.run_file import read_retried
from trace_ves.runs.answering import Job, RunOptions
from trace_ves.runs.cost import CostLimit, RunCost, cost_table
from trace_ves.runs.methods import open_method, states_budget
from trace_ves.runs.prices import Prices, load_prices
from trace_ves.runs.run import Engine, Watcher, answer_locally, run
from trace_ves.ves import AuditReport, Run, audit, load_runs

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone
    from trace_ves.observer import Method
    from trace_ves.records import Prediction


@dataclass(frozen=True, slots=True)
class Results:
    """The runs in the order of their jobs, audited. `print` it to read the audit."""

    runs: tuple[Run, ...]
    """Each with its name, its file and its predictions."""
    audit: AuditReport
    costs: tuple[RunCost, ...]

    @property
    def predictions(self) -> dict[str, Sequence[Prediction]]:
        """The predictions of each run, by its name in the audit."""
        return {run.name: run.predictions for run in self.runs}

    @property
    def errors(self) -> dict[str, list[Prediction]]:
        """The questions that ended in an error, by run."""
        return {run.name: [each for each in run.predictions if each.error is not None] for run in self.runs}

    @property
    def warnings(self) -> list[str]:
        """Warnings about these runs, one sentence each."""
        return [sentence for run in self.runs for sentence in _warnings(run)]

    def to_json(self) -> dict[str, object]:
        """As `trace-ves run --json` prints it."""
        return {
            "runs": [
                {"name": run.name, "file": str(run.path), "errors": len(self.errors[run.name]), "cost": cost.to_json()}
                for run, cost in zip(self.runs, self.costs, strict=True)
            ],
            "audit": self.audit.to_json(),
        }

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the results to a file: .json with runs and cost, any other suffix as the audit writes it."""
        from trace_ves.ves.renderers import dump_json  # only needed for writing

        file = Path(path)
        refuse_inputs([file], inputs=[run.path for run in self.runs])
        if file.suffix != ".json":
            return self.audit.save(file)
        write_output(file, dump_json(self.to_json()))
        return file

    def _repr_html_(self) -> str:
        from trace_ves.ves.renderers import escape_html, html_table, report_html  # as above

        warnings = "".join(f"<p><b>warning:</b> {escape_html(sentence)}</p>" for sentence in self.warnings)
        return report_html(self.audit) + html_table(cost_table(self.costs)) + warnings

    def __str__(self) -> str:
        return str(self.audit)


def load_results(
    bench: Bench, paths: Mapping[Job, Path], prices: Prices, options: RunOptions, *, limit: int | None = None
) -> Results:
    """Read the run files and audit them, without lines beyond `limit` from an earlier, longer run."""
    items = bench.items[:limit]
    ids = {item.question.id for item in items}
    runs, costs, unlimited = [], [], set()
    for job, loaded in zip(paths, load_runs(list(paths.values())), strict=True):
        indexes = [at for at, prediction in enumerate(loaded.predictions) if prediction.question_id in ids]
        predictions = [loaded.predictions[at] for at in indexes]
        runs.append(replace(loaded, predictions=predictions, lines=[loaded.lines[at] for at in indexes]))
        retried = [each for each in read_retried(paths[job]) if each.question_id in ids]
        costs.append(RunCost.of(loaded.name, predictions, prices.of(job.backbone), retried))
        method = options.methods.get(job.method)
        if job.budget is None and not states_budget(job.method, method or open_method(job.method)):
            unlimited.add(loaded.name)
    return Results(tuple(runs), audit(items, runs, unlimited=frozenset(unlimited)), tuple(costs))


def _warnings(run: Run) -> list[str]:
    failed = [each for each in run.predictions if each.error is not None]
    calls = [call for each in run.predictions for call in each.observations]
    sentences = []
    if failed:
        first = failed[0]
        sentences.append(
            f"{len(failed)} of the {len(run.predictions)} questions of {run.name} ended in an error, the first "
            f"{first.question_id!r}: {(first.error or '').rstrip('.')}; --retry-errors asks them again"
        )
    if calls and all(call.fault is not None for call in calls):
        sentences.append(f"no call of {run.name} got a usable reply, the first: {(calls[0].fault or '').rstrip('.')}")
    return sentences


LEAST_CONCURRENCY = 8
"""Parallel calls of a backbone: one for each worker, and at least the size of a batch."""


def evaluate(
    bench: Bench | str | PathLike[str],
    methods: str | Sequence[str] | Mapping[str, Method],
    backbone: str | Sequence[str] | Backbone,
    *,
    out: str | PathLike[str],
    budget: int | None = None,
    limit: int | None = None,
    workers: int = 8,
    retry_errors: bool = False,
    engine: Engine | None = None,
    prices: Prices | None = None,
    watcher: Watcher | None = None,
    cost_limit: CostLimit | None = None,
    transcripts: bool = True,
    subtitles: bool = False,
    **backbone_options: Any,
) -> Results:
    """Answer the questions of a bench with each method and each backbone, audit the answers, and add up the cost.

    `methods` are names as on the command line, or callables by name; `backbone` is a spec, several specs, or an
    object. Run files are in the folder `out`, and finished questions there are never asked again. `limit` takes only
    the first questions, and `cost_limit` stops the run once it is reached. `transcripts` saves the prompt and raw
    reply of each call next to the run; `subtitles` shows subtitles to methods that read them. `backbone_options` are
    those of `open_backbone`, such as `temperature`.
    """
    loaded = bench if isinstance(bench, Bench) else load_bench(bench)
    callables = dict(methods) if isinstance(methods, Mapping) else {}
    names = list(methods) if isinstance(methods, Mapping) else _split_names(methods)
    objects = {} if isinstance(backbone, str | Sequence) else {backbone.name: backbone}
    texts = _split_names(backbone) if isinstance(backbone, str | Sequence) else []
    specs = [canonical_spec(text) for text in texts] or list(objects)
    if not names or not specs:
        raise InputError("a run needs at least one method and one backbone.")
    options = RunOptions(
        backbone_options={
            "concurrency": max(LEAST_CONCURRENCY, workers),
            "refuse_dropped_frames": True,
            **backbone_options,
        },
        open_videos=workers,
        methods=callables,
        backbones=objects,
        transcripts=transcripts,
        subtitles=subtitles,
    )
    jobs = [Job(name, spec, budget) for spec in specs for name in names]
    paths = run(
        loaded,
        jobs,
        Path(out),
        engine or partial(answer_locally, workers=workers),
        options=options,
        limit=limit,
        retry_errors=retry_errors,
        watcher=watcher,
        cost_limit=cost_limit,
    )
    return load_results(loaded, paths, prices or load_prices(), options, limit=limit)


def _split_names(names: str | Sequence[str]) -> list[str]:
    """Distinct names; a string may have several, separated by commas."""
    parts = names.split(",") if isinstance(names, str) else names
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))
