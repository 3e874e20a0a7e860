"""Commands around a bench: `import`, `synth`, `frames` and `release`."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_ves.cli.video_argument import VideoArgument, fetch_options, local_video
from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.benches import Bench
    from trace_ves.video.download import FetchRules


@click.command(name="import")
@click.argument("benchmark")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Refuse a file with dirty rows instead of leaving them out.")
@click.option("--force", is_flag=True, help="Replace a bench that is already there.")
@click.option("--columns", metavar="FIELD=COLUMN,…", help="ves-bench: which column is which field.")
@click.option(
    "--manifest",
    "manifest_file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Also write which videos the bench needs, and which are there, one JSON object per line (- prints them).",
)
@click.option("--grounding", type=click.Path(path_type=Path), help="next-gqa: the json with the grounded segments.")
def import_command(
    *,
    benchmark: str,
    source: Path,
    out: Path,
    strict: bool,
    force: bool,
    manifest_file: Path | None,
    **options: str | Path | None,
) -> None:
    """Turn the annotation file SOURCE of a published benchmark into the bench OUT.

    BENCHMARK is cg-bench, longvideobench, lvbench, next-gqa, ves-bench, video-mme, a mapping file that ends with .toml
    and says which column is which field, or your own importer as package.module:callable. OUT is a folder, or a file
    that ends with .jsonl. Nothing is downloaded; videos go under OUT/videos.
    """
    from trace_ves.benches.bench import bench_file, manifest, summary, write_bench
    from trace_ves.benches.importers import import_bench
    from trace_ves.core.files import refuse_inputs, write_output
    from trace_ves.core.jsonl import dump_line

    given = {name: value for name, value in options.items() if value is not None}
    bench = import_bench(benchmark, source, strict=strict, **given)
    mapping = [Path(benchmark)] if benchmark.endswith(".toml") else []
    files = [value for value in given.values() if isinstance(value, Path)]
    refuse_inputs([bench_file(out), manifest_file], inputs=[source, *mapping, *files])
    file = write_bench(bench.items, out, force=force)
    for warning in bench.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(summarise_import(bench, file), err=str(manifest_file) == "-")
    if manifest_file is not None:
        videos = manifest(bench.items, file.parent)
        text = "".join(dump_line(video.to_json()).decode() for video in videos)
        if str(manifest_file) == "-":
            click.echo(text, nl=False)
        else:
            write_output(manifest_file, text)
        click.echo(f"{file}: {summary(videos)}", err=True)


def summarise_import(bench: Bench, file: Path) -> str:
    """What was written, and what was not, in one or two lines."""
    with_evidence = sum(bool(item.evidence) for item in bench.items)
    videos = len({item.question.video for item in bench.items})
    text = f"{file}: {len(bench.items)} questions on {videos} videos, {with_evidence} with evidence intervals."
    if with_evidence == 0:
        text += " Without evidence, an audit can score the answers alone."
    if bench.left_out:
        text += f" {len(bench.left_out)} questions were left out."
    if dropped := sum(problem.kept for problem in bench.problems):
        text += f" {dropped} questions were kept without their evidence."
    return text


@click.command("synth")
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
def synth_command(
    *, out: Path, questions: int, seed: int, hints: float, decoys: float, videos: bool, workers: int
) -> None:
    """Write the VES twin to the folder OUT: drawn videos, and questions with known answers and evidence.

    The same command continues where it was stopped. world.jsonl beside the questions tells all that is in the videos;
    no method may see it.
    """
    from trace_ves.cli.progress import LateProgress
    from trace_ves.twin.synthetic.actors import Hints
    from trace_ves.twin.synthetic.bench import make_twin, write_twin
    from trace_ves.twin.synthetic.layout import FPS

    twin = make_twin(questions, seed, Hints(hints, decoys))
    with LateProgress() as progress:
        label = f"drawing {len(twin)} videos"
        write_twin(
            out, twin, videos=videos, workers=workers, on_progress=lambda done, total: progress(label, done, total)
        )
    hours = sum(video.world.frames for video in twin) / FPS / 3600
    written = f"{len(twin)} videos of {hours:.1f} hours" if videos else "no videos"
    click.echo(f"{out}: {questions} questions, {written}, seed {seed}.")


def _moment(value: str) -> float:
    """A moment as seconds, or minutes and seconds, or hours, minutes and seconds: 75.5, 1:15.5, 0:01:15.5."""
    if not re.fullmatch(r"(\d+:)?(\d+:)?\d+(\.\d+)?", value, re.ASCII):
        raise click.BadParameter(f"{value!r} is no time; give seconds, M:SS or H:MM:SS, such as 75.5 or 1:15.5.")
    seconds = 0.0
    for place, part in enumerate(value.split(":")):
        if place and float(part) >= 60:
            raise click.BadParameter(f"{value!r} is no time: after a colon, numbers are below 60.")
        seconds = 60 * seconds + float(part)
    if not math.isfinite(seconds):
        raise click.BadParameter(f"{value[:20]}… is too large.")
    return seconds


@click.command("frames", options_metavar="[OPTIONS]")
@click.argument("source", metavar="RUN|VIDEO", type=VideoArgument())
@click.argument("rest", metavar="[QUESTION] OUT", nargs=-1, required=True)
@click.option("--bench", type=click.Path(path_type=Path), help="The bench; by default the one the run was made on.")
@click.option(
    "--at",
    "moments",
    type=_moment,
    metavar="TEXT",
    multiple=True,
    help="A moment of a video, as 75.5 or 1:15.5; repeatable.",
)
@click.option("--height", type=click.IntRange(min=1), help="Rows of the pictures at most; with --at.")
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
    """Write the frames that RUN looked at for QUESTION to the folder OUT, from the source video.

    A video whose checksum is not the one that the run noted is refused. With --at, write the frames of VIDEO that are
    on screen at these moments; no run is needed, and VIDEO may be an http(s) address.
    """
    if moments:
        if len(rest) != 1 or bench is not None:
            raise click.UsageError("with --at, give a video and a folder: trace-ves frames VIDEO --at 12.5 OUT")
        _write_moments(local_video(source, fetch_rules), moments, height, Path(rest[0]))
        return
    if not isinstance(source, Path):
        raise click.UsageError("an address is fetched with --at SECONDS alone; a run is a file")
    if len(rest) != 2:
        raise click.UsageError("give a run, a question and a folder; or a video and a folder, with --at SECONDS")
    if height is not None:
        raise click.UsageError("--height goes with --at; the frames of a run have the heights that it noted")
    _write_question(source, rest[0], bench, Path(rest[1]))


def _write_question(run_file: Path, question: str, bench: Path | None, out: Path) -> None:
    from trace_ves.benches import load_bench
    from trace_ves.runs.logged_frames import bench_of, prediction_of, write_frames
    from trace_ves.ves import load_run

    prediction = prediction_of(load_run(run_file), question)
    loaded = load_bench(bench or bench_of(run_file))
    item = next((item for item in loaded.items if item.question.id == question), None)
    if item is None or loaded.path is None:
        raise InputError(f"{loaded.path}: no question {question!r} in this bench.")
    written = write_frames(prediction, loaded.path.parent / item.question.video, out)
    source = f"{written.calls} calls" if written.calls else "the run's timestamps"
    click.echo(f"{written.pictures} pictures of {source} are in {written.folder}; frames.csv names each.")
    if not written.checked:
        click.echo("warning: the run noted no checksum, so this may be another video.", err=True)
    _warn(written.warnings)


def _write_moments(path: Path, moments: Sequence[float], height: int | None, out: Path) -> None:
    from trace_ves import video
    from trace_ves.runs.logged_frames import empty_folder, write_moments

    with video.open(path) as opened:
        for asked, name in zip(moments, write_moments(opened, moments, height, empty_folder(out)), strict=True):
            click.echo(f"{asked:g} s: {out / name}")
        _warn(opened.warnings)


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        click.echo(f"warning: {warning}.", err=True)


@click.command("release")
@click.argument("paths", metavar="BENCH RUN… OUT", nargs=-1, type=click.Path(path_type=Path))
@click.option("--videos", "with_videos", is_flag=True, help="Pack the videos too.")
@click.option("--license", "license_file", type=click.Path(path_type=Path, dir_okay=False), help="Your licence note.")
@click.option("--check", "check_only", is_flag=True, help="Check a release instead: trace-ves release --check FOLDER.")
def release_command(*, paths: tuple[Path, ...], with_videos: bool, license_file: Path | None, check_only: bool) -> int:
    """Pack BENCH and each RUN into the new folder OUT: annotations, observation logs, checksums, licence notes."""
    if check_only:
        if len(paths) != 1:
            raise click.UsageError("--check takes one folder.")
        return _check(paths[0])
    if len(paths) < 2:
        raise click.UsageError("Give a bench, the runs, and the folder to make: trace-ves release BENCH RUN… OUT.")
    from trace_ves.benches import load_bench
    from trace_ves.ves import load_runs
    from trace_ves.ves.release import make_release

    bench, *runs, out = paths
    loaded = load_bench(bench)
    release = make_release(
        loaded,
        load_runs(runs) if runs else (),
        out,
        with_videos=with_videos,
        license_note=_license_note(license_file),
    )
    click.echo(f"{release.files} files, {release.videos} videos named, in {release.folder}.")
    if release.missing_videos:
        some = ", ".join(release.missing_videos[:3])
        click.echo(f"warning: {len(release.missing_videos)} videos are not on this machine ({some}, …).", err=True)
    if license_file is None:
        click.echo(f"fill in {release.folder / 'LICENSE.md'} before you publish, or give --license.", err=True)
    return 0


def _check(folder: Path) -> int:
    from trace_ves.ves.release import check_release

    count, wrong = check_release(folder)
    for sentence in wrong:
        click.echo(sentence, err=True)
    click.echo(f"{count - len(wrong)} of {count} files are as they were released.")
    return 1 if wrong else 0


def _license_note(path: Path | None) -> str:
    from importlib.resources import files

    if path is None:
        return files("trace_ves.ves").joinpath("license.md").read_text(encoding="utf-8")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}.") from None
