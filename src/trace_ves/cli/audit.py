"""`trace-ves audit`: audit run files on a bench; print tables, write files and figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_ves.cli.options import FiniteRange, path_type, seed_type
from trace_ves.cli.process import warn
from trace_ves.core.display import count_words
from trace_ves.core.errors import InputError
from trace_ves.core.files import refuse_inputs, write_output
from trace_ves.core.schedules import ASSUMED_FPS, FrameTimes, parse_schedule

if TYPE_CHECKING:
    from trace_ves.benches import Bench
    from trace_ves.records import Item
    from trace_ves.ves import AuditReport, Run, ScoredRun


def frame_times_reader(
    bench: Bench, fps: float, on_progress: Callable[[str, int, int], None]
) -> Callable[[Item], FrameTimes]:
    """A function for the frame times of a video: read from its file if it exists, else from duration and rate."""
    files = dict(zip(dict.fromkeys(item.question.video for item in bench.items), bench.video_files(), strict=True))
    known: dict[str, FrameTimes] = {}

    def frame_times(item: Item) -> FrameTimes:
        name = item.question.video
        if name not in known:
            known[name] = _frame_times(files[name], item.duration, fps)
            on_progress("reading frame times", len(known), len(files))
        return known[name]

    return frame_times


def _frame_times(file: Path, duration: float, fps: float) -> FrameTimes:
    if file.is_file():
        from trace_ves.video import open as open_video

        with open_video(file) as video:
            return FrameTimes(video.timestamps.copy(), video.average_fps, is_exact=True)
    if math.isfinite(duration):
        return FrameTimes.assumed(duration, fps)
    import numpy as np

    return FrameTimes(np.empty(0), fps, is_exact=False)  # frame n is then at n / fps


FORMATS = ("run", "lmms-eval", "vlmevalkit", "inspect")


@click.command("audit")
@click.argument("bench", type=path_type)
@click.argument("runs", nargs=-1, type=path_type)
@click.option("--format", "log_format", type=click.Choice(FORMATS), default="run", help="Format of the RUNs.")
@click.option(
    "--sampler",
    "samplers",
    metavar="SCHEDULE,…",
    help="Audit frame schedules without a model, such as uniform-32. With --format: the schedule of the logged run.",
)
@click.option(
    "--fps",
    default=ASSUMED_FPS,
    type=FiniteRange(0.1, 1000),
    help="Frame rate of videos that are not in the bench folder; --sampler and --frames use it.",
)
@click.option(
    "--recorded",
    type=path_type,
    metavar="FOLDER",
    help="Frames recorded while the logged run was made (python -m trace_ves.frame_log).",
)
@click.option(
    "--frames",
    "frame_lists",
    type=path_type,
    multiple=True,
    metavar="FILE",
    help="Frame indices that a selector chose for each question (JSON), audited without a model; repeatable. "
    "With --format: the frames of the logged run.",
)
@click.option("--fields", metavar="id=PATH,answer=PATH", help="Where the log keeps the question id and the answer.")
@click.option("--json", "json_file", metavar="[FILE]", is_flag=False, flag_value="-", help="Print or write as JSON.")
@click.option("--csv", "csv_file", type=path_type, help="Write all figures as CSV.")
@click.option("--markdown", "markdown_file", type=path_type, help="Write the tables as Markdown.")
@click.option("--latex", "latex_file", type=path_type, help="Write the tables as LaTeX (booktabs).")
@click.option(
    "--figures", "figures_folder", type=path_type, help="Write the figures to this folder as SVG, PNG and PDF."
)
@click.option("--resamples", default=1000, type=click.IntRange(1, 1_000_000), help="Bootstrap resamples.")
@click.option("--seed", default=0, type=seed_type, help="Seed of the bootstrap.")
@click.option("--k", default=2, type=click.IntRange(1, 1000), help="Frames that cover an evidence interval.")
@click.option("--strict", is_flag=True, help="Treat every warning as an error.")
def audit_command(
    *,
    bench: Path,
    runs: tuple[Path, ...],
    log_format: str,
    samplers: str | None,
    fps: float,
    fields: str | None,
    recorded: Path | None,
    frame_lists: tuple[Path, ...],
    json_file: str | None,
    resamples: int,
    seed: int,
    k: int,
    strict: bool,
    **outputs: Path | None,
) -> None:
    """Check whether the frames of each RUN cover the evidence.

    BENCH is a folder with questions.jsonl, or such a file. A RUN has one JSON object per line:
    {"question_id": "q1", "answer": "C", "timestamps": [6.8, 20.3], "frames_supplied": 98}

    With --format, a RUN is a log of lmms-eval (--log_samples), VLMEvalKit or inspect_ai. If the log does not record
    which frames the model was shown, name the schedule with --sampler: uniform-N, linspace-N (lmms-eval),
    linspace-round-N and fps-R or fps-R-max-N (qwen-vl-utils), inner-N and step-R (VLMEvalKit). On a bench without
    evidence, answers are scored without frames.
    """
    from trace_ves.benches import load_bench
    from trace_ves.benches.logs.recorded_frames import read_frame_lists, read_recorded
    from trace_ves.cli.progress import LateProgress
    from trace_ves.records.run_file import distinguish_runs, find_runs
    from trace_ves.ves import audit, score_files
    from trace_ves.ves.rows import score_run

    names = [] if samplers is None else samplers.split(",")
    schedules = list(dict.fromkeys(parse_schedule(name.strip()).name for name in names))
    if log_format == "run" and (fields is not None or recorded is not None):
        raise click.UsageError("--fields and --recorded are for logs of other tools; name the tool with --format.")
    if not runs and ((not schedules and not frame_lists) or log_format != "run"):
        raise click.UsageError("Give at least one RUN, or --sampler uniform-64 for a schedule without a model.")
    if log_format != "run" and len(schedules) + len(frame_lists) + (recorded is not None) > 1:
        raise click.UsageError(
            "With --format, give one of --sampler, --frames and --recorded: the logged run's frames."
        )
    output_files = [Path(json_file) if json_file and json_file != "-" else None, *outputs.values()]
    with LateProgress() as progress:
        audited: Sequence[Run] | Sequence[ScoredRun]
        loaded = load_bench(bench, strict=strict, on_progress=partial(progress, "reading bench"))
        times = frame_times_reader(loaded, fps, progress)
        selections = [read_frame_lists(file, loaded.items, times) for file in frame_lists]
        inputs = [loaded.path, *loaded.video_files(), *frame_lists] if any(output_files) else []
        if log_format == "run":
            refuse_inputs(output_files, inputs=[*inputs, *find_runs(runs)])
            scored = score_files(loaded.items, runs, left_out=loaded.left_out, on_progress=progress)
            selected_runs = [score_run(loaded.items, selection, loaded.left_out) for selection in selections]
            audited = distinguish_runs([*scored, *selected_runs])
        else:
            from trace_ves.benches.logs import Fields, read_logs

            audited = read_logs(
                runs,
                log_format,
                loaded.items,
                sampler=parse_schedule(schedules[0]) if schedules else None,
                recorded=read_recorded(recorded, loaded.items) if recorded is not None else None,
                selection=selections[0] if selections else None,
                frame_times=times,
                fields=Fields.parse(fields),
                on_progress=progress,
            )
            log_files = [each for given in (*runs, recorded) if given for each in (given, *given.rglob("*"))]
            refuse_inputs(output_files, inputs=[*inputs, *log_files, *(run.path for run in audited)])
        report = audit(
            loaded.items,
            audited,
            samplers=schedules if log_format == "run" else (),
            frame_times=times,
            fps=fps,
            k=k,
            resamples=resamples,
            seed=seed,
            left_out=loaded.left_out,
            unlimited=_unlimited(audited),
            on_progress=progress,
        )
    warnings = [*loaded.warnings, *report.warnings]
    if strict and warnings:
        raise InputError(f"{warnings[0]} Without --strict this is a warning.")
    _write_files(report, loaded.items, outputs)
    _print(report, json_file, warnings, tables="-" not in map(str, outputs.values()))


def _unlimited(runs: Sequence[Run] | Sequence[ScoredRun]) -> frozenset[str]:
    """The names of runs whose configuration says that a user method ran without a frame budget."""
    from trace_ves.core.plugins import names_own_code
    from trace_ves.records.run_file import read_configuration

    return frozenset(
        run.name
        for run in runs
        if run.path
        and names_own_code(run.method)
        and (configuration := read_configuration(run.path)) is not None
        and isinstance(configuration.budget, str)  # a number of frames would be an int
    )


def _write_files(report: AuditReport, items: Sequence[Item], outputs: dict[str, Path | None]) -> None:
    from trace_ves.ves.renderers import REPORT_FORMATS

    for option, suffix in (("csv_file", ".csv"), ("markdown_file", ".md"), ("latex_file", ".tex")):
        if (path := outputs[option]) and str(path) == "-":
            click.echo(REPORT_FORMATS[suffix](report))
        elif path:
            write_output(path, REPORT_FORMATS[suffix](report))
    if folder := outputs["figures_folder"]:
        from trace_ves.ves.figures import draw_figures

        paths = draw_figures(report, items, folder)
        figures = count_words(len({Path(file).stem for file in paths}), "figure")
        click.echo(f"{figures} in {folder}, as SVG, PNG and PDF", err=True)


def _print(report: AuditReport, json_file: str | None, warnings: list[str], *, tables: bool) -> None:
    """Print the tables, unless standard output takes another format; warnings go to standard error."""
    from dataclasses import replace

    from rich.console import Console

    from trace_ves.ves.renderers import dump_json
    from trace_ves.ves.terminal import print_report, printable, report_text

    if json_file is not None:
        text = dump_json(replace(report, warnings=tuple(warnings)).to_json())
        if json_file == "-":
            click.echo(text, nl=False)
        else:
            write_output(Path(json_file), text)
    if json_file != "-" and tables:
        console, quiet = Console(), replace(report, warnings=())
        if console.is_terminal:
            print_report(quiet, console)
        else:
            click.echo(report_text(quiet))
    warn(*map(printable, warnings))
