"""`trace-ves build pack`: a build as one archive."""

from __future__ import annotations

from pathlib import Path

import click

from trace_ves.cli.build_common import folder_argument, opened


@click.command("pack")
@folder_argument
@click.argument("file", metavar="FILE.tar", type=click.Path(path_type=Path, dir_okay=False))
def command(*, folder: Path, file: Path) -> None:
    """Write the build in DIR, its footage and its whole history to FILE, to be moved to another machine.

    People may go on judging meanwhile; what they write afterwards is not in the archive.
    """
    from trace_ves.cli.progress import LateProgress

    with opened(folder) as (project, store), LateProgress() as progress:
        from trace_ves.construction.archive import pack

        count = pack(project, store, file, on_progress=lambda done, total: progress("videos", done, total))
    click.echo(f"{file}: {count} entries of the history, {file.stat().st_size / 1e6:.1f} MB.")
