"""What the commands of a build share: opening it, its backbones with their warnings, and what calls cost."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_ves.core.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store
    from trace_ves.cost.spent import Spent

folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
prices_option = click.option(
    "--prices", "price_file", type=click.Path(path_type=Path, dir_okay=False), help="TOML of token prices."
)


@contextmanager
def needs_database() -> Iterator[None]:
    """Turns a missing SQLAlchemy into the sentence that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sqlalchemy":
            raise
        raise MissingExtraError("Building a bench", "build") from error


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Project, Store]]:
    """The build in a folder with its store, for the time of the `with` block."""
    with needs_database():
        from trace_ves.construction.project import open_project
    project = open_project(folder)
    store = project.open_store()
    try:
        yield project, store
    finally:
        store.close()


def backbone_for(project: Project, spec: str, doing: str, *, cache: bool | None) -> Backbone:
    """Open the backbone of a stage; a person is warned where it is one of the audited ones."""
    from trace_ves.backbone.registry import open_backbone
    from trace_ves.construction.overlap import overlap_warning

    if warning := overlap_warning(project.settings.audited, spec, doing):
        click.echo(f"warning: {warning}.", err=True)
    return open_backbone(spec, cache=cache)


def _spent(ledger: Ledger) -> dict[tuple[str, str], Spent]:
    """What the build's calls came to, by stage and backbone."""
    from trace_ves.construction.spending import calls_in
    from trace_ves.cost.spent import Spent

    spent: dict[tuple[str, str], Spent] = {}
    for spec, call in calls_in(ledger):
        spent.setdefault((call.stage, spec), Spent()).add(call)
    return spent


def cost_json(ledger: Ledger, price_file: Path | None) -> list[dict[str, object]]:
    """What the build's calls came to so far, for machines: an object for each stage and backbone."""
    from trace_ves.cost.prices import load_prices

    prices = load_prices(price_file)
    return [
        {"stage": stage, "backbone": spec, **each.to_json(each.dollars(prices.of(spec)))}
        for (stage, spec), each in _spent(ledger).items()
    ]


def print_cost(ledger: Ledger, price_file: Path | None) -> None:
    """What the build's calls came to so far, by stage and backbone."""
    from rich.console import Console

    from trace_ves.cost.prices import load_prices
    from trace_ves.report.table import Column, Row, Section, Table, Value
    from trace_ves.report.terminal import print_table

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
