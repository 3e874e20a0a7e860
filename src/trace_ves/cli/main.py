"""The command `trace-ves`: finds the command that was asked for, imports it alone, and turns errors into sentences."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from trace_ves._version import __version__
from trace_ves.cli.options import LazyGroup
from trace_ves.cli.process import (
    INTERRUPTED,
    ignore_interrupts,
    leave,
    make_streams_tolerant,
    noted_interrupts,
    sentence,
    silence_stdout,
)
from trace_ves.core.errors import TraceVesError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

COMMANDS: Final = {
    "demo": ("demo", "All of it on a small drawn world, offline, in minutes."),
    "ask": ("ask", "Ask questions about a video, or about all videos of a folder."),
    "studio": ("pages", "Ask questions about videos on a page, and watch the search."),
    "audit": ("audit", "Check which evidence the frames of a run really covered."),
    "run": ("run", "Answer the questions of a bench with methods and backbones."),
    "view": ("pages", "See on a page what each method looked at, and why it stopped."),
    "counterfactual": ("counterfactual", "Mask evidence, and see whether the answers of a run change."),
    "build": ("build", "Build a bench on your own footage, in five stages."),
    "frames": ("benches", "Write the exact frames that a run looked at, or those of any video at some moments."),
    "release": ("benches", "Pack a bench and runs so that anyone can replay the audit."),
    "synth": ("benches", "Write the VES twin: drawn videos with questions whose evidence is known."),
    "mcp": ("pages", "Let an assistant look at videos and ask about them."),
    "import": ("benches", "Turn a published benchmark into a bench."),
    "keys": ("keys", "Store API keys: set, list, remove."),
    "doctor": ("doctor", "Show what is installed and ready, and what to do next."),
    "dev": ("dev", "Tools for developers: schemas, a glance server, shell completion."),
}
"""Each command: its module, and its one-line help."""


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="trace-ves %(version)s")
def group() -> None:
    """Ask questions of long videos, and audit what any method really looked at."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error that the user can fix ends with one sentence and exit status 2."""
    make_streams_tolerant()
    with noted_interrupts() as interrupted:
        try:
            code = _run(arguments, interrupted)
        except Exception:
            if not interrupted.is_set():
                raise
            code = INTERRUPTED  # an import of native code that is interrupted, for one, is an ImportError
        if code == INTERRUPTED:
            ignore_interrupts()  # a second Ctrl-C must not break the end
            _complain("interrupted; what was finished is kept.")
        leave(code, at_once=arguments is None)


def _run(arguments: Sequence[str] | None, interrupted: Event) -> int:
    """The exit status of a command; what went wrong is on standard error."""
    try:
        code = group.main(arguments, prog_name="trace-ves", standalone_mode=False)
        sys.stdout.flush()  # reports a full disk while it still can
    except click.ClickException as error:
        error.show()
        return 2
    except TraceVesError as error:
        return INTERRUPTED if interrupted.is_set() else _complain(str(error))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return 141
    except OSError as error:  # whatever reads or writes: a disk that is full or read-only, a device
        silence_stdout()
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}cannot be read or written: {error.strerror or error}.")
    return code if isinstance(code, int) else 0


def _complain(message: str) -> int:
    with suppress(OSError):  # standard error may be full as well
        click.echo(f"trace-ves: {sentence(message)}", err=True)
    return 2
