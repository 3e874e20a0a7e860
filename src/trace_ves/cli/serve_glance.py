"""`trace-ves serve-glance`: the embedded backbone behind an OpenAI-compatible server on this machine."""

from __future__ import annotations

import click

from trace_ves.core.errors import MissingExtraError


@click.command("serve-glance")
@click.option("--port", default=8643, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
def command(*, port: int) -> None:
    """Serve glance to OpenAI clients on this machine, until interrupted.

    It gets rendered prompts and JPEGs and nothing else, so it tests prompts and clients without a key. Glance
    recognises drawn things and is no vision-language model: see docs/glance.md.
    """
    try:
        from trace_ves.backbone.glance.glance import Glance
        from trace_ves.backbone.glance.server import GlanceServer
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("trace_ves"):
            raise
        raise MissingExtraError("trace-ves serve-glance", "video,glance") from None
    with GlanceServer(port, Glance.shipped()) as server:
        click.echo(f"glance answers at {server.url}; Ctrl-C ends it.")
        click.echo(f"Try: trace-ves run BENCH --backbone openai:glance@{server.url} --method trace --out runs")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("ended.")
