"""`trace-ves build serve`: the annotators' desk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_ves.cli.build_common import folder_argument, opened
from trace_ves.core.errors import MissingExtraError

if TYPE_CHECKING:
    from trace_ves.web.serve import Address


@click.command("serve")
@folder_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Any other than loopback asks for a token.")
@click.option("--port", default=8643, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
def command(*, folder: Path, host: str, port: int) -> None:
    """Serve the desk of the build in DIR until interrupted. People sign in with the token of `build invite`."""
    with opened(folder) as (project, store):
        try:
            from trace_ves.web.desk.app import create_desk
            from trace_ves.web.serve import serve_app
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in {"fastapi", "starlette", "uvicorn", "jinja2"}:
                raise
            raise MissingExtraError("The desk", "web") from error

        def ready(address: Address) -> None:
            click.echo(address.url())
            click.echo("Ctrl-C ends it.", err=True)

        with tempfile.TemporaryDirectory(prefix="trace-ves-clips-") as scratch:
            serve_app(
                lambda hosts, token: create_desk(project, store, scratch=Path(scratch), hosts=hosts, token=token),
                host=host,
                port=port,
                ready=ready,
            )
