"""`trace-ves counterfactual`: mask one evidence interval of each covered, correct answer, and count what changes."""

from __future__ import annotations

import json
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_ves.cli.options import backbone_options, file_type, path_type, seed_type
from trace_ves.cli.process import warn
from trace_ves.core.errors import InputError
from trace_ves.core.files import refuse_inputs

if TYPE_CHECKING:
    from trace_ves.ves import Run


@click.command("counterfactual")
@click.argument("bench", type=path_type)
@click.argument("run_file", metavar="RUN", type=file_type)
@click.option(
    "--backbone",
    "spec",
    metavar="SPEC",
    help="The model to ask again. Default: the run's own, if it is built in and has no URL.",
)
@click.option("--out", type=file_type, help="The log. Default: counterfactual/RUN.")
@click.option("--k", default=2, type=click.IntRange(1, 1000), help="Frames that cover an interval.")
@click.option("--seed", default=0, type=seed_type, help="Seed for intervals and controls.")
@click.option("--resamples", default=1000, type=click.IntRange(1, 1_000_000), help="Bootstrap resamples.")
@click.option("--workers", default=8, type=click.IntRange(1, 1024), help="Questions to run in parallel.")
@backbone_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def counterfactual_command(
    *,
    bench: Path,
    run_file: Path,
    spec: str | None,
    out: Path | None,
    k: int,
    seed: int,
    resamples: int,
    workers: int,
    as_json: bool,
    **model_options: Any,
) -> int:
    """Mask the evidence of each correct, covered prediction of RUN and see whether the answer changes.

    The frames of one evidence interval are replaced by adjacent frames outside the evidence, and the question is
    answered again from the bundle. A segment without evidence and with as many observed frames serves as a control.
    The log lists every masked frame.
    """
    from trace_ves.backbone.registry import open_backbone
    from trace_ves.benches import load_bench
    from trace_ves.cli.progress import LateProgress, output_console
    from trace_ves.runs.counterfactual import flip_table, run_check, select_eligible, summarise
    from trace_ves.ves import load_run
    from trace_ves.ves.terminal import print_table

    loaded, run = load_bench(bench), load_run(run_file)
    pairs = select_eligible(loaded, run.predictions, k)
    if not pairs:
        raise InputError(
            f"{run_file}: no prediction is correct with {k} frames in every interval, so there is nothing to check."
        )
    log = out or run_file.parent / "counterfactual" / run_file.name
    refuse_inputs([log], inputs=[loaded.path, run_file, *loaded.video_files()])
    backbone = open_backbone(spec or _backbone_of(run), concurrency=max(8, workers), **model_options)
    with LateProgress() as progress:
        report_progress = partial(progress, "asking again")
        outcomes = run_check(loaded, pairs, backbone, log, seed=seed, workers=workers, on_progress=report_progress)
    summary = summarise(outcomes, resamples=resamples, seed=seed)
    if as_json:
        click.echo(json.dumps({"run": run.name, "log": str(log), "k": k, "seed": seed} | summary.to_json(), indent=2))
    else:
        print_table(flip_table(summary, run.name, backbone.name), output_console())
        click.echo(f"{log} lists every masked frame", err=True)
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    warn(*(f"question {outcome.question_id!r}: {outcome.error}" for outcome in failed))
    return int(summary.failed > 0)


def _backbone_of(run: Run) -> str:
    """The run's own backbone. A run file may be untrusted, so it must not choose code or an address for a key."""
    from trace_ves.backbone.registry import may_open_unasked

    if not run.backbone:
        raise InputError(f"{run.path}: its lines do not name a backbone; name the model with --backbone.")
    if not may_open_unasked(run.backbone):
        raise InputError(
            f"{run.path}: the run names the backbone {run.backbone!r}, which a file may not choose; if you trust it, "
            f"pass --backbone {shlex.quote(run.backbone)}"
        )
    return run.backbone
