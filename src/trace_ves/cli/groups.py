"""Command groups that import a command only when it runs, and suggest a name for a misspelt one."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from trace_ves.cli.options import refuse_repeated_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class LazyGroup(click.Group):
    """A group whose commands are known by name, module and one-line help; one is imported when it runs."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """All names, in the order of the help."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        """Import the command of this name."""
        if cmd_name not in self._lazy:
            return None
        module = import_module(f"trace_ves.cli.{self._lazy[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return refuse_repeated_options(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in self._lazy.items()])

    def resolve_command(
        self, ctx: click.Context, args: Sequence[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one is close."""
        try:
            return super().resolve_command(ctx, list(args))
        except click.UsageError as error:
            close = get_close_matches(args[0].lower(), self.list_commands(ctx), n=1)
            if not close:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}; did you mean {close[0]!r}?", ctx) from error
