"""The command line. Each command lives in a file of its own and imports what it needs when it runs."""

from trace_ves.cli.main import main

__all__ = ["main"]
