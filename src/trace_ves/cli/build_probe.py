"""`trace-ves build probe`: stage 3, a vision model answers without each interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trace_ves.cli.build_common import backbone_for, folder_argument, opened, prices_option, print_cost

if TYPE_CHECKING:
    from pathlib import Path


@click.command("probe")
@folder_argument
@click.option("--backbone", "spec", required=True, metavar="SPEC", help="A vision model that proposed nothing here.")
@click.option("--cache/--no-cache", default=None, help="Use answers paid for before; on for paid backbones.")
@prices_option
def command(*, folder: Path, spec: str, cache: bool | None, price_file: Path | None) -> None:
    """Ask a vision model about every verified item of DIR, from its evidence without each interval in turn."""
    from trace_ves.cli.progress import LateProgress

    with opened(folder) as (project, store), LateProgress() as progress:
        from trace_ves.construction.probing import dependence_warning, probe_leave_one_out

        if (warning := dependence_warning(store.ledger(), spec)) is not None:
            click.echo(f"warning: {warning}.", err=True)
        backbone = backbone_for(project, spec, "the leave-one-out probe", cache=cache)
        count = probe_leave_one_out(
            project, store, backbone, on_progress=lambda done, total: progress("items without an interval", done, total)
        )
        ledger = store.ledger()
    print_cost(ledger, price_file)
    click.echo(f"{folder}: {count} items were asked about without each of their intervals.")
