"""`trace-ves frames`: the very pictures that a line of a run names."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("run_file", metavar="RUN", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("question")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option("--bench", type=click.Path(path_type=Path), help="The bench; by default the one the run was made on.")
def command(*, run_file: Path, question: str, out: Path, bench: Path | None) -> None:
    """Write the frames that RUN looked at for QUESTION to the folder OUT, from the source video.

    A video whose checksum is not the one that the run noted is refused.
    """
    from trace_ves.benchmarks import load_bench
    from trace_ves.core.errors import InputError
    from trace_ves.running.logged_frames import bench_of, prediction_of, write_frames
    from trace_ves.ves import load_run

    prediction = prediction_of(load_run(run_file), question)
    loaded = load_bench(bench or bench_of(run_file))
    item = next((item for item in loaded.items if item.question.id == question), None)
    if item is None or loaded.path is None:
        raise InputError(f"{loaded.path}: no question {question!r} in this bench.")
    written = write_frames(prediction, loaded.path.parent / item.question.video, out)
    click.echo(f"{written.pictures} pictures of {written.calls} calls are in {written.folder}; frames.csv names each.")
    if not written.checked:
        click.echo("warning: the run noted no checksum, so this may be another video.", err=True)
