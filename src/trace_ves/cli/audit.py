"""`trace-ves audit`: one command from a bench and run files to tables, files and figures."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_ves.cli.options import FiniteRange
from trace_ves.core.errors import InputError
from trace_ves.core.files import refuse_inputs, write_output
from trace_ves.core.schedules import ASSUMED_FPS, FrameTimes, schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.benches import Bench
    from trace_ves.records import Item
    from trace_ves.ves import AuditReport, Run, ScoredRun

    Progress = Callable[[str, int, int], None]


def sampler_names(text: str | None) -> tuple[str, ...]:
    """`linspace-32, uniform-32` as the names of schedules that there are, each once."""
    names = [] if text is None else [word.strip() for word in text.split(",")]
    return tuple(dict.fromkeys(schedule(name).name for name in names))


def frame_times_reader(bench: Bench, fps: float, on_progress: Progress) -> Callable[[Item], FrameTimes]:
    """When the frames of each video are shown: read from the video where it is there, else by duration and rate."""
    folder = bench.path.parent if bench.path else Path()
    videos = len(bench.video_files())
    known: dict[str, FrameTimes] = {}

    def frame_times(item: Item) -> FrameTimes:
        name = item.question.video
        if name not in known:
            if (folder / name).is_file():
                from trace_ves.video import open as open_video

                with open_video(folder / name) as video:
                    known[name] = FrameTimes(video.timestamps.copy(), video.average_fps, is_exact=True)
            else:
                known[name] = FrameTimes.assumed(item.duration, fps)
            on_progress("reading frame times", len(known), videos)
        return known[name]

    return frame_times


FORMATS = ("run", "lmms-eval", "vlmevalkit", "inspect")


@click.command("audit")
@click.argument("bench", type=click.Path(path_type=Path))
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "log_format",
    type=click.Choice(FORMATS),
    default="run",
    show_default=True,
    help="Whose logs the RUNs are.",
)
@click.option(
    "--sampler",
    "samplers",
    metavar="SCHEDULE,…",
    help="Also audit schedules without a model, such as uniform-32; with --format, the schedule of the logged run.",
)
@click.option(
    "--fps",
    default=ASSUMED_FPS,
    show_default=True,
    type=FiniteRange(0.1, 1000),
    help="Frame rate to assume where a schedule needs a video that is not there.",
)
@click.option(
    "--recorded",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Frames recorded while the logged run was made (python -m trace_ves.frame_log).",
)
@click.option("--fields", metavar="id=PATH,answer=PATH", help="Where a log keeps the question's id and the answer.")
@click.option(
    "--json",
    "json_file",
    metavar="[FILE]",
    is_flag=False,
    flag_value="-",
    help="Print the report as JSON, or write it to FILE.",
)
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write all numbers as CSV.")
@click.option("--markdown", "markdown_file", type=click.Path(path_type=Path), help="Write the tables as Markdown.")
@click.option("--latex", "latex_file", type=click.Path(path_type=Path), help="Write the tables as LaTeX (booktabs).")
@click.option(
    "--figures", "figures_folder", type=click.Path(path_type=Path), help="Draw the figures: SVG, PNG and PDF."
)
@click.option("--resamples", default=1000, show_default=True, type=click.IntRange(1, 1_000_000), help="Bootstrap size.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the bootstrap.")
@click.option("--k", default=2, show_default=True, type=click.IntRange(1, 1000), help="The headline density.")
@click.option("--strict", is_flag=True, help="Refuse dirty questions and incomplete runs instead of counting them.")
def audit_command(
    *,
    bench: Path,
    runs: tuple[Path, ...],
    log_format: str,
    samplers: str | None,
    fps: float,
    fields: str | None,
    recorded: Path | None,
    json_file: str | None,
    resamples: int,
    seed: int,
    k: int,
    strict: bool,
    **outputs: Path | None,
) -> None:
    """Check which evidence the frames of each RUN really covered.

    BENCH is a folder with questions.jsonl, or such a file. A RUN has one JSON object per line:
    {"question_id": "q1", "answer": "C", "timestamps": [6.8, 20.3], "frames_supplied": 98}

    With --format, a RUN is a log of lmms-eval (--log_samples), VLMEvalKit or inspect_ai. Where it does not say which
    frames were looked at, --sampler says how they were chosen: uniform-N, linspace-N (lmms-eval), linspace-round-N and
    fps-R or fps-R-max-N (qwen-vl-utils), inner-N and step-R (VLMEvalKit).
    """
    from trace_ves.benches import load_bench
    from trace_ves.cli.progress import LateProgress
    from trace_ves.records.run_file import run_files
    from trace_ves.ves import audit, score_files

    schedules = sampler_names(samplers)
    if log_format == "run" and (fields is not None or recorded is not None):
        raise click.UsageError("--fields and --recorded are for logs of other tools; name the tool with --format.")
    if not runs and (not schedules or log_format != "run"):
        raise click.UsageError("Give at least one RUN, or --sampler uniform-64 for a schedule without a model.")
    if log_format != "run" and len(schedules) > 1:
        raise click.UsageError("With --format, --sampler names the one schedule that the logged run used.")
    written = [Path(json_file) if json_file and json_file != "-" else None, *outputs.values()]
    with LateProgress() as progress:
        found: Sequence[Run] | Sequence[ScoredRun]
        loaded = load_bench(bench, strict=strict, on_progress=partial(progress, "reading bench"))
        times = frame_times_reader(loaded, fps, progress)
        if log_format == "run":
            _refuse_inputs(written, loaded, run_files(runs))
            found = score_files(loaded.items, runs, left_out=loaded.left_out, on_progress=progress)
        else:
            from trace_ves.benches.logs import Fields, read_logs
            from trace_ves.benches.logs.recorded_frames import read_recorded

            found = read_logs(
                runs,
                log_format,
                loaded.items,
                sampler=schedule(schedules[0]) if schedules else None,
                recorded=read_recorded(recorded, loaded.items) if recorded is not None else None,
                frame_times=times,
                fields=Fields.parse(fields),
                on_progress=progress,
            )
            _refuse_inputs(written, loaded, [run.path for run in found])
        report = audit(
            loaded.items,
            found,
            samplers=schedules if log_format == "run" else (),
            frame_times=times,
            fps=fps,
            k=k,
            resamples=resamples,
            seed=seed,
            left_out=loaded.left_out,
            unlimited=_unlimited(found),
            on_progress=progress,
        )
    warnings = [*loaded.warnings, *report.warnings]
    if strict and warnings:
        raise InputError(f"{warnings[0]} Without --strict this is counted.")
    _write_files(report, loaded.items, outputs)
    _print(report, json_file, warnings, tables="-" not in map(str, outputs.values()))


def _refuse_inputs(written: Sequence[Path | None], bench: Bench, runs: Sequence[Path | None]) -> None:
    """No output may be one of the inputs; the videos of a large bench are only looked at where something is written."""
    if any(written):
        refuse_inputs(written, inputs=[bench.path, *bench.video_files(), *runs])


def _unlimited(runs: Sequence[Run] | Sequence[ScoredRun]) -> frozenset[str]:
    """The runs of user methods without a frame budget, as the configuration beside each file says."""
    from trace_ves.core.plugins import names_own_code
    from trace_ves.records.run_file import read_configuration

    return frozenset(
        run.name
        for run in runs
        if run.path
        and names_own_code(run.method)
        and (made := read_configuration(run.path)) is not None
        and made.is_unlimited
    )


def _write_files(report: AuditReport, items: Sequence[Item], outputs: dict[str, Path | None]) -> None:
    from trace_ves.ves.renderers import report_csv, report_latex, report_markdown

    renderers: dict[str, Callable[[AuditReport], str]] = {
        "csv_file": report_csv,
        "markdown_file": report_markdown,
        "latex_file": report_latex,
    }
    for option, render in renderers.items():
        if (path := outputs[option]) and str(path) == "-":
            click.echo(render(report))
        elif path:
            write_output(path, render(report))
    if folder := outputs["figures_folder"]:
        from trace_ves.ves.figures import draw_figures

        drawn = draw_figures(report, items, folder)
        figures = len({Path(file).stem for file in drawn})
        click.echo(f"{figures} figure{'' if figures == 1 else 's'} in {folder}, as SVG, PNG and PDF", err=True)


def _print(report: AuditReport, json_file: str | None, warnings: list[str], *, tables: bool) -> None:
    """Tables on standard output, unless something else was asked for there; warnings on standard error."""
    from dataclasses import replace

    from rich.console import Console

    from trace_ves.ves.terminal import print_report, printable, report_text

    text = json.dumps(
        replace(report, warnings=tuple(warnings)).to_json(), indent=2, ensure_ascii=False, allow_nan=False
    )
    if json_file == "-":
        click.echo(text)
    elif json_file is not None:
        write_output(Path(json_file), text + "\n")
    if json_file != "-" and tables:
        console, quiet = Console(), replace(report, warnings=())
        if console.is_terminal:
            print_report(quiet, console)
        else:
            click.echo(report_text(quiet))
    for warning in warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
