"""The command line. A command is imported when it runs, and imports what it needs then."""

from trace_ves.cli.main import main

__all__ = ["main"]
