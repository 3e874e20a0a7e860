"""`trace-ves build init`: make a folder with footage a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trace_ves.cli.build_common import folder_argument, needs_database

if TYPE_CHECKING:
    from pathlib import Path


@click.command("init")
@folder_argument
@click.option("--database", default="", metavar="URL", help="postgresql://user@host/name; else a SQLite file in DIR.")
@click.option("--audited", multiple=True, metavar="SPEC", help="A backbone that the bench will audit; may be repeated.")
@click.option(
    "--gold-share",
    default=0.1,
    show_default=True,
    type=click.FloatRange(0, 0.5),
    help="Share of the assignments that are gold items of `build gold`.",
)
@click.option(
    "--allow-not-blind",
    is_flag=True,
    help="Let who saw other clips of a video judge its partial sets where nobody else is left; the report counts it.",
)
def command(*, folder: Path, database: str, audited: tuple[str, ...], gold_share: float, allow_not_blind: bool) -> None:
    """Make DIR a build: its footage must lie in DIR/videos.

    Name with --audited the backbones that the finished bench will be used on: no stage should use one of them, and
    every command warns where one does.
    """
    with needs_database():
        from trace_ves.construction.project import create_project
    project = create_project(
        folder, database=database, audited=audited, gold_share=gold_share, allow_not_blind=allow_not_blind
    )
    click.echo(f"{folder}: created a build over {len(project.videos())} videos.")
    click.echo(f"Next: trace-ves build propose {folder} --captioner SPEC --proposer SPEC", err=True)
