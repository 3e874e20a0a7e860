"""`trace-ves build shortcut`: stage 4, models that see no frames, or only a summary, try to answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trace_ves.cli.build_common import backbone_for, folder_argument, opened, prices_option, print_cost

if TYPE_CHECKING:
    from pathlib import Path


@click.command("shortcut")
@folder_argument
@click.option("--language", required=True, metavar="SPEC", help="Answers from the question and options alone.")
@click.option("--gist", required=True, metavar="SPEC", help="Answers from a global summary of the video too.")
@click.option("--cache/--no-cache", default=None, help="Use answers paid for before; on for paid backbones.")
@prices_option
def command(*, folder: Path, language: str, gist: str, cache: bool | None, price_file: Path | None) -> None:
    """Ask, about every item of DIR that is closed, models that cannot see the video.

    An item is rejected when one of them is right and, on a held-out repeat, right more often than by chance.
    """
    from trace_ves.cli.progress import LateProgress

    with opened(folder) as (project, store), LateProgress() as progress:
        from trace_ves.construction.probing import probe_shortcuts

        language_backbone = backbone_for(project, language, "the language-only probe", cache=cache)
        gist_backbone = backbone_for(project, gist, "the gist probe", cache=cache)
        count, lacking = probe_shortcuts(
            store,
            language_backbone,
            gist_backbone,
            on_progress=lambda done, total: progress("items without looking", done, total),
        )
        ledger = store.ledger()
    if lacking:
        click.echo(f"warning: {lacking} items lack a summary of their video; run build propose again.", err=True)
    print_cost(ledger, price_file)
    click.echo(f"{folder}: {count} items were asked about without looking.")
