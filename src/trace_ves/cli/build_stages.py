"""`trace-ves build init` and `status`, and the stages: `propose`, `serve`, `probe`, `shortcut`."""

from __future__ import annotations

import json
import shlex
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_ves.cli.build import (
    Build,
    ModelOptions,
    build_argument,
    database_option,
    list_costs,
    model_options,
    new_folder_argument,
    print_cost,
)
from trace_ves.cli.options import FiniteRange, existing_file_type, port_type, prices_option, requires_extra
from trace_ves.cli.pages import announce
from trace_ves.cli.process import warn
from trace_ves.cli.progress import LateProgress, output_console
from trace_ves.core.display import count_words
from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from trace_ves.construction.project import Project
    from trace_ves.construction.store import Store


@click.command("init")
@new_folder_argument
@database_option
@click.option("--audited", multiple=True, metavar="SPEC", help="A backbone that the bench will audit; may be repeated.")
@click.option(
    "--gold-share",
    default=0.1,
    type=FiniteRange(0, 0.5),
    help="Share of the assignments that are gold items of `build gold`.",
)
@click.option(
    "--allow-not-blind",
    is_flag=True,
    help="Let annotators who saw other clips of a video judge its partial sets if needed; the report counts it.",
)
def init_command(*, folder: Path, **settings: Any) -> None:
    """Create a build in DIR from the videos in DIR/videos.

    With --audited, name the models that the finished bench will evaluate. Commands warn if a stage uses one of them.
    """
    from trace_ves.construction.project import BuildSettings, create_project

    project = create_project(folder, BuildSettings(**settings))
    click.echo(f"{folder}: created a build from {count_words(len(project.videos()), 'video')}.")
    click.echo(f"Next: trace-ves build propose {folder} --captioner SPEC --proposer SPEC", err=True)


@click.command("propose")
@build_argument
@click.option("--captioner", required=True, metavar="SPEC", help="The backbone that captions windows of 30 s.")
@click.option("--proposer", required=True, metavar="SPEC", help="The backbone that drafts items from the captions.")
@click.option("--family", "families", multiple=True, help="A family of questions.  [default: both]")
@model_options
def propose_command(
    *, build: Build, captioner: str, proposer: str, families: tuple[str, ...], models: ModelOptions
) -> None:
    """Caption the videos of the build in DIR in windows of 30 s with 5 s of overlap, then draft items.

    Videos that are already captioned and items that are already proposed are skipped.
    """
    from trace_ves import video
    from trace_ves.construction.project import FAMILIES
    from trace_ves.construction.proposal import caption_video, propose_items

    with build.open() as (project, store), LateProgress() as progress:
        caption_backbone = models.open(project, captioner, "captions")
        proposal_backbone = models.open(project, proposer, "proposals")
        accepted, refused = 0, []
        for name in project.videos():
            with video.open(project.need_path(name)) as source:
                caption_video(store, name, source, caption_backbone, on_progress=partial(progress, name))
                for family in families or FAMILIES:
                    count, reasons = propose_items(store, name, source.duration, family, proposal_backbone)
                    accepted += count
                    refused += [f"{name}, {family}: {reason}" for reason in reasons]
        ledger = store.ledger()
        steps = _next_steps(project, store)
    warn(*(f"a draft was left out: {reason}" for reason in refused))
    print_cost(ledger, models.costs.prices)
    click.echo(f"{build}: {count_words(accepted, 'new item')} from {count_words(len(project.videos()), 'video')}.")
    for step in steps if accepted else ():
        click.echo(f"Next: {step}", err=True)


def _next_steps(project: Project, store: Store) -> list[str]:
    from trace_ves.construction.assignments import AssignmentQueue
    from trace_ves.construction.next_steps import next_steps

    queue = AssignmentQueue(store, project.settings)
    return next_steps(store.ledger(), queue, shlex.quote(str(project.folder)))


@click.command("probe")
@build_argument
@click.option("--backbone", "spec", required=True, metavar="SPEC", help="A vision model that proposed no items here.")
@model_options
def probe_command(*, build: Build, spec: str, models: ModelOptions) -> None:
    """Ask a vision model about every verified item of DIR, leaving out one evidence interval at a time."""
    from trace_ves.construction.probes import probe_leave_one_out
    from trace_ves.construction.proposal import dependence_warning

    with build.open() as (project, store), LateProgress() as progress:
        warn(dependence_warning(store.ledger(), spec))
        backbone = models.open(project, spec, "the leave-one-out probe")
        report = partial(progress, "items without an interval")
        count = probe_leave_one_out(project, store, backbone, on_progress=report)
        ledger = store.ledger()
    print_cost(ledger, models.costs.prices)
    click.echo(f"{build}: {count} items probed without each of their intervals.")


@click.command("shortcut")
@build_argument
@click.option("--language", required=True, metavar="SPEC", help="Model that sees only the question and its options.")
@click.option("--gist", required=True, metavar="SPEC", help="Model that also sees a summary of the video.")
@model_options
def shortcut_command(*, build: Build, language: str, gist: str, models: ModelOptions) -> None:
    """Ask models that cannot see the video about every closed item of DIR.

    An item is rejected if one of them is right and, in repeated trials, right more often than by chance.
    """
    from trace_ves.construction.probes import probe_shortcuts

    with build.open() as (project, store), LateProgress() as progress:
        language_backbone = models.open(project, language, "the language-only probe")
        gist_backbone = models.open(project, gist, "the gist probe")
        report = partial(progress, "items without looking")
        count, without_summary = probe_shortcuts(store, language_backbone, gist_backbone, on_progress=report)
        ledger = store.ledger()
    if without_summary:
        warn(f"{without_summary} items have no summary of their video; run build propose again")
    print_cost(ledger, models.costs.prices)
    click.echo(f"{build}: {count} items probed for shortcuts.")


@click.command("status")
@build_argument
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@prices_option
def status_command(*, build: Build, as_json: bool, price_file: Path | None) -> None:
    """Show how many items of the build in DIR each stage rejected, which are waiting, and what is guaranteed."""
    from trace_ves.construction.reports import closure_statement, funnel_table, list_facts, make_report
    from trace_ves.runs.prices import load_prices
    from trace_ves.ves.terminal import print_table

    prices = load_prices(price_file)
    with build.open() as (project, store):
        ledger = store.ledger()
        report = make_report(ledger, project.settings)
        steps = _next_steps(project, store)
    if as_json:
        click.echo(json.dumps(report.to_json() | {"next": steps, "cost": list_costs(ledger, prices)}, indent=2))
        return
    print_table(funnel_table(report), output_console())
    for name, value in list_facts(report):
        click.echo(f"{name}: {value}")
    click.echo(f"\n{closure_statement(report)}\n")
    for step in steps:
        click.echo(f"Next: {step}")
    print_cost(ledger, prices)


@click.command("serve")
@build_argument
@click.option("--host", default="127.0.0.1", help="Any address other than loopback needs TLS.")
@click.option("--port", default=8643, type=port_type, help="0 picks a free port.")
@click.option("--tls-cert", type=existing_file_type, help="TLS certificate (PEM); required unless --host is loopback.")
@click.option("--tls-key", type=existing_file_type, help="Private key (PEM), if it is not in the certificate file.")
@click.option("--behind-tls-proxy", is_flag=True, help="A reverse proxy in front of the desk handles TLS.")
def serve_command(
    *, build: Build, host: str, port: int, tls_cert: Path | None, tls_key: Path | None, behind_tls_proxy: bool
) -> None:
    """Serve the annotation desk of the build in DIR. Annotators sign in with a token from `build invite`.

    Press Ctrl-C to stop.
    """
    with build.open() as (project, store):
        with requires_extra("The desk", "web"):
            from trace_ves.construction.desk.app import create_desk
            from trace_ves.web.serve import is_loopback, serve_app
        if not (is_loopback(host) or tls_cert or behind_tls_proxy):
            raise InputError(
                f"{host} can be reached from the network, and plain HTTP would expose tokens and videos; give"
                " --tls-cert CERT.pem --tls-key KEY.pem, or --behind-tls-proxy if a proxy handles TLS."
            )
        secure = tls_cert is not None or behind_tls_proxy
        with tempfile.TemporaryDirectory(prefix="trace-ves-clips-") as scratch:
            serve_app(
                lambda hosts, token: create_desk(
                    project, store, scratch=Path(scratch), hosts=hosts, token=token, secure=secure
                ),
                host=host,
                port=port,
                ready=lambda address: announce(address.url(), browser=False),
                needs_token=False,
                certificate=tls_cert,
                key=tls_key,
                behind_proxy=behind_tls_proxy,
            )
