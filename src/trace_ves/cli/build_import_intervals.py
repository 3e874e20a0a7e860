"""`trace-ves build import-intervals`: intervals from Label Studio, CVAT or ELAN as proposals."""

from __future__ import annotations

from pathlib import Path

import click

from trace_ves.cli.build_common import folder_argument, opened


@click.command("import-intervals")
@folder_argument
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--video", default="", metavar="NAME", help="The footage that FILE is about, as in videos/a.mp4.")
@click.option(
    "--fps",
    type=click.FloatRange(min=0, min_open=True),
    help="The frame rate at which FILE counts frames, where it is not the video's own.",
)
@click.option("--question", default=None, help="What is asked about a label, with {label} in it.")
def command(*, folder: Path, file: Path, video: str, fps: float | None, question: str | None) -> None:
    """Propose the intervals of FILE, an export of Label Studio (JSON), CVAT (XML or annotations.json) or ELAN (.eaf).

    A label that is the id of an item of the build in DIR replaces its intervals, as long as nobody judges it; any other
    label becomes a question that counts. People verify both at the desk.
    """
    with opened(folder) as (project, store):
        from trace_ves.construction.foreign_intervals import QUESTION, import_intervals

        found = import_intervals(project, store, file, video=video, fps=fps, question=question or QUESTION)
    for sentence in found.refused:
        click.echo(f"warning: left out: {sentence}.", err=True)
    click.echo(
        f"{folder}: {len(found.proposed)} new items, {len(found.replaced)} with other intervals,"
        f" {found.unchanged} as they were."
    )
