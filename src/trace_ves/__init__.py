"""TRACE answers questions about long videos; VES-Bench audits what any method really looked at."""

from trace_ves._version import __version__

__all__ = ["__version__"]
