"""`trace-ves demo`: synthetic videos, TRACE against the baselines, the audit, figures and a page, all offline."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from rich.console import Console

    from trace_ves.benches import Bench
    from trace_ves.records import Prediction
    from trace_ves.runs.evaluate import Results

METHODS: Final = ("blind", "uniform-32", "uniform-128", "vca", "avp", "trace")  # the agents with one budget
COLUMNS: Final = ("Fr", "Acc", "EP", "Cov@2", "ECA@2")
WORKERS: Final = 2


@click.command("demo", short_help="Run a full offline demo on synthetic video.")
@click.option("--out", default="demo", show_default=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--questions", default=8, show_default=True, type=click.IntRange(2, 600), help="Number of questions.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the synthetic videos.")
def demo_command(*, out: Path, questions: int, seed: int) -> None:
    """Generate a small synthetic benchmark, run TRACE and the baselines on it, and audit what they looked at.

    Needs no key, no GPU and no network. Run the same command again to continue where it stopped. For a search on real
    footage, see `trace-ves ask --sample`.
    """
    from rich.console import Console
    from rich.padding import Padding

    from trace_ves.benches import load_bench
    from trace_ves.cli.doctor import missing_extras
    from trace_ves.core.display import GLANCE_NOTICE
    from trace_ves.core.errors import MissingExtraError

    if lacking := missing_extras("video", "glance", "figures", "web"):
        raise MissingExtraError("The demo", ",".join(lacking))
    from trace_ves.ves.figures import draw_figures

    console = Console()
    console.print(f"[bold]1/4[/]  generating a synthetic benchmark with {questions} questions")
    _draw(out / "bench", questions, seed)
    bench = load_bench(out / "bench")
    console.print(f"[bold]2/4[/]  {len(METHODS)} methods search for answers; every frame they see is logged")
    console.print(Padding(GLANCE_NOTICE, (0, 0, 0, 6)), style="dim")
    found = _run(bench, out / "runs", questions)
    console.print("[bold]3/4[/]  the audit: did they look at every interval that the answer depends on?\n")
    _show(found, console)
    console.print("[bold]4/4[/]  figures and a page")
    draw_figures(found.audit, bench.items, out / "figures")
    story = _story(found, bench, out)
    where = out.resolve()
    console.print(f"      figures       {where / 'figures'}", soft_wrap=True)
    console.print(f"      one question  {story.resolve().as_uri()}", soft_wrap=True)
    console.print(f"      all of them   trace-ves view {out / 'runs'}", soft_wrap=True)


def _draw(folder: Path, questions: int, seed: int) -> None:
    from trace_ves.cli.progress import LateProgress
    from trace_ves.twin.synthetic.bench import make_twin, write_twin

    twin = make_twin(questions, seed)
    with LateProgress() as progress:
        write_twin(folder, twin, workers=WORKERS, on_progress=partial(progress, f"drawing {len(twin)} videos"))


def _run(bench: Bench, folder: Path, questions: int) -> Results:
    from trace_ves.cli.run_table import RunTable
    from trace_ves.runs.evaluate import evaluate
    from trace_ves.runs.prices import load_prices

    prices = load_prices()
    with RunTable(prices) as watcher:
        return evaluate(
            bench, METHODS, "glance", out=folder, limit=questions, workers=WORKERS, prices=prices, watcher=watcher
        )


def _show(found: Results, console: Console) -> None:
    """The main table with the paper's numbers beside ours, in the columns that a terminal has room for."""
    from dataclasses import replace

    from trace_ves.ves.paper import paper_tables
    from trace_ves.ves.terminal import print_table

    table = paper_tables(found.audit)[0]
    kept = [at for at, column in enumerate(table.columns) if column.title in COLUMNS]
    sections = tuple(
        replace(section, rows=tuple(replace(row, cells=tuple(row.cells[at] for at in kept)) for row in section.rows))
        for section in table.sections
    )
    print_table(replace(table, columns=tuple(table.columns[at] for at in kept), sections=sections), console)


def _story(found: Results, bench: Bench, out: Path) -> Path:
    """The search for one question as a page in a file."""
    from trace_ves.web.export import write_story
    from trace_ves.web.open_library import open_library

    library = open_library(out / "runs", bench=bench.path, videos=None)
    key = next(key for key in library.runs if key.startswith("trace@"))
    write_story(library, key, story_question(found), out / "story.html")
    return out / "story.html"


def story_question(found: Results) -> str:
    """The question to show: right, covered and stable if there is one, and of those the longest."""
    from trace_ves.ves.metrics import HEADLINE_DENSITY

    run = next(run for run in found.runs if run.method == "trace")
    rows = {row.question_id: row for row in next(each for each in found.audit.runs if each.method == "trace").rows}

    def worth(each: Prediction) -> tuple[int, int]:
        row = rows.get(each.question_id)
        good = row is not None and bool(row.correct) + (row.density >= HEADLINE_DENSITY)
        return int(good) + (each.termination == "stable-prefix-found"), len(each.observations)

    return max(run.predictions, key=worth).question_id
