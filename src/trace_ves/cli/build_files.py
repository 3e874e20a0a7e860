"""`trace-ves build export`, `pack`, `unpack` and the exchange of intervals with Label Studio."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from trace_ves.cli.build import counted, database_option, folder_argument, new_folder_argument, opened, text_option
from trace_ves.cli.options import file_type, folder_type, positive_type
from trace_ves.cli.process import warn
from trace_ves.cli.progress import LateProgress


@click.command("export")
@folder_argument
@click.argument("out", type=folder_type)
@click.option("--force", is_flag=True, help="Replace the questions of an earlier export.")
def export_command(*, folder: Path, out: Path, force: bool) -> None:
    """Write the accepted items of the build in DIR to the folder OUT: a bench, ready for `trace-ves run`."""
    from trace_ves.construction.export import export_bench

    with opened(folder) as (project, store):
        count = export_bench(project, store.ledger(), out, force=force)
    click.echo(f"{out}: {count} questions.")


@click.command("export-intervals")
@folder_argument
@click.argument("out", type=folder_type)
@click.option(
    "--for", type=click.Choice(["label-studio"]), expose_value=False, help="The tool that will read the files."
)
def export_intervals_command(*, folder: Path, out: Path) -> None:
    """Write every item of the build in DIR, with its present intervals, to the folder OUT for Label Studio.

    Each item is a label with its id. Import the result with `build import-intervals`.
    """
    from trace_ves.construction.interchange import export_intervals

    with opened(folder) as (project, store):
        files = export_intervals(project, store.ledger(), out)
    for file in files:
        click.echo(str(file))


@click.command("import-intervals")
@folder_argument
@click.argument("file", type=file_type)
@text_option("--video", metavar="NAME", help="The footage that FILE is about, as in videos/a.mp4.")
@click.option(
    "--fps",
    type=positive_type,
    help="The frame rate at which FILE counts frames, if it is not the video's own.",
)
@click.option("--question", default=None, help="The question about a label, with {label} in it.")
def import_intervals_command(*, folder: Path, file: Path, video: str, fps: float | None, question: str | None) -> None:
    """Propose the intervals of FILE, a JSON export of Label Studio.

    A label that is the id of an item of the build in DIR replaces its intervals, as long as no one has judged it. Any
    other label becomes a counting question. Annotators verify both at the desk.
    """
    from trace_ves.construction.interchange import QUESTION, import_intervals

    with opened(folder) as (project, store):
        result = import_intervals(project, store, file, video=video, fps=fps, question=question or QUESTION)
    warn(*(f"left out: {reason}" for reason in result.refused))
    click.echo(
        f"{folder}: {len(result.proposed)} new items, {len(result.replaced)} with other intervals,"
        f" {result.unchanged} as they were."
    )


@click.command("pack")
@folder_argument
@click.argument("file", metavar="FILE.tar", type=file_type)
def pack_command(*, folder: Path, file: Path) -> None:
    """Write the build in DIR with its videos and history to FILE, for another machine.

    Annotators can keep working; judgements made after the start are not in the archive.
    """
    from trace_ves.construction.export import pack

    with opened(folder) as (project, store), LateProgress() as progress:
        count = pack(project, store, file, on_progress=partial(progress, "videos"))
    click.echo(f"{file}: {count} entries of the history, {file.stat().st_size / 1e6:.1f} MB.")


@click.command("unpack")
@click.argument("file", metavar="FILE.tar", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@new_folder_argument
@database_option
def unpack_command(*, file: Path, folder: Path, database: str) -> None:
    """Create the build DIR from FILE, an archive of `build pack`.

    People invited to the archived build keep their access: revoke it before you serve a build that someone else packed.
    """
    from trace_ves.construction.export import unpack
    from trace_ves.construction.people import list_people

    project = unpack(file, folder, database=database)
    click.echo(f"{folder}: a build over {counted(len(project.videos()), 'video')}.")
    store = project.open_store()
    names = [each.name for each in list_people(store.ledger()) if each.token_sha256]
    store.close()
    if names:
        click.echo(f"note: {', '.join(names)} can sign in with the tokens of the packed build.", err=True)
