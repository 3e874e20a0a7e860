"""`trace-ves build serve`: the annotators' desk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_ves.cli.build_common import folder_argument, opened
from trace_ves.core.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from trace_ves.web.serve import Address


file_option = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command("serve")
@folder_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Any other than loopback asks for a token.")
@click.option("--port", default=8643, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--tls-cert", type=file_option, help="Certificate in PEM; needed beyond loopback.")
@click.option("--tls-key", type=file_option, help="Its private key, where it is not in the same file.")
@click.option("--behind-tls-proxy", is_flag=True, help="A proxy before the desk speaks TLS; the desk itself need not.")
def command(
    *, folder: Path, host: str, port: int, tls_cert: Path | None, tls_key: Path | None, behind_tls_proxy: bool
) -> None:
    """Serve the desk of the build in DIR until interrupted. People sign in with the token of `build invite`."""
    with opened(folder) as (project, store):
        try:
            from trace_ves.web.desk.app import create_desk
            from trace_ves.web.serve import Tls, is_loopback, serve_app
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in {"fastapi", "starlette", "uvicorn", "jinja2"}:
                raise
            raise MissingExtraError("The desk", "web") from error

        if not (is_loopback(host) or tls_cert or behind_tls_proxy):
            raise InputError(
                f"{host} is not this machine alone, and plain HTTP shows tokens and footage to the network; give"
                " --tls-cert CERT.pem --tls-key KEY.pem, or --behind-tls-proxy where a proxy does TLS."
            )
        secure = tls_cert is not None or behind_tls_proxy

        def ready(address: Address) -> None:
            click.echo(address.url())
            click.echo("Ctrl-C ends it.", err=True)

        with tempfile.TemporaryDirectory(prefix="trace-ves-clips-") as scratch:
            serve_app(
                lambda hosts, token: create_desk(
                    project, store, scratch=Path(scratch), hosts=hosts, token=token, secure=secure
                ),
                host=host,
                port=port,
                ready=ready,
                needs_token=False,
                tls=Tls(tls_cert, tls_key) if tls_cert else None,
            )
