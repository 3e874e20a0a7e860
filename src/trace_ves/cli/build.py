"""`trace-ves build`: the group of its commands, and what they share."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from trace_ves.cli.options import (
    COST_REACHED,
    CostOptions,
    LazyGroup,
    backbone_options,
    folder_type,
    gather_options,
    max_cost_option,
    prices_option,
)
from trace_ves.cli.process import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.construction.assignments import AssignmentQueue
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store
    from trace_ves.runs.prices import Prices

F = TypeVar("F", bound="Callable[..., Any]")
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


new_folder_argument = click.argument("folder", metavar="DIR", type=folder_type)
text_option: Final = partial(click.option, default="", show_default=False)
database_option = text_option(
    "--database", metavar="URL", help="postgresql://user@host/name. Default: a SQLite file in DIR."
)


def folder_argument(command: F) -> F:
    """The folder of a build, and the database that its settings name. `opened` reads the latter from the context."""
    option = text_option(
        "--database",
        metavar="URL",
        expose_value=False,
        callback=lambda context, _option, url: context.meta.update({_DATABASE: url}),
        help="The database of this build, if it is not in DIR.",
    )
    return new_folder_argument(option(command))


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


class ModelOptions:
    """The options of the commands that call models."""

    def __init__(self, max_cost: float | None, price_file: Path | None, **settings: Any) -> None:
        self.costs: Final = CostOptions(max_cost, price_file)
        self._settings = settings

    def open(self, project: Project, spec: str, doing: str) -> Backbone:
        """The backbone of a stage, within the spending limit; warns if the bench will audit it."""
        from trace_ves.backbone.registry import open_backbone
        from trace_ves.benches.bench import overlap_warning
        from trace_ves.runs.cost import LimitedBackbone

        warn(overlap_warning(project.settings.audited, spec, doing))
        backbone = open_backbone(spec, **self._settings)
        if self.costs.limit is None:
            return backbone
        self.costs.limit.check([backbone.name])
        return LimitedBackbone(backbone, self.costs.limit)


_gather_models = gather_options(
    "models",
    ModelOptions,
    backbone_options,
    prices_option,
    max_cost_option("Stop once this command has spent this much; exit status 3."),
)


def model_options(command: Callable[..., None]) -> Any:
    """The options of a command that calls models: it gets them as `models`, and ends where --max-cost says so."""

    @wraps(command)
    def with_limit(**given: Any) -> None:
        from trace_ves.runs.cost import CostReachedError

        try:
            command(**given)
        except CostReachedError as error:
            click.echo(f"stopped: {error} What was answered is kept.", err=True)
            raise SystemExit(COST_REACHED) from None

    return _gather_models(with_limit)


def open_queue(project: Project, store: Store) -> AssignmentQueue:
    """The queue of a build's assignments."""
    from trace_ves.construction.assignments import AssignmentQueue

    return AssignmentQueue(store, project.settings)


def list_costs(ledger: Ledger, prices: Prices) -> list[dict[str, Any]]:
    """The cost of the build's calls so far: an object for each stage and backbone."""
    from trace_ves.runs.cost import Spent

    spent: dict[tuple[str, str], Spent] = {}
    for spec, call in ledger.calls():
        spent.setdefault((call.stage, spec), Spent()).add(call)
    costs = []
    for (stage, spec), each in spent.items():
        price = prices.of(spec)
        paid = {**each.to_json(each.dollars(price)), "price": None if price is None else price.to_json()}
        costs.append({"stage": stage, "backbone": spec, **paid})
    return costs


def print_cost(ledger: Ledger, prices: Prices) -> None:
    """Print the cost of the build's calls so far, by stage and backbone."""
    from rich.console import Console

    from trace_ves.runs.prices import price_notes
    from trace_ves.ves.table import Column, Row, Section, Table, Value
    from trace_ves.ves.terminal import print_table

    costs = list_costs(ledger, prices)
    rows = []
    for cost in costs:
        counts = [f"{cost[name]:,}" for name in ("calls", "frames", "input_tokens", "output_tokens")]
        money = "?" if cost["dollars"] is None else f"${cost['dollars']:.4f}"
        cells = (cost["backbone"], *counts, f"{cost['seconds']:.1f}", money)
        rows.append(Row(cost["stage"], tuple((Value(text),) for text in cells)))
    if not rows:
        return
    columns = ("Backbone", "Calls", "Frames", "Tokens in", "Tokens out", "Seconds", "Money")
    note = " ".join(price_notes(prices.of(cost["backbone"]) for cost in costs))
    table = Table("cost", "Cost so far", tuple(map(Column, columns)), (Section("", tuple(rows)),), note, "Stage")
    print_table(table, Console(stderr=True))
