"""`trace-ves build`: the group of its commands, and what they share."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trace_ves.cli.options import LazyGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store
    from trace_ves.runs.cost import Spent

COMMANDS: Final = {
    "init": ("build_stages", "Make a folder with footage a build."),
    "invite": ("build_people", "Invite an annotator to the desk; prints the token."),
    "revoke": ("build_people", "End an annotator's access to the desk, or their sessions."),
    "gold": ("build_people", "Add items whose right judgement is known."),
    "release": ("build_people", "Give an absent annotator's assignments back to the queue."),
    "assign": ("build_people", "Give an item to an annotator by name."),
    "propose": ("build_stages", "Stage 1: caption the footage and draft items."),
    "import-intervals": ("build_files", "Propose intervals from Label Studio."),
    "export-intervals": ("build_files", "Write the items for Label Studio."),
    "serve": ("build_stages", "Stages 2, 3 and 5: the annotators' desk."),
    "probe": ("build_stages", "Stage 3: ask a vision model without each interval."),
    "shortcut": ("build_stages", "Stage 4: ask models that see no frames, or only a summary."),
    "status": ("build_stages", "How far the build is, and what it guarantees."),
    "pack": ("build_files", "Write a build to one archive, to be moved."),
    "unpack": ("build_files", "Make a build out of such an archive."),
    "export": ("build_files", "Write the accepted items as a bench."),
}


@click.group("build", cls=LazyGroup, lazy=COMMANDS)
def build_command() -> None:
    """Build a bench on your own footage, in the five stages of the paper.

    The same command continues what was stopped. Judgements are kept in a history that nothing is ever deleted from.
    """


folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
database_option = click.option(
    "--database", default="", metavar="URL", help="postgresql://user@host/name; else a SQLite file in DIR."
)
prices_option = click.option(
    "--prices", "price_file", type=click.Path(path_type=Path, dir_okay=False), help="TOML of token prices."
)


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Project, Store]]:
    """The build in a folder, with its open store."""
    from trace_ves.construction.project import open_project

    project = open_project(folder)
    store = project.open_store()
    try:
        yield project, store
    finally:
        store.close()


def backbone_for(project: Project, spec: str, doing: str, **model_options: Any) -> Backbone:
    """Open the backbone of a stage, with a warning if it is one of the audited ones."""
    from trace_ves.backbone.registry import open_backbone
    from trace_ves.benches.bench import overlap_warning

    if warning := overlap_warning(project.settings.audited, spec, doing):
        click.echo(f"warning: {warning}.", err=True)
    return open_backbone(spec, **model_options)


def _spent(ledger: Ledger) -> dict[tuple[str, str], Spent]:
    """The cost of the build's calls, by stage and backbone."""
    from trace_ves.construction.requests import calls_in
    from trace_ves.runs.cost import Spent

    spent: dict[tuple[str, str], Spent] = {}
    for spec, call in calls_in(ledger):
        spent.setdefault((call.stage, spec), Spent()).add(call)
    return spent


def cost_json(ledger: Ledger, price_file: Path | None) -> list[dict[str, object]]:
    """The cost of the build's calls so far as JSON: an object for each stage and backbone."""
    from trace_ves.runs.prices import load_prices

    prices = load_prices(price_file)
    return [
        {"stage": stage, "backbone": spec, **each.to_json(each.dollars(prices.of(spec)))}
        for (stage, spec), each in _spent(ledger).items()
    ]


def print_cost(ledger: Ledger, price_file: Path | None) -> None:
    """Print the cost of the build's calls so far, by stage and backbone."""
    from rich.console import Console

    from trace_ves.runs.prices import load_prices
    from trace_ves.ves.table import Column, Row, Section, Table, Value
    from trace_ves.ves.terminal import print_table

    prices = load_prices(price_file)
    spent = _spent(ledger)
    if not spent:
        return
    rows = []
    for (stage, spec), each in spent.items():
        price = prices.of(spec)
        money = "?" if price is None else f"${each.dollars(price):.4f}"
        tokens = (each.usage.input_tokens, each.usage.output_tokens)
        numbers = (f"{each.calls:,}", f"{each.frames:,}", *(f"{count:,}" for count in tokens), f"{each.seconds:.1f}")
        rows.append(Row(stage, tuple((Value(text),) for text in (spec, *numbers, money))))
    columns = ("Backbone", "Calls", "Frames", "Tokens in", "Tokens out", "Seconds", "Money")
    table = Table("cost", "Cost so far", "Stage", tuple(map(Column, columns)), (Section("", tuple(rows)),))
    print_table(table, Console(stderr=True))
