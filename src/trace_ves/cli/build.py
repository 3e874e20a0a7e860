"""`trace-ves build`: the group of its commands, and what they share."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from trace_ves.cli.options import BACKBONE_OPTION_NAMES, FiniteRange, LazyGroup, backbone_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store
    from trace_ves.runs.cost import CostLimit, Spent

F = TypeVar("F", bound="Callable[..., Any]")
COST_REACHED: Final = 3  # the exit status where --max-cost ended a command
_DATABASE: Final = "trace_ves.build.database"
COMMANDS: Final = {
    "init": ("build_stages", "Create a build from a folder of videos."),
    "invite": ("build_people", "Invite annotators to the desk and print their tokens."),
    "revoke": ("build_people", "End an annotator's access to the desk, or their sessions."),
    "gold": ("build_people", "Add items with a known answer, to check annotators."),
    "release": ("build_people", "Give an absent annotator's assignments back to the queue."),
    "assign": ("build_people", "Give an item to an annotator by name."),
    "propose": ("build_stages", "Stage 1: caption the footage and draft items."),
    "import-intervals": ("build_files", "Propose intervals from Label Studio."),
    "export-intervals": ("build_files", "Write the items for Label Studio."),
    "serve": ("build_stages", "Stages 2, 3 and 5: the annotators' desk."),
    "probe": ("build_stages", "Stage 3: ask a vision model without each interval."),
    "shortcut": ("build_stages", "Stage 4: ask models that see no frames, or only a summary."),
    "status": ("build_stages", "Show the progress and the guarantees."),
    "pack": ("build_files", "Pack a build into one archive."),
    "unpack": ("build_files", "Unpack such an archive."),
    "export": ("build_files", "Write the accepted items as a bench."),
}


@click.group("build", cls=LazyGroup, lazy=COMMANDS)
def build_command() -> None:
    """Build a bench on your own footage, in the five stages of the paper.

    Run a stopped command again to continue it. The history of judgements is never deleted.
    """


new_folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
database_option = click.option(
    "--database", default="", metavar="URL", help="postgresql://user@host/name. Default: a SQLite file in DIR."
)


def folder_argument(command: F) -> F:
    """The folder of a build, and the database that its settings name. `opened` reads the latter from the context."""
    option = click.option(
        "--database",
        default="",
        metavar="URL",
        expose_value=False,
        callback=lambda context, _option, url: context.meta.update({_DATABASE: url}),
        help="The database of this build, if it is not in DIR.",
    )
    return new_folder_argument(option(command))


prices_option = click.option(
    "--prices", "price_file", type=click.Path(path_type=Path, dir_okay=False), help="TOML file with token prices."
)


def counted(count: int, noun: str) -> str:
    """A number with its noun, as in "1 video" and "2 videos"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Project, Store]]:
    """The build in a folder, with its open store."""
    from trace_ves.construction.project import open_project

    project = open_project(folder, database=click.get_current_context().meta.get(_DATABASE, ""))
    store = project.open_store()
    try:
        yield project, store
    finally:
        store.close()


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The options of the commands that call models."""

    settings: Mapping[str, Any]
    price_file: Path | None
    limit: CostLimit | None

    def open(self, project: Project, spec: str, doing: str) -> Backbone:
        """The backbone of a stage, within the spending limit; warns if the bench will audit it."""
        from trace_ves.backbone.registry import open_backbone
        from trace_ves.benches.bench import overlap_warning
        from trace_ves.runs.cost import LimitedBackbone

        if warning := overlap_warning(project.settings.audited, spec, doing):
            click.echo(f"warning: {warning}.", err=True)
        backbone = open_backbone(spec, **self.settings)
        if self.limit is None:
            return backbone
        self.limit.check([backbone.name])
        return LimitedBackbone(backbone, self.limit)


def model_options(command: F) -> F:
    """The options of a command that calls models: it gets them as `models`."""

    @wraps(command)
    def with_options(*args: Any, price_file: Path | None, max_cost: float | None, **options: Any) -> None:
        from trace_ves.runs.cost import CostLimit, CostReachedError
        from trace_ves.runs.prices import load_prices

        limit = None if max_cost is None else CostLimit(max_cost, load_prices(price_file))
        settings = {name: options.pop(name) for name in BACKBONE_OPTION_NAMES}
        try:
            command(*args, models=ModelOptions(settings, price_file, limit), **options)
        except CostReachedError as error:
            click.echo(f"stopped: {error} What was answered is kept.", err=True)
            raise SystemExit(COST_REACHED) from None

    decorators = (
        click.option(
            "--max-cost",
            type=FiniteRange(min=0, min_open=True),
            metavar="DOLLARS",
            help="Stop once this command has spent this much; exit status 3.",
        ),
        prices_option,
        backbone_options,
    )
    for decorator in decorators:
        with_options = decorator(with_options)
    return with_options  # type: ignore[return-value]


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

    from trace_ves.runs.prices import load_prices, price_notes
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
    note = " ".join(price_notes(prices.of(spec) for _, spec in spent))
    table = Table("cost", "Cost so far", "Stage", tuple(map(Column, columns)), (Section("", tuple(rows)),), note)
    print_table(table, Console(stderr=True))
