"""`trace-ves build status`: how far a build is, who agrees with whom, what it cost, what it guarantees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from trace_ves.cli.build_common import cost_json, folder_argument, opened, prices_option, print_cost

if TYPE_CHECKING:
    from pathlib import Path


@click.command("status")
@folder_argument
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@prices_option
def command(*, folder: Path, as_json: bool, price_file: Path | None) -> None:
    """Show how many items of the build in DIR each stage rejected, what waits where, and what is guaranteed."""
    from rich.console import Console

    from trace_ves.report.terminal import print_table

    with opened(folder) as (project, store):
        from trace_ves.construction.assignments import AssignmentQueue
        from trace_ves.construction.item_index import ItemIndex
        from trace_ves.construction.next_step import next_steps
        from trace_ves.construction.report_table import facts, funnel_table
        from trace_ves.construction.reports import closure_statement, report

        ledger = store.ledger()
        items = ItemIndex()
        found = report(ledger, items, project.settings)
        steps = next_steps(ledger, items, AssignmentQueue(store, items, project.settings), str(folder))
    if as_json:
        click.echo(json.dumps(found.to_json() | {"next": steps, "cost": cost_json(ledger, price_file)}, indent=2))
        return
    console = Console()
    print_table(funnel_table(found), console if console.is_terminal else Console(width=120))
    for name, value in facts(found):
        click.echo(f"{name}: {value}")
    click.echo(f"\n{closure_statement(found)}\n")
    for step in steps:
        click.echo(f"Next: {step}")
    print_cost(ledger, price_file)
