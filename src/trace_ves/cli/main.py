"""The command `trace-ves`: finds a command, imports only that one, and turns errors into sentences."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Final

import click

from trace_ves._version import __version__
from trace_ves.cli.options import LazyGroup
from trace_ves.cli.process import (
    INTERRUPTED,
    exit_process,
    ignore_interrupts,
    make_streams_tolerant,
    silence_stdout,
    tidy_sentence,
    track_interrupts,
)
from trace_ves.core.errors import TraceVesError

GROUPS: Final = {
    "Ask": {
        "ask": ("ask", "Ask questions about a video, or all videos in a folder."),
        "studio": ("pages", "Ask in the browser and watch the search."),
        "mcp": ("pages", "Let an assistant look at videos and ask about them."),
    },
    "Evaluate": {
        "run": ("run", "Answer the questions of a bench with methods and models."),
        "audit": ("audit", "Check which evidence the frames of a run covered."),
        "view": ("pages", "See what each method looked at and why it stopped."),
        "counterfactual": ("counterfactual", "Mask evidence and see whether answers change."),
        "frames": ("benches", "Write the exact frames that a run looked at."),
    },
    "Build": {
        "build": ("build", "Build a bench from your own footage, in five stages."),
        "import": ("benches", "Turn a published benchmark into a bench."),
        "release": ("benches", "Pack a bench and its runs so that others can audit them."),
        "synth": ("benches", "Generate a synthetic benchmark with known evidence."),
    },
    "Tools": {
        "keys": ("keys", "Store API keys: set, list, remove."),
        "demo": ("demo", "Run a full offline demo on synthetic video."),
        "doctor": ("doctor", "Show what is installed and ready, and what to do next."),
        "dev": ("dev", "Schemas, a glance server, shell completion."),
    },
}
"""The commands by group, each with its module and its one-line help."""
COMMANDS: Final = {name: command for group in GROUPS.values() for name, command in group.items()}
COMMON_OPTIONS: Final = {
    "ask": ("options", "sample", "backbone", "table", "save", "view", "estimate_only", "max_cost", "as_json"),
    "run": ("methods", "backbones", "out", "budget", "limit", "estimate_only", "max_cost", "full", "as_json"),
    "audit": ("log_format", "samplers", "json_file", "csv_file", "markdown_file", "figures_folder", "strict"),
    "studio": ("sample", "backbone", "max_cost", "save", "port", "no_browser"),
    "view": ("bench", "videos", "port", "file", "question", "no_browser"),
}
"""The options that `--help` lists first; the others are under "Advanced"."""

SETTINGS: Final = {"help_option_names": ["-h", "--help"], "show_default": True}


class GroupedCommands(LazyGroup):
    """Lists the commands by group, and the options of a command by how common they are."""

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List all commands without importing them."""
        formatter.write("\n")
        for title, commands in GROUPS.items():
            formatter.write(f"{title}:\n" + "".join(f"  {name:16}{words}\n" for name, (_, words) in commands.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; its help lists common options first."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and cmd_name in COMMON_OPTIONS:
            command.format_options = partial(_format_options, command, COMMON_OPTIONS[cmd_name])  # type: ignore[method-assign]
        return command


def _format_options(
    command: click.Command, common: Sequence[str], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    options = [param for param in command.get_params(ctx) if isinstance(param, click.Option)]
    names = {option.name: option for option in options}
    common_options = [names[name] for name in common if name in names]
    common_options += [option for option in options if "--help" in option.opts]
    advanced = [option for option in options if option not in common_options]
    for title, group_options in (("Options", common_options), ("Advanced", advanced)):
        with formatter.section(title):
            formatter.write_dl([line for option in group_options if (line := option.get_help_record(ctx)) is not None])


@click.group(cls=GroupedCommands, lazy=COMMANDS, context_settings=SETTINGS)
@click.version_option(__version__, message="trace-ves %(version)s")
def group() -> None:
    """Ask questions about long videos, and audit what any method looked at.

    To see an example, offline and without a key: trace-ves ask --sample
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. After an error that the user can fix, print one sentence and exit with status 2."""
    make_streams_tolerant()
    with track_interrupts() as interrupted:
        try:
            code = _run(arguments, interrupted)
        except Exception:
            if not interrupted.is_set():
                raise
            code = INTERRUPTED  # for example, an interrupted import of native code raises ImportError
        if code == INTERRUPTED:
            ignore_interrupts()  # a second Ctrl-C must not interrupt the exit
            _print_error("interrupted; everything saved so far is kept.")
        exit_process(code, at_once=arguments is None)


def _run(arguments: Sequence[str] | None, interrupted: Event) -> int:
    """Run a command and return its exit status; errors go to standard error."""
    try:
        code = group.main(arguments, prog_name="trace-ves", standalone_mode=False)
        sys.stdout.flush()  # reports a full disk while it still can
    except click.ClickException as error:
        error.show()
        return 2
    except TraceVesError as error:
        return INTERRUPTED if interrupted.is_set() else _print_error(str(error))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return 141
    except OSError as error:  # a full or read-only disk, a device
        silence_stdout()
        where = f"{error.filename}: " if error.filename else ""
        return _print_error(f"{where}cannot be read or written: {error.strerror or error}.")
    return code if isinstance(code, int) else 0


def _print_error(message: str) -> int:
    with suppress(OSError):  # standard error may be full as well
        click.echo(f"trace-ves: {tidy_sentence(message)}", err=True)
    return 2
