"""`trace-ves run`: answer questions with methods and models, then audit the results and their cost."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_ves.cli.options import (
    COST_REACHED,
    CostOptions,
    backbone_options,
    cost_options,
    count_type,
    folder_type,
    path_type,
    spec_type,
    subtitles_option,
    transcripts_option,
)
from trace_ves.cli.process import warn
from trace_ves.core.files import refuse_inputs

if TYPE_CHECKING:
    from trace_ves.runs.evaluate import Results
    from trace_ves.runs.run import Engine


@click.command("run")
@click.argument("bench", type=path_type)
@click.option("--method", "methods", required=True, metavar="NAME,…", help="trace, uniform-64, vote-5, blind, avp, …")
@click.option(
    "--backbone",
    "backbones",
    required=True,
    multiple=True,
    type=spec_type,
    metavar="SPEC",
    help="The model, for example gemini:MODEL; repeat for several.",
)
@click.option("--out", required=True, type=folder_type, help="Folder for the run files.")
@click.option("--workers", default=8, type=click.IntRange(1, 1024), help="Questions to run in parallel.")
@click.option("--engine", default="local", type=click.Choice(["local", "ray"]), help="Threads on this machine, or Ray.")
@click.option("--address", metavar="HOST:PORT", help="Address of the Ray cluster. Default: this machine.")
@click.option("--budget", type=count_type, metavar="N", help="Frames per question, for every method.")
@click.option("--limit", type=count_type, metavar="N", help="Run only the first N questions of the bench.")
@click.option("--allow-dropped-frames", is_flag=True, help="Continue if a server drops frames that exceed its context.")
@click.option("--retry-errors", is_flag=True, help="Ask failed questions again.")
@backbone_options
@cost_options
@subtitles_option
@transcripts_option
@click.option("--full", is_flag=True, help="Print every table: families, intervals, comparisons, stages, cost.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def run_command(
    *,
    bench: Path,
    methods: str,
    backbones: tuple[str, ...],
    out: Path,
    workers: int,
    engine: str,
    address: str | None,
    budget: int | None,
    limit: int | None,
    allow_dropped_frames: bool,
    costs: CostOptions,
    full: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Answer the questions of BENCH with each method and backbone.

    Finished questions are never asked again, so the same command continues an interrupted run. Name your own method or
    backbone as package.module:callable.
    """
    from trace_ves.backbone.registry import is_own_code
    from trace_ves.benches import load_bench
    from trace_ves.benches.bench import construction_warnings
    from trace_ves.cli.run_table import RunTable
    from trace_ves.runs.evaluate import evaluate

    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise click.UsageError("Give at least one method, for example --method trace,uniform-64.")
    if address is not None and engine != "ray":
        raise click.UsageError("--address names a Ray cluster; add --engine ray.")
    loaded = load_bench(bench)
    warn(*loaded.warnings, *construction_warnings(bench, backbones))
    if loaded.outside:
        videos = ", ".join(loaded.outside[:3]) + (", …" if len(loaded.outside) > 3 else "")
        warn(f"the model will see videos outside the folder of the bench: {videos}")
    for spec in costs.prices.missing(spec for spec in backbones if not is_own_code(spec)):
        warn(f"{spec} has no price, so its cost is unknown; see --price and --prices")
    if costs.estimate_only:
        runs = [(name, spec) for spec in backbones for name in names]
        durations = [item.duration for item in loaded.items[:limit]]
        return costs.show_estimate(runs, durations, options, budget=budget, as_json=as_json)
    refuse_inputs([out], inputs=[costs.price_file])
    answer_engine: Engine | None = None
    if engine == "ray":
        from trace_ves.runs.ray_engine import answer_on_ray

        answer_engine = partial(answer_on_ray, workers=workers, address=address)
    with RunTable(costs.prices) as run_table:
        results = evaluate(
            loaded,
            names,
            backbones,
            out=out,
            budget=budget,
            limit=limit,
            workers=workers,
            engine=answer_engine,
            prices=costs.prices,
            watcher=run_table,
            cost_limit=costs.limit,
            refuse_dropped_frames=not allow_dropped_frames,
            **options,
        )
    if as_json:
        click.echo(json.dumps(results.to_json(), indent=2, ensure_ascii=False))
    else:
        _report(results, bench, out, questions=len(loaded.items[:limit]), full=full)
    warn(*results.warnings)
    if costs.limit is not None and costs.limit.stopped:
        click.echo(
            f"stopped: the run has cost {costs.limit}. Run the same command with a higher --max-cost to continue.",
            err=True,
        )
        return COST_REACHED
    return int(any(results.errors.values()))


def _report(results: Results, bench: Path, out: Path, *, questions: int, full: bool) -> None:
    """Print the main table of the audit, or all tables, and the commands that show more."""
    from trace_ves.cli.progress import output_console
    from trace_ves.cli.run_table import shorten_names
    from trace_ves.runs.cost import cost_table
    from trace_ves.ves.tables import tables
    from trace_ves.ves.terminal import print_report, print_table

    console = output_console()
    costs = cost_table(results.costs)
    if full:
        print_report(results.audit, console)
        print_table(shorten_names(costs), console)
        return
    main = shorten_names(tables(results.audit)[0])
    lines = {run.name: len(run.predictions) for run in results.runs}
    missing = [f"{name} {count} of {questions}" for name, count in lines.items() if count < questions]
    title = f"{main.title} (incomplete: {', '.join(missing)} questions answered)" if missing else main.title
    print_table(replace(main, title=title), console)
    note = f" {costs.note}" if costs.note else ""
    click.echo(f"More: --full prints every table; trace-ves view {out}; trace-ves audit {bench} {out}/*.jsonl.{note}")
