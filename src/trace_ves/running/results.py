"""What a run came to: the questions that were asked, the runs on exactly these, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trace_ves.cost.run_cost import RunCost
from trace_ves.ves import audit, load_runs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trace_ves.benchmarks import Bench
    from trace_ves.cost.prices import Prices
    from trace_ves.running.job import Job
    from trace_ves.ves import AuditReport, Run


@dataclass(frozen=True, slots=True)
class Results:
    """The runs in the order of their jobs, audited."""

    runs: tuple[Run, ...]
    report: AuditReport
    costs: tuple[RunCost, ...]

    @property
    def errors(self) -> dict[str, int]:
        """Questions that ended in an error, by run."""
        return {run.name: sum(each.error is not None for each in run.predictions) for run in self.runs}

    def to_json(self) -> dict[str, object]:
        """As `trace-ves run --json` prints it."""
        return {
            "runs": [
                {"name": run.name, "file": str(run.path), "errors": self.errors[run.name], "cost": cost.to_json()}
                for run, cost in zip(self.runs, self.costs, strict=True)
            ],
            "audit": self.report.to_json(),
        }


def results(bench: Bench, paths: Mapping[Job, Path], prices: Prices, *, limit: int | None = None) -> Results:
    """Read the run files back and audit them; lines beyond the `limit` are from an earlier, longer run."""
    items = bench.items[:limit]
    asked = {item.question.id for item in items}
    runs = tuple(_restricted(run, asked) for run in load_runs(list(paths.values())))
    costs = [
        RunCost.of(run.name, run.predictions, prices.of(job.backbone)) for job, run in zip(paths, runs, strict=True)
    ]
    return Results(runs, audit(items, runs), tuple(costs))


def _restricted(run: Run, asked: set[str]) -> Run:
    kept = [at for at, prediction in enumerate(run.predictions) if prediction.question_id in asked]
    return replace(run, predictions=[run.predictions[at] for at in kept], lines=[run.lines[at] for at in kept])
