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
@click.option("--grounding", type=click.Path(path_type=Path), help="next-gqa: the json with the grounded segments.")
def command(
    *, benchmark: str, source: Path, out: Path, strict: bool, force: bool, **options: str | Path | None
) -> None:
    """Turn the annotation file SOURCE of a published benchmark into the bench OUT.

    BENCHMARK is cg-bench, longvideobench, lvbench, next-gqa, ves-bench, video-mme, or your own importer as
    package.module:callable. OUT is a folder, or a file that ends with .jsonl. Nothing is downloaded; videos go under
    OUT/videos.
    """
    from trace_ves.benchmarks.bench import bench_file, write_bench
    from trace_ves.benchmarks.importers import import_bench
    from trace_ves.core.outputs import refuse_inputs

    given = {name: value for name, value in options.items() if value is not None}
    bench = import_bench(benchmark, source, strict=strict, **given)
    refuse_inputs([bench_file(out)], inputs=[source, *(value for value in given.values() if isinstance(value, Path))])
    file = write_bench(bench.items, out, force=force)
    for warning in bench.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(summary(bench, file))


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
