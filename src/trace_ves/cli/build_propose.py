"""`trace-ves build propose`: stage 1, captions of every window and candidate items from them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from trace_ves.cli.build_common import backbone_for, folder_argument, opened, prices_option, print_cost

if TYPE_CHECKING:
    from pathlib import Path


@click.command("propose")
@folder_argument
@click.option("--captioner", required=True, metavar="SPEC", help="The backbone that captions windows of 30 s.")
@click.option("--proposer", required=True, metavar="SPEC", help="The backbone that drafts items from the captions.")
@click.option("--family", "families", multiple=True, help="A family of questions; else ordering and counting.")
@click.option("--cache/--no-cache", default=None, help="Use answers paid for before; on for paid backbones.")
@prices_option
def command(
    *,
    folder: Path,
    captioner: str,
    proposer: str,
    families: tuple[str, ...],
    cache: bool | None,
    price_file: Path | None,
) -> None:
    """Caption the footage of the build in DIR in windows of 30 s with 5 s of overlap, then draft items from it.

    What is captioned or proposed already is not asked for again.
    """
    from trace_ves import video
    from trace_ves.cli.progress import LateProgress

    with opened(folder) as (project, store), LateProgress() as progress:
        from trace_ves.construction.project import FAMILIES
        from trace_ves.construction.proposal import caption_video, propose_items

        caption_backbone = backbone_for(project, captioner, "captions", cache=cache)
        proposal_backbone = backbone_for(project, proposer, "proposals", cache=cache)
        taken, refused = 0, []
        for name in project.videos():
            with video.open(project.need_path(name)) as source:
                caption_video(store, name, source, caption_backbone, on_progress=partial(progress, name))
                for family in families or FAMILIES:
                    count, reasons = propose_items(store, name, source.duration, family, proposal_backbone)
                    taken += count
                    refused += [f"{name}, {family}: {reason}" for reason in reasons]
        ledger = store.ledger()
    for sentence in refused:
        click.echo(f"warning: a draft was left out: {sentence}.", err=True)
    print_cost(ledger, price_file)
    click.echo(f"{folder}: {taken} new items from {len(project.videos())} videos.")
