"""`trace-ves demo`: synthetic videos, TRACE against the baselines, the audit, figures and a page, all offline."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trace_ves.cli.options import folder_type, seed_type

if TYPE_CHECKING:
    from trace_ves.benches import Bench
    from trace_ves.runs.evaluate import Results

METHODS: Final = ("blind", "uniform-32", "uniform-128", "vca", "avp", "trace")
COLUMNS: Final = ("Fr", "Acc", "EP", "Cov@2", "ECA@2")
WORKERS: Final = 2


@click.command("demo")
@click.option("--out", default="demo", type=folder_type, help="Folder for all results.")
@click.option("--questions", default=8, type=click.IntRange(2, 600), help="Number of questions.")
@click.option("--seed", default=0, type=seed_type, help="Seed of the synthetic videos.")
def demo_command(*, out: Path, questions: int, seed: int) -> None:
    """Generate a small synthetic benchmark, run TRACE and the baselines on it, and audit what they looked at.

    Needs no key, no GPU and no network. Run the same command again to continue where it stopped. For a search on real
    footage, see `trace-ves ask --sample`.
    """
    from rich.console import Console
    from rich.padding import Padding

    from trace_ves.benches import load_bench
    from trace_ves.cli.doctor import missing_extras
    from trace_ves.core.display import GLANCE_NOTICE, count_words
    from trace_ves.core.errors import MissingExtraError

    if missing := missing_extras("video", "glance", "figures", "web"):
        raise MissingExtraError("The demo", ",".join(missing))
    from trace_ves.cli.progress import LateProgress
    from trace_ves.cli.run_table import RunTable
    from trace_ves.runs.evaluate import evaluate
    from trace_ves.runs.prices import load_prices
    from trace_ves.twin.synthetic.bench import make_twin, write_twin
    from trace_ves.ves.figures import draw_figures
    from trace_ves.ves.paper import paper_main_table
    from trace_ves.ves.table import select_columns
    from trace_ves.ves.terminal import print_table

    console = Console()
    console.print(f"[bold]1/4[/]  generating a synthetic benchmark with {questions} questions")
    twin = make_twin(questions, seed)
    with LateProgress() as progress:
        label = f"drawing {count_words(len(twin), 'video')}"
        write_twin(out / "bench", twin, workers=WORKERS, on_progress=partial(progress, label))
    bench = load_bench(out / "bench")
    console.print(f"[bold]2/4[/]  {len(METHODS)} methods search for answers; every frame they see is logged")
    console.print(Padding(GLANCE_NOTICE, (0, 0, 0, 6)), style="dim")
    prices = load_prices()
    with RunTable(prices) as watcher:
        runs = out / "runs"
        results = evaluate(
            bench, METHODS, "glance", out=runs, limit=questions, workers=WORKERS, prices=prices, watcher=watcher
        )
    console.print("[bold]3/4[/]  the audit: did they look at every interval that the answer depends on?\n")
    table = paper_main_table(results.audit)  # reduced to the columns that fit a terminal
    print_table(select_columns(table, [at for at, each in enumerate(table.columns) if each.title in COLUMNS]), console)
    console.print("[bold]4/4[/]  figures and a page")
    draw_figures(results.audit, bench.items, out / "figures")
    story = _story(results, bench, out)
    console.print(f"      figures       {out.resolve() / 'figures'}", soft_wrap=True)
    console.print(f"      one question  {story.resolve().as_uri()}", soft_wrap=True)
    console.print(f"      all of them   trace-ves view {out / 'runs'}", soft_wrap=True)


def _story(results: Results, bench: Bench, out: Path) -> Path:
    """Write the page of one search, if possible one that is correct, covered and stable."""
    from trace_ves.web.export import write_story
    from trace_ves.web.open_library import open_library

    library = open_library(out / "runs", bench=bench.path, videos=None)
    key = next(key for key in library.runs if key.startswith("trace@"))
    rows = results.audit.run("trace").rows
    best = max(rows, key=lambda row: (bool(row.correct) * row.density, row.termination == "stable-prefix-found"))
    write_story(library, key, best.question_id, out / "story.html")
    return out / "story.html"
