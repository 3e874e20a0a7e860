"""`trace-ves synth`: write the VES twin, a bench of drawn videos with the paper's evidence layout."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--questions", default=24, show_default=True, type=click.IntRange(2, 100_000), help="The paper's bench has 600."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="The same seed, the same twin.")
@click.option(
    "--hints",
    default=0.8,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="The share of acts with rest before and after them.",
)
@click.option(
    "--decoys",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0, 20),
    help="Rests elsewhere for each actor; with 0 hints and 0 decoys an event is a visit, as in version 0.1.0.",
)
@click.option("--videos/--no-videos", default=True, help="Without videos, for layout studies and the backbone lab.")
@click.option("--workers", default=2, show_default=True, type=click.IntRange(1, 256), help="Videos drawn at once.")
def command(*, out: Path, questions: int, seed: int, hints: float, decoys: float, videos: bool, workers: int) -> None:
    """Write the VES twin to the folder OUT: drawn videos, and questions with known answers and evidence.

    The same command continues where it was stopped. world.jsonl beside the questions tells all that is in the videos;
    no method may see it.
    """
    from trace_ves.cli.progress import LateProgress
    from trace_ves.synthetic.actors import Hints
    from trace_ves.synthetic.bench import make_twin, write_twin
    from trace_ves.synthetic.layout import FPS

    twin = make_twin(questions, seed, Hints(hints, decoys))
    with LateProgress() as progress:
        label = f"drawing {len(twin)} videos"
        write_twin(
            out, twin, videos=videos, workers=workers, on_progress=lambda done, total: progress(label, done, total)
        )
    hours = sum(video.world.frames for video in twin) / FPS / 3600
    written = f"{len(twin)} videos of {hours:.1f} hours" if videos else "no videos"
    click.echo(f"{out}: {questions} questions, {written}, seed {seed}.")
