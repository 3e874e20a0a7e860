"""`trace-ves mcp`: videos for assistants, over the Model Context Protocol on standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_ves.core.errors import MissingExtraError

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone


@click.command("mcp")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--backbone", "spec", metavar="SPEC", help="The model that answers `ask`; else the first with a key.")
@click.option("--method", default="trace", show_default=True, help="How questions are answered.")
@click.option("--budget", type=click.IntRange(min=1), help="Frames that a question may cost; else the method's own.")
def command(*, folders: tuple[Path, ...], spec: str | None, method: str, budget: int | None) -> None:
    """Let an assistant look at the videos in each FOLDER, and ask about them, until it hangs up.

    An assistant starts this itself: see docs/mcp.md. Nothing outside the folders is opened, links included, and nothing
    is written.
    """
    try:
        from trace_ves.integrations.mcp.folders import Folders
        from trace_ves.integrations.mcp.server import Asking, make_server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("trace_ves"):
            raise
        raise MissingExtraError("trace-ves mcp", "video,mcp") from None
    from trace_ves.methods import open_method

    open_method(method)  # a misspelt name is said now, not when the first question is asked

    def opened() -> Backbone:
        from trace_ves.backbone.registry import default_spec, open_backbone

        return open_backbone(spec or default_spec())

    make_server(Folders.of(folders), Asking(opened, method, budget)).run("stdio")
