"""Commands around a bench: `import`, `synth`, `frames` and `release`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_ves.cli.options import (
    FiniteRange,
    count_type,
    fetch_options,
    file_type,
    folder_type,
    local_video,
    path_type,
    seed_type,
    video_type,
)
from trace_ves.cli.process import warn
from trace_ves.core.display import count_words
from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from trace_ves.benches import Bench
    from trace_ves.video.download import FetchRules


@click.command(name="import")
@click.argument("benchmark")
@click.argument("source", type=path_type)
@click.argument("out", type=path_type)
@click.option("--strict", is_flag=True, help="Stop at the first row with a problem instead of leaving it out.")
@click.option("--force", is_flag=True, help="Overwrite an existing bench.")
@click.option("--columns", metavar="FIELD=COLUMN,…", help="ves-bench: the column of each field.")
@click.option("--grounding", type=path_type, help="next-gqa: the json with the grounded segments.")
def import_command(
    *, benchmark: str, source: Path, out: Path, strict: bool, force: bool, **options: str | Path | None
) -> None:
    """Convert the annotation file SOURCE of a benchmark to the bench OUT.

    BENCHMARK is cg-bench, eg-vqa, longvideobench, lvbench, next-gqa, qvhighlights, rextime, ves-bench, video-mme,
    video-mme-v2, a mapping file (.toml) that names the column of each field, or your own importer as
    package.module:callable. OUT is a folder or a .jsonl file. Nothing is downloaded; put the videos in OUT/videos.
    """
    from trace_ves.benches.bench import bench_file, write_bench
    from trace_ves.benches.importers import import_bench
    from trace_ves.core.files import refuse_inputs

    importer_options = {name: value for name, value in options.items() if value is not None}
    bench = import_bench(benchmark, source, strict=strict, **importer_options)
    mapping = [Path(benchmark)] if benchmark.endswith(".toml") else []
    files = [value for value in importer_options.values() if isinstance(value, Path)]
    refuse_inputs({out, bench_file(out)}, inputs=[source, *mapping, *files])
    file = write_bench(bench.items, out, force=force)
    warn(*bench.warnings)
    click.echo(summarise_import(bench, file))


def summarise_import(bench: Bench, file: Path) -> str:
    """What was written and what was left out, in one or two lines."""
    with_evidence = sum(bool(item.evidence) for item in bench.items)
    videos = len({item.question.video for item in bench.items})
    questions = f"{_count(len(bench.items), 'question')} on {_count(videos, 'video')}"
    text = f"{file}: {questions}, {with_evidence} with evidence intervals."
    if with_evidence == 0:
        text += " Without evidence, an audit scores only the answers."
    if bench.left_out:
        text += f" {_count(len(bench.left_out), 'question', ' was', ' were')} left out."
    if without_evidence := sum(problem.kept for problem in bench.problems):
        text += f" {_count(without_evidence, 'question', ' was', ' were')} kept without their evidence."
    return text


def _count(number: int, word: str, one: str = "", many: str = "") -> str:
    return f"{number} {word}{one}" if number == 1 else f"{number} {word}s{many}"


@click.command("synth")
@click.argument("out", type=folder_type)
@click.option("--questions", default=24, type=click.IntRange(2, 100_000), help="The paper's bench has 600.")
@click.option("--seed", default=0, type=seed_type, help="The same seed gives the same bench.")
@click.option(
    "--hints", default=0.8, type=FiniteRange(0, 1), help="Share of events with a pause before and after them."
)
@click.option(
    "--decoys", default=2.0, type=FiniteRange(0, 20), help="Average number of misleading pauses for each actor."
)
@click.option(
    "--videos/--no-videos", default=True, help="Write the videos; without them, only the lab backbone can answer."
)
@click.option("--workers", default=2, type=click.IntRange(1, 256), help="Number of videos to draw in parallel.")
def synth_command(
    *, out: Path, questions: int, seed: int, hints: float, decoys: float, videos: bool, workers: int
) -> None:
    """Generate a small synthetic benchmark in the folder OUT: videos, questions, answers and evidence.

    Run the same command again to continue after an interruption. world.jsonl describes everything in the videos;
    methods never see it.
    """
    from trace_ves.cli.progress import LateProgress
    from trace_ves.twin.synthetic.bench import make_twin, write_twin
    from trace_ves.twin.synthetic.layout import FPS
    from trace_ves.twin.synthetic.world import Hints

    twin = make_twin(questions, seed, Hints(hints, decoys))
    with LateProgress() as progress:
        label = f"drawing {count_words(len(twin), 'video')}"
        write_twin(out, twin, videos=videos, workers=workers, on_progress=partial(progress, label))
    hours = sum(video.world.frames for video in twin) / FPS / 3600
    written = f"{count_words(len(twin), 'video')} ({hours:.1f} hours)" if videos else "no videos"
    click.echo(f"{out}: {questions} questions, {written}, seed {seed}.")


def _parse_moment(value: str) -> float:
    """Parse a moment: seconds, M:SS or H:MM:SS, as in 75.5, 1:15.5 or 0:01:15.5."""
    from trace_ves.benches.importing import clock_seconds

    if not re.fullmatch(r"(\d{1,9}:)?(\d{1,9}:)?\d{1,9}(\.\d{1,9})?", value, re.ASCII):
        raise click.BadParameter(f"{value[:40]!r} is not a time; write seconds, M:SS or H:MM:SS, such as 1:15.5.")
    if any(float(part) >= 60 for part in value.split(":")[1:]):
        raise click.BadParameter(f"{value!r} is not a time: numbers after a colon must be below 60.")
    return clock_seconds(value)


@click.command("frames", options_metavar="[OPTIONS]")
@click.argument("source", metavar="RUN|VIDEO", type=video_type)
@click.argument("rest", metavar="[QUESTION] OUT", nargs=-1, required=True)
@click.option("--bench", type=path_type, help="The bench. Default: the one that the run was made on.")
@click.option(
    "--at",
    "moments",
    type=_parse_moment,
    metavar="TEXT",
    multiple=True,
    help="A moment in the video, such as 75.5 or 1:15.5; repeatable.",
)
@click.option("--height", type=count_type, help="Maximum height of the pictures in pixels; only with --at.")
@fetch_options
def frames_command(
    *,
    source: Path | str,
    rest: tuple[str, ...],
    bench: Path | None,
    moments: tuple[float, ...],
    height: int | None,
    fetch_rules: FetchRules,
) -> None:
    """Write the frames that RUN looked at for QUESTION to the folder OUT.

    The video must have the checksum that the run recorded. With --at, write the frames of VIDEO at these moments
    instead; no run is needed, and VIDEO may be an http(s) address.
    """
    if moments:
        if len(rest) != 1 or bench is not None:
            raise click.UsageError("With --at, give a video and a folder: trace-ves frames VIDEO --at 12.5 OUT")
        _write_moments(local_video(source, fetch_rules), moments, height, Path(rest[0]))
        return
    if not isinstance(source, Path):
        raise click.UsageError("A run must be a file; for the address of a video, add --at SECONDS.")
    if len(rest) != 2:
        raise click.UsageError("Give a run, a question and a folder; or a video and a folder, with --at SECONDS.")
    if height is not None:
        raise click.UsageError("--height needs --at; the frames of a run have their recorded heights.")
    _write_question(source, rest[0], bench, Path(rest[1]))


def _write_question(run_file: Path, question: str, bench: Path | None, out: Path) -> None:
    from trace_ves.benches import load_bench
    from trace_ves.runs.logged_frames import find_bench, find_prediction, write_frames
    from trace_ves.ves import load_run

    prediction = find_prediction(load_run(run_file), question)
    loaded = load_bench(bench or find_bench(run_file))
    item = next((item for item in loaded.items if item.question.id == question), None)
    if item is None or loaded.path is None:
        raise InputError(f"{loaded.path}: no question {question!r} in this bench.")
    written = write_frames(prediction, loaded.path.parent / item.question.video, out)
    source = f"{written.calls} calls" if written.calls else "the run's timestamps"
    click.echo(f"{written.pictures} pictures of {source} are in {written.folder}; frames.csv names each.")
    if not written.checked:
        warn("the run recorded no checksum, so this may be a different video")
    warn(*written.warnings)


def _write_moments(path: Path, moments: Sequence[float], height: int | None, out: Path) -> None:
    from trace_ves import video
    from trace_ves.runs.logged_frames import write_moments

    with video.open(path) as opened:
        for moment, name in zip(moments, write_moments(opened, moments, height, out), strict=True):
            click.echo(f"{moment:g} s: {out / name}")
        warn(*opened.warnings)


@click.command("release")
@click.argument("paths", metavar="BENCH RUN… OUT", nargs=-1, type=path_type)
@click.option("--videos", "with_videos", is_flag=True, help="Include the videos.")
@click.option("--license", "license_file", type=file_type, help="A file with your licence note.")
@click.option("--check", "check_only", is_flag=True, help="Verify a release: trace-ves release --check FOLDER.")
def release_command(*, paths: tuple[Path, ...], with_videos: bool, license_file: Path | None, check_only: bool) -> int:
    """Pack BENCH and each RUN into the new folder OUT, with observation logs, checksums and licence notes."""
    if check_only:
        if len(paths) != 1:
            raise click.UsageError("--check needs one folder.")
        from trace_ves.ves.release import check_release

        count, problems = check_release(paths[0])
        for problem in problems:
            click.echo(problem, err=True)
        click.echo(f"{count - len(problems)} of {count} files are unchanged since the release.")
        return 1 if problems else 0
    if len(paths) < 2:
        raise click.UsageError("Give a bench, the runs and a new folder: trace-ves release BENCH RUN… OUT.")
    from importlib.resources import files

    from trace_ves.benches import load_bench
    from trace_ves.ves import load_runs
    from trace_ves.ves.release import make_release

    bench, *runs, out = paths
    loaded = load_bench(bench)
    note = (license_file or files("trace_ves.ves").joinpath("license.md")).read_bytes().decode("utf-8", "replace")
    count, missing = make_release(loaded, load_runs(runs), out, with_videos=with_videos, license_note=note)
    videos = {item.question.video for item in loaded.items}
    placed = "included" if with_videos else "named but not included"
    click.echo(f"{out}: {count} files, {count_words(len(videos), 'video')} {placed}.")
    if missing:
        names = ", ".join([*missing[:3], *(["…"] if len(missing) > 3 else [])])
        warn(f"{len(missing)} of the videos are not on this machine ({names})")
    if license_file is None:
        click.echo(f"fill in {out / 'LICENSE.md'} before you publish, or give --license.", err=True)
    return 0
