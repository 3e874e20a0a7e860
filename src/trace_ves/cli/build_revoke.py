"""`trace-ves build revoke`: end a person's access to the desk, or only their sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trace_ves.cli.build_common import folder_argument, opened

if TYPE_CHECKING:
    from pathlib import Path


@click.command("revoke")
@folder_argument
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--sessions", is_flag=True, help="End sessions, not access; without NAME, those of everybody.")
def command(*, folder: Path, names: tuple[str, ...], sessions: bool) -> None:
    """End the access of each NAME to the desk of the build in DIR; what they judged stays."""
    if not names and not sessions:
        raise click.UsageError("say whose access ends, or give --sessions to end everybody's sessions.")
    with opened(folder) as (_, store):
        from trace_ves.construction.people import people, revoke, sign_out_everywhere

        for name in names or [each.name for each in people(store.ledger())]:
            if sessions:
                sign_out_everywhere(store, name, "build")
                click.echo(f"{name}: all sessions have ended.")
            else:
                revoke(store, name)
                click.echo(f"{name}: cannot sign in any more.")
