"""`trace-ves import`: a published benchmark, from a local copy, as a bench."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trace_ves.benchmarks import Bench


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
def command(
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
    from trace_ves.benchmarks.bench import bench_file, write_bench
    from trace_ves.benchmarks.importers import import_bench
    from trace_ves.core.outputs import refuse_inputs

    given = {name: value for name, value in options.items() if value is not None}
    bench = import_bench(benchmark, source, strict=strict, **given)
    mapping = [Path(benchmark)] if benchmark.endswith(".toml") else []
    files = [value for value in given.values() if isinstance(value, Path)]
    refuse_inputs([bench_file(out), manifest_file], inputs=[source, *mapping, *files])
    file = write_bench(bench.items, out, force=force)
    for warning in bench.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(summary(bench, file), err=str(manifest_file) == "-")
    if manifest_file is not None:
        write_manifest(bench, file, manifest_file)


def write_manifest(bench: Bench, file: Path, manifest_file: Path) -> None:
    """Write which videos a bench needs."""
    from trace_ves.benchmarks import manifest
    from trace_ves.core.jsonl import dump_line
    from trace_ves.core.outputs import write_output

    videos = manifest.manifest(bench.items, file.parent)
    text = "".join(dump_line(video.to_json()).decode() for video in videos)
    if str(manifest_file) == "-":
        click.echo(text, nl=False)
    else:
        write_output(manifest_file, text)
    click.echo(f"{file}: {manifest.summary(videos)}", err=True)


def summary(bench: Bench, file: Path) -> str:
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
