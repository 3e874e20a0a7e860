"""A group of commands that answers a misspelt one with the name that was probably meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


class SuggestingGroup(click.Group):
    """Like click's group, with "did you mean" for commands as click has it for options."""

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
