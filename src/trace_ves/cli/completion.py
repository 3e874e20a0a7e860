"""`trace-ves completion`: the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion", short_help="Print the script that completes commands in your shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for your shell.

    \b
    bash: trace-ves completion bash >> ~/.bashrc
    zsh:  trace-ves completion zsh >> ~/.zshrc
    fish: trace-ves completion fish > ~/.config/fish/completions/trace-ves.fish
    """  # noqa: D301  click reads the \b
    from trace_ves.cli.main import group

    completion = get_completion_class(shell)
    assert completion is not None  # noqa: S101  click knows all three
    click.echo(completion(group, {}, "trace-ves", "_TRACE_VES_COMPLETE").source())
