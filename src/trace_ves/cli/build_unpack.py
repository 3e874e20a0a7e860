"""`trace-ves build unpack`: make a build out of an archive."""

from __future__ import annotations

from pathlib import Path

import click

from trace_ves.cli.build_common import needs_database


@click.command("unpack")
@click.argument("file", metavar="FILE.tar", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--database", default="", metavar="URL", help="postgresql://user@host/name; else a SQLite file in DIR.")
def command(*, file: Path, folder: Path, database: str) -> None:
    """Make the folder DIR a build again, as `build pack` wrote it to FILE."""
    with needs_database():
        from trace_ves.construction.archive import unpack
    project = unpack(file, folder, database=database)
    click.echo(f"{folder}: a build over {len(project.videos())} videos.")
