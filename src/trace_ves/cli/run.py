"""`trace-ves run`: methods x questions, and at the end the audit of what they did and what it cost."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trace_ves.running.results import Results
    from trace_ves.running.run import Engine


@click.command()
@click.argument("bench", type=click.Path(path_type=Path))
@click.option("--method", "methods", required=True, metavar="NAME,…", help="trace, uniform-64, vote-5, blind, avp, …")
@click.option(
    "--backbone", "backbones", required=True, multiple=True, metavar="SPEC", help="May be given several times."
)
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The folder of run files.")
@click.option("--workers", default=8, show_default=True, type=click.IntRange(1, 1024), help="Questions at once.")
@click.option(
    "--engine", default="local", show_default=True, type=click.Choice(["local", "ray"]), help="What runs them."
)
@click.option("--address", metavar="HOST:PORT", help="The Ray cluster; without it, this machine.")
@click.option("--budget", type=click.IntRange(1), help="Supplied frames a question may cost, for every method.")
@click.option("--limit", type=click.IntRange(1), help="Only the first questions of the bench.")
@click.option("--retry-errors", is_flag=True, help="Ask again what ended in an error.")
@click.option("--cache/--no-cache", default=None, help="Use answers paid for before; on for paid backbones.")
@click.option("--temperature", type=click.FloatRange(0, 2), help="Of the backbone; its own by default.")
@click.option("--prices", "price_file", type=click.Path(path_type=Path, dir_okay=False), help="TOML of token prices.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(
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
    price_file: Path | None,
    as_json: bool,
    **backbone_options: Any,
) -> int:
    """Answer the questions of BENCH with each method and each backbone.

    What is finished is never asked again: the same command continues a run that was stopped. Somebody's own method
    or backbone is named as package.module:callable.
    """
    from rich.console import Console

    from trace_ves.benchmarks import load_bench
    from trace_ves.construction.overlap import warnings_of_bench
    from trace_ves.cost.prices import load_prices
    from trace_ves.running.job import Job, Settings
    from trace_ves.running.live_table import LiveTable
    from trace_ves.running.results import results
    from trace_ves.running.run import run

    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise click.UsageError("Give at least one method, for example --method trace,uniform-64.")
    if address is not None and engine != "ray":
        raise click.UsageError("--address names a Ray cluster; give --engine ray with it.")
    loaded = load_bench(bench)
    for problem in loaded.problems:
        click.echo(f"warning: {problem}.", err=True)
    for sentence in warnings_of_bench(bench, backbones):
        click.echo(f"warning: {sentence}.", err=True)
    prices = load_prices(price_file)
    jobs = [Job(name, spec, budget) for spec in dict.fromkeys(backbones) for name in dict.fromkeys(names)]
    with LiveTable(Console(stderr=True), prices) as table:
        paths = run(
            loaded,
            jobs,
            out,
            _engine(engine, workers, address),
            settings=Settings(_options(backbone_options, workers), open_videos=workers),
            limit=limit,
            retry_errors=retry_errors,
            watcher=table,
        )
    return _report(results(loaded, paths, prices, limit=limit), as_json=as_json)


def _engine(name: str, workers: int, address: str | None) -> Engine:
    from trace_ves.running.local_engine import answer_locally
    from trace_ves.running.ray_engine import answer_on_ray

    engines: dict[str, Engine] = {
        "local": partial(answer_locally, workers=workers),
        "ray": partial(answer_on_ray, workers=workers, address=address),
    }
    return engines[name]


def _options(given: Mapping[str, Any], workers: int) -> dict[str, Any]:
    """Every worker may have a call under way, and a batch of calls may go out at once."""
    return {"concurrency": max(8, workers), **given}


def _report(found: Results, *, as_json: bool) -> int:
    """Print the audit, or accuracy alone where a bench has no evidence, and the cost by stage.

    The exit status is 1 where questions ended in an error, so that a script can tell.
    """
    from rich.console import Console

    from trace_ves.cost.run_cost import cost_table
    from trace_ves.report.terminal import print_report, print_table

    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        console = Console()
        console = console if console.is_terminal else Console(width=120)
        print_report(found.report, console)
        print_table(cost_table(found.costs), console)
    failed = [f"{count} of {name}" for name, count in found.errors.items() if count]
    if failed:
        listed = ", ".join(failed)
        click.echo(f"warning: questions that ended in an error: {listed}; --retry-errors asks them again.", err=True)
    return int(bool(failed))
