"""`trace-ves build invite`: let a person sign in at the desk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trace_ves.cli.build_common import folder_argument, opened

if TYPE_CHECKING:
    from pathlib import Path


@click.command("invite")
@folder_argument
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--adjudicator", is_flag=True, help="They settle disagreements instead of annotating.")
@click.option("--operator", is_flag=True, help="They run the desk: people, stuck items, progress.")
def command(*, folder: Path, names: tuple[str, ...], adjudicator: bool, operator: bool) -> None:
    """Let each NAME sign in at the desk, and print their tokens; each is shown once and never stored.

    Somebody who was invited before gets a new token, and the old one ends.
    """
    if adjudicator and operator:
        raise click.UsageError("give either --adjudicator or --operator.")
    with opened(folder) as (_, store):
        from trace_ves.construction.people import Role, invite

        role = Role.ADJUDICATOR if adjudicator else Role.OPERATOR if operator else Role.ANNOTATOR
        for name in names:
            click.echo(f"{name}\t{invite(store, name, role)}")
