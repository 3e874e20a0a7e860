"""`trace-ves build`: the five stages that make a bench out of footage, each a command of its own."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from trace_ves.cli.options import refuse_repeated_options
from trace_ves.cli.suggesting import SuggestingGroup

COMMANDS: Final = {
    "init": "Make a folder with footage a build.",
    "invite": "Let a person sign in at the desk; prints their token.",
    "revoke": "End a person's access to the desk, or their sessions.",
    "gold": "Add items whose right judgement is known.",
    "release": "Give an absent annotator's assignments back to the queue.",
    "assign": "Give an item to an annotator by name.",
    "propose": "Stage 1: caption the footage and draft items.",
    "import-intervals": "Propose intervals from Label Studio, CVAT or ELAN.",
    "export-intervals": "Write the items for Label Studio, CVAT or ELAN.",
    "serve": "Stages 2, 3 and 5: the annotators' desk.",
    "probe": "Stage 3: ask a vision model without each interval.",
    "shortcut": "Stage 4: ask models that see no frames, or only a summary.",
    "status": "How far the build is, and what it guarantees.",
    "pack": "Write a build to one archive, to be moved.",
    "unpack": "Make a build out of such an archive.",
    "export": "Write the accepted items as a bench.",
}


class BuildGroup(SuggestingGroup):
    """Knows its commands by name and imports the one that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """All names, in the order of the stages."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  as above
        """Import the command of this name."""
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = import_module(f"trace_ves.cli.build_{cmd_name.replace('-', '_')}").command
        return refuse_repeated_options(found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  as above
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group("build", cls=BuildGroup)
def command() -> None:
    """Build a bench on your own footage, in the five stages of the paper.

    The same command continues what was stopped. Judgements are kept in a history that nothing is ever deleted from.
    """
