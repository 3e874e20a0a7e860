"""`trace-ves build`: shared options, and the commands for people and files; the stages are in `build_stages`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from trace_ves.cli.options import (
    COST_REACHED,
    CostOptions,
    LazyGroup,
    backbone_options,
    existing_file_type,
    file_type,
    folder_type,
    gather_options,
    max_cost_option,
    positive_type,
    prices_option,
)
from trace_ves.cli.process import warn
from trace_ves.core.display import count_words
from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store
    from trace_ves.runs.prices import Prices

COMMANDS: Final = {
    "init": ("build_stages", "Create a build from a folder of videos."),
    "invite": ("build", "Invite annotators to the desk and print their tokens."),
    "revoke": ("build", "End an annotator's access to the desk, or their sessions."),
    "gold": ("build", "Add items with known verdicts, to check annotators."),
    "release": ("build", "Give an absent annotator's assignments back to the queue."),
    "assign": ("build", "Give an item to an annotator by name."),
    "propose": ("build_stages", "Stage 1: caption the footage and draft items."),
    "import-intervals": ("build", "Propose intervals from Label Studio."),
    "export-intervals": ("build", "Write the items for Label Studio."),
    "serve": ("build_stages", "Stages 2, 3 and 5: the annotators' desk."),
    "probe": ("build_stages", "Stage 3: ask a vision model without each interval."),
    "shortcut": ("build_stages", "Stage 4: ask models that see no frames, or only a summary."),
    "status": ("build_stages", "Show the progress and the guarantees."),
    "pack": ("build", "Pack a build into one archive."),
    "unpack": ("build", "Create a build from an archive that pack wrote."),
    "export": ("build", "Write the accepted items as a bench."),
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


class Build(NamedTuple):
    """The folder of a build, and its database if that is elsewhere."""

    folder: Path
    database: str

    @contextmanager
    def open(self) -> Iterator[tuple[Project, Store]]:
        """Open the project and its store."""
        from trace_ves.construction.project import open_project

        project = open_project(self.folder, database=self.database)
        with closing(project.open_store()) as store:
            yield project, store

    def __str__(self) -> str:
        return str(self.folder)


build_argument = gather_options(
    "build",
    Build,
    new_folder_argument,
    text_option("--database", metavar="URL", help="The database of this build, if it is not in DIR."),
)
"""The folder of a build and where its database is; the command gets them as `build`."""


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
        self.costs.prices.of(spec)  # read before anything is paid for
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
    """Options of a command that calls models, as its parameter `models`; the command stops at --max-cost."""

    @wraps(command)
    def with_limit(**params: Any) -> None:
        from trace_ves.runs.cost import CostReachedError

        try:
            command(**params)
        except CostReachedError as error:
            click.echo(f"stopped: {error} Replies so far are kept.", err=True)
            raise SystemExit(COST_REACHED) from None

    return _gather_models(with_limit)


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


@click.command("invite")
@build_argument
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--adjudicator", is_flag=True, help="Invite them to settle disagreements instead of annotating.")
@click.option("--operator", is_flag=True, help="Invite them to run the desk: people, stuck items, progress.")
def invite_command(*, build: Build, names: tuple[str, ...], adjudicator: bool, operator: bool) -> None:
    """Let each NAME sign in at the desk, and print their tokens; each is shown once and never stored.

    A name that was invited before gets a new token, and the old one stops working.
    """
    if adjudicator and operator:
        raise click.UsageError("Give either --adjudicator or --operator.")
    from trace_ves.construction.people import Role, invite

    with build.open() as (_, store):
        role = Role.ADJUDICATOR if adjudicator else Role.OPERATOR if operator else Role.ANNOTATOR
        for name in names:
            click.echo(f"{name}\t{invite(store, name, role)}")


@click.command("revoke")
@build_argument
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--sessions", is_flag=True, help="End sessions, not access; without NAME, everyone's.")
def revoke_command(*, build: Build, names: tuple[str, ...], sessions: bool) -> None:
    """End the access of each NAME to the desk of the build in DIR; their judgements stay."""
    if not names and not sessions:
        raise click.UsageError("Give a NAME, or --sessions to end all sessions.")
    from trace_ves.construction.people import list_people, revoke, sign_out_everywhere

    with build.open() as (_, store):
        for name in names or [each.name for each in list_people(store.ledger())]:
            if sessions:
                sign_out_everywhere(store, name, "build")
                click.echo(f"{name}: all sessions have ended.")
            else:
                revoke(store, name)
                click.echo(f"{name}: cannot sign in any more.")


@click.command("assign")
@build_argument
@click.argument("item")
@click.argument("name")
@text_option("--from", "instead_of", metavar="NAME", help="Take it from this annotator, who has it now.")
def assign_command(*, build: Build, item: str, name: str, instead_of: str) -> None:
    """Give ITEM of the build in DIR to the annotator NAME as their next assignment.

    The rules of the queue apply: no one gets an item they have judged or skipped, or a partial set of a video of which
    they have seen other clips.
    """
    from trace_ves.construction.assignments import AssignmentQueue
    from trace_ves.construction.people import RefusedError

    with build.open() as (project, store):
        try:
            assignment = AssignmentQueue(store, project.settings).assign(item, name, by="build", instead_of=instead_of)
        except RefusedError as error:
            raise InputError(str(error)) from None
    click.echo(f"{build}: {name} holds {assignment.item} ({assignment.stage.value.replace('-', ' ')}).")


@click.command("gold")
@build_argument
@click.argument("file", metavar="FILE.jsonl", type=file_type)
def gold_command(*, build: Build, file: Path) -> None:
    """Mix the items of FILE into the queue of the build in DIR, to measure how carefully annotators work.

    Each line is a bench line whose video is in DIR, with "rationales": a sentence for each interval, written like
    those of the other items. A random half of them gets a wrong interval, unless a line says "accept": true or false.
    Gold items never appear in the exported bench.
    """
    from trace_ves.construction.gold import add_gold
    from trace_ves.construction.judged_item import list_all_items

    with build.open() as (project, store):
        right, wrong = add_gold(project, store, file)
        items = list_all_items(store.ledger())
    click.echo(f"{build}: {count_words(right, 'gold item')} to accept, {wrong} to reject.")
    if not project.settings.gold_share:
        warn("gold_share is 0 in build.toml, so annotators get no gold items")
    if only := {each.proposal.video for each in items} - {each.proposal.video for each in items if each.gold is None}:
        names = ", ".join(sorted(only)[:5]) + (", …" if len(only) > 5 else "")
        warn(f"annotators can recognise the gold items of {names}: no other item uses it")


@click.command("release")
@build_argument
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def release_command(*, build: Build, names: tuple[str, ...]) -> None:
    """Give the assignments of each NAME in the build in DIR back to the queue, so that others can judge them."""
    from trace_ves.construction.assignments import AssignmentQueue
    from trace_ves.construction.people import require_person

    with build.open() as (project, store):
        for name in names:
            require_person(store, name)
        queue = AssignmentQueue(store, project.settings)
        released = [
            held.item
            for held, who, _ in queue.held()
            if who in names and queue.release(held, who, by="build", reason="released by the operator")
        ]
    click.echo(f"{build}: {', '.join(released) or 'nothing'} went back to the queue.")


@click.command("export")
@build_argument
@click.argument("out", type=folder_type)
@click.option("--force", is_flag=True, help="Replace the questions of an earlier export.")
def export_command(*, build: Build, out: Path, force: bool) -> None:
    """Write the accepted items of the build in DIR to the folder OUT: a bench, ready for `trace-ves run`."""
    from trace_ves.construction.export import export_bench

    with build.open() as (project, store):
        count = export_bench(project, store.ledger(), out, force=force)
    click.echo(f"{out}: {count} questions.")


@click.command("export-intervals")
@build_argument
@click.argument("out", type=folder_type)
@click.option(
    "--for", type=click.Choice(["label-studio"]), expose_value=False, help="The tool that will read the files."
)
def export_intervals_command(*, build: Build, out: Path) -> None:
    """Write every item of the build in DIR, with its current intervals, to the folder OUT for Label Studio.

    The id of an item becomes a label. Import the result with `build import-intervals`.
    """
    from trace_ves.construction.interchange import export_intervals

    with build.open() as (project, store):
        files = export_intervals(project, store.ledger(), out)
    for file in files:
        click.echo(str(file))


@click.command("import-intervals")
@build_argument
@click.argument("file", type=file_type)
@text_option("--video", metavar="NAME", help="The video that FILE is about, such as videos/a.mp4.")
@click.option(
    "--fps",
    type=positive_type,
    help="The frame rate that FILE counts frames at, if it is not the video's own.",
)
@click.option("--question", default=None, help="The question about a label, with {label} in it.")
def import_intervals_command(*, build: Build, file: Path, video: str, fps: float | None, question: str | None) -> None:
    """Propose the intervals of FILE, a JSON export of Label Studio.

    A label that is the id of an item of the build in DIR replaces its intervals, as long as no one has judged it. Any
    other label becomes a counting question. Annotators verify both at the desk.
    """
    from trace_ves.construction.interchange import QUESTION, import_intervals

    with build.open() as (project, store):
        result = import_intervals(project, store, file, video=video, fps=fps, question=question or QUESTION)
    warn(*(f"left out: {reason}" for reason in result.refused))
    click.echo(
        f"{build}: {count_words(len(result.proposed), 'new item')}, {len(result.replaced)} with changed intervals,"
        f" {result.unchanged} unchanged."
    )


@click.command("pack")
@build_argument
@click.argument("file", metavar="FILE.tar", type=file_type)
def pack_command(*, build: Build, file: Path) -> None:
    """Write the build in DIR with its videos and history to FILE, for another machine.

    Annotators can keep working; judgements made after the start are not in the archive.
    """
    from trace_ves.cli.progress import LateProgress
    from trace_ves.construction.export import pack
    from trace_ves.core.display import size_words

    with build.open() as (project, store), LateProgress() as progress:
        count = pack(project, store, file, on_progress=partial(progress, "videos"))
    click.echo(f"{file}: {count} history entries, {size_words(file.stat().st_size)}.")


@click.command("unpack")
@click.argument("file", metavar="FILE.tar", type=existing_file_type)
@new_folder_argument
@database_option
def unpack_command(*, file: Path, folder: Path, database: str) -> None:
    """Create the build DIR from FILE, an archive made by `build pack`.

    People invited to the archived build keep their access; before you serve a build from someone else, revoke it.
    """
    from trace_ves.construction.export import unpack
    from trace_ves.construction.people import list_people

    project = unpack(file, folder, database=database)
    click.echo(f"{folder}: unpacked a build with {count_words(len(project.videos()), 'video')}.")
    store = project.open_store()
    names = [each.name for each in list_people(store.ledger()) if each.token_sha256]
    store.close()
    if names:
        click.echo(f"note: {', '.join(names)} can sign in with the tokens of the packed build.", err=True)
