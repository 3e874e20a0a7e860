"""`trace-ves build gold`: add items whose right judgement is known."""

from __future__ import annotations

from pathlib import Path

import click

from trace_ves.cli.build_common import folder_argument, opened


@click.command("gold")
@folder_argument
@click.argument("file", metavar="FILE.jsonl", type=click.Path(path_type=Path, dir_okay=False))
def command(*, folder: Path, file: Path) -> None:
    """Mix the items of FILE into the queue of the build in DIR, to see how well annotators look.

    A line is a line of a bench whose video lies in DIR. Every other item is made wrong by moving an interval, unless a
    line says "accept": true or false. They never come into the exported bench.
    """
    with opened(folder) as (project, store):
        from trace_ves.construction.gold import add_gold

        right, wrong = add_gold(project, store, file)
    click.echo(f"{folder}: {right} gold items to be accepted, {wrong} to be rejected.")
    if not project.settings.gold_share:
        click.echo("warning: gold_share is 0 in build.toml, so nobody will be given one.", err=True)
