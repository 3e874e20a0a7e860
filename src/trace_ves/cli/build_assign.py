"""`trace-ves build assign`: give an item to a person by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trace_ves.cli.build_common import folder_argument, opened
from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@click.command("assign")
@folder_argument
@click.argument("item")
@click.argument("name")
@click.option("--from", "instead_of", default="", metavar="NAME", help="Take it from this person, who holds it now.")
def command(*, folder: Path, item: str, name: str, instead_of: str) -> None:
    """Give ITEM of the build in DIR to the annotator NAME, who finds it at the desk as their next assignment.

    The rules of the queue hold: nobody is given what they have judged or skipped, or a partial set of a video of which
    they have seen more.
    """
    with opened(folder) as (project, store):
        from trace_ves.construction.assignments import AssignmentQueue, RefusedError
        from trace_ves.construction.item_index import ItemIndex

        queue = AssignmentQueue(store, ItemIndex(), project.settings)
        try:
            given = queue.assign(item, name, by="build", instead_of=instead_of)
        except RefusedError as error:
            raise InputError(str(error)) from None
    click.echo(f"{folder}: {name} holds {given.item} ({given.stage.value.replace('-', ' ')}).")
