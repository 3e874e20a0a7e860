"""What a run came to: the predictions of exactly the questions that were asked, their audit, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trace_ves.core.outputs import refuse_inputs, write_output
from trace_ves.cost.run_cost import RunCost
from trace_ves.methods import open_method, states_budget
from trace_ves.ves import audit, load_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from trace_ves.benchmarks import Bench
    from trace_ves.cost.prices import Prices
    from trace_ves.records import Prediction
    from trace_ves.running.job import Job, RunOptions
    from trace_ves.ves import AuditReport, Run


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
        """What a person should know of these runs before trusting their numbers, one sentence each."""
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
        """Write the results to a file; .json has the runs and what they cost too, any other suffix is the audit's."""
        from trace_ves.report.saving import as_json  # noqa: PLC0415  needed for writing alone

        file = Path(path)
        refuse_inputs([file], inputs=[run.path for run in self.runs])
        if file.suffix != ".json":
            return self.audit.save(file)
        write_output(file, as_json(self.to_json()))
        return file

    def _repr_html_(self) -> str:
        from trace_ves.cost.tables import cost_table  # noqa: PLC0415  needed in notebooks alone
        from trace_ves.report.html import html_table, report_html, text  # noqa: PLC0415  as above

        warnings = "".join(f"<p><b>warning:</b> {text(sentence)}</p>" for sentence in self.warnings)
        return report_html(self.audit) + html_table(cost_table(self.costs)) + warnings

    def __str__(self) -> str:
        return str(self.audit)


def results(
    bench: Bench, paths: Mapping[Job, Path], prices: Prices, options: RunOptions, *, limit: int | None = None
) -> Results:
    """Read the run files back and audit them; lines beyond the `limit` are from an earlier, longer run."""
    items = bench.items[:limit]
    asked = {item.question.id for item in items}
    runs = tuple(_restricted(run, asked) for run in load_runs(list(paths.values())))
    pairs = list(zip(paths, runs, strict=True))
    costs = [RunCost.of(run.name, run.predictions, prices.of(job.backbone)) for job, run in pairs]
    unlimited = frozenset(run.name for job, run in pairs if not _is_bounded(job, options))
    return Results(runs, audit(items, runs, unlimited=unlimited), tuple(costs))


def _is_bounded(job: Job, options: RunOptions) -> bool:
    if job.budget is not None:
        return True
    given = options.methods.get(job.method)
    return states_budget(job.method, given or open_method(job.method))


def _warnings(run: Run) -> list[str]:
    failed = [each for each in run.predictions if each.error is not None]
    calls = [call for each in run.predictions for call in each.observations]
    found = []
    if failed:
        first = failed[0]
        found.append(
            f"{len(failed)} of the {len(run.predictions)} questions of {run.name} ended in an error, the first "
            f"{first.question_id!r}: {(first.error or '').rstrip('.')}; --retry-errors asks them again"
        )
    if calls and all(call.fault is not None for call in calls):
        found.append(f"no call of {run.name} got a usable reply, the first: {(calls[0].fault or '').rstrip('.')}")
    return found


def _restricted(run: Run, asked: set[str]) -> Run:
    kept = [at for at, prediction in enumerate(run.predictions) if prediction.question_id in asked]
    return replace(run, predictions=[run.predictions[at] for at in kept], lines=[run.lines[at] for at in kept])
