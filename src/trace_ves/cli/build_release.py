"""`trace-ves build release`: give an absent annotator's assignments back to the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trace_ves.cli.build_common import folder_argument, opened

if TYPE_CHECKING:
    from pathlib import Path


@click.command("release")
@folder_argument
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def command(*, folder: Path, names: tuple[str, ...]) -> None:
    """Give what each NAME holds in the build in DIR back to the queue, so that others can judge it."""
    with opened(folder) as (project, store):
        from trace_ves.construction.assignments import AssignmentQueue
        from trace_ves.construction.item_index import ItemIndex

        queue = AssignmentQueue(store, ItemIndex(), project.settings)
        released = [
            held.item
            for held, who, _ in queue.held()
            if who in names and queue.release(held, who, by="build", reason="released by the operator")
        ]
    click.echo(f"{folder}: {', '.join(released) or 'nothing'} went back to the queue.")
