"""`trace-ves build export-intervals`: the items of a build for Label Studio, CVAT or ELAN."""

from __future__ import annotations

from pathlib import Path

import click

from trace_ves.cli.build_common import folder_argument, opened

TOOLS = ("label-studio", "cvat", "elan")


@click.command("export-intervals")
@folder_argument
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option("--for", "tool", required=True, type=click.Choice(TOOLS), help="The tool that will read the files.")
def command(*, folder: Path, out: Path, tool: str) -> None:
    """Write every item of the build in DIR, with the intervals that stand now, to the folder OUT for another tool.

    Each item is a label or a tier with its id. What is drawn there comes back by `build import-intervals`.
    """
    with opened(folder) as (project, store):
        from trace_ves.construction.foreign_intervals import export_intervals

        files = export_intervals(project, store.ledger(), out, tool)
    for file in files:
        click.echo(str(file))
