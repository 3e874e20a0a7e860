"""`trace-ves build export`: the accepted items as a bench folder."""

from __future__ import annotations

from pathlib import Path

import click

from trace_ves.cli.build_common import folder_argument, opened


@click.command("export")
@folder_argument
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option("--force", is_flag=True, help="Replace the questions of an earlier export.")
def command(*, folder: Path, out: Path, force: bool) -> None:
    """Write the accepted items of the build in DIR to the folder OUT: a bench, ready for `trace-ves run`."""
    with opened(folder) as (project, store):
        from trace_ves.construction.export import export_bench

        count = export_bench(project, store.ledger(), out, force=force)
    click.echo(f"{out}: {count} questions.")
