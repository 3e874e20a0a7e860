"""`trace-ves import`: a published benchmark, from a local copy, as a bench."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.benchmarks import Bench

NAMES = ("ves-bench", "video-mme", "lvbench", "longvideobench", "cg-bench", "next-gqa")


@click.command(name="import")
@click.argument("benchmark", type=click.Choice(NAMES))
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Refuse a file with dirty rows instead of leaving them out.")
@click.option("--force", is_flag=True, help="Replace a bench that is already there.")
@click.option("--columns", metavar="FIELD=COLUMN,…", help="ves-bench: which column is which field.")
@click.option("--grounding", type=click.Path(path_type=Path), help="next-gqa: the json with the grounded segments.")
def command(
    *, benchmark: str, source: Path, out: Path, strict: bool, force: bool, columns: str | None, grounding: Path | None
) -> None:
    """Turn the annotation file SOURCE of a published benchmark into the bench OUT.

    OUT is a folder, or a file that ends with .jsonl. Nothing is downloaded; videos go under OUT/videos.
    """
    from trace_ves.benchmarks import write_bench

    if columns is not None and benchmark != "ves-bench":
        raise click.UsageError("--columns is for ves-bench alone.")
    if grounding is not None and benchmark != "next-gqa":
        raise click.UsageError("--grounding is for next-gqa alone.")
    bench = _importers(columns, grounding)[benchmark](source, strict=strict)
    file = write_bench(bench.items, out, force=force)
    for problem in bench.problems:
        click.echo(f"warning: {problem}", err=True)
    click.echo(summary(bench, file))


def _importers(columns: str | None, grounding: Path | None) -> dict[str, Callable[..., Bench]]:
    from trace_ves.benchmarks import cg_bench, long_video_bench, lvbench, next_gqa, ves_bench, video_mme

    chosen = ves_bench.parse_columns(columns) if columns is not None else None
    return {
        "ves-bench": partial(ves_bench.read, columns=chosen),
        "video-mme": video_mme.read,
        "lvbench": lvbench.read,
        "longvideobench": long_video_bench.read,
        "cg-bench": cg_bench.read,
        "next-gqa": partial(next_gqa.read, grounding=grounding),
    }


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
