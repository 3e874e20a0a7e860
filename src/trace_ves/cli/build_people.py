"""`trace-ves build invite`, `revoke`, `assign`, `release` and `gold`: the people of a build and their assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trace_ves.cli.build import counted, folder_argument, open_queue, opened, text_option
from trace_ves.cli.options import file_type
from trace_ves.cli.process import warn
from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@click.command("invite")
@folder_argument
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--adjudicator", is_flag=True, help="They settle disagreements instead of annotating.")
@click.option("--operator", is_flag=True, help="They run the desk: people, stuck items, progress.")
def invite_command(*, folder: Path, names: tuple[str, ...], adjudicator: bool, operator: bool) -> None:
    """Let each NAME sign in at the desk, and print their tokens; each is shown once and never stored.

    A name that was invited before gets a new token, and the old one stops working.
    """
    if adjudicator and operator:
        raise click.UsageError("give either --adjudicator or --operator.")
    from trace_ves.construction.people import Role, invite

    with opened(folder) as (_, store):
        role = Role.ADJUDICATOR if adjudicator else Role.OPERATOR if operator else Role.ANNOTATOR
        for name in names:
            click.echo(f"{name}\t{invite(store, name, role)}")


@click.command("revoke")
@folder_argument
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--sessions", is_flag=True, help="End sessions, not access; without NAME, everyone's.")
def revoke_command(*, folder: Path, names: tuple[str, ...], sessions: bool) -> None:
    """End the access of each NAME to the desk of the build in DIR; what they judged stays."""
    if not names and not sessions:
        raise click.UsageError("say whose access ends, or give --sessions to end all sessions.")
    from trace_ves.construction.people import list_people, revoke, sign_out_everywhere

    with opened(folder) as (_, store):
        for name in names or [each.name for each in list_people(store.ledger())]:
            if sessions:
                sign_out_everywhere(store, name, "build")
                click.echo(f"{name}: all sessions have ended.")
            else:
                revoke(store, name)
                click.echo(f"{name}: cannot sign in any more.")


@click.command("assign")
@folder_argument
@click.argument("item")
@click.argument("name")
@text_option("--from", "instead_of", metavar="NAME", help="Take it from this annotator, who has it now.")
def assign_command(*, folder: Path, item: str, name: str, instead_of: str) -> None:
    """Give ITEM of the build in DIR to the annotator NAME, who finds it at the desk as their next assignment.

    The rules of the queue hold: no one gets an item they have judged or skipped, or a partial set of a video of which
    they have seen more.
    """
    from trace_ves.construction.people import RefusedError

    with opened(folder) as (project, store):
        try:
            given = open_queue(project, store).assign(item, name, by="build", instead_of=instead_of)
        except RefusedError as error:
            raise InputError(str(error)) from None
    click.echo(f"{folder}: {name} holds {given.item} ({given.stage.value.replace('-', ' ')}).")


@click.command("gold")
@folder_argument
@click.argument("file", metavar="FILE.jsonl", type=file_type)
def gold_command(*, folder: Path, file: Path) -> None:
    """Mix the items of FILE into the queue of the build in DIR, to measure how well annotators look.

    A line is a line of a bench whose video is in DIR, with "rationales": a sentence for each interval, written like
    those of the other items. A random half of them gets a wrong interval, unless a line says "accept": true or false.
    Gold items never appear in the exported bench.
    """
    from trace_ves.construction.gold import add_gold
    from trace_ves.construction.judged_item import list_all_items

    with opened(folder) as (project, store):
        right, wrong = add_gold(project, store, file)
        items = list_all_items(store.ledger())
    click.echo(f"{folder}: {counted(right, 'gold item')} to accept, {wrong} to reject.")
    if not project.settings.gold_share:
        warn("gold_share is 0 in build.toml, so annotators get no gold items")
    if alone := {each.proposal.video for each in items} - {each.proposal.video for each in items if each.gold is None}:
        names = ", ".join(sorted(alone)[:5])
        warn(f"annotators can recognise the gold items of {names}: no other item uses it")


@click.command("release")
@folder_argument
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def release_command(*, folder: Path, names: tuple[str, ...]) -> None:
    """Give what each NAME holds in the build in DIR back to the queue, so that others can judge it."""
    with opened(folder) as (project, store):
        queue = open_queue(project, store)
        released = [
            held.item
            for held, who, _ in queue.held()
            if who in names and queue.release(held, who, by="build", reason="released by the operator")
        ]
    click.echo(f"{folder}: {', '.join(released) or 'nothing'} went back to the queue.")
