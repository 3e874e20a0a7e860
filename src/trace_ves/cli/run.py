"""`trace-ves run`: methods x questions, and at the end the audit of what they did and what it cost."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_ves.cli.options import SpecType, backbone_options, cost_options, subtitles_option, transcripts_option
from trace_ves.cli.process import sentence

if TYPE_CHECKING:
    from trace_ves.runs.evaluate import Results
    from trace_ves.runs.run import Engine


@click.command("run")
@click.argument("bench", type=click.Path(path_type=Path))
@click.option("--method", "methods", required=True, metavar="NAME,…", help="trace, uniform-64, vote-5, blind, avp, …")
@click.option(
    "--backbone",
    "backbones",
    required=True,
    multiple=True,
    type=SpecType(),
    metavar="SPEC",
    help="The model, for example gemini:MODEL; repeat for several.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The folder of run files.")
@click.option(
    "--workers", default=8, show_default=True, type=click.IntRange(1, 1024), help="Questions to run in parallel."
)
@click.option(
    "--engine",
    default="local",
    show_default=True,
    type=click.Choice(["local", "ray"]),
    help="Threads on this machine, or Ray.",
)
@click.option("--address", metavar="HOST:PORT", help="The Ray cluster; without it, this machine.")
@click.option("--budget", type=click.IntRange(1), metavar="N", help="Frames per question, for every method.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Run only the first N questions of the bench.")
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
    retry_errors: bool,
    allow_dropped_frames: bool,
    price_file: Path | None,
    price: str | None,
    estimate_only: bool,
    max_cost: float | None,
    subtitles: bool,
    transcripts: bool,
    full: bool,
    as_json: bool,
    **model_options: Any,
) -> int:
    """Answer the questions of BENCH with each method and each backbone.

    Finished questions are never asked again: the same command continues a run that was stopped. Name your own method or
    backbone as package.module:callable.
    """
    from trace_ves.backbone.registry import is_own_code
    from trace_ves.benches import load_bench
    from trace_ves.benches.bench import construction_warnings
    from trace_ves.cli.run_table import RunTable
    from trace_ves.runs.cost import CostLimit
    from trace_ves.runs.evaluate import evaluate
    from trace_ves.runs.prices import load_prices, parse_price

    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise click.UsageError("Give at least one method, for example --method trace,uniform-64.")
    if address is not None and engine != "ray":
        raise click.UsageError("--address names a Ray cluster; give --engine ray with it.")
    loaded = load_bench(bench)
    for warning in (*loaded.warnings, *construction_warnings(bench, backbones)):
        click.echo(sentence(f"warning: {warning}."), err=True)
    prices = load_prices(price_file).with_default(parse_price(price) if price else None)
    for spec in prices.missing(spec for spec in backbones if not is_own_code(spec)):
        click.echo(f"warning: {spec} has no price, so its cost is unknown; see --price and --prices.", err=True)
    if estimate_only:
        from trace_ves.cli.answer_panel import show_estimate

        runs = [(name, spec) for spec in backbones for name in names]
        durations = [item.duration for item in loaded.items[:limit]]
        return show_estimate(runs, durations, prices, model_options, budget=budget, as_json=as_json)
    answer: Engine | None = None
    if engine == "ray":
        from trace_ves.runs.ray_engine import answer_on_ray

        answer = partial(answer_on_ray, workers=workers, address=address)
    cost_limit = None if max_cost is None else CostLimit(max_cost, prices)
    with RunTable(prices) as table:
        found = evaluate(
            loaded,
            names,
            backbones,
            out=out,
            budget=budget,
            limit=limit,
            workers=workers,
            retry_errors=retry_errors,
            engine=answer,
            prices=prices,
            watcher=table,
            cost_limit=cost_limit,
            subtitles=subtitles,
            transcripts=transcripts,
            refuse_dropped_frames=not allow_dropped_frames,
            **model_options,
        )
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        _report(found, bench, out, questions=len(loaded.items[:limit]), full=full)
    for warning in found.warnings:
        click.echo(sentence(f"warning: {warning}."), err=True)
    if cost_limit is not None and cost_limit.stopped:
        click.echo(
            f"stopped: the run has cost ${cost_limit.spent:.4f}, and --max-cost is ${cost_limit.dollars:g}. Run the "
            "same command with a higher --max-cost to continue.",
            err=True,
        )
        return 3
    return int(any(found.errors.values()))


def _report(found: Results, bench: Path, out: Path, *, questions: int, full: bool) -> None:
    """Print the main table of the audit, or all of them, and where the rest is."""
    from rich.console import Console

    from trace_ves.cli.run_table import shorten_names
    from trace_ves.runs.cost import cost_table
    from trace_ves.ves.tables import tables
    from trace_ves.ves.terminal import print_report, print_table

    console = Console()
    console = console if console.is_terminal else Console(width=120)
    costs = cost_table(found.costs)
    if full:
        print_report(found.audit, console)
        print_table(shorten_names(costs), console)
        return
    main = shorten_names(tables(found.audit)[0])
    lines = {run.name: len(run.predictions) for run in found.runs}
    missing = [f"{name} {count} of {questions}" for name, count in lines.items() if count < questions]
    title = f"{main.title} (incomplete: {', '.join(missing)} questions answered)" if missing else main.title
    print_table(replace(main, title=title), console)
    spent = f" {costs.note}" if costs.note else ""
    click.echo(f"More: --full prints every table; trace-ves view {out}; trace-ves audit {bench} {out}/*.jsonl.{spent}")
